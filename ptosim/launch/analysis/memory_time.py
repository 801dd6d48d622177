"""The memory map over cycles: when tiles are in use in a launch that was timed."""

from __future__ import annotations

from ptosim.ground.records import replace
from ptosim.launch.analysis.memory_map import Buffer, MemoryMap, SpaceMap, Span
from ptosim.time.report.totals import CostReport
from ptosim.time.report.trace import Place, lifetimes


def in_cycles(found: MemoryMap, report: CostReport) -> MemoryMap:
    """Return the map with cycles in the place of steps (cycle c is step c + 1): those of the core
    that uses each memory first. Spaces whose tiles no timed operation names keep no times."""
    spaces = [_space(space, report) for space in found.spaces]
    return replace(found, source="the timed program", spaces=spaces)


def _space(found: SpaceMap, report: CostReport) -> SpaceMap:
    buffers = [replace(buffer, live=[]) for buffer in found.buffers]
    for core in report.model.cores:
        of_core = [(p, s) for p, s in lifetimes(core).items() if p[0] == found.space.name]
        if not of_core:
            continue
        for place, spans in of_core:
            buffer = _around(place, buffers)
            if buffer is not None:
                buffer.live += [(start + 1, max(end, start + 1)) for start, end in spans]
        break
    for buffer in buffers:
        buffer.live = _united(buffer.live)
    return SpaceMap(found.space, buffers, max(report.span, 1))


def _around(place: Place, buffers: list[Buffer]) -> Buffer | None:
    """The smallest buffer that a place, a window perhaps, lies in."""
    _, low, high = place
    around = [b for b in buffers if b.addr <= low and high <= b.end]
    return min(around, key=lambda b: b.bytes, default=None)


def _united(spans: list[Span]) -> list[Span]:
    """Spans that meet as one, in order."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
