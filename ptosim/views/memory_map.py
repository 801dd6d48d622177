"""The memory map: in a terminal a line for each tile, time from left to right; on a page pictures
of each memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.launch.analysis.memory_map import Buffer, MemoryMap, SpaceMap
from ptosim.views.report import Lines, Part, Report, Room, Section
from ptosim.views.table import bytes_text, number, table
from ptosim.views.text import Text

if TYPE_CHECKING:
    from ptosim.views.memory_charts import Clock

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
    named = ", ".join(f"{b.name} {b.bytes:,} (line {b.line})" for b in users[:BIGGEST])
    more = f" and {len(users) - BIGGEST} more" if len(users) > BIGGEST else ""
    parts.append(Text(f"peak at step {step}: {live:,} bytes in use: {named or 'nothing'}{more}"))
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
    from ptosim.views.memory_charts import step_clock

    space = found.space
    sizes = f"{bytes_text(found.high_water)} of {bytes_text(space.bytes)}"
    parts = _pictures(found, step_clock(steps))
    return Section(f"{space.alias} ({space.name}): {sizes}", parts)


def _pictures(found: SpaceMap, clock: Clock) -> list[Part]:
    from ptosim.views.memory_charts import addresses, level, tile_lanes

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
