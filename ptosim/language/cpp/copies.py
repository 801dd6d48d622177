"""Copies of tiles and of global tensors, and references to one of two tiles. C++ copies what an
object says: the address and the valid extents of a tile, the pointer of a tensor. Whoever places
one of the two anew leaves the other; a reference follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptosim.ground.ir.core import Operation, walk
from ptosim.language.build import Typed, renamed
from ptosim.language.cpp.kinds import UNKNOWN, Cell, Global, Num, Tile
from ptosim.language.cpp.objects import Objects
from ptosim.language.cpp.state import NeedsConstant


class Copies(Objects):
    """Copying objects of the library, and choosing among tiles."""

    tile_copies: list[tuple[Tile, str, Tile, str]]
    """Each copy with its name in the program, what it is a copy of, and the name of that."""

    def copied(self, value: Any) -> Any:
        """Return a tile or a global tensor as one of its own, anything else as it is."""
        if isinstance(value, Tile):
            return self._copied_tile(value)
        if isinstance(value, Global):
            return self._copied_global(value)
        return value

    def _copied_tile(self, tile: Tile) -> Tile:
        """Return a tile at the same address, with a name of its own. One whose address the run says
        is shared, and may not be placed anew (see `place_tile`): so is one that has none, where
        the assembler places tiles."""
        if self.is_auto:
            return tile
        self.renew(tile, self.make.at)
        at, address = self.make.at, tile.address.value
        is_slot = tile.made is not None and address is None  # of a FIFO
        if is_slot or UNKNOWN in (address, tile.name.value):
            tile.is_shared = True
            return tile
        sizes = tile.type.v_row, tile.type.v_col
        given = [self.extent(tile, axis, at) for axis in (0, 1) if sizes[axis] < 0]
        made = self._tile(tile.type, given, at, tile.label)
        if address is not None:
            self.place_tile(made, address, at)
            made.is_moved = False
            self.tile_copies.append((made, made.name.value, tile, tile.name.value))
        return made

    def _copied_global(self, value: Global) -> Global:
        def own(cell: Cell) -> Cell:
            return self.cell(cell.value, cell.type, soft=cell.soft)

        return Global(
            value.type,
            own(value.pointer),
            [own(c) for c in value.sizes],
            [own(c) for c in value.strides],
            own(value.view),
            value.label,
            value.slot,
        )

    # -- references to one of two tiles ------------------------------------------------------------

    def chosen_tile(self, condition: Num, a: Tile, b: Tile, node: Any) -> Tile:
        """Return one of two tiles, as a tile at the address that is selected."""
        if a.type != b.type:
            raise NeedsConstant(node, "tiles of two types are selected by a value of the run")
        address, extents = self._place_of_chosen(condition, a, b, node)
        open_ = [e for e, s in zip(extents, (a.type.v_row, a.type.v_col), strict=True) if s < 0]
        made = self._tile(a.type, open_, node, a.label)
        self.place_tile(made, address, node)
        made.chosen = condition, a, b, self.cell(_state(a, b), soft=True)
        return made

    def _place_of_chosen(
        self, condition: Num, a: Tile, b: Tile, node: Any
    ) -> tuple[Num, list[Num]]:
        address = self.choose(condition, self.address_of(a, node), self.address_of(b, node), node)
        extents = [
            self.choose(condition, self.extent(a, axis, node), self.extent(b, axis, node), node)
            for axis in (0, 1)
        ]
        return address, extents

    def renew(self, tile: Tile, node: Any) -> None:
        """A reference to one of two tiles is where that one is by now, and as large."""
        if tile.chosen is None:
            return
        condition, a, b, seen = tile.chosen
        self.renew(a, node)
        self.renew(b, node)
        if seen.value == _state(a, b):
            return
        address, extents = self._place_of_chosen(condition, a, b, node)
        operand = Typed(self.read(tile.name, node), tile.type.ir)
        self.move(operand, address)
        tile.address.set(address)
        if tile.type.v_row < 0 or tile.type.v_col < 0:
            for cell, extent in zip(tile.valid, extents, strict=True):
                cell.set(extent)
            self.cut(operand, [self.index(extent) for extent in extents])
        tile.is_moved = True
        seen.set(_state(a, b))


def without_copies(
    ops: list[Operation], copies: Sequence[tuple[Tile, str, Tile, str]]
) -> list[Operation]:
    """Give the names of copied tiles back where neither was placed or cut anew: they are the same
    tile for good."""
    meant: dict[str, str] = {}
    for made, copy, tile, of in copies:  # in the order of the text
        if not (made.is_moved or tile.is_moved):
            of = of.removeprefix("%")
            meant[copy.removeprefix("%")] = meant.get(of, of)
    if meant:
        every = walk(ops)
        dropped(ops, {id(op) for op in every if any(n in meant for n, _, _ in op.result_tokens)})
        renamed(ops, meant)
    return ops


def dropped(ops: list[Operation], which: set[int]) -> None:
    """Leave out operations, by their `id`, here and in all regions."""
    waiting = [ops]
    while waiting:
        some = waiting.pop()
        some[:] = [op for op in some if id(op) not in which]
        waiting += [b.ops for op in some for r in op.regions for b in r.blocks]


def _state(*tiles: Tile) -> tuple[Any, ...]:
    """Return what tells if tiles were placed or cut again: what is not known equals nothing."""
    cells = (cell for tile in tiles for cell in (tile.address, *tile.valid))
    return tuple(object() if cell.value is UNKNOWN else cell.value for cell in cells)
