"""Heads of loops: the branch that tests whether another round comes, and at which round a counted
loop is."""

from __future__ import annotations

from typing import Any

from ptosim.engine.core.records import Inst, Kind
from ptosim.ground.records import NamedTuple
from ptosim.machine.core import Core


class Bounds(NamedTuple):
    """The first value of a counted loop, the one that it does not reach, its step, and the value
    that it is at."""

    lower: int
    upper: int
    step: int
    at: int


def is_head(inst: Inst) -> bool:
    """True for the branches of a loop: the first of them is its test."""
    return inst.kind is Kind.BRANCH and inst.op is not None and inst.op.has("loop")


def line_of(engine: Any, inst: Inst) -> int:
    """Return the line of a loop."""
    return engine.resolved.module.source.line_column(inst.operation.start)[0]


def bounds_of(engine: Any, inst: Inst, core: Core) -> Bounds | None:
    """Return where a counted loop is; None for another loop, or one whose bounds are not known."""
    op, slots = inst.operation, engine.program.slots
    if not op.has("counted"):
        return None
    found = []
    for name in ("lower", "upper", "step"):
        operand = op.bound[name]
        found.append(operand.const if operand.value is None else core.slots[slots[operand.value]])
    found.append(core.slots[slots[op.regions[0].blocks[0].values[0]]])
    return Bounds(*found) if all(v.__class__ is int for v in found) else None


def rounds_left(bounds: Bounds) -> int:
    """Return the rounds that are left with the present one."""
    return -((bounds.at - bounds.upper) // max(bounds.step, 1))


def round_of(bounds: Bounds) -> int:
    """Return the number of the present round, from 1."""
    return (bounds.at - bounds.lower) // max(bounds.step, 1) + 1
