"""The critical path: the chain of operations that the makespan consists of."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.records import dataclass
from ptosim.timing.pipes.model import TimingModel
from ptosim.timing.pipes.records import cause_of
from ptosim.timing.pipes.steps import PIPES
from ptosim.timing.pipes.timers import CoreTimer

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


def critical_path(model: TimingModel) -> list[PathPart]:
    """Return the path back from the operation that is done last, in the order of time.

    Every operation counts from its start to the start of the next one on the path, the last to its
    end; the time before the first is the scalar unit's. What is before the last `MAX_PARTS` parts
    is one part, "earlier operations"."""
    parts: list[PathPart] = []
    count, first = 0, model.makespan
    for core, record, start, end in walk(model):
        if len(parts) < MAX_PARTS:
            _add(parts, core, record, start, end)
            count, first = 0, start
        else:
            count += 1
    if count:
        parts.append(PathPart("", "", "earlier operations", 0, count, 0, first))
    elif first > 0:
        parts.append(PathPart("", "S", "scalar unit", 0, 1, 0, first))
    return parts[::-1]


def path_shares(model: TimingModel) -> list[PathShare]:
    """Return the whole path joined by instruction and pipe, dearest first."""
    shares: dict[tuple[str, int, int], PathShare] = {}
    first = model.makespan
    for core, record, start, end in walk(model):
        step = core.step(record)
        key = step.site.mnemonic, step.site.line, step.pipe
        share = shares.get(key)
        if share is None:
            share = shares[key] = PathShare(key[0], key[1], PIPES[step.pipe], 0, 0)
        share.count += 1
        share.cycles += end - start
        first = start
    found = list(shares.values())
    if first > 0:
        found.append(PathShare("scalar unit", 0, "S", 1, first))
    return sorted(found, key=lambda share: -share.cycles)


def walk(model: TimingModel) -> Iterator[tuple[CoreTimer, int, int, int]]:
    """Yield the records of the path from the last one on: core, record, start, and the start of the
    one after it."""
    place = _last(model)
    end = model.makespan
    while place is not None:
        core, record = model.cores[place[0]], place[1]
        start = core.start(record)
        yield core, record, start, end
        end = start
        place = cause_of(core.cause(record), core.index)
        if place is not None and model.cores[place[0]].start(place[1]) > end:
            return


def _last(model: TimingModel) -> tuple[int, int] | None:
    best: tuple[int, int, int] | None = None
    for core in model.cores:
        for pipe, record in enumerate(core.done_record):
            if record >= 0 and (best is None or core.done[pipe] > best[0]):
                best = (core.done[pipe], core.index, record)
    return best[1:] if best is not None else None


def _add(parts: list[PathPart], core: CoreTimer, record: int, start: int, end: int) -> None:
    step = core.step(record)
    site = step.site
    last = parts[-1] if parts else None
    pipe = PIPES[step.pipe]
    if last is not None and (last.core, last.pipe, last.line, last.op) == (
        core.name, pipe, site.line, site.mnemonic,
    ):  # fmt: skip
        last.start = start
        last.count += 1
        return
    parts.append(PathPart(core.name, pipe, site.mnemonic, site.line, 1, start, end))
