"""Which kind of core an operation is for, told from its row and from what it works on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ptosim.ground.ir.attributes import Enum, attribute_of
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.ir.types import (
    HandleType,
    MaskType,
    MemRefType,
    PtrType,
    TileType,
    Type,
    ViewType,
    VirtualMaskType,
    VirtualVRegType,
    VRegType,
)
from ptosim.ground.isa.schema import pipe_named
from ptosim.language.bind.units import SIMT_ENTRY
from ptosim.language.verify.rule_views import environment, holds

CUBE, VECTOR = "cube", "vector"
OPEN = "open"
"""Of an operation of one kind of core that does not say which one."""

SIMT = "micro_simt"
"""How the names of families of operations of threads begin."""

_NEUTRAL_FAMILIES = frozenset(("core", "scalar", "views", "comm", "quant"))
_MOVES = frozenset(("memory", "micro_dma", "micro_cube", "micro_low"))
"""Families whose destination in L1 says which core they are for."""
_ONLY_CUBE = frozenset(("left", "right", "acc", "bias", "scaling"))
_ONLY_VECTOR = ("vector_region", "launches", "simt_region")
_SIDES = {"M": CUBE, "MTE1": CUBE, "FIX": CUBE, "V": VECTOR, "V2": VECTOR, "MTE3": VECTOR}


def is_simt_entry(op: Operation | None) -> bool:
    """True for a function that launches of threads execute."""
    return op is not None and SIMT_ENTRY in op.attrs


def side_of_op(op: Operation, target: str) -> str | None:
    """Return "cube" or "vector" for an operation that one kind of core executes, OPEN for one of
    which nothing says the kind, None for what every core executes."""
    row = op.definition
    if row is None or row.family in _NEUTRAL_FAMILIES or op.has("both_sides"):
        return None
    if op.has("tile_address"):  # no pipe goes to the tile
        return None
    if row.fifo == "open" or row.side is not None:
        return row.side
    if not op.traits.isdisjoint(_ONLY_VECTOR):
        return VECTOR
    if row.family.startswith(("micro", "vmi")) and has_registers(op):
        return VECTOR
    if op.has("flag") or op.has("cross_core"):
        return _SIDES.get(_signalling_pipe(op, target), OPEN)
    if op.has("sync") or not op.bound:
        return None
    return _by_place(op, pipe_of(op, target), row.family)


def _by_place(op: Operation, pipe: str, family: str) -> str | None:
    types = [*(o.type for _, o in op.operands()), *(v.type for v in op.results)]
    on_tiles = any(isinstance(t, TileType) for t in types)
    if pipe == "S" and not on_tiles:
        return None
    spaces = {_space(t) for t in types}
    if spaces & _ONLY_CUBE or ("mat" in spaces and "vec" not in spaces and family in _MOVES):
        return CUBE
    return VECTOR if "vec" in spaces else _SIDES.get(pipe)


def _space(type_: Type | None) -> str | None:
    if isinstance(type_, TileType):
        return type_.loc
    return type_.space if isinstance(type_, (PtrType, MemRefType)) else None


def _signalling_pipe(op: Operation, target: str) -> str:
    named = op.bound.get("pipe")
    if not op.has("cross_core") or not isinstance(named, Operand):
        return pipe_of(op, target) if op.bound else "S"
    return _word(named)


def votes(ops: Iterable[Operation], target: str) -> set[str]:
    """Return the kinds of core that operations, and what is in them, are for."""
    return set(_votes(ops, target))


def _votes(ops: Iterable[Operation], target: str) -> Iterator[str]:
    for op in ops:
        if op.has("section"):
            continue
        side = side_of_op(op, target)
        if side is not None:
            yield side
        if op.regions:
            yield from _votes(op.inner(), target)


VIRTUAL = (VirtualVRegType, VirtualMaskType)
"""Types of vectors and masks of any length: several registers each."""


# -- registers -------------------------------------------------------------------------------------


def is_register(type_: Type | None) -> bool:
    """True for what only the vector unit has: vector registers, masks, align states."""
    return isinstance(type_, (VRegType, MaskType, *VIRTUAL)) or (
        isinstance(type_, HandleType) and type_.kind == "align"
    )


def makes_registers(op: Operation) -> bool:
    """True if a result of an operation is a register."""
    return any(is_register(v.type) for v in op.results)


def has_registers(op: Operation) -> bool:
    """True if an operation makes or takes registers, or loads or stores a special one."""
    if not op.traits.isdisjoint(("loads", "stores")) or makes_registers(op):
        return True
    return any(is_register(v.type) for v in op.operand_values())


# -- pipes -----------------------------------------------------------------------------------------

READERS = {"vector": "V", "cube": "MTE1"}
"""Pipes that read what a FIFO hands to a core, by its kind."""


def pipe_of(op: Operation, target: str) -> str:
    """Return the pipe that executes an operation: MTE2, V, …; `ALL` for a barrier of all pipes. The
    scalar unit's is one that only the run knows."""
    pipes = op.definition.pipes if op.definition is not None else ()
    names = environment(op, target) if len(pipes) > 1 else {}
    # A snippet may leave out what a condition asks of; a run of it is refused later.
    fitting = (p.pipe for p in pipes if p.when is None or holds(p.when, names, absent=False))
    chosen = next(fitting, "S")
    if not chosen.startswith("@"):
        return chosen
    named = op.bound.get(chosen[1:])
    return "S" if named is None else _word(named)


def _word(operand: Operand) -> str:
    word = operand.const
    return pipe_named(word.member if isinstance(word, Enum) else str(word)) or "S"


def queue_of(op: Operation, target: str) -> str:
    """Return the pipe in whose queue an operation waits. The scalar unit itself waits at barriers
    of all pipes. A free waits for what its core's pipe has still to read: of a slot in global
    memory what loads. A slot there is pushed by the pipe that stores."""
    row = op.definition
    if row is not None and row.fifo in ("free", "push") and _is_slot(op):
        if row.fifo == "free":
            return "MTE2"
        home = op.function
        kind = row.side or (home and getattr(attribute_of(home, _KIND), "member", None))
        return "FIX" if kind == CUBE else "MTE3"
    if row is not None and row.fifo == "free" and row.side is not None:
        return READERS[row.side]
    pipe = pipe_of(op, target)
    return "S" if pipe == "ALL" else pipe


_KIND = "pto.kernel_kind"


def _is_slot(op: Operation) -> bool:
    """True for an operation on a FIFO whose entry is a view of global memory."""
    entries = (op.bound.get(name) for name in ("tile", "entry"))
    return any(isinstance(e, Operand) and isinstance(e.type, ViewType) for e in entries)
