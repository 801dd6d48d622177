"""Records of a long run as periods: what repeats is kept once.

A run with values executes every round of its loops, and each leaves records. Times go by the same
rules as in a run without values, so after a few rounds one period is like the one before it. Now
and then the records that were added are searched for such periods; all but the first of them are
taken out, and a `Repeat` says how they go on. Nothing is lost: a record has the number, start and
cause that it had."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from ptosim.ground.records import NamedTuple
from ptosim.time.pipes.records import NO_LOOP, Records, Repeat
from ptosim.time.pipes.timers import CoreTimer, SignalTimes

LEAST = 1 << 17
"""New records of a core that are worth a search; runs of fewer keep all of them."""
LEAST_GIVEN = 1 << 13
"""New values of a signal that are: there may be many signals."""
MANY_WAITS = 1 << 15
"""Entries of `waits` that are looked through for equal ones."""
LONGEST = 1 << 13
"""Records of a period."""
SAVED = 64
"""Records that a repeat must save: it takes memory itself."""
TRIES = 12
"""Lengths of a period that are tried for a stretch, and stretches that are tried."""


class Periods(NamedTuple):
    """Periods of records that follow one another: the place of the first, the records of one, and
    how many there are after the first."""

    place: int
    length: int
    more: int


class Columns(NamedTuple):
    """What is compared: which step, start and cause."""

    steps: np.ndarray
    starts: np.ndarray
    causes: np.ndarray

    def cut(self, first: int, last: int) -> Columns:
        """Return a stretch."""
        return Columns(*(column[first:last] for column in self))


def fold(timer: CoreTimer) -> None:
    """Take out what repeats among the records since the last call, if there are many."""
    if len(timer.waits) - timer.searched_waits >= MANY_WAITS:
        _merge_waits(timer)
    if len(timer.steps) - timer.searched >= LEAST:
        _fold(timer, timer.index, len(timer.model.cores))


def fold_signals(signals: SignalTimes) -> None:
    """Take out what repeats among the values that signals got since the last call."""
    for given in signals.given.values():
        if len(given.steps) - given.searched >= LEAST_GIVEN:
            _fold(given, 0, 1)


def _fold(timer: Records, index: int, cores: int) -> None:
    """Take out what repeats among the new records of a core, or of a signal."""
    first, last = timer.searched, len(timer.steps)
    steps = np.fromiter(map(id, timer.steps[first:]), np.int64, last - first)
    for record in timer.slowed:  # it ends, or will end, at another time than its step says
        place = timer.at(record)[0] - first
        if place >= 0:
            steps[place] = -1 - record
    columns = Columns(
        steps,
        np.array(timer.starts[first:], np.int64),
        np.array(timer.causes[first:], np.int64),
    )
    found = [one._replace(place=one.place + first) for one in sorted(_periods(columns))]
    _note(timer, found, NO_LOOP - index, cores)
    _take_out(timer, found)
    timer.searched, timer.searched_waits = len(timer.steps), len(timer.waits)


# -- finding periods -------------------------------------------------------------------------------


def _periods(columns: Columns) -> Iterator[Periods]:
    """Yield stretches of equal periods, in no order: those of the longest stretch first, then of
    what is left between them."""
    stretches = [(0, len(columns.steps))]
    for _ in range(TRIES):
        stretches = [s for s in stretches if s[1] - s[0] > 4 * SAVED]
        if not stretches:
            return
        first, last = max(stretches, key=lambda s: s[1] - s[0])
        stretches.remove((first, last))
        at = first
        for one in _best(columns.cut(first, last)):
            place = one.place + first
            stretches.append((at, place))
            at = place + one.length * (one.more + 1)
            yield one._replace(place=place)
        if at > first:
            stretches.append((at, last))


def _best(columns: Columns) -> list[Periods]:
    """Return the periods of the length that leaves out most, of those at which the step in the
    middle comes again."""
    middle = len(columns.steps) // 2
    following = columns.steps[middle + 1 : middle + 1 + LONGEST]
    best: list[Periods] = []
    most = 0
    for distance in np.flatnonzero(following == columns.steps[middle])[:TRIES]:
        found = _of_length(columns, int(distance) + 1)
        saved = sum(one.length * one.more for one in found)
        if saved > most:
            best, most = found, saved
        if most > len(columns.steps) // 2:
            break
    return best


def _of_length(columns: Columns, length: int) -> list[Periods]:
    """Return where records are like those one and two periods later: the same step, with a start
    and a cause that move by the same amounts."""
    steps, starts, causes = columns
    if len(steps) < 3 * length:
        return []
    same = steps[length:] == steps[:-length]
    is_even = same[length:] & same[:-length]
    for column in (starts, causes):
        moved = column[length:] - column[:-length]
        is_even &= moved[length:] == moved[:-length]
    borders = np.flatnonzero(np.diff(is_even.astype(np.int8), prepend=0, append=0))
    runs = zip(borders[::2].tolist(), borders[1::2].tolist(), strict=True)
    found = [Periods(a, length, (b - a) // length + 1) for a, b in runs if b - a >= length]
    return [one for one in found if length * one.more >= SAVED]


# -- taking them out -------------------------------------------------------------------------------


def _note(timer: Records, found: list[Periods], jump: int, cores: int) -> None:
    """Say of periods, in the order of their places, how they go on. The first of the core would
    have the number `jump`, each further one is as many `cores` away."""
    number_of_first = timer.skipped
    taken = 0
    for place, length, more in found:
        starts, causes = (_moves(column, place, length) for column in (timer.starts, timer.causes))
        first = place + number_of_first
        timer.skipped += length * more
        number = jump - len(timer.repeats) * cores
        timer.repeats.append(
            Repeat(
                first, place - taken, length, more, starts, causes, timer.skipped, 0, 0, 0, number
            )
        )  # fmt: skip
        timer.firsts.append(first)
        taken += length * more


def _moves(column: array[int], place: int, length: int) -> array[int]:
    """By how much each record of a period moves to the next one."""
    later = column[place + length : place + 2 * length]
    return array("q", [b - a for a, b in zip(column[place : place + length], later, strict=True)])


def _merge_waits(timer: CoreTimer) -> None:
    """Keep one of equal waits since the last call: a core that does nothing but wait has a record
    of none. Where many wait for executions of one operation before the same record, the last of
    them is kept, which comes after the others."""
    first = timer.searched_waits
    columns = timer.waits, timer.wait_sources
    pairs = [np.array(column[first:], np.int64).reshape(-1, 2) for column in columns]
    rows = np.unique(np.hstack(pairs), axis=0)
    if 2 * len(np.unique(rows[:, :3], axis=0)) < len(rows):
        rows = _latest(timer, rows)
    for column, kept in zip(columns, (rows[:, :2], rows[:, 2:]), strict=True):
        column[first:] = array("q", kept.tobytes())
    timer.searched_waits = len(timer.waits)


def _latest(timer: CoreTimer, rows: np.ndarray) -> np.ndarray:
    """Return of waits (place, pipe, core, record), in their order, the last one for each operation
    of another core."""
    cores = timer.model.cores
    last: dict[tuple[Any, ...], list[int]] = {}
    for row in rows.tolist():
        place, pipe, core, record = row
        last[place, pipe, core, cores[core].step(record) if record >= 0 else record] = row
    return np.array(sorted(last.values()), np.int64)


def _take_out(timer: Records, found: list[Periods]) -> None:
    """Remove all but the first of periods from the columns, and the waits of what is removed."""
    waits = np.array(timer.waits, np.int64).reshape(-1, 2)
    sources = np.array(timer.wait_sources, np.int64).reshape(-1, 2)
    for place, length, more in reversed(found):
        first, last = place + length, place + length * (more + 1)
        for column in (timer.steps, timer.starts, timer.causes):
            del column[first:last]
        stays = (waits[:, 0] < first) | (waits[:, 0] >= last)
        waits, sources = waits[stays], sources[stays]
        waits[:, 0] -= (last - first) * (waits[:, 0] >= last)
    timer.waits[:] = array("q", waits.tobytes())
    timer.wait_sources[:] = array("q", sources.tobytes())


# Finds the period of a loop among the states that its rounds begin with.
#
# A state is everything that decides how the loop goes on, relative to the round: what has to be the
# same (`key`, and whatever `is_even` compares), and what may move by the same amount in each
# period, as times and counters do. A round may contain whole loops: the summary of one is a step of
# it like any other. What repeats is found here; what is done with it is the business of who asks.
