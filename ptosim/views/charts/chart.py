"""The frame of a chart: ticks, titles of the axes, grid, legend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ptosim.views.charts import labels
from ptosim.views.charts.axis import Axis, Tick
from ptosim.views.charts.marks import SIDE, Key, Mark, Points

HEIGHT = 240
"""Pixels of a picture, unless it is asked for others."""
_CHARACTER = 0.62
"""Width of a character of a tick, in ems of its font."""


def chart(
    title: str, x: Axis, y: Axis, marks: Sequence[Mark], *,
    height: int = HEIGHT, room: float = 0, note: str = "",
) -> str:  # fmt: skip
    """Return a figure: marks on two axes. `room` are ems left of the picture, at least, so that
    figures below each other begin at one line; `note` is said below."""
    drawn = [mark.draw(x, y) for mark in marks]
    across, up = x.ticks(), y.ticks(max(height // 32, 2))
    texts, crowded = _point_labels(marks, x, y, height)
    shapes = _grid(across, up) + "".join(d.svg for d in drawn)
    over = "".join(d.html for d in drawn) + texts
    room = max(room, max((len(t.text) for t in up), default=0) * _CHARACTER + 0.6)
    keys = [*(key for d in drawn for key in d.keys), *crowded]
    return (
        f'<figure class="chart" style="--room:{room:.1f}em;--high:{height}px">'
        f'<figcaption>{escape(title)}</figcaption><p class="axis">{escape(y.title)}</p>'
        f'<div class="plot"><div class="up">{tick_labels(up, "bottom")}</div><div class="area">'
        f'<svg viewBox="0 0 {SIDE} {SIDE}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(title)}">{shapes}</svg>{over}</div>'
        f'<div class="across">{tick_labels(across, "left")}</div></div>'
        f'<p class="axis x">{escape(x.title)}</p>{legend(keys)}{said(note)}</figure>\n'
    )


def said(note: str) -> str:
    """Return a remark below a figure."""
    return f'<p class="note">{escape(note)}</p>' if note else ""


def legend(keys: Iterable[Key]) -> str:
    """Return the legend of signs; a key without sign is the scale of a heat map."""
    entries = "".join(
        f'<li><i class="ramp"></i>{escape(key.text)}</li>'
        if not key.sign
        else f'<li><i style="color:{key.colour}">{key.sign}</i>{escape(key.text)}</li>'
        for key in keys
    )
    return f'<ul class="legend">{entries}</ul>' if entries else ""


def tick_labels(ticks: Sequence[Tick], side: str) -> str:
    """Return the labels of an axis; those at its ends stay within it."""
    found = []
    for tick in ticks:
        end = " first" if tick.at < 0.02 else " last" if tick.at > 0.98 else ""
        kind = f"tick{end}{' minor' if tick.minor else ''}"
        found.append(
            f'<span class="{kind}" style="{side}:{100 * tick.at:.2f}%">{escape(tick.text)}</span>'
        )
    return "".join(found)


def _grid(across: Sequence[Tick], up: Sequence[Tick]) -> str:
    lines = [f"M{t.at * SIDE:.1f} 0V{SIDE}" for t in across]
    lines += [f"M0 {(1 - t.at) * SIDE:.1f}H{SIDE}" for t in up]
    return f'<path class="grid" d="{"".join(lines)}"/>'


def _point_labels(marks: Sequence[Mark], x: Axis, y: Axis, height: int) -> tuple[str, list[Key]]:
    """The labels of points, and the keys of those that are numbers."""
    points = [
        (x.place(p.x), y.place(p.y), p.label)
        for mark in marks
        if isinstance(mark, Points)
        for p in mark.points
    ]
    placed, crowded = labels.place(points, height)
    html = "".join(
        f'<b class="label" style="left:calc({100 * p.x:.2f}% + {p.right:.1f}px);'
        f'bottom:calc({100 * p.y:.2f}% + {p.up:.1f}px)">{escape(p.text)}</b>'
        for p in placed
    )
    return html, [Key(number, "var(--ink)", text) for number, text in crowded]
