"""The critical path: the chain of operations that the makespan consists of."""

from __future__ import annotations

from dataclasses import dataclass

from ptosim.timing.model import CoreTimer, TimingModel, cause_of
from ptosim.timing.steps import PIPES

MAX_PARTS = 1_000_000
"""Operations that are followed back."""


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


def critical_path(model: TimingModel) -> list[PathPart]:
    """Return the path back from the operation that is done last, in the order of time.

    Every operation counts from its start to the start of the next one on the path, the last to its
    end; the time before the first is the scalar unit's."""
    parts: list[PathPart] = []
    place = _last(model)
    end = model.makespan
    for _ in range(MAX_PARTS):
        if place is None:
            break
        core, record = model.cores[place[0]], place[1]
        start = core.starts[record]
        _add(parts, core, record, start, end)
        end = start
        place = cause_of(core.causes[record], core.index)
        if place is not None and model.cores[place[0]].starts[place[1]] > end:
            break
    if end > 0:
        parts.append(PathPart("", "S", "scalar unit", 0, 1, 0, end))
    return parts[::-1]


def _last(model: TimingModel) -> tuple[int, int] | None:
    best: tuple[int, int, int] | None = None
    for core in model.cores:
        for pipe, record in enumerate(core.done_record):
            if record >= 0 and (best is None or core.done[pipe] > best[0]):
                best = (core.done[pipe], core.index, record)
    return best[1:] if best is not None else None


def _add(parts: list[PathPart], core: CoreTimer, record: int, start: int, end: int) -> None:
    step = core.steps[record]
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
