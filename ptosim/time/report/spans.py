"""When each operation of a core has its pipe, periods that repeat written out as far as that can be
seen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from ptosim.ground.records import NamedTuple
from ptosim.time.pipes.records import Records, Times
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
    for place, times in core.times():
        first = Busy(core.steps[place], core.starts[place], ends[place])
        found += _written(first, times, whole=total <= MOST)
    return sorted(found, key=lambda b: (b.start, b.end))


def _written(first: Busy, times: Times, *, whole: bool) -> Iterator[Busy]:
    if times and not whole:
        last = first.end + sum(more * moved for more, moved in times)
        yield first._replace(end=last, times=prod(more + 1 for more, _ in times))
        return
    for numbers in product(*(range(more + 1) for more, _ in times)):
        by = sum(number * moved for number, (_, moved) in zip(numbers, times, strict=True))
        yield first._replace(start=first.start + by, end=first.end + by)
