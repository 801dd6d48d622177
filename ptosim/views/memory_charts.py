"""A memory over time as pictures: bytes in use below its limits, a lane for each tile, and who is
at which address."""

from __future__ import annotations

from collections.abc import Callable

from ptosim.ground.records import dataclass
from ptosim.launch.analysis.memory_map import Buffer, SpaceMap
from ptosim.views.charts.chart import Chart
from ptosim.views.charts.lanes import Lane, Lanes, Span, room_of
from ptosim.views.charts.marks import SERIES, Axis, Box, Boxes, Line, Mark, Point, Points, Rule
from ptosim.views.table import bytes_text

_ADDRESS = 5.0
"""Ems of an address as a tick."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The axis of time of a map: its label, its ends, and when a step begins. Without another one
    a step is a unit of time."""

    axis: Axis
    begins: Callable[[int], float]

    def span(self, start: int, end: int) -> tuple[float, float]:
        """Return from when to when steps `start` to `end` last."""
        return self.begins(start), self.begins(end + 1)


def step_clock(steps: int) -> Clock:
    """Return the clock that counts steps, from 1 on."""
    return Clock(Axis("step", 1, max(steps, 1) + 1, "steps"), float)


def level(found: SpaceMap, clock: Clock) -> Chart:
    """Return bytes in use over time, with the limits, what is left below them, and the peak."""
    step, most, _ = found.peak()
    marks: list[Mark] = [Line("bytes in use", _levels(found, clock), stepped=True, fill=True)]
    limits = {"safe limit": found.space.safe, "planner's limit": found.space.planner,
              "size of the memory": found.space.bytes}  # fmt: skip
    joined: dict[int, list[str]] = {}
    for word, value in limits.items():
        joined.setdefault(value, []).append(word)
    for number, (value, words) in enumerate(sorted(joined.items())):
        name = f"{' and '.join(words)} {bytes_text(value)} ({_headroom(value - most)})"
        marks.append(Rule(name, value, dash=("6 3", "2 3", "")[number]))
    at, word = clock.begins(step), clock.axis.unit.removesuffix("s")
    told = f"peak {bytes_text(most)} ({most:,} bytes) at {word} {at:,.0f}"
    marks.append(Points(told, [Point(at, most, told)], series=1, glyph="▼"))
    top = max(*limits.values(), found.high_water) * 1.04
    title = f"{found.space.alias}: bytes in use"
    y = Axis("bytes in use", 0, top, "bytes")
    return Chart(title, clock.axis, y, marks, height=190, room=_room(found))


def _headroom(left: int) -> str:
    return f"{bytes_text(left)} left" if left >= 0 else f"{bytes_text(-left)} TOO MUCH"


def _levels(found: SpaceMap, clock: Clock) -> list[tuple[float, float]]:
    """The bytes in use from each step on at which that changes."""
    levels = [(step, float(size)) for step, size in found.levels() if step <= found.steps]
    first = [(1, 0.0)] if not levels or levels[0][0] > 1 else []
    last = levels[-1][1] if levels and found.levels()[-1][0] > found.steps else 0.0
    return [(clock.begins(s), size) for s, size in [*first, *levels, (found.steps + 1, last)]]


def tile_lanes(found: SpaceMap, clock: Clock, group: str = "", program: str = "") -> Lanes:
    """Return a lane for each tile: when it holds something that is still read."""
    rows = []
    for number, buffer in enumerate(found.buffers):
        told = _tooltip(buffer)
        spans = [
            Span(
                *clock.span(max(start, 1), min(end, found.steps)),
                told,
                number % SERIES,
                buffer.line,
            )
            for start, end in buffer.live
        ]
        rows.append(Lane(_name(buffer), spans, told))
    title = f"{found.space.alias}: when each tile is in use"
    return Lanes(title, clock.axis, rows, group=group, room=_room(found), program=program)


def addresses(found: SpaceMap, clock: Clock) -> Chart:
    """Return the tiles as boxes: time to the right, addresses up."""
    boxes = [
        Box(*clock.span(max(start, 1), min(end, found.steps)), buffer.addr, buffer.end,
            f"{_tooltip(buffer)}; steps {start} to {end}", number % SERIES)
        for number, buffer in enumerate(found.buffers)
        for start, end in buffer.live
    ]  # fmt: skip
    title = f"{found.space.alias}: which bytes (colours as above)"
    y = Axis("address", 0, max(found.high_water, 1), "bytes")
    return Chart(title, clock.axis, y, [Boxes(boxes)], room=_room(found))


def _name(buffer: Buffer) -> str:
    return f"{buffer.name} {bytes_text(buffer.bytes)}"


def _room(found: SpaceMap) -> float:
    """Ems left of the pictures of a memory, which are below each other: those of the longest name,
    and of an address."""
    return max(room_of([_name(b) for b in found.buffers]), _ADDRESS)


def _tooltip(buffer: Buffer) -> str:
    return (
        f"{buffer.name}: {buffer.bytes:,} bytes, {buffer.addr:#x} to {buffer.end - 1:#x}, line "
        f"{buffer.line}"
    )
