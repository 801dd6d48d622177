"""The memory map in a terminal: a line for each tile, time from left to right."""

from __future__ import annotations

from ptosim.launch.analysis.memory_map import Buffer, MemoryMap, SpaceMap
from ptosim.views.table import Part, table
from ptosim.views.text import Text

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


def renderables(found: MemoryMap, width: int) -> list[Part]:
    """Return the map as parts of a report; the time axis takes what `width` leaves to it."""
    parts: list[Part] = [Text(f"times from {found.source}")]
    for space in found.spaces:
        parts += _space(space, width)
    if not found.spaces:
        parts.append(Text("no tiles on chip"))
    return parts


def _space(found: SpaceMap, width: int) -> list[Part]:
    space = found.space
    share = 100 * found.high_water / space.bytes
    title = (
        f"\n{space.alias} ({space.name}): high-water mark {found.high_water} of {space.bytes} "
        f"bytes ({share:.1f} %); limits: safe {space.safe}, planner {space.planner}"
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
    parts.append(table("", ("bytes", ">size", "tile", ">line", time), rows, essential=essential))
    step, live, users = found.peak()
    named = ", ".join(f"{b.name} {b.bytes} (line {b.line})" for b in users[:BIGGEST])
    more = f" and {len(users) - BIGGEST} more" if len(users) > BIGGEST else ""
    parts.append(Text(f"peak at step {step}: {live} bytes in use: {named or 'nothing'}{more}"))
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
