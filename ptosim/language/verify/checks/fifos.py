"""The ends of FIFOs as August's text has them, and the operations that use each.

A function may have several, each with an `id`; both ends of one name the same reserved buffer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from ptosim.ground.ir.attributes import attribute_of, number_of
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import TileType, Type, ViewType
from ptosim.ground.isa.conversions import Epilogue, layouts, parse, quants, relus
from ptosim.ground.isa.schema import OpDef
from ptosim.ground.records import NamedTuple, dataclass, field, replace
from ptosim.ground.source import Source

SLOTS = frozenset(("reserves", "imports"))
DIRECTIONS = {"c2v": 1, "v2c": 2}

Key = tuple[str, ...]
"""What ends of one FIFO share: a reserved buffer (function, name) and direction; or, of FIFOs whose
entries are views of global memory, unit, id and mask."""


@dataclass(slots=True, eq=False)
class Use:
    """An operation on a FIFO: what it does (push, pop, free, alloc), which way, and the block that
    it is in."""

    op: Operation
    kind: str
    direction: str | None
    block: Sequence[Operation]

    @property
    def word(self) -> str:
        """What it does, as messages have it."""
        return self.kind.upper()

    @property
    def split(self) -> int:
        """How it splits tiles."""
        return number_of(self.op, "split") or 0

    @property
    def says_split(self) -> bool:
        """False for a free without the attribute, which goes with its pop."""
        return self.kind != "free" or "split" in self.op.attrs

    @property
    def entry(self) -> Type | None:
        """The type of the tile or view that goes through."""
        for name in ("tile", "entry"):
            bound = self.op.bound.get(name)
            if isinstance(bound, Operand):
                return bound.type
        if self.kind in ("pop", "alloc") and self.op.results:
            return self.op.results[0].type
        return None


@dataclass(slots=True, eq=False)
class End:
    """One end of a FIFO: its initialisation, the kind of core that executes it, who uses it."""

    op: Operation
    function: Function
    side: str | None
    users: list[Use] = field(default_factory=list)

    @property
    def is_lowered(self) -> bool:
        """True where it is written as the assembler lowers it: with a handle, for any core."""
        return row(self.op).side is None

    def number(self, name: str) -> int | None:
        """Return a whole number among its attributes."""
        value = attribute_of(self.op, name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def id(self) -> int:
        """What its users name it by."""
        return self.number("id") or 0

    @property
    def mask(self) -> int:
        """Its directions."""
        return self.number("dir_mask") or 0

    @property
    def slot_num(self) -> int:
        """Slots in each direction."""
        given = self.number("slot_num")
        return given if given is not None else (4 if self.mask == 3 else 8)

    @property
    def tensor(self) -> ViewType | None:
        """The type of a slot in global memory, where a view gives it."""
        name = "gm_addr" if self.is_lowered else "gm_slot_tensor"
        type_ = getattr(self.op.bound.get(name), "type", None)
        return type_ if isinstance(type_, ViewType) else None

    @property
    def is_global(self) -> bool:
        """True if its entries are the slots in global memory: it has no buffer on the chip."""
        return self.tensor is not None and not self.buffers

    @property
    def epilogue(self) -> Epilogue | None:
        """What its pushes convert to."""
        return parse(attribute_of(self.op, "acc_push_epilogue"))

    @property
    def buffers(self) -> list[tuple[str, Operand]]:
        """The addresses of the slots on the chip, for each direction of the mask that has one."""
        directions = [d for d, bit in DIRECTIONS.items() if self.mask & bit]
        if self.is_lowered:
            names = dict(zip(directions, ("local_addr", "peer_local_addr"), strict=False))
        else:
            names = {d: f"{d}_consumer_buf" for d in directions}
        bound = self.op.bound
        return [(d, b) for d, n in names.items() if isinstance(b := bound.get(n), Operand)]

    @property
    def signature(self) -> tuple[Any, ...]:
        """What both ends have alike."""
        local = self.number("local_slot_num")
        return self.mask, self.number("slot_size"), self.slot_num, local, self.is_global

    @property
    def slot_size(self) -> int | None:
        """Bytes of a slot, where the text says them."""
        return self.number("slot_size")

    @property
    def flags(self) -> int:
        """Hardware flag ids that it takes."""
        return 4 if self.mask == 3 else 2

    def keys(self, resolved: ResolvedModule) -> list[Key]:
        """Return what ties it to its other end."""
        if self.is_global:
            unit = self.function.unit.path
            return [] if self.is_lowered else [("global", unit, str(self.id), str(self.mask))]
        found = []
        for direction, operand in self.buffers:
            home = _home(owner(operand), self.function, resolved)
            if home is not None:
                found.append((*home, direction))
        return found


def _home(
    op: Operation | None, function: Function, resolved: ResolvedModule
) -> tuple[str, str] | None:
    """The function that reserves a buffer, and the buffer's name."""
    if op is None or not op.traits & SLOTS:
        return None
    home: Function | None = function if "reserves" in op.traits else resolved.peer(op)
    return (home.name if home is not None else "", str(attribute_of(op, "name")))


