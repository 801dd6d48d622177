"""The critical path: the chain of operations that the makespan consists of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.records import NamedTuple, dataclass
from ptosim.time.laws.cost import SHARED
from ptosim.time.pipes.model import TimingModel
from ptosim.time.pipes.records import Path, Repeat, cause_of
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
    """What the executions of one instruction contribute to the path: how many, and cycles; of
    them `shared` because cores share bandwidth."""

    op: str
    line: int
    pipe: str
    count: int
    cycles: int
    shared: int = 0


class Item(NamedTuple):
    """A record of the path: its core, its number, its start, and the start of the one after it."""

    core: CoreTimer
    record: int
    start: int
    end: int


class Again(NamedTuple):
    """A stretch of the path, from the last record back, that comes so many times, each so many
    cycles before the one after it. Parts of it may themselves come several times."""

    parts: Sequence[Item | Again]
    times: int
    cycles: int


def critical_path(model: TimingModel) -> list[PathPart]:
    """Return the path back from the operation that is done last, in the order of time.

    Every operation counts from its start to the start of the next one on the path, the last to its
    end; the time before the first is the scalar unit's. What is before the last `MAX_PARTS` parts
    is one part, "earlier operations"."""
    parts: list[PathPart] = []
    count, first = 0, model.makespan
    for again in walk(model):
        listed = 0
        for one in _each(again, 0):
            if len(parts) >= MAX_PARTS:
                count += _records(again) - listed
                break
            listed += one[1]
            _add(parts, one)
            count, first = 0, one[0].start
    if count:
        parts.append(PathPart("", "", "earlier operations", 0, count, 0, first))
    elif first > 0:
        parts.append(PathPart("", "S", "scalar unit", 0, 1, 0, first))
    return parts[::-1]


def _each(part: Item | Again, back: int) -> Iterator[tuple[Item, int]]:
    """Yield the records of a part, so many cycles earlier, each with how many of it there are: one,
    or all of a stretch if they are executions of one instruction."""
    if isinstance(part, Item):
        yield part._replace(start=part.start - back, end=part.end - back), 1
        return
    items = [item for item, _ in leaves(part, 1)]
    if len({_place(item) for item in items}) == 1:
        start, end = start_of(part) - back, items[0].end - back
        yield items[0]._replace(start=start, end=end), _records(part)
        return
    for number in range(part.times):
        for inner in part.parts:
            yield from _each(inner, back + number * part.cycles)


def leaves(part: Item | Again, times: int) -> Iterator[tuple[Item, int]]:
    """Yield the records of a part, with how often each comes."""
    if isinstance(part, Item):
        yield part, times
        return
    for inner in part.parts:
        yield from leaves(inner, times * part.times)


def _records(part: Item | Again) -> int:
    return sum(times for _, times in leaves(part, 1))


def start_of(part: Item | Again) -> int:
    """When the earliest record of a part started."""
    if isinstance(part, Item):
        return part.start
    return start_of(part.parts[-1]) - part.cycles * (part.times - 1)


def path_shares(model: TimingModel) -> list[PathShare]:
    """Return the whole path joined by instruction and pipe, dearest first."""
    shares: dict[tuple[str, int, int], PathShare] = {}
    first = model.makespan
    for again in walk(model):
        for (core, record, start, end), times in leaves(again, 1):
            step = core.step(record)
            key = step.site.mnemonic, step.site.line, step.pipe
            share = shares.get(key)
            if share is None:
                share = shares[key] = PathShare(key[0], key[1], PIPES[step.pipe], 0, 0)
            share.count += times
            share.cycles += (end - start) * times
            share.shared += _waited(core, record, end - start) * times
        first = start_of(again)
    found = list(shares.values())
    if first > 0:
        found.append(PathShare("scalar unit", 0, "S", 1, first))
    return sorted(found, key=lambda share: -share.cycles)


def _waited(core: CoreTimer, record: int, cycles: int) -> int:
    """How many cycles of a transfer on the path are those that it takes longer as others transfer
    at the same time."""
    step = core.step(record)
    cost = step.cost
    if cost.moved is None:
        return 0
    from_hbm = sum(stage.cycles for stage in cost.stages if stage.name in SHARED)
    return min(round(from_hbm) + core.end(record) - core.start(record) - cost.busy, cycles)


def walk(model: TimingModel) -> Iterator[Again]:
    """Yield the records of the path from the last one on; where it goes through periods that
    repeat, those that it goes through in the same way at once."""
    place = _last(model)
    end = model.makespan
    trail = _Trail()
    while place is not None:
        core, record = model.cores[place[0]], place[1]
        while (again := trail.again(core, record, end)) is not None:
            yield again
            record -= trail.left_out
            end -= again.cycles * again.times
        start = core.start(record)
        item = Item(core, record, start, end)
        trail.add(item)
        yield Again((item,), 1, 0)
        end = start
        place = cause_of(core.cause(record), core.index)
        if place is not None and model.cores[place[0]].start(place[1]) > end:
            return


class _Level:
    """Repeats that the way back is in: which ones and, of those around the innermost, in which
    periods; what it went through since, and where it came through each record."""

    def __init__(self, inside: tuple[int, ...]) -> None:
        self.inside = inside
        self.parts: list[Item | Again] = []
        self.seen: dict[tuple[int, ...], tuple[int, int]] = {}


class _Trail:
    """The way back through the periods that repeat: where it came through the same record before.
    `left_out` is by how much the number of a record is lower after periods that were passed
    over."""

    def __init__(self) -> None:
        self.left_out = 0
        self._levels: list[_Level] = []

    def add(self, part: Item | Again) -> None:
        """The way goes through a part."""
        for level in self._levels:
            level.parts.append(part)

    def again(self, core: CoreTimer, record: int, end: int) -> Again | None:
        """Return what comes again, if the way is at a record that it came through some periods
        later, and could go on like that for several more; of repeats in one another first of the
        innermost. `end` is that of the record now: the first time it came to it from elsewhere."""
        place, path = core.at(record)
        self._enter(path)
        for depth in range(len(path) - 1, -1, -1):
            key = (core.index, place, *(period for _, period in path[depth + 1 :]))
            again = self._again(depth, path[depth], key, end)
            if again is not None:
                del self._levels[depth:]
                self.add(again)
                self._enter(path)
                return again
        return None

    def _enter(self, path: Path) -> None:
        """The way is in these repeats: forget what it went through in others."""
        inside: tuple[int, ...] = ()
        for depth, (repeat, period) in enumerate(path):
            inside = (*inside, repeat.jump)
            if depth < len(self._levels) and self._levels[depth].inside != inside:
                del self._levels[depth:]
            if depth == len(self._levels):
                self._levels.append(_Level(inside))
            inside = (*inside, period)
        del self._levels[len(path) :]

    def _again(
        self, depth: int, where: tuple[Repeat, int], key: tuple[int, ...], end: int
    ) -> Again | None:
        level, (repeat, period) = self._levels[depth], where
        known = level.seen.get(key)
        level.seen[key] = period, len(level.parts)
        if known is None or known[0] <= period:
            return None
        lag, parts = known[0] - period, level.parts[known[1] :]
        items = [item for part in parts for item, _ in leaves(part, 1)]
        cycles = {lag * _moved(item, depth) for item in items}
        times = min(item.core.at(item.record)[1][depth][1] for item in items) // lag - 1
        if len(cycles) > 1 or times < 1:
            return None
        (back,) = cycles
        if not isinstance(parts[0], Item) and items[0].end - back != end:
            return None
        self.left_out = times * lag * repeat.length
        first = [_earlier(part, back) for part in parts]
        if isinstance(first[0], Item):
            first[0] = first[0]._replace(end=end)
        return Again(first, times, back)


def _earlier(part: Item | Again, back: int) -> Item | Again:
    """A part so many cycles earlier."""
    if isinstance(part, Item):
        return part._replace(start=part.start - back, end=part.end - back)
    return part._replace(parts=[_earlier(inner, back) for inner in part.parts])


def _moved(item: Item, depth: int) -> int:
    """By how many cycles the start of a record moves in a period of a repeat that it is in."""
    place, path = item.core.at(item.record)
    return path[depth][0].moved(place) if depth < len(path) else 0


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
