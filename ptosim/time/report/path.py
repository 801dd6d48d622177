"""The critical path: the chain of operations that the makespan consists of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.records import NamedTuple, dataclass
from ptosim.time.pipes.model import TimingModel
from ptosim.time.pipes.records import cause_of
from ptosim.time.pipes.steps import PIPES
from ptosim.time.pipes.timers import CoreTimer

MAX_PARTS = 100_000
"""Parts of a path that are listed; of a longer one the beginning is one part."""


@dataclass(slots=True)
class PathPart:
    """Neighbours on the path that are executions of one instruction on one pipe: how many, from
    when to when, and what the next part of the path waited for."""

    core: str
    pipe: str
    op: str
    line: int
    count: int
    start: int
    end: int


@dataclass(slots=True)
class PathShare:
    """What the executions of one instruction contribute to the path: how many, and cycles."""

    op: str
    line: int
    pipe: str
    count: int
    cycles: int


class Item(NamedTuple):
    """A record of the path: its core, its number, its start, and the start of the one after it."""

    core: CoreTimer
    record: int
    start: int
    end: int


class Again(NamedTuple):
    """A stretch of the path, from the last record back, that comes so many times, each so many
    cycles before the one after it."""

    items: Sequence[Item]
    times: int
    cycles: int


def critical_path(model: TimingModel) -> list[PathPart]:
    """Return the path back from the operation that is done last, in the order of time.

    Every operation counts from its start to the start of the next one on the path, the last to its
    end; the time before the first is the scalar unit's. What is before the last `MAX_PARTS` parts
    is one part, "earlier operations"."""
    parts: list[PathPart] = []
    count, first = 0, model.makespan
    for items, times, cycles in walk(model):
        for number, one in enumerate(_each(items, times, cycles)):
            if len(parts) >= MAX_PARTS:
                count += len(items) * times - number
                break
            _add(parts, one)
            count, first = 0, one[0].start
    if count:
        parts.append(PathPart("", "", "earlier operations", 0, count, 0, first))
    elif first > 0:
        parts.append(PathPart("", "S", "scalar unit", 0, 1, 0, first))
    return parts[::-1]


def _each(items: Sequence[Item], times: int, cycles: int) -> Iterator[tuple[Item, int]]:
    """Yield the records of a stretch that comes several times, each with how many of it there are:
    one, or all if they are executions of one instruction."""
    if len({_place(item) for item in items}) == 1:
        start = items[-1].start - cycles * (times - 1)
        yield items[0]._replace(start=start), len(items) * times
        return
    for number in range(times):
        for item in items:
            back = number * cycles
            yield item._replace(start=item.start - back, end=item.end - back), 1


def path_shares(model: TimingModel) -> list[PathShare]:
    """Return the whole path joined by instruction and pipe, dearest first."""
    shares: dict[tuple[str, int, int], PathShare] = {}
    first = model.makespan
    for items, times, cycles in walk(model):
        for core, record, start, end in items:
            step = core.step(record)
            key = step.site.mnemonic, step.site.line, step.pipe
            share = shares.get(key)
            if share is None:
                share = shares[key] = PathShare(key[0], key[1], PIPES[step.pipe], 0, 0)
            share.count += times
            share.cycles += (end - start) * times
        first = items[-1].start - cycles * (times - 1)
    found = list(shares.values())
    if first > 0:
        found.append(PathShare("scalar unit", 0, "S", 1, first))
    return sorted(found, key=lambda share: -share.cycles)


def walk(model: TimingModel) -> Iterator[Again]:
    """Yield the records of the path from the last one on; where it goes through periods that
    repeat, those that it goes through in the same way at once."""
    place = _last(model)
    end = model.makespan
    trail = _Trail()
    while place is not None:
        core, record = model.cores[place[0]], place[1]
        again = trail.again(core, record, end)
        if again is not None:
            yield again
            record -= trail.left_out
            end -= again.cycles * again.times
        start = core.start(record)
        item = Item(core, record, start, end)
        trail.items.append(item)
        yield Again((item,), 1, 0)
        end = start
        place = cause_of(core.cause(record), core.index)
        if place is not None and model.cores[place[0]].start(place[1]) > end:
            return


class _Trail:
    """The way back through the periods that repeat: where it came through the same record before.
    `left_out` is by how much the number of a record is lower after periods that were passed
    over."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.left_out = 0
        self._jump = -1
        self._seen: dict[tuple[int, int], tuple[int, int]] = {}

    def again(self, core: CoreTimer, record: int, end: int) -> Again | None:
        """Return what comes again, if the way is at a record that it came through some periods
        later, and could go on like that for several more. `end` is that of the record now: the
        first time it came to it from elsewhere."""
        place, period, repeat = core.at(record)
        jump = repeat.jump if repeat is not None else -1
        if repeat is None or jump != self._jump:
            self._forget(jump)
            if repeat is None:
                return None
        known = self._seen.get((core.index, place))
        self._seen[core.index, place] = period, len(self.items)
        if known is None or known[0] <= period:
            return None
        lag, items = known[0] - period, self.items[known[1] :]
        cycles = {lag * _moved(item) for item in items}
        times = min(item.core.at(item.record)[1] for item in items) // lag - 1
        if len(cycles) > 1 or times < 1:
            return None
        (back,) = cycles
        self._forget(jump)
        self.left_out = times * lag * repeat.length
        first = [item._replace(start=item.start - back, end=item.end - back) for item in items]
        first[0] = first[0]._replace(end=end)
        return Again(first, times, back)

    def _forget(self, jump: int) -> None:
        self._jump = jump
        self._seen.clear()
        self.items.clear()


def _moved(item: Item) -> int:
    """By how many cycles the start of a record moves in a period."""
    place, _, repeat = item.core.at(item.record)
    return repeat.starts[place - repeat.place] if repeat is not None else 0


def _last(model: TimingModel) -> tuple[int, int] | None:
    best: tuple[int, int, int] | None = None
    for core in model.cores:
        for pipe, record in enumerate(core.done_record):
            if record >= 0 and (best is None or core.done[pipe] > best[0]):
                best = (core.done[pipe], core.index, record)
    return best[1:] if best is not None else None


def _place(item: Item) -> tuple[str, str, int, str]:
    step = item.core.step(item.record)
    return item.core.name, PIPES[step.pipe], step.site.line, step.site.mnemonic


def _add(parts: list[PathPart], one: tuple[Item, int]) -> None:
    item, count = one
    core, pipe, line, mnemonic = _place(item)
    last = parts[-1] if parts else None
    if last is not None and (last.core, last.pipe, last.line, last.op) == _place(item):
        last.start = item.start
        last.count += count
        return
    parts.append(PathPart(core, pipe, mnemonic, line, count, item.start, item.end))
