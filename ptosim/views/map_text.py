"""The memory map in a terminal: a line for each tile, time from left to right."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ptosim.analysis.memory_map import Buffer, MemoryMap, SpaceMap

COLUMNS = 32
"""Characters of the time axis."""
BIGGEST = 5
KINDS = {
    "same": "two names of the same bytes",
    "reuse": "share bytes, never in use together",
    "overlap": "share bytes and are IN USE TOGETHER",
}
_STYLES = {"same": "", "reuse": "green", "overlap": "bold red"}


def renderables(found: MemoryMap) -> list[Any]:
    """Return the map as rich renderables."""
    parts: list[Any] = [Text(f"times from {found.source}")]
    for space in found.spaces:
        parts += _space(space)
    if not found.spaces:
        parts.append(Text("no tiles on chip"))
    return parts


def _space(found: SpaceMap) -> list[Any]:
    space = found.space
    share = 100 * found.high_water / space.bytes
    title = (
        f"\n{space.alias} ({space.name}): high-water mark {found.high_water} of {space.bytes} "
        f"bytes ({share:.1f} %); limits: safe {space.safe}, planner {space.planner}"
    )
    parts: list[Any] = [Text(title, style="bold")]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, justify in (
        ("bytes", "left"),
        ("size", "right"),
        ("tile", "left"),
        ("line", "right"),
    ):
        table.add_column(name, justify=justify, no_wrap=name != "tile")  # type: ignore[arg-type]
    table.add_column(f"in use, steps 1 to {found.steps}", no_wrap=True)
    for buffer in found.buffers:
        place = f"{buffer.addr:#07x}-{buffer.end - 1:#07x}"
        row = (place, str(buffer.bytes), buffer.name, str(buffer.line), bar(buffer, found.steps))
        table.add_row(*row)
    parts.append(table)
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
