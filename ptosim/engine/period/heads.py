"""Heads of loops: the branch that tests whether another round comes, at which round a counted loop
is, and whether it pays to look for a period of it."""

from __future__ import annotations

from typing import Any

from ptosim.engine.core.bound import Inst, Kind
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.machine.affine import now
from ptosim.machine.core import Core
from ptosim.time.period.folds import Finder

MOST_ROUNDS = 24
"""Rounds of the longest period that is looked for."""

LEAST_LEFT = 64
"""Rounds that a loop has to have left for a trial to pay, if they are short."""

FEW, LONG = 8, 20_000
"""Rounds that any loop has to have left, and instructions that those of one with fewer rounds than
LEAST_LEFT have together."""

MOST_EXECUTED = 40_000
"""Instructions of the longest period that is looked for."""

START, NEVER = 2, 1 << 62
SOON = 2
"""Visits of a head until it is looked at next; a visit that looks counts again."""


@dataclass(slots=True, eq=False)
class Head:
    """The head of a loop on one core: what the launch was at its last rounds, the round that it is
    at, the visits until the next trial if this one fails, whether its rounds turned out to be
    short, and with how many instructions in them those of a loop of few rounds are long."""

    finder: Finder[Any]
    round: int = 0
    gap: int = 4 * MOST_ROUNDS
    is_short: bool = False
    long: int = LONG

    def pays(self, left: int, executed: int) -> bool:
        """True if a loop has enough to execute in the rounds that are left, now that so many
        instructions were executed."""
        if left >= LEAST_LEFT:
            return True
        states = self.finder.states
        if left >= FEW and states and not self.is_short:
            self.is_short = (executed - states[-1].executed) * left < self.long
        return left >= FEW and not self.is_short

    @property
    def is_over(self) -> bool:
        """True if a period would be too long, in rounds or in instructions."""
        states = self.finder.states
        if len(states) > 2 * MOST_ROUNDS:
            return True
        return len(states) > 1 and states[-1].executed - states[-2].executed > MOST_EXECUTED


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