def owner(operand: Any) -> Operation | None:
    """Return the operation that defines an operand."""
    value = operand.value if isinstance(operand, Operand) else None
    return value.owner if isinstance(value, Value) else None


def row(op: Operation) -> OpDef:
    """Return the row of an operation that has one."""
    assert op.definition is not None
    return op.definition


def ends_of(resolved: ResolvedModule) -> tuple[list[End], list[tuple[Function, Use]]]:
    """Return every end with its users, and the uses that belong to none."""
    ends: list[End] = []
    strays: list[tuple[Function, Use]] = []
    for function in resolved.functions.values():
        found = list(_walk(function.body, function.kernel_kind))
        own = [
            End(op, function, row(op).side or side)
            for op, side, _ in found
            if row(op).fifo == "open"
        ]
        for op, side, block in found:
            if row(op).fifo == "open":
                continue
            use = Use(op, str(row(op).fifo), _direction(op, side), block)
            end = _opened(use, own)
            if end is not None:
                end.users.append(use)
            else:
                strays.append((function, use))
        ends += own
    return ends, strays


def _walk(
    ops: Sequence[Operation], side: str | None
) -> Iterator[tuple[Operation, str | None, Sequence[Operation]]]:
    for op in ops:
        if op.definition is not None and op.definition.fifo is not None:
            yield op, side, ops
        inner = row(op).side if "section" in op.traits else side
        for region in op.regions:
            for block in region.blocks:
                yield from _walk(block.ops, inner)


def _direction(op: Operation, side: str | None) -> str | None:
    """The way of an operation: what a cube core pushes, or a vector core pops, goes to the vector
    cores."""
    kind = row(op).fifo
    side = row(op).side or side
    if side is None:
        bound = op.bound.get("tile")
        type_ = bound.type if isinstance(bound, Operand) else None
        if kind == "push" and isinstance(type_, TileType):
            return "c2v" if type_.loc == "acc" else "v2c"
        return None
    produces = kind in ("push", "alloc")
    return "c2v" if (side == "cube") == produces else "v2c"


def _opened(use: Use, ends: Sequence[End]) -> End | None:
    """The end that an operation names: by its handle, or by its id, of its own side."""
    if row(use.op).side is None:
        made = owner(use.op.bound.get("pipe_handle"))
        return next((end for end in ends if end.op is made), None)
    number = number_of(use.op, "id") or 0
    mine = [e for e in ends if not e.is_lowered and e.id == number]
    return next((e for e in mine if e.side == row(use.op).side), mine[0] if mine else None)


# -- what rules of `isa/structure.toml` ask about FIFOs between cores, as August 2026 has them: ----


class Extent(NamedTuple):
    """A dimension of an entry that is none of its slot's."""

    number: int
    given: int
    wanted: int


class WrongWord(NamedTuple):
    """A word of an epilogue that the assembler does not have: the enum and its words."""

    enum: str
    known: str


# -- the initialisation --------------------------------------------------------------------------

_KEYS = (
    "id",
    "dir_mask",
    "slot_size",
    "slot_num",
    "local_slot_num",
    "nosplit",
    "acc_push_epilogue",
)
_OPERANDS = ("gm_slot_buffer", "gm_slot_tensor", "c2v_consumer_buf", "v2c_consumer_buf")
_HIDDEN = frozenset(
    (
        "stPhase", "st_phase", "atomicType", "atomic_type", "subBlockId", "subBlockid",
        "sub_blockid", "clipReluMode", "clip_relu_mode", "isChannelSplit", "is_channel_split",
        "channelSplit", "channel_split", )
)  # fmt: skip
_NAME = re.compile(r"(\w+)\s*=(?!=)")


def header_faults(end: End, source: Source) -> Iterator[str]:
    """What is wrong with keys of the braces and names of the operands: each is there once, none
    that the form does not have."""
    if end.is_lowered or end.op.form == "generic":
        return
    braces, operands = _written(end.op, source)
    for names, known, what, unknown in (
        (braces, _KEYS, "clause", "unexpected keyword"),
        (operands, _OPERANDS, "operand", "unexpected initialize_pipe operand"),
    ):
        for at, name in enumerate(names):
            if name in _HIDDEN:
                continue
            if name not in known:
                yield f"{unknown} '{name}'"
            elif name in names[:at]:
                yield f"duplicate '{name}' {what}"


def _written(op: Operation, source: Source) -> tuple[list[str], list[str]]:
    """The names in the braces after the operation, and those in its parentheses."""
    text = source.text[op.name_end : op.end]
    braces, rest = _enclosed(text, "{", "}")
    operands, _ = _enclosed(rest, "(", ")")
    return _names(braces), _names(operands)


