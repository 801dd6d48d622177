"""The memory map as one HTML file that needs nothing else: time to the right, addresses up."""

from __future__ import annotations

from html import escape

from ptosim.analysis.memory_map import Buffer, MemoryMap, SpaceMap
from ptosim.views.map_text import KINDS

WIDTH, HEIGHT, LEFT, TOP = 960, 360, 90, 16
_COLOURS = ("#4878cf", "#6acc65", "#d65f5f", "#b47cc7", "#c4ad66", "#77bedb", "#8c6d4f", "#e377c2")
_STYLE = """body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:1100px;padding:0 1em;
color:#222;background:#fff}table{border-collapse:collapse;margin:.5em 0}td,th{padding:.1em .8em;
text-align:left;border-bottom:1px solid #ddd}td.n{text-align:right;font-variant-numeric:
tabular-nums}svg{width:100%;height:auto;border:1px solid #ddd}
rect.t:hover{stroke:#000;stroke-width:1.5}
.bad{color:#b00020;font-weight:600}text{font:11px system-ui,sans-serif}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}svg text{fill:#ccc}
td,th{border-color:#444}.bad{color:#ff6b81}}"""


def page(found: MemoryMap, header: str) -> str:
    """Return the whole page."""
    title = f"Memory map of @{found.entry} on {found.target} ({found.chip})"
    body = "".join(_space(s) for s in found.spaces) or "<p>no tiles on chip</p>"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"<p>{escape(header)}<br>times from {escape(found.source)}; point at a tile for its "
        f"details</p>{body}</body></html>\n"
    )


def _space(found: SpaceMap) -> str:
    space = found.space
    step, live, users = found.peak()
    rows = "".join(
        f'<tr><td>{escape(b.name)}</td><td class="n">{b.bytes}</td><td class="n">{b.addr:#x}</td>'
        f'<td class="n">{b.line}</td></tr>'
        for b in users
    )
    told = "".join(f'<p class="bad">{escape(line)}</p>' for line in found.advice())
    pairs = "".join(_pair(*overlap) for overlap in found.overlaps())
    return (
        f"<h2>{escape(space.alias)} ({escape(space.name)})</h2><p>high-water mark "
        f"{found.high_water} of {space.bytes} bytes; safe {space.safe}, planner {space.planner}</p>"
        f"{_drawing(found)}{told}<p>In use at the peak, step {step}: {live} bytes</p><table><tr>"
        f"<th>tile</th><th>bytes</th><th>address</th><th>line</th></tr>{rows}</table>"
        f"<ul>{pairs}</ul>"
    )


def _pair(one: Buffer, two: Buffer, kind: str) -> str:
    style = ' class="bad"' if kind == "overlap" else ""
    return f"<li{style}>{escape(one.name)} and {escape(two.name)}: {KINDS[kind]}</li>"


def _drawing(found: SpaceMap) -> str:
    top = max(found.high_water, 1)
    limits = [
        (word, value)
        for word, value in (("safe", found.space.safe), ("physical", found.space.bytes))
        if value <= top * 1.5
    ]
    top = max([top, *(v for _, v in limits)])
    shapes = [_buffer(b, i, found.steps, top) for i, b in enumerate(found.buffers)]
    for word, value in limits:
        y = _y(value, top)
        shapes.append(
            f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#b00020" '
            f'stroke-dasharray="6 3"/><text x="4" y="{y + 4:.1f}">{word} {value}</text>'
        )
    shapes.append(f'<text x="4" y="{_y(0, top):.1f}">0x0</text>')
    shapes.append(f'<text x="{LEFT}" y="{TOP + HEIGHT + 16}">step 1</text>')
    shapes.append(
        f'<text x="{LEFT + WIDTH}" y="{TOP + HEIGHT + 16}" text-anchor="end">step {found.steps}'
        "</text>"
    )
    return (
        f'<svg viewBox="0 0 {LEFT + WIDTH + 10} {TOP + HEIGHT + 24}" role="img" '
        f'aria-label="{escape(found.space.alias)} over time">{"".join(shapes)}</svg>'
    )


def _buffer(buffer: Buffer, index: int, steps: int, top: int) -> str:
    colour = _COLOURS[index % len(_COLOURS)]
    y, height = _y(buffer.end, top), max(buffer.bytes * HEIGHT / top, 1)
    told = escape(
        f"{buffer.name}: bytes {buffer.addr:#x} to {buffer.end - 1:#x} ({buffer.bytes}), line "
        f"{buffer.line}"
    )
    parts = []
    for start, end in buffer.live:
        first = (max(start, 1) - 1) * WIDTH / max(steps, 1)
        width = max((min(end, steps) - max(start, 1) + 1) * WIDTH / max(steps, 1), 1)
        parts.append(
            f'<rect class="t" x="{LEFT + first:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" fill="{colour}" fill-opacity="0.65"><title>{told}; steps '
            f"{start} to {end}</title></rect>"
        )
    if buffer.live and height >= 12:
        first = (max(buffer.live[0][0], 1) - 1) * WIDTH / max(steps, 1)
        parts.append(
            f'<text x="{LEFT + first + 3:.1f}" y="{y + 12:.1f}">{escape(buffer.name)}</text>'
        )
    return "".join(parts)


def _y(address: int, top: int) -> float:
    return TOP + HEIGHT - address * HEIGHT / top
