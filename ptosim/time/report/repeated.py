"""Rounds of loops that are like those before them, so that one period of them was executed."""

from __future__ import annotations

from collections.abc import Sequence

from ptosim.ground.records import dataclass
from ptosim.time.pipes.records import NO_LOOP, Repeat
from ptosim.time.pipes.timers import CoreTimer


@dataclass(frozen=True, slots=True)
class Repeated:
    """A loop: its line, the first and the last of its rounds that repeat, how many rounds one
    period has and how many cycles it takes, and on how many cores."""

    line: int
    first: int
    last: int
    rounds: int
    cycles: int
    cores: int


def repeated(cores: Sequence[CoreTimer]) -> list[Repeated]:
    """Return what repeats on these cores, in the order in which it was found. Neighbouring
    stretches of one loop with equal periods are one, and equal ones are named once."""
    jumps: dict[int, list[Repeat]] = {}
    for core in cores:
        for repeat in (r for r in core.repeats if r.jump > NO_LOOP):
            jumps.setdefault(repeat.jump, []).append(repeat)
    found: dict[Repeated, None] = {}
    for repeats in jumps.values():
        one = repeats[0]
        cycles = max(max(r.starts) for r in repeats)
        row = Repeated(one.line, one.first_round, one.last_round, one.rounds, cycles, len(repeats))
        found[row] = None
    return list(found)
