"""Lanes: a row for each pipe or tile, spans from left to right over one axis of time.

A figure that can `zoom` carries its spans as data too, for the script of the page (`lanes.js`),
which moves all figures of the same `group` together; without scripts it is shown whole."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ptosim.ground.records import NamedTuple, dataclass
from ptosim.views.charts.chart import legend, said, tick_labels
from ptosim.views.charts.marks import Axis, Key, colour
from ptosim.views.text import line as json_line

_CHARACTER, _WIDEST = 0.52, 15.0
"""Ems of a character of a name, and of the longest name."""
MOST = 3000
"""Spans of a lane; of more, neighbours are drawn as one."""


class Span(NamedTuple):
    """From where to where, what is told of it, and its series.

    `line` is that of the program, `detail` the number of what is told of it when it is chosen,
    `after` the span that it starts after: the number of its lane (of those with spans), and its
    number there."""

    start: float
    end: float
    text: str
    series: int = 0
    line: int = 0
    detail: int = -1
    after: tuple[int, int] | None = None


class Lane(NamedTuple):
    """A row: its name, its spans, more on it. Without spans (None) it heads the rows below."""

    name: str
    spans: Sequence[Span] | None
    told: str = ""


@dataclass(frozen=True, slots=True)
class Lanes:
    """A row for each lane over the axis `x`; `keys` are the names of series. With `group` it can be
    zoomed and moved, with all figures of that name; lines are chosen together with the listing of
    that `program`. `details` are lists of lines. `room` as of a chart."""

    title: str
    x: Axis
    rows: Sequence[Lane]
    keys: Sequence[tuple[str, int]] = ()
    group: str = ""
    room: float = 0
    note: str = ""
    program: str = ""
    details: Sequence[Sequence[str]] = ()

    def to_html(self) -> str:
        """Return the figure."""
        x, rows, group = self.x, self.rows, self.group
        kept = _joined_rows(rows, x)
        room = max(self.room, room_of([row.name for row in rows if row.spans is not None]))
        zoom = f' data-group="{escape(group)}" data-low="{x.low:g}" data-high="{x.high:.12g}"'
        zoom += f' data-program="{escape(self.program)}"' if self.program else ""
        body = "".join(_row(row, x, alone=not group) for row in kept)
        signs = [Key("■", colour(series), name) for name, series in self.keys]
        return (
            f'<figure class="lanes" style="--room:{room:.1f}em"{zoom if group else ""}>'
            f"<figcaption>{escape(self.title)}</figcaption>{_TOOLS if group else ''}{body}"
            f'<div class="lane"><div class="across">{tick_labels(x.ticks(), "left")}</div></div>'
            f'<p class="axis x">{escape(x.title)}</p>{legend(signs)}{said(self.note)}'
            f"{_data(kept, self.details) if group else ''}</figure>\n"
        )


def room_of(names: Sequence[str]) -> float:
    """Return the ems that names of lanes take; longer ones are cut, and whole when pointed at."""
    return min(max(map(len, names), default=0) * _CHARACTER + 1, _WIDEST)


_TOOLS = (
    '<div class="tools" hidden>'
    '<button data-do="in" title="closer (+)">+</button>'
    '<button data-do="out" title="farther (-)">−</button>'  # noqa: RUF001
    '<button data-do="left" title="earlier (Shift and left)">◀</button>'
    '<button data-do="right" title="later (Shift and right)">▶</button>'
    '<button data-do="all" title="the whole (0)">all</button>'
    '<span class="told" aria-live="polite">point at a span, or go from span to span with the '
    "arrow keys; a click or Enter tells all of it; drag to move, Ctrl and the wheel to zoom</span>"
    '</div><div class="detail" hidden aria-live="polite"></div>'
)


def _row(row: Lane, x: Axis, *, alone: bool) -> str:
    name = f'<span class="name" title="{escape(row.told or row.name)}">{escape(row.name)}</span>'
    if row.spans is None:
        return f'<div class="lane group">{name}</div>'
    shapes = _each(row.spans) if alone else _by_series(row.spans)
    width = max(x.high - x.low, 1e-9)
    return (
        f'<div class="lane">{name}<div class="bar-of"><svg viewBox="{x.low:g} 0 {width:.12g} 1" '
        f'preserveAspectRatio="none" role="img" aria-label="{escape(row.name)}">{shapes}</svg>'
        "</div></div>"
    )


def _path(span: Span) -> str:
    return f"M{span.start:.12g} 0H{span.end:.12g}V1H{span.start:.12g}z"


def _each(spans: Sequence[Span]) -> str:
    """A shape for each span, with what is told of it."""
    return "".join(
        f'<path d="{_path(s)}" fill="{colour(s.series)}" stroke="{colour(s.series)}"><title>'
        f"{escape(s.text)}</title></path>"
        for s in spans
    )


def _by_series(spans: Sequence[Span]) -> str:
    """A shape for each series: what is told of a span is in the data of the figure."""
    paths: dict[int, list[str]] = {}
    for span in spans:
        paths.setdefault(span.series, []).append(_path(span))
    return "".join(
        f'<path d="{"".join(parts)}" fill="{colour(series)}" stroke="{colour(series)}"/>'
        for series, parts in sorted(paths.items())
    )


def _joined_rows(rows: Sequence[Lane], x: Axis) -> list[Lane]:
    """The lanes; of very many spans some are one, and then nothing says after which they start."""
    if max((len(row.spans or ()) for row in rows), default=0) <= MOST:
        return list(rows)
    return [row._replace(spans=_joined(row.spans, x)) if row.spans else row for row in rows]


def _joined(spans: Sequence[Span], x: Axis) -> Sequence[Span]:
    """The spans of a lane; of very many, neighbours with a gap that cannot be seen are one."""
    spans = [span._replace(after=None) for span in spans]
    if len(spans) <= MOST:
        return spans
    gap = (x.high - x.low) / MOST
    groups: list[list[Span]] = []
    for span in spans:
        last = groups[-1] if groups else None
        if last and span.start - last[-1].end < gap and span.end - last[0].start < 2 * gap:
            last.append(span)
        else:
            groups.append([span])
    return [_one(group) for group in groups]


def _one(group: list[Span]) -> Span:
    first, last = group[0], group[-1]
    if len(group) == 1:
        return first
    longest = max(group, key=lambda s: s.end - s.start)
    text = f"{len(group)} operations, the longest: {longest.text}"
    return longest._replace(start=first.start, end=max(last.end, first.end), text=text, detail=-1)


def _data(rows: Sequence[Lane], details: Sequence[Sequence[str]]) -> str:
    """The spans for the script: what is told of them, with line and details, once; spans as [start,
    end, number of that], and the lane and number of the span that they start after."""
    numbers: dict[tuple[str, int, int], int] = {}
    lanes = [
        [
            [s.start, s.end, numbers.setdefault((s.text, s.line, s.detail), len(numbers)),
             *(s.after or ())]
            for s in row.spans
        ]
        for row in rows
        if row.spans is not None
    ]  # fmt: skip
    data: dict[str, object] = {"texts": [text for text, _, _ in numbers], "lanes": lanes}
    if any(line or detail >= 0 for _, line, detail in numbers):
        data["lines"] = [line for _, line, _ in numbers]
        data["of"] = [detail for _, _, detail in numbers]
        data["details"] = details
        data["names"] = [row.told or row.name for row in rows if row.spans is not None]
    text = json_line(data).replace("<", "\\u003c")
    return f'<script type="application/json">{text}</script>'
