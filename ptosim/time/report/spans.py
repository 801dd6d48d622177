"""When each operation of a core has its pipe, periods that repeat written out as far as that can be
seen."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.records import NamedTuple
from ptosim.time.pipes.records import Records
from ptosim.time.pipes.steps import Step

MOST = 20_000
"""Operations of a core that are listed; periods beyond that are one span."""


class Busy(NamedTuple):
    """An operation, from when to when it has its pipe, and how often (of more than one: from the
    first to the last)."""

    step: Step
    start: int
    end: int
    times: int = 1


def busy_spans(core: Records) -> list[Busy]:
    """Return the operations of a core in the order of their starts."""
    total = len(core.steps) + core.skipped
    found: list[Busy] = []
    ends = core.ends
    for place, more, moved in _places(core):
        first = Busy(core.steps[place], core.starts[place], ends[place])
        found += _written(first, more, moved, whole=total <= MOST)
    return sorted(found, key=lambda b: (b.start, b.end))


def _places(core: Records) -> Iterator[tuple[int, int, int]]:
    """The kept operations: place, how many further times, after how many cycles each."""
    known = 0
    for repeat in core.repeats:
        yield from ((place, 0, 0) for place in range(known, repeat.place))
        known = repeat.place + repeat.length
        for place in range(repeat.place, known):
            yield place, repeat.count, repeat.starts[place - repeat.place]
    yield from ((place, 0, 0) for place in range(known, len(core.steps)))


def _written(first: Busy, more: int, moved: int, *, whole: bool) -> Iterator[Busy]:
    if more and not whole:
        yield first._replace(end=first.end + more * moved, times=more + 1)
        return
    for number in range(more + 1):
        by = number * moved
        yield first._replace(start=first.start + by, end=first.end + by)
