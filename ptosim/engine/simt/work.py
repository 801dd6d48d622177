"""How often a launch executes each kind of operation, told from its text: loops with constant
bounds count, both ways of a branch do, other loops count once and make the figure a guess."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ptosim.engine.simt.code import SimtCode
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import PtrType
from ptosim.time.laws.simt import SimtWork

MOST_TIMES = 1 << 62
"""More executions are counted as so many: loops inside loops of any length may have a number of
them that no float holds."""


def work_of(code: SimtCode, functions: Callable[[Operation], Operation | None]) -> SimtWork:
    """Return the operations of a launch by kind; `functions` gives what a call executes."""
    counts: Counter[str] = Counter()
    far: list[int] = []
    exact = _count(code.home, 1, counts, far, functions)
    return SimtWork(tuple(sorted(counts.items())), sum(far), exact)


def _count(
    op: Operation,
    times: int,
    counts: Counter[str],
    far: list[int],
    functions: Callable[[Operation], Operation | None],
) -> bool:
    exact = True
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                rounds = _rounds(inner)
                exact = exact and rounds is not None
                callee = functions(inner) if inner.has("call") else None
                kind = _kind(inner)
                if kind is not None:
                    counts[kind] += times
                if kind == "global":
                    far.append(times * _bytes(inner))
                again = min(times * (rounds or 1), MOST_TIMES)
                exact = _count(callee or inner, again, counts, far, functions) and exact
    return exact


_KINDS = (("atomic_update", "atomic"), ("collective", "collective"), ("function_unit", "slow"))
"""Traits of operations that take longer than others, and their kinds."""


def _rounds(op: Operation) -> int | None:
    """How often an operation executes its region; None if the text does not say."""
    if not op.has("loop"):
        return 1
    if not op.has("counted"):
        return None
    low, high, step = (op.bound[n].const for n in ("lower", "upper", "step"))
    if None in (low, high, step) or step <= 0:
        return None
    return max(-((low - high) // step), 0)


def _kind(op: Operation) -> str | None:
    """The kind of an operation for its cost; None for one that costs nothing itself."""
    if op.has("constant") or op.has("yields") or op.regions or op.has("returns"):
        return None
    for trait, kind in _KINDS:
        if op.has(trait):
            return kind
    pointer = getattr(op.bound.get("ptr"), "type", None)
    if isinstance(pointer, PtrType) and "value" in {*op.bound, *op.result_values}:
        return "global" if pointer.space == "gm" else "local"
    return "issue"


def _bytes(op: Operation) -> int:
    return max(op.bound["ptr"].type.elem.bits // 8, 1)
