"""Rounds of a loop that issue the same operations, in time: one by one until a period is like the
one before it, then as many further periods as there are at once, with the records that each of
them would leave.

What later operations of the loop look at is the clock of the scalar unit, when the pipes that it
uses are free and done, and the times of its events. Issue adds to such times and compares them, and
nothing else; so where after a period all of them are later by the same number of cycles (with
records that are farther on by the same number), the next period does the same again. A scalar unit
that is ahead of all pipes throughout a period, and gains on them, does so for ever: then its clock
moves by another number."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ptosim.ground.records import NamedTuple, dataclass
from ptosim.time.pipes.steps import Flag, S, Step
from ptosim.time.pipes.timers import CoreTimer

FEWEST = 6
"""Rounds that are worth looking for a period."""
LONGEST = 32
"""Rounds after which nobody looks for one any more."""

Issue = Callable[[Step, int], None]


class _Moment(NamedTuple):
    """What has grown by the end of a round: the clock, when the first and the earliest pipe of the
    loop are free, the records, the places of waits, and the cycles that pipes waited, by reason."""

    clock: int
    free: int
    earliest: int
    records: int
    waits: int
    stalled: dict[str, tuple[int, ...]]


@dataclass(slots=True, eq=False)
class Rounds:
    """Issues rounds of a loop on a core: operations with `pending` scalar ones before each since
    the last issue, and `tail` such ones after the last."""

    timer: CoreTimer
    issue: Issue
    pending: tuple[int, ...]
    tail: int

    def __call__(
        self, steps: Sequence[Step], rounds: int, carried: int, part: Sequence[Step] = ()
    ) -> None:
        """Issue so many rounds of `steps`, and `part` of another one; before the first operation of
        all there were `carried` scalar ones more."""
        if rounds:
            self._round(steps, carried)
            carried = self.tail
            self._more(steps, rounds - 1)
        if part:
            self._round(part, carried)

    def _round(self, steps: Sequence[Step], carried: int) -> None:
        issue = self.issue
        for step, pending in zip(steps, self.pending, strict=False):
            issue(step, pending + carried)
            carried = 0

    def _more(self, steps: Sequence[Step], rounds: int) -> None:
        loop = _Loop(self.timer, steps) if rounds >= FEWEST and _is_simple(steps) else None
        while rounds:
            self._round(steps, self.tail)
            rounds -= 1
            if loop is not None:
                before = loop.look()
                if before is not None:
                    rounds -= loop.repeat(before, rounds)
                    loop = None
                elif len(loop.moments) >= LONGEST:
                    loop = None


def _is_simple(steps: Sequence[Step]) -> bool:
    """True if steps touch nothing but pipes and events of their own core."""
    return all(
        step.pipe != S
        and step.shared is None
        and step.then is None
        and all(flag.group == 1 and not flag.keeps for flag in (*step.takes, *step.gives))
        for step in steps
    )


class _Loop:
    """What the rounds of a loop have in common with earlier ones."""

    def __init__(self, timer: CoreTimer, steps: Sequence[Step]) -> None:
        self.timer = timer
        self.pipes = sorted({step.pipe for step in steps})
        flags = {id(f): f for step in steps for f in (*step.takes, *step.gives)}
        self.flags: tuple[Flag, ...] = tuple(flags.values())
        self.first = len(timer.steps) + timer.skipped  # the number of the loop's first record
        self.known: dict[tuple[int, ...], int] = {}
        self.moments: list[_Moment] = []

    def look(self) -> int | None:
        """Look at the core after a round; return an earlier round from which on it does the same
        again."""
        timer, number = self.timer, len(self.moments)
        records = len(timer.steps) + timer.skipped
        stalled = {reason: tuple(each) for reason, each in timer.stalled.items()}
        free = [timer.free[pipe] for pipe in self.pipes]
        moment = _Moment(timer.clock, free[0], min(free), records, len(timer.waits), stalled)
        self.moments.append(moment)
        state = self._state(free[0], records)
        if state is None:
            return None
        before, self.known[state] = self.known.get(state), number
        return before if before is not None and _goes_on(self.moments[before], moment) else None

    def _state(self, now: int, records: int) -> tuple[int, ...] | None:
        """The times of pipes and events, and the records that determined them, from now and from
        the next record on. None if a pipe holds a queue, or something goes back to what was before
        the loop."""
        timer, first = self.timer, self.first
        if timer.gate is not None or timer.blocked:
            return None
        found: list[int] = []
        codes: list[int] = []
        for pipe in self.pipes:
            found += (timer.free[pipe] - now, timer.done[pipe] - now)
            codes += (timer.free_record[pipe], timer.done_record[pipe])
        for flag in self.flags:
            if flag.waiters or any(core != timer.index for _, core, _ in flag.times):
                return None
            found.append(len(flag.times))
            for when, _, record in flag.times:
                found.append(when - now)
                codes.append(record)
        if any(0 <= code < first for code in codes):
            return None
        found += [code - records if code >= 0 else code for code in codes]
        return tuple(found)

    # -- at once ----------------------------------------------------------------------------------

    def repeat(self, before: int, rounds: int) -> int:
        """Add as many periods, from the round `before` to the last one, as `rounds` more have;
        return how many rounds that is."""
        length = len(self.moments) - 1 - before
        periods = rounds // length
        if periods:
            self._add(self.moments[before], self.moments[-1], periods)
        return periods * length

    def _add(self, start: _Moment, end: _Moment, periods: int) -> None:
        timer = self.timer
        cycles, records = end.free - start.free, end.records - start.records
        times = np.arange(1, periods + 1)[:, None]
        if records:
            timer.steps.extend(timer.steps[-records:] * periods)
            _extend(timer.starts, records, times, cycles)
            _extend(timer.causes, records, times, records, self.first)
        if waits := end.waits - start.waits:
            pairs = np.array([records, 0] * (waits // 2))
            _extend(timer.waits, waits, times, pairs)
            is_record = np.array([False, True] * (waits // 2))
            _extend(timer.wait_sources, waits, times, records, self.first, is_record)
        for reason, each in timer.stalled.items():
            old = start.stalled.get(reason, (0,) * len(each))
            each[:] = [now + (now - was) * periods for now, was in zip(each, old, strict=True)]
        timer.clock += (end.clock - start.clock) * periods
        self._move(cycles * periods, records * periods)

    def _move(self, cycles: int, records: int) -> None:
        """Let pipes and events be so much later."""
        timer = self.timer
        for pipe in self.pipes:
            timer.free[pipe] += cycles
            timer.done[pipe] += cycles
            for codes in (timer.free_record, timer.done_record):
                codes[pipe] = _moved(codes[pipe], records)
        for flag in self.flags:
            moved = [(when + cycles, core, _moved(by, records)) for when, core, by in flag.times]
            flag.times.clear()
            flag.times.extend(moved)


def _goes_on(start: _Moment, end: _Moment) -> bool:
    """True if the clock keeps its distance to the pipes, or is never in the way of one: they are
    free after everything is issued, and fall back further."""
    scalar, pipes = end.clock - start.clock, end.free - start.free
    return scalar == pipes or (scalar < pipes and start.earliest >= end.clock)


def _moved(record: int, records: int) -> int:
    return record + records if record >= 0 else record


def _extend(
    column: array[int],
    length: int,
    times: np.ndarray,
    distance: Any,
    least: int | None = None,
    chosen: Any = True,
) -> None:
    """Add the last entries of a column again for each of `times`, moved by a distance; with `least`
    only the `chosen` ones that are records of the loop move."""
    last = np.array(column[-length:], np.int64)
    if least is not None:
        distance = np.where(chosen & (last >= least), distance, 0)
    column.frombytes((last + times * distance).tobytes())
