"""What a core has executed: records as columns, and periods of them that repeat.

A record has a step, a start and a cause, the record that determined the start. Where a loop goes on
in the same way, one period of it is kept with how often it repeats and by how much each start moves
(`Repeat`). Records are numbered as if all of them were kept; their place in the columns is `at`."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod

from ptosim.ground.records import dataclass, replace
from ptosim.time.pipes.steps import PIPES, Step

NO_CAUSE = -1
"""The cause of an operation that starts when the scalar unit issues it."""

NO_LOOP = -2
"""The jump of periods that belong to no loop, and each number below."""

_COLUMNS = ("steps", "starts", "causes")


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """A period of the records of a core that repeats: the number of its first record and its place
    in the columns, its records, how many further periods there are that no record is kept of, by
    how much start and cause of each record that is kept move in a period, and the records that all
    repeats until the end of this one leave out. `line` is that of the loop, `rounds` its rounds in
    a period, `first_round` the round that the period begins with; cores that repeat together have
    one `jump`. Of periods that were found among the records (`folds`), `jump` is at most NO_LOOP,
    and nothing is said of a loop. `inner` are the repeats inside of the period, as those of its
    first time."""

    first: int
    place: int
    length: int
    count: int
    starts: array[int]
    causes: array[int]
    left_out: int
    line: int
    rounds: int
    first_round: int
    jump: int
    inner: tuple[Repeat, ...] = ()

    @property
    def kept(self) -> int:
        """The records of a period that are in the columns."""
        return len(self.starts)

    def moved(self, place: int) -> int:
        """By how much the start of a record that is kept moves in a period."""
        return self.starts[place - self.place]

    def tree(self) -> Iterator[Repeat]:
        """Yield the repeats in the period, inner ones first, and this one."""
        for repeat in self.inner:
            yield from repeat.tree()
        yield self

    def apart(self, by: int) -> Repeat:
        """Return the same period of a core that repeats by itself."""
        jump = self.jump + by if self.jump > NO_LOOP else self.jump
        return replace(self, jump=jump, inner=tuple(each.apart(by) for each in self.inner))

    def is_like(self, other: Repeat, further: int) -> bool:
        """True if another one is the same so many places further on."""
        return (
            self.place + further == other.place
            and (self.length, self.count) == (other.length, other.count)
            and self.starts == other.starts
            and self.causes == other.causes
            and len(self.inner) == len(other.inner)
            and all(a.is_like(b, further) for a, b in zip(self.inner, other.inner, strict=True))
        )

    @property
    def name(self) -> str:
        """What is left out, in words."""
        if self.jump <= NO_LOOP:
            return f"{self.count:,} times the same"
        return f"rounds {self.first_round + self.rounds:,} to {self.last_round:,} repeat"

    @property
    def last_round(self) -> int:
        """The last round of the loop that is like the others."""
        return self.first_round + self.rounds * (self.count + 1) - 1


Path = tuple[tuple[Repeat, int], ...]
"""The repeats that a record is in, the outermost first, each with the period after the first."""

Times = tuple[tuple[int, int], ...]
"""How often more, and after how many cycles each; for every repeat around, the outermost first."""


class Records:
    """The columns of a core."""

    __slots__ = (
        "causes", "firsts", "repeats", "searched", "searched_waits", "skipped", "slowed", "starts",
        "steps", "wait_sources", "waits",
    )  # fmt: skip

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.starts = array("q")
        self.slowed: dict[int, int] = {}  # ends of transfers that share bandwidth, by record
        self.causes = array("q")
        self.waits = array("q")  # pairs: position in `steps` when the wait ended, pipe
        self.wait_sources = array("q")  # the core and the record that gave the event
        self.repeats: list[Repeat] = []
        self.firsts: list[int] = []  # of the repeats
        self.skipped = 0  # records that the repeats leave out
        self.searched = self.searched_waits = 0  # what was searched for periods of the columns

    @property
    def count(self) -> int:
        """Records so far."""
        return len(self.steps) + self.skipped

    @property
    def extent(self) -> tuple[int, int]:
        """Records so far, and the entries of `waits` since the last of them."""
        place = len(self.steps)
        first = bisect_left(range(0, len(self.waits), 2), place, key=self.waits.__getitem__)
        return self.count, len(self.waits) - 2 * first

    # -- going back and forth ----------------------------------------------------------------------

    def become(self, other: Records) -> None:
        """Have all records of another one. Columns stay the same objects: issuers hold them."""
        begin = min(len(self.steps), len(other.steps)) if self.repeats == other.repeats else 0
        for name in _COLUMNS:
            getattr(self, name)[begin:] = getattr(other, name)[begin:]
        self.waits[:], self.wait_sources[:] = other.waits, other.wait_sources
        self.repeats, self.firsts = list(other.repeats), list(other.firsts)
        self.skipped = other.skipped
        self.searched, self.searched_waits = other.searched, other.searched_waits

    def cut(self, count: int, waits: int) -> None:
        """Have no more than so many records, and entries of `waits` after them. A period that is
        cut in two is kept as one that repeats less often, with the records of its last part."""
        kept = bisect_left(self.firsts, count)
        rest: list[tuple[Step, int, int]] = []
        length = len(self.steps) - max(self.count - count, 0)
        if kept:
            last = self.repeats[kept - 1]
            length = count - last.left_out
            if count < last.first + last.length * (last.count + 1):
                kept, length, rest = self._opened(kept, count)
        elif self.repeats:
            length = count
        for name in _COLUMNS:
            del getattr(self, name)[length:]
        for step, start, cause in rest:
            self.steps.append(step)
            self.starts.append(start)
            self.causes.append(cause)
        del self.repeats[kept:], self.firsts[kept:]
        self.skipped = self.repeats[-1].left_out if kept else 0
        self._cut_waits(length if rest else len(self.steps), 0 if rest else waits)
        self.searched = min(self.searched, len(self.steps))
        self.searched_waits = min(self.searched_waits, len(self.waits))

    def _opened(self, kept: int, count: int) -> tuple[int, int, list[tuple[Step, int, int]]]:
        """Let the last of `kept` repeats end before a record; return how many are kept then, up to
        which place the columns are, and the records after it."""
        last = self.repeats[kept - 1]
        periods = (count - last.first) // last.length
        end = last.first + periods * last.length
        if periods < 2:
            first, length, kept = last.first, last.place, kept - 1
        else:
            first, length = end, last.place + last.length
        rest = [(self.step(n), self.start(n), self.cause(n)) for n in range(first, count)]
        if periods >= 2:
            left = last.left_out - last.length * (last.count + 1 - periods)
            self.repeats[kept - 1] = replace(last, count=periods - 1, left_out=left)
        return kept, length, rest

    def _cut_waits(self, place: int, entries: int) -> None:
        """Keep the waits before a place, and so many entries of those at it."""
        first = bisect_left(range(0, len(self.waits), 2), place, key=self.waits.__getitem__)
        del self.waits[2 * first + entries :], self.wait_sources[2 * first + entries :]

    # -- by number ---------------------------------------------------------------------------------

    def at(self, record: int) -> tuple[int, Path]:
        """Return the place of a record in the columns, and in which periods of repeats it is."""
        number = bisect_right(self.firsts, record) - 1
        if number < 0:
            return record, ()
        return _within(self.repeats[number], record)

    def repeats_from(self, place: int) -> list[Repeat]:
        """Return the repeats that begin at a place of the columns or after it."""
        number = len(self.repeats)
        while number and self.repeats[number - 1].place >= place:
            number -= 1
        return self.repeats[number:]

    def step(self, record: int) -> Step:
        """Return the step of a record."""
        return self.steps[self.at(record)[0]]

    def start(self, record: int) -> int:
        """Return when the operation of a record started."""
        place, path = self.at(record)
        return self.starts[place] + sum(period * repeat.moved(place) for repeat, period in path)

    def cause(self, record: int) -> int:
        """Return the code of what determined the start of a record."""
        place, path = self.at(record)
        return self.causes[place] + sum(n * r.causes[place - r.place] for r, n in path)

    def end(self, record: int) -> int:
        """Return when the pipe of an operation took the next one."""
        end = self.slowed.get(record)
        return self.start(record) + self.step(record).busy if end is None else end

    # -- columns -----------------------------------------------------------------------------------

    @property
    def ends(self) -> array[int]:
        """When the pipe of each operation that is kept took the next one."""
        ends = array("q", [a + s.busy for s, a in zip(self.steps, self.starts, strict=True)])
        for record, end in self.slowed.items():
            ends[self.at(record)[0]] = end
        return ends

    @property
    def dones(self) -> array[int]:
        """When the result of each operation that is kept was there."""
        return array("q", [e + s.latency for s, e in zip(self.steps, self.ends, strict=True)])

    def times(self) -> Iterator[tuple[int, Times]]:
        """Yield the places of the columns, with how often more what is there was executed and
        after how many cycles each: for every repeat around it, the outermost first."""
        return _times(range(len(self.steps)), self.repeats, ())

    def executed(self) -> Counter[Step]:
        """Return how often each step was executed."""
        found: Counter[Step] = Counter()
        for place, times in self.times():
            found[self.steps[place]] += prod(more + 1 for more, _ in times)
        return found

    def work(self) -> tuple[list[int], list[int]]:
        """Return for each pipe the operations that it executed, and the cycles that it was
        busy."""
        busy, count = [0] * len(PIPES), [0] * len(PIPES)
        for step, number in self.executed().items():
            busy[step.pipe] += step.busy * number
            count[step.pipe] += number
        for record, end in self.slowed.items():
            step = self.step(record)
            busy[step.pipe] += end - self.start(record) - step.busy
        return count, busy

    def stretches(self, pipe: int) -> Iterator[tuple[int, int, Times]]:
        """Yield when a pipe is busy: start and end, how often more, and after how many cycles
        each."""
        ends = self.ends
        for place, times in self.times():
            if self.steps[place].pipe == pipe:
                yield self.starts[place], ends[place], times


def _within(repeat: Repeat, record: int) -> tuple[int, Path]:
    """The place of a record from the first of a repeat on, and the periods that it is in."""
    period, rest = divmod(record - repeat.first, repeat.length)
    if period > repeat.count:
        return record - repeat.left_out, ()
    place, inside = repeat.place + rest, ()
    if repeat.inner:
        first = repeat.first + rest
        around = [inner for inner in repeat.inner if inner.first <= first]
        if around:
            place, inside = _within(around[-1], first)
    return place, ((repeat, period), *inside)


def _times(
    places: range, repeats: Sequence[Repeat], around: tuple[Repeat, ...]
) -> Iterator[tuple[int, Times]]:
    known = places.start
    for repeat in repeats:
        yield from ((place, _of_place(place, around)) for place in range(known, repeat.place))
        known = repeat.place + repeat.kept
        yield from _times(range(repeat.place, known), repeat.inner, (*around, repeat))
    yield from ((place, _of_place(place, around)) for place in range(known, places.stop))


def busy_until(until: float, length: int, times: Times) -> float:
    """Return the cycles until then, from its first start on, that a pipe was busy with something
    that takes so long, each time that it was executed."""
    if until <= 0:
        return 0.0
    if not times:
        return min(until, length)
    (more, moved), *inner = times
    count = min(int(until // moved), more) if moved else more
    whole = length * prod(rounds + 1 for rounds, _ in inner)
    return count * whole + busy_until(until - count * moved, length, tuple(inner))


def _of_place(place: int, around: Sequence[Repeat]) -> Times:
    return tuple((repeat.count, repeat.moved(place)) for repeat in around)


def foreign(core: int, record: int) -> int:
    """Return a record of another core as a cause: negative numbers below NO_CAUSE."""
    return -2 - (record << 16 | core) if record >= 0 else NO_CAUSE


def cause_of(code: int, core: int) -> tuple[int, int] | None:
    """Return (core, record) of a cause; None for the scalar unit."""
    if code == NO_CAUSE:
        return None
    if code >= 0:
        return core, code
    packed = -2 - code
    return packed & 0xFFFF, packed >> 16
