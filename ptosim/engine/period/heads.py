"""Heads of loops: the branch that tests whether another round comes, and at which round a counted
loop is."""

from __future__ import annotations

from typing import Any

from ptosim.engine.core.records import Inst, Kind
from ptosim.ground.records import NamedTuple
from ptosim.machine.affine import now
from ptosim.machine.core import Core


class Bounds(NamedTuple):
    """The first value of a counted loop, the one that it does not reach, its step, and the value
    that it is at."""

    lower: int
    upper: int
    step: int
    at: int

    @property
    def left(self) -> int:
        """The rounds that are left with the present one."""
        return -((self.at - self.upper) // max(self.step, 1))

    @property
    def round(self) -> int:
        """The number of the present round, from 1."""
        return (self.at - self.lower) // max(self.step, 1) + 1


def heads_of(insts: list[Inst]) -> list[Inst]:
    """Return the tests of the loops outside of vector regions: of the branches of a loop the first
    one."""
    inside = {pc for i in insts if i.kind is Kind.REGION for pc in range(i.pc, i.end)}
    tests = {id(i.op): i for i in reversed(insts) if _is_head(i) and i.pc not in inside}
    return sorted(tests.values(), key=lambda inst: inst.pc)


def _is_head(inst: Inst) -> bool:
    return inst.kind is Kind.BRANCH and inst.op is not None and inst.op.has("loop")


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
    found = list(map(now, found))
    return Bounds(*found) if all(v.__class__ is int for v in found) else None
