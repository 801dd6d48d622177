"""What a kernel sees of an operation: operands bound to memory, attributes, switches, and a
voice.

Strided views of a tile's bytes that its own layout does not have, checked against the space.

Memory of the other cores of a cluster: UB belongs to a vector core, everything else on the chip
to the cube core. A core that is neither (`any`) has all of it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.catalog import board_numbers
from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.errors import OpFault
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.types import TileType
from ptosim.ground.isa.dates import Profile
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Span
from ptosim.machine.core import CUBE_SPACES, Core, Machine
from ptosim.machine.effects.account import Effects
from ptosim.machine.effects.strided import (
    Beyond,
    Touch,
    Touches,
    Window,
    elements_of,
    pieces,
    strided,
)
from ptosim.machine.gm import GmBuffer, ViewSpec, strided_view
from ptosim.machine.layout import round_up
from ptosim.machine.tile import Tile, TileRef
from ptosim.machine.values import GmView
from ptosim.ops.base.orders import Sync

# The checks of bounds and alignment that all rooms share: one function for each kind of place.


def check_place(core: Core, loc: str, addr: int, size: int, what: str) -> None:
    """Raise OpFault unless the bytes of a tile are in their space, at an aligned address (PTO IR
    manual, TASSIGN: SA-0353 and SA-0354). Memory of block scales has no alignment."""
    space = core.machine_def.spaces.get(loc)
    limit = space.bytes if space is not None else core.space(loc).size
    if addr < 0 or addr + size > limit:
        raise OpFault(
            "PTO6026",
            f"{what} [{addr:#x}, {addr + size:#x}) is out of bounds of {loc} ({limit:,} bytes)",
            notes=("[SA-0353] TASSIGN: address plus tile bytes exceed the space",),
            help="choose another address, or a smaller tile",
        )
    if space is not None and addr % space.align:
        raise OpFault(
            "PTO6027",
            f"{what} at {addr:#x} is not aligned to {space.align} bytes",
            notes=("[SA-0354] TASSIGN: address not aligned",),
            help=f"use a multiple of {space.align}",
        )


def check_window(
    start: tuple[int, int], sizes: tuple[int, int], whole: tuple[int, int], who: str = ""
) -> None:
    """Raise OpFault unless a window of rows and columns is in its tile."""
    (row, col), (rows, cols) = start, sizes
    if row < 0 or col < 0 or row + rows > whole[0] or col + cols > whole[1]:
        raise OpFault(
            "PTO6005",
            f"{who}the window of {rows}x{cols} at ({row}, {col}) leaves the tile of "
            f"{whole[0]}x{whole[1]}",
        )


def check_valid(type_: TileType, rows: int, cols: int) -> None:
    """Raise OpFault unless a tile of a type may have this valid shape."""
    if not (0 <= rows <= type_.rows and 0 <= cols <= type_.cols):
        fault = f"does not fit the tile's shape {type_.rows}x{type_.cols}"
        if min(rows, cols) < 0:
            fault = "is negative: the board hangs"
        raise OpFault(
            "PTO6004",
            f"valid shape {rows}x{cols} {fault}",
            help=f"a valid dimension is between 0 and the static one{negative(rows, cols)}",
        )


def negative(*extents: int) -> str:
    """Return what a board makes of a negative valid extent, and its cure; nothing for others."""
    if min(extents) >= 0:
        return ""
    return (
        ", and `arith.maxsi %n, %c0 : index` keeps one from being negative; "
        f"{board_numbers(('507014',))}"
    )


def check_elements(who: str, buffer: str, first: int, end: int, count: int, **more: Any) -> None:
    """Raise OpFault unless a buffer of global memory has the elements [first, end)."""
    if end > first and (first < 0 or end > count):
        raise OpFault(
            "PTO6001",
            f"'{who}' reaches outside `{buffer}`: elements [{first}, {end}) of {count}",
            context={"buffer": buffer},
            **more,
        )


MANY = 1 << 24
"""Elements that a view of any buffer may have. One has more of them than its buffer only where its
strides bring it back to the same ones."""


def check_count(who: str, spec: ViewSpec, buffer: GmBuffer) -> None:
    """Raise OpFault if a size of a view is negative, or if it has more than MANY elements, and more
    than its buffer: each would be moved."""
    if spec.count < 0:
        raise OpFault(
            "PTO6002",
            f"'{who}': a size of the view is negative: {list(spec.sizes)}",
            help="check the operands that give the sizes",
        )
    if spec.count > max(MANY, buffer.size * 8 // spec.dtype.bits):
        raise OpFault(
            "PTO1104",
            f"'{who}': a view of {spec.count:,} elements has more than `{buffer.name}`, and more "
            f"than {MANY:,}",
            notes=(f"view sizes {list(spec.sizes)}, strides {list(spec.strides)}",),
            help="check how the sizes were computed, and strides of 0",
        )


def outside_space(who: str, space: str, low: int, high: int, limit: int) -> OpFault:
    """Return the fault of an access through a pointer to bytes that a space on chip has not."""
    return OpFault(
        "PTO6602",
        f"'{who}' accesses {space} [{low:#x}, {high:#x}); the space has {limit:#x} bytes",
        help="check the address of the pointer, offset (in elements), sizes and strides",
    )


class GmAccess:
    """A GM view bound to its buffer: five dimensions, checked against the buffer's end."""

    __slots__ = ("buffer", "dtype", "layout", "offset", "sizes", "spec")

    def __init__(self, buffer: GmBuffer, spec: ViewSpec, offset: int) -> None:
        self.buffer = buffer
        self.spec = spec
        self.offset = offset
        self.dtype = spec.dtype
        self.layout = spec.layout  # nd, dn or nz
        self.sizes = spec.sizes

    def array(self) -> np.ndarray:
        """Return the elements as a strided view (4-bit: packed bytes)."""
        return strided_view(self.buffer, self.spec, self.offset)


