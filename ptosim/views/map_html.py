"""The memory map as one HTML page."""

from __future__ import annotations

from ptosim.launch.analysis.memory_map import MemoryMap, SpaceMap
from ptosim.views.charts.axis import bytes_text
from ptosim.views.charts.page import html_table, items, page, paragraph, section
from ptosim.views.map_text import KINDS
from ptosim.views.memory_charts import Clock, addresses, level, step_clock, tile_lanes


def map_page(found: MemoryMap, header: str) -> str:
    """Return the whole page."""
    title = f"Memory map of @{found.entry} on {found.target} ({found.chip})"
    parts = [paragraph(f"times from {found.source}; a step is an operation of the first core")]
    parts += [space_section(s, step_clock(s.steps)) for s in found.spaces]
    if not found.spaces:
        parts.append(paragraph("no tiles on chip"))
    return page(title, parts, head=header)


def space_section(found: SpaceMap, clock: Clock, group: str = "") -> str:
    """Return the part of a page on one memory; with `group` its lanes move with others."""
    space = found.space
    step, live, users = found.peak()
    share = found.high_water / space.bytes
    told = (
        f"high-water mark {found.high_water:,} of {space.bytes:,} bytes ({share:.1%}); safe "
        f"{space.safe:,}, planner {space.planner:,}; most in use at once: {live:,} bytes"
    )
    rows = [(b.name, f"{b.bytes:,}", f"{b.addr:#x}", b.line) for b in users]
    return section(
        f"{space.alias} ({space.name}): {bytes_text(found.high_water)} of "
        f"{bytes_text(space.bytes)}",
        paragraph(told),
        *(paragraph(line, "bad") for line in found.advice()),
        level(found, clock),
        tile_lanes(found, clock, group),
        addresses(found, clock),
        html_table(
            ("tile", ">bytes", ">address", ">line"), rows,
            title=f"in use at the peak, step {step}",
        ),
        _pairs(found),
    )  # fmt: skip


def _pairs(found: SpaceMap) -> str:
    told: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for one, two, kind in found.overlaps():
        told[kind].append(f"{one.name} and {two.name}: {KINDS[kind]}")
    wrong = "".join(paragraph(f"✗ {line}", "bad") for line in told["overlap"])
    return wrong + items([*told["same"], *told["reuse"]])
