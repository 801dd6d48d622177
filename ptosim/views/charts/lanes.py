"""Lanes: a row for each pipe or tile, spans from left to right over one axis of time.

A figure that can `zoom` carries its spans as data too, for the script of the page (`lanes.js`),
which moves all figures of the same `group` together; without scripts it is shown whole."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from html import escape
from pathlib import Path

from ptosim.ground.records import NamedTuple, dataclass
from ptosim.views.charts.chart import legend, said, tick_labels
from ptosim.views.charts.marks import Axis, Key, colour
from ptosim.views.table import line as json_line

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


# The page around pictures and tables: one file, for light and dark screens, narrow ones, paper.

_HERE = Path(__file__).resolve().parent


@lru_cache(maxsize=4)
def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


CONTENTS = 4
"""Sections from which on a page has a list of them."""


def page(title: str, parts: Sequence[tuple[str, str, bool]], *, heads: Sequence[str] = ()) -> str:
    """Return a whole page of sections: title ("" for none), HTML, whether it is folded; `heads` are
    lines below the title. Without scripts the page is whole, too."""
    kept = [part for part in parts if part[1]]
    body = "".join(section(*part) if part[0] else part[1] for part in kept)
    titles = [name for name, _, _ in kept if name]
    told = "".join(f'<p class="head">{escape(head)}</p>' for head in heads)
    contents = _contents(titles) if len(titles) >= CONTENTS else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_asset('palette.css')}{_asset('style.css')}"
        f"</style></head>\n<body><main><h1>{escape(title)}</h1>{told}\n{contents}{body}</main>"
        f"{_scripts(body)}</body></html>\n"
    )


def _scripts(body: str) -> str:
    uses = {"tables.js": "<table" in body or "chart" in body, "lanes.js": "data-group=" in body}
    return "".join(f"<script>{_asset(name)}</script>" for name, is_used in uses.items() if is_used)


def _contents(titles: Sequence[str]) -> str:
    links = "".join(f'<li><a href="#{anchor(t)}">{escape(t)}</a></li>' for t in titles)
    return f'<nav class="contents" aria-label="contents"><ul>{links}</ul></nav>\n'


def anchor(title: str) -> str:
    """The name of a section in addresses."""
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())


def fragment(*parts: str) -> str:
    """Return parts for the page of somebody else, a notebook: their style is that of a page and
    reaches nothing around them."""
    palette = _asset("palette.css").replace(":root", ".ptosim")
    own = ".ptosim { background: var(--paper); color: var(--ink); padding: .5rem; }"
    # Twice the name: a notebook's own rules for tables put texts right, and are as strong as once.
    style = f"<style>{palette}{own} .ptosim.ptosim {{ {_asset('style.css')} }}</style>"
    return f'{style}<div class="ptosim">{"".join(parts)}</div>'


def section(title: str, body: str, folded: bool = False) -> str:
    """Return a part of a page with its heading; empty if there is nothing in it."""
    if not body:
        return ""
    head = f"<h2>{escape(title)}</h2>"
    name = anchor(title)
    if folded:
        return (
            f'<section id="{name}"><details><summary>{head}</summary>{body}</details></section>\n'
        )
    return f'<section id="{name}">{head}{body}</section>\n'


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph; `kind` is `good`, `bad`, `doubt` or `note`."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def items(lines: Sequence[str]) -> str:
    """Return a list of lines; nothing for none."""
    body = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{body}</ul>" if body else ""