@dataclass(slots=True, eq=False)
class Binding:
    """One operation with the run-time values of its operands.

    Kernels fill in the rest. A waiting operation sets `guard`, which says whether it can go on; one
    that only asks `polls`: it waits while other cores can move. `sync` says for the timing model
    and the race checks what the operation orders. `at_issue` is what happens when the scalar unit
    reaches a waiting operation, before it waits: the handle that it gives must be there for the
    operations after it; `slots` says where results go. `signals` and `awaits` are events between
    cores that it gives and takes, by keys that both sides agree on, `made` tiles that it fills and
    that are no destinations of its core. `touches` are bytes that it reaches through pointers;
    those of tiles and views follow from its row, and what it writes `beyond` their valid regions is
    listed; what it copies as it is, values or none, is in `copied`, and in `carried` the operands
    of which it does nothing else. `moved` gives the effect with its one window of global memory at
    another place (an offset in elements), None where that has to be bound anew. `done` says
    afterwards what an operation did whose data decide what it reaches, None where it did not.
    `slot` says from where to where in a buffer of global memory a push puts its next tile, `pushed`
    is the tile, and `popped` makes of arrays for the entries of the shares that for a popped tile.
    Engines put their own sink into `emit`; `prints` is where `tprint` and `print` write. Each tile
    operand is as many tiles of equal shape as `stacked` says, one below the other. `at_once` says
    which transfers (`read` of global memory, `fill` of it) happen as soon as they are bound. Nobody
    looks at tiles that are `forgotten` afterwards: an operation need not leave anything there, and
    may use them. `effects` are known of one that was bound in an earlier run."""

    op: Operation
    values: Mapping[str, Any]
    attributes: Mapping[str, Any]
    core: Core
    machine: Machine
    profile: Profile
    source: Any
    guard: Callable[[], bool] | None = None
    sync: Sync | None = None
    polls: bool = False
    at_issue: Callable[[], None] | None = None
    slots: Mapping[Value, int] = field(default_factory=dict)
    signals: tuple[Any, ...] = ()
    awaits: tuple[Any, ...] = ()
    made: list[tuple[Core, TileRef]] = field(default_factory=list)
    touches: Touches | None = None
    beyond: list[Beyond] = field(default_factory=list)
    covered: dict[str, Window] = field(default_factory=dict)
    copied: list[tuple[Touch, Touch]] = field(default_factory=list)
    carried: set[str] = field(default_factory=set)
    found: list[Touch] = field(default_factory=list)
    moved: Callable[[int], Callable[[], object] | None] | None = None
    done: Callable[[], Sequence[Effects] | None] | None = None
    slot: Callable[[], tuple[int, int, int]] | None = None
    pushed: TileRef | None = None
    popped: Callable[[list[np.ndarray]], np.ndarray | None] | None = None
    findings: list[Diagnostic] = field(default_factory=list)
    emit: Callable[[Diagnostic], None] = field(init=False)
    prints: list[str] = field(default_factory=list)
    stacked: int = 1
    at_once: tuple[str, ...] = ()
    forgotten: Container[str] = ()
    effects: Effects | None = None
    _tiles: dict[str, Tile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.emit = self.findings.append

    def elsewhere(self, view: GmView) -> Binding:
        """Return the same operation with its window of global memory at another place."""
        values = {
            name: view if isinstance(value, GmView) and value[:2] == view[:2] else value
            for name, value in self.values.items()
        }
        made = Binding(
            self.op, values, self.attributes, self.core, self.machine, self.profile, self.source
        )
        made.prints, made.emit, made.slots = self.prints, self.emit, self.slots
        made.covered, made.copied, made.found = self.covered, self.copied, self.found
        made.carried = self.carried
        return made

    @property
    def target(self) -> str:
        """The target the program runs on."""
        return self.profile.target

    # -- operands -------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """True if an optional operand is there."""
        return self.values.get(name) is not None

    def is_written(self, name: str) -> bool:
        """True if the program itself gives an optional operand (scratch of the simulator is
        not)."""
        return self.op.bound.get(name) is not None

    def tile(self, name: str) -> Tile:
        """Return a tile operand bound to memory; faults if it does not fit its space."""
        tile = self._tiles.get(name)
        if tile is None:
            ref: TileRef | None = self.values.get(name)
            if ref is None:
                raise OpFault(
                    "PTO8002", f"'{self.op.name}' has no `{name}`: its result has no name"
                )
            tile = self._tiles[name] = self.bind_tile(ref, name)
        return tile

    def bind_tile(self, ref: TileRef, name: str, core: Core | None = None) -> Tile:
        """Bind a tile to the bytes of its space, on another core of the cluster if one is given."""
        if ref is None:
            raise OpFault("PTO6003", f"operand {name} of '{self.op.name}' has no tile yet")
        where, loc = core or self.core, ref.type.loc
        check_place(where, loc, ref.addr, ref.layout.reach, f"tile {name}")
        return Tile(ref, where.space(loc).data)

    def opt_tile(self, name: str) -> Tile | None:
        """Return an optional tile operand."""
        return self.tile(name) if self.has(name) else None

    def view(self, name: str) -> GmAccess:
        """Return a GM view operand; faults if it reaches outside its buffer."""
        return self.view_of(self.values[name])

    def view_of(self, value: GmView) -> GmAccess:
        """Bind the value of a GM view; faults if it reaches outside its buffer, or has a number of
        elements that no view has."""
        if value.__class__ is not GmView:
            why = "has no place yet" if value is None else "is no view of global memory"
            raise OpFault("PTO6003", f"a view operand of '{self.op.name}' {why}")
        spec, number, offset = value
        assert isinstance(number, int)
        buffer = self.machine.buffers[number]
        if not 0 <= spec.count <= MANY:
            check_count(self.op.name, spec, buffer)
        check_elements(
            self.op.name,
            buffer.name,
            offset + spec.low,
            offset + spec.high + 1,
            buffer.size * 8 // spec.dtype.bits,
            notes=(f"view sizes {list(spec.sizes)}, strides {list(spec.strides)}",),
            help="check the offsets and sizes of the partition, and the size of the argument",
        )
        return GmAccess(buffer, spec, offset)

    def scalar(self, name: str) -> Any:
        """Return a scalar operand as a Python number."""
        return self.values[name]

    def attr(self, name: str) -> Any:
        """Return an attribute of the row (its default if it is not written)."""
        return self.attributes.get(name)

    def switch(self, name: str) -> str:
        """Return the value of a semantic switch."""
        return self.profile.switches[name]

    # -- arrays ---------------------------------------------------------------------------------

    def covers_nothing(self, names: Sequence[str]) -> bool:
        """True if the valid region of one of these tiles is empty; other operands do not count."""
        tiles = [self.tile(n) for n in names if isinstance(self.values.get(n), TileRef)]
        return any(tile.is_empty for tile in tiles)

    def array_operands(self, names: tuple[str, ...]) -> list[Any]:
        """Return operands for a function of arrays.

        The domain is the valid region of the tile `dst` (of the first tile if none has that name).
        Tiles come as views of that region, all of them as flat runs where each is one run of
        memory; scalars as NumPy scalars of the first tile's element type.
        """
        tiles = {n: self.tile(n) for n in names if isinstance(self.values.get(n), TileRef)}
        if not tiles:
            return [self.values.get(n) for n in names]
        first = next(iter(tiles.values()))
        domain = tiles.get("dst", first)
        rows, cols = domain.v_row, domain.v_col
        flat = all(t.is_run(rows, cols) for t in tiles.values())
        for name in tiles:
            self.covers(name, rows, cols)
        arrays = {
            n: t.flat(rows * cols) if flat else self.region(n, rows, cols) for n, t in tiles.items()
        }
        return [
            arrays[n] if n in arrays else typed_scalar(self.values.get(n), first.dtype)
            for n in names
        ]

    def region(self, name: str, rows: int, cols: int, *, is_covered: bool = True) -> np.ndarray:
        """Return the first rows and columns of a tile operand as a view; faults if its layout has
        no such view or its shape is smaller. All of them are covered, unless data decide that."""
        tile = self.tile(name)
        if tile.layout.is_boxed:
            raise OpFault(
                "PTO6020",
                f"'{self.op.name}' works on unboxed tiles; {name} is {tile.layout.name}",
                help="convert the layout with tmov first",
            )
        if rows > tile.rows or cols > tile.cols:
            raise OpFault(
                "PTO6021",
                f"'{self.op.name}' covers {rows}x{cols} elements; {name} has "
                f"{tile.rows}x{tile.cols}",
                help="give the operands equal valid shapes",
            )
        if is_covered:
            self.covers(name, rows, cols)
        return tile.region(rows, cols)

    def covers(self, name: str, rows: int, cols: int, row: int = 0, col: int = 0) -> None:
        """Say that so many rows and columns of a tile operand are taken, from a place on."""
        before = self.covered.get(name)
        if before is not None and before[:2] == (row, col):
            rows, cols = max(rows, before.rows), max(cols, before.cols)
        self.covered[name] = Window(row, col, rows, cols)

    def copies(self, name: str, rows: int, cols: int, target: str, *, turned: bool = False) -> None:
        """Say that so many rows and columns of a tile go to another one, `turned` as its columns
        and rows, whether they have values or not, and that nothing else becomes of them."""
        if self.tile(name).bits >= 8 and rows and cols:
            source = self._elements(name, rows, cols, turned=False)
            self.copied.append((source, self._elements(target, rows, cols, turned=turned)))
            if not _meet(self.tile(name), self.tile(target)):
                self.covers(name, rows, cols)
                self.carried.add(name)

    def carries(self, rows: int, cols: int, source: str, **places: tuple[int, int]) -> None:
        """Say that the operation does nothing else with `source` than to copy so many rows and
        columns of it to `dst`, and from which row and column of either (the first). Of windows that
        cut a box, of elements that share a byte and of copies in place it is not said."""
        names = source, "dst"
        pair = [(self.tile(name), places.get(name, (0, 0))) for name in names]
        if not rows or not cols or any(tile.bits < 8 for tile, _ in pair):
            return
        if not all(tile.layout.begins_box(*at) for tile, at in pair):
            return
        if _meet(*(tile for tile, _ in pair)):
            return
        high, wide = (
            sorted({1, *(getattr(tile.layout, box) for tile, _ in pair)}, reverse=True)
            for box in ("box_rows", "box_cols")
        )
        for piece in product(pieces(rows, high), pieces(cols, wide)):
            taken, target = (
                Touch(name, self.core, tile.type.loc, *elements_of(tile, at, *piece))
                for name, (tile, at) in zip(names, pair, strict=True)
            )
            self.copied.append((taken, target))
        self.carried.add(source)

    def moves(self, rows: int, cols: int, **places: tuple[int, int]) -> None:
        """Say the same, and that nothing else of the two is taken, but of one whose window cuts a
        box."""
        for name in ("src", "dst"):
            self.takes(name, rows, cols, places.get(name, (0, 0)))
        self.carries(rows, cols, "src", **places)

    def takes(self, name: str, rows: int, cols: int, at: tuple[int, int] = (0, 0)) -> None:
        """Say of a tile operand, of whatever core it is, that so many rows and columns are taken
        from a place on; of a window that cuts a box, the boxes that it reaches."""
        layout = self.values[name].layout
        if not layout.begins_box(*at) and rows and cols:
            first = at[0] // layout.box_rows * layout.box_rows
            left = at[1] // layout.box_cols * layout.box_cols
            rows = round_up(at[0] + rows, layout.box_rows) - first
            cols = round_up(at[1] + cols, layout.box_cols) - left
            at = first, left
        self.covers(name, rows, cols, *at)

    def finds(self, name: str, size: int, lines: tuple[int, int]) -> None:
        """Say that so many bytes from a tile's base on, in each of `lines` (count, distance in
        bytes), are read whether they have values or not."""
        tile = self.tile(name)
        self.found.append(Touch(name, self.core, tile.type.loc, tile.addr, size, (lines,)))

    def _elements(self, name: str, rows: int, cols: int, *, turned: bool) -> Touch:
        tile = self.tile(name)
        down, across = tile.layout.row_stride, tile.layout.col_stride
        if turned:
            down, across = across, down
        size = tile.dtype.itemsize
        levels = ((rows, down * size), (cols, across * size))
        return Touch(name, self.core, tile.type.loc, tile.addr, size, levels)

    # -- beside the results ----------------------------------------------------------------------

    def writes_beyond(
        self, name: str, start: int, size: int, lines: tuple[int, int] = (1, 0), *, spoiled=False
    ) -> None:
        """Say that `size` bytes from `start` bytes after a tile's base on, in each of `lines`
        (count, distance in bytes), are written too: with values, or `spoiled`."""
        tile = self.tile(name)
        if size > 0 and lines[0] > 0:
            part = strided(tile.addr, start, (lines, (size, 1)), 8)
            self.beyond.append(Beyond(name, tile.type.loc, part, spoiled))

    # -- findings -------------------------------------------------------------------------------

    def report(
        self, code: str, message: str, *, notes: Sequence[str] = (), help: str | None = None
    ) -> None:
        """Report a finding at the operation, once for each place and text; at binding or later."""
        span = Span(self.source, self.op.start, self.op.name_end)
        self.emit(finding(code, f"'{self.op.name}' {message}", span, notes=notes, help=help))


def _meet(one: Tile, two: Tile) -> bool:
    """True if two tiles have a byte in common."""
    low, high = sorted((one, two), key=lambda tile: tile.addr)
    return one.type.loc == two.type.loc and high.addr < low.addr + low.type.bytes


def typed_scalar(value: Any, dtype: np.dtype) -> Any:
    """Return a Python number as a scalar of an array's type; integers wrap. Other values pass."""
    if not isinstance(value, (int, float)):
        return value
    if dtype.kind in "iu" and not isinstance(value, float):
        bits = dtype.itemsize * 8
        wrapped = int(value) & ((1 << bits) - 1)
        return np.array(wrapped, f"u{dtype.itemsize}").view(dtype)[()]
    return np.array(value).astype(dtype)[()]


# -- views that the layout of a tile does not have -------------------------------------------------


def tile_array(
    tile: Tile,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: np.dtype | type | None = None,
    offset: int = 0,
) -> np.ndarray:
    """Return a view from `offset` bytes after a tile's base, with strides in bytes.

    Raises OpFault where it would leave the memory space; leaving the tile is the caller's concern.
    """
    kind = np.dtype(dtype if dtype is not None else tile.dtype)
    if 0 in shape:
        return np.empty(tuple(shape), kind)
    return tile.strided(shape, strides, kind, offset)


def flat_bytes(tile: Tile, count: int, offset: int = 0) -> np.ndarray:
    """Return `count` consecutive bytes from `offset` bytes after a tile's base."""
    return tile_array(tile, (count,), (1,), np.uint8, offset)


# -- memory of the other cores of a cluster --------------------------------------------------------


def vector_cores(op: Binding) -> list[Core]:
    """Return the cores whose UB a move from the cube core can reach, by number; a core that has
    none beside it reaches its own."""
    if op.core.kind != "cube":
        return [op.core]
    return op.machine.mates(op.core, "vector") or [op.core]


def owned_tile(op: Binding, name: str) -> Tile:
    """Return a tile operand in the memory of the core that owns its space: a vector core that
    writes to L1 writes to the cube core's."""
    ref = op.values[name]
    if ref.type.loc not in CUBE_SPACES or op.core.kind != "vector":
        return op.tile(name)
    cubes = op.machine.mates(op.core, "cube")
    if not cubes:
        return op.tile(name)
    op.made = [(cubes[0], ref)]
    return op.bind_tile(ref, name, cubes[0])
