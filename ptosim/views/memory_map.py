"""The memory map: in a terminal a line for each tile, time from left to right; on a page pictures
of each memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.records import dataclass
from ptosim.ground.words import few
from ptosim.launch.analysis.memory_map import Buffer, MemoryMap, SpaceMap
from ptosim.views.charts.chart import Chart
from ptosim.views.charts.lanes import Lane, Lanes, Span, room_of
from ptosim.views.charts.marks import SERIES, Axis, Box, Boxes, Line, Mark, Point, Points, Rule
from ptosim.views.report import Lines, Part, Report, Room, Section
from ptosim.views.table import Text, bytes_text, number, table

# A memory over time as pictures: bytes in use below its limits, a lane for each tile, and who is at
# which address.

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
    for place, (value, words) in enumerate(sorted(joined.items())):
        name = f"{' and '.join(words)} {bytes_text(value)} ({_headroom(value - most)})"
        marks.append(Rule(name, value, dash=("6 3", "2 3", "")[place]))
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
    for index, buffer in enumerate(found.buffers):
        told = _tooltip(buffer)
        spans = [
            Span(
                *clock.span(max(start, 1), min(end, found.steps)),
                told,
                index % SERIES,
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
            f"{_tooltip(buffer)}; steps {start} to {end}", index % SERIES)
        for index, buffer in enumerate(found.buffers)
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


NARROW, COLUMNS = 16, 32
"""Characters of the time axis, at least and at most."""
_OTHERS = 39
"""Characters that addresses, size and line take, with what is between columns."""
BIGGEST = 5
KINDS = {
    "same": "two names of the same bytes",
    "reuse": "share bytes, never in use together",
    "overlap": "share bytes and are IN USE TOGETHER",
}
_STYLES = {"same": "", "reuse": "green", "overlap": "bold red"}


def map_report(
    found: MemoryMap, fields: dict[str, object], head: str, broken: Sequence[Diagnostic] = ()
) -> Report:
    """Return the report; `fields` and `head` are the choices that it holds for, `broken` what the
    entry requires that they break."""
    told = {"findings": [each.to_dict() for each in broken]} if broken else {}
    return Report(
        [Section("", lambda room: _renderables(found, room))],
        lambda: {**fields, **found.to_dict(), **told},
        aside=broken,
        page=lambda: _page(found),
        title=f"Memory map of @{found.entry} on {found.target} ({found.chip})",
        heads=[head],
    )


def _renderables(found: MemoryMap, room: Room) -> list[Part]:
    """The time axis takes what the other columns leave to it."""
    parts: list[Part] = [Text(f"times from {found.source}")]
    for space in found.spaces:
        parts += _space(space, room.width)
    if not found.spaces:
        parts.append(Text("no tiles on chip"))
    return parts


def _space(found: SpaceMap, width: int) -> list[Part]:
    space = found.space
    title = (
        f"\n{space.alias} ({space.name}): high-water mark {found.high_water:,} of {space.bytes:,} "
        f"bytes ({found.high_water / space.bytes:.1%}); limits: safe {space.safe:,}, "
        f"planner {space.planner:,}"
    )
    parts: list[Part] = [Text(title, style="bold")]
    time = f"in use, steps 1 to {found.steps}"
    names = max((len(b.name) for b in found.buffers), default=0)
    columns = min(max(width - names - _OTHERS, NARROW), COLUMNS)
    rows = [
        (f"{b.addr:#07x}-{b.end - 1:#07x}", b.bytes, b.name, b.line, bar(b, found.steps, columns))
        for b in found.buffers
    ]
    essential = ("bytes", "size", "line", time)
    parts.append(
        table("", ("bytes", number("size", ","), "tile", ">line", time), rows, essential=essential)
    )
    step, live, users = found.peak()
    named = few([f"{b.name} {b.bytes:,} (line {b.line})" for b in users], BIGGEST)
    parts.append(Text(f"peak at step {step}: {live:,} bytes in use: {named or 'nothing'}"))
    parts += [
        Text(f"{a.name} and {b.name}: {KINDS[k]}", style=_STYLES[k]) for a, b, k in found.overlaps()
    ]
    parts += [Text(line, style="bold red") for line in found.advice()]
    return parts


def bar(buffer: Buffer, steps: int, columns: int = COLUMNS) -> str:
    """Return the time axis of a buffer: full blocks where it is in use."""
    cells = [" "] * columns
    for start, end in buffer.live:
        first = (max(start, 1) - 1) * columns // max(steps, 1)
        last = max((min(end, steps) * columns - 1) // max(steps, 1), first)
        for cell in range(first, min(last, columns - 1) + 1):
            cells[cell] = "█"
    return "".join(cells).replace(" ", "·")


# -- the page --------------------------------------------------------------------------------------


def _page(found: MemoryMap) -> Iterator[Section]:
    first = [Text(f"times from {found.source}; a step is an operation of the first core")]
    none = [] if found.spaces else [Text("no tiles on chip")]
    yield Section("", [*first, *none])
    for space in found.spaces:
        yield space_section(space, space.steps)


def space_section(found: SpaceMap, steps: int) -> Section:
    """Return the section of a page on one memory."""
    from ptosim.views.memory_map import step_clock

    space = found.space
    sizes = f"{bytes_text(found.high_water)} of {bytes_text(space.bytes)}"
    parts = _pictures(found, step_clock(steps))
    return Section(f"{space.alias} ({space.name}): {sizes}", parts)


def _pictures(found: SpaceMap, clock: Clock) -> list[Part]:
    from ptosim.views.memory_map import addresses, level, tile_lanes

    space = found.space
    step, live, users = found.peak()
    told = (
        f"high-water mark {found.high_water:,} of {space.bytes:,} bytes "
        f"({found.high_water / space.bytes:.1%}); safe {space.safe:,}, planner {space.planner:,}; "
        f"most in use at once: {live:,} bytes"
    )
    rows = [(b.name, b.bytes, f"{b.addr:#x}", b.line) for b in users]
    columns = ("tile", number("bytes", ","), ">address", ">line")
    pairs: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for one, two, kind in found.overlaps():
        pairs[kind].append(f"{one.name} and {two.name}: {KINDS[kind]}")
    return [
        Text(told),
        *(Text(line, "red") for line in found.advice()),
        level(found, clock),
        tile_lanes(found, clock),
        addresses(found, clock),
        table(f"in use at the peak, step {step}", columns, rows),
        *(Text(f"✗ {line}", "red") for line in pairs["overlap"]),
        Lines([*pairs["same"], *pairs["reuse"]]),
    ]