def _enclosed(text: str, opens: str, closes: str) -> tuple[str, str]:
    """The text between the first bracket and its partner, and what follows."""
    start = text.find(opens)
    if start < 0:
        return "", text
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == opens) - (text[at] == closes)
        if not depth:
            return text[start + 1 : at], text[at + 1 :]
    return text[start + 1 :], ""


def _names(text: str) -> list[str]:
    """The names with a value, those inside `<…>` left out."""
    flat = re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", text))
    return _NAME.findall(flat)


def makes_handle(op: Operation | None) -> bool:
    """True for the initialisation of a FIFO whose users name its handle."""
    if op is None or op.definition is None:
        return False
    return op.definition.fifo == "open" and bool(op.results)


# -- those who use it ----------------------------------------------------------------------------


def _unlike_dims(use: Use, slot: ViewType) -> Iterator[Extent]:
    """The extents of an entry that are none of a slot: of a split entry half of the rows or columns
    fit, and all of them."""
    dims = getattr(use.entry, "dims", ())
    halved = len(dims) - {1: 2, 2: 1}.get(use.split, 0) if use.split else None
    for number, (dim, full) in enumerate(zip(dims, slot.dims, strict=True)):
        if dim is None or full is None or dim == full:
            continue
        if number != halved or dim * 2 not in (full, 4 * full):
            yield Extent(number, dim, full)


def _extent_of(entry: Type | None, axis: int) -> int | None:
    """The rows or columns of an entry of rank 2 whose type fixes them."""
    if isinstance(entry, TileType):
        return (entry.v_row, entry.v_col)[axis]
    if isinstance(entry, ViewType) and len(entry.dims) == 2:
        return entry.dims[axis]
    return None


_THROUGH_MEMORY = ("gm_slot_buffer", "gm_slot_tensor", "gm_addr")


def _is_backed(end: End) -> bool:
    """True for slots in global memory with a buffer for the vector cores."""
    is_through = any(end.op.bound.get(name) is not None for name in _THROUGH_MEMORY)
    return is_through and any(direction == "c2v" for direction, _ in end.buffers)


def _splits_of(end: End) -> list[int]:
    return sorted({use.split for use in end.users if use.says_split})


# -- epilogues -----------------------------------------------------------------------------------


def _unknown_words(epilogue: Epilogue) -> Iterator[WrongWord]:
    for enum, word, known in (
        ("Layout", epilogue.layout, tuple(layouts())),
        ("Quant", epilogue.quant, tuple(quants())),
        ("Relu", epilogue.relu, relus()),
    ):
        if word not in known:
            yield WrongWord(enum, ", ".join(known))


def _is_set(end: End, use: Use, word: str) -> bool:
    """True if a factor of the kind is set earlier in the block of a push."""
    before = use.block[: use.block.index(use.op)]
    return any(
        "sets_quant" in op.traits
        and op.name.endswith(word)
        and (number_of(op, "id") or 0) == end.id
        for op in before
    )


def _tiles_of(uses: Sequence[Use]) -> list[TileType]:
    return [t for use in uses if isinstance(t := use.entry, TileType)]


def _pushed_types(peer: End | None) -> set[str]:
    """The element types of the tiles that the other end pushes."""
    pushes = [use for use in peer.users if use.kind == "push"] if peer is not None else []
    return {type_.dtype.name for type_ in _tiles_of(pushes)}


def _fits_layout(tile: TileType, word: str) -> bool:
    return layouts().get(word) in (None, f"{tile.blayout} {tile.slayout}")


VERBS = {
    "makes_handle": makes_handle,
    "header_faults": header_faults,
    "ends_named": lambda ends, fn, number: [e for e in ends if e.function is fn and e.id == number],
    "hidden": lambda op: [name for name in op.attrs if name in _HIDDEN],
    "reaches": lambda end, direction: bool(end.mask & DIRECTIONS[direction]),
    "is_through_memory": lambda end: "initialize_l2g2l" in end.op.name,
    "unlike_dims": _unlike_dims,
    "extent_of": _extent_of,
    "is_backed": _is_backed,
    "slot_bytes": lambda entry: entry.elem.bytes_for(prod(dim or 1 for dim in entry.dims)),
    "splits_of": _splits_of,
    "unknown_words": _unknown_words,
    "is_set": _is_set,
    "pops_of": lambda end: [use for use in end.users if use.kind == "pop"],
    "tiles_of": _tiles_of,
    "same_tile_types": lambda types: len({replace(t, ssa=False) for t in types}) <= 1,
    "pushed_types": _pushed_types,
    "fits_layout": _fits_layout,
    "next_converting": lambda ends: next((e for e in ends if e.epilogue is not None), None),
}
"""What rules can ask about FIFOs."""
