"""Second values: whether it matters that the assembler drops the mask of most operations.

The assembler's code computes the inactive lanes of these operations, its pages say that they are
zero. Where a program has such an operation, every value that descends from it carries its second
reading along, from the first lane on that differs (`Twofold`). A store that would write other
bytes, other lanes or to another place with the second values is reported; a difference that a
later operation throws away is silent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.types import VirtualMaskType
from ptosim.machine.affine import NeedsValue
from ptosim.machine.core import Core
from ptosim.machine.vector import LogicalMask, Twofold, VectorWindow
from ptosim.ops.base.binding import OpFault

# -- what the text says of a mask ------------------------------------------------------------------


def is_all_true(value: Value | None) -> bool:
    """True for the masks that lowering takes for all true: `pset`, and `create_mask` of a constant
    that covers every lane."""
    op = value.owner if value is not None and not value.is_argument else None
    if value is None or op is None or not isinstance(value.type, VirtualMaskType):
        return False
    if op.name == "pto.vmi.pset":
        return True
    if op.name != "pto.vmi.create_mask":
        return False
    count = _constant(op)
    return count is not None and count >= value.type.lanes


def _constant(op: Operation) -> int | None:
    operands = [o for o in op.bound.values() if isinstance(o, Operand)]
    found = operands[0].const if operands else None
    return found if isinstance(found, int) else None


# -- second readings -------------------------------------------------------------------------------


Run = Callable[[Core], None]


class Readable(Protocol):
    """An operation that can be computed on its second values too: `other` is what the other
    reading executes, `gate` the mask on which the two differ, `planned` what a store writes."""

    op: Operation
    report: Callable[..., None]
    other: Run | None
    gate: int | None
    planned: Callable[[Core], Any] | None
    is_quiet: bool

    def vector_slots(self) -> tuple[list[int], list[int]]:
        """Return the slots of the operands and of the results that are vectors or masks."""
        ...


DROPPING: set[str] = set()
"""Operations whose mask the assembler drops."""

MASKED_STORES = frozenset(("dintlv",))
"""Distributions of a store whose mask lowering loses."""


def has_dropped(ops: Iterable[Operation]) -> bool:
    """True if one of the operations of a program has a mask that is dropped and may leave lanes
    out."""
    return any(_drops(op) for op in ops)


def _drops(op: Operation) -> bool:
    mask = op.bound.get("mask")
    if not isinstance(mask, Operand) or is_all_true(mask.value):
        return False
    return op.meaning in DROPPING or op.attributes.get("dist_mode") in MASKED_STORES


def followed(ctx: Readable, run: Run) -> Run:
    """Return an instruction that computes the second reading too where there is one."""
    sources, targets = ctx.vector_slots()
    if ctx.planned is not None:
        return _store(ctx, run, sources)
    other, gate, origin = ctx.other or run, ctx.gate, _origin(ctx)

    def both(core: Core) -> None:
        slots = core.slots
        held = [(s, slots[s]) for s in sources if slots[s].__class__ is Twofold]
        if not held and (gate is None or slots[gate].off is None):
            run(core)
            return
        for slot, value in held:
            slots[slot] = value.first
        run(core)
        first = [slots[t] for t in targets]
        for slot, value in held:
            slots[slot] = value.second
        name = origin if not held else held[0][1].origin
        second = _quietly(ctx, core, other, targets, first)
        for slot, value in held:
            slots[slot] = value
        for target, a, b in zip(targets, first, second, strict=True):
            slots[target] = a if same(a, b) else Twofold(a, b, name)

    return both


def _quietly(
    ctx: Readable, core: Core, run: Run, targets: list[int], first: list[Any]
) -> list[Any]:
    """Execute on second values: findings and accesses of memory do not count. What cannot be
    executed on them is as the first values have it."""
    window, core.ub = core.ub, _shadow(core.ub)
    ctx.is_quiet = True
    try:
        run(core)
        return [core.slots[t] for t in targets]
    except (OpFault, NeedsValue):
        return first
    finally:
        core.ub, ctx.is_quiet = window, False


class _Shadow(VectorWindow):
    """UB as it is, with an account of accesses that nobody asks."""

    __slots__ = ("of",)


_SHADOWS: dict[int, _Shadow] = {}


def _shadow(window: VectorWindow) -> VectorWindow:
    found = _SHADOWS.get(id(window.data))
    if found is None or found.data is not window.data:
        _SHADOWS.clear()
        found = _SHADOWS[id(window.data)] = _Shadow(window.data)
    found.order_all()
    return found


def _store(ctx: Readable, run: Run, sources: list[int]) -> Run:
    planned, other = ctx.planned, ctx.other
    assert planned is not None
    origin = _origin(ctx)

    def store(core: Core) -> None:
        slots = core.slots
        held = [(s, slots[s]) for s in sources if slots[s].__class__ is Twofold]
        if not held and other is None:
            run(core)
            return
        for slot, value in held:
            slots[slot] = value.second
        second = _plan(ctx, core)
        for slot, value in held:
            slots[slot] = value.first
        try:
            first = planned(core)
            if second is not None and not _same_writes(first, second):
                name = held[0][1].origin if held else origin
                ctx.report(
                    "PTO6703",
                    f"writes lanes that the mask of {name} leaves out: the assembler drops that "
                    "mask and computes them, its pages say that they are 0",
                    "mask the store, or select the lanes with `pto.vmi.vsel`",
                )
            run(core)
        finally:
            for slot, value in held:
                slots[slot] = value

    return store


def _plan(ctx: Readable, core: Core) -> Any:
    planned = ctx.other if ctx.other is not None else ctx.planned
    ctx.is_quiet = True
    try:
        return planned(core)  # type: ignore[misc]
    except (OpFault, NeedsValue):
        return None
    finally:
        ctx.is_quiet = False


def same(first: Any, second: Any) -> bool:
    """True if two vectors or masks are the same lane by lane, to the bit."""
    if first is second:
        return True
    if isinstance(first, LogicalMask):
        return isinstance(second, LogicalMask) and np.array_equal(first.on, second.on)
    if isinstance(first, np.ndarray):
        return first.tobytes() == second.tobytes()
    return first == second


def _same_writes(first: Any, second: Any) -> bool:
    return all(
        np.array_equal(a, b) for a, b in zip(first.each_byte(), second.each_byte(), strict=True)
    )


def _origin(ctx: Readable) -> str:
    results = ctx.op.results
    named = f" (%{results[0].name})" if results else ""
    return f"'{ctx.op.name}'{named}"
