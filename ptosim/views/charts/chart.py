"""A chart: marks on two axes with ticks, titles, a grid, a legend, and labels of points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ptosim.ground.records import NamedTuple, dataclass
from ptosim.views.charts.marks import SIDE, Axis, Key, Mark, Points, Tick

HEIGHT = 240
"""Pixels of a picture, unless it is asked for others."""
_CHARACTER = 0.62
"""Width of a character of a tick, in ems of its font."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Marks on two axes. `room` are ems left of the picture, at least, so that figures below each
    other begin at one line; `note` is said below."""

    title: str
    x: Axis
    y: Axis
    marks: Sequence[Mark]
    height: int = HEIGHT
    room: float = 0
    note: str = ""

    def to_html(self) -> str:
        """Return the figure."""
        x, y, height, title = self.x, self.y, self.height, escape(self.title)
        drawn = [mark.draw(x, y) for mark in self.marks]
        across, up = x.ticks(), y.ticks(max(height // 32, 2))
        texts, crowded = _point_labels(self.marks, x, y, height)
        shapes = _grid(across, up) + "".join(d.svg for d in drawn)
        over = "".join(d.html for d in drawn) + texts
        room = max(self.room, max((len(t.text) for t in up), default=0) * _CHARACTER + 0.6)
        keys = [*(key for d in drawn for key in d.keys), *crowded]
        return (
            f'<figure class="chart" style="--room:{room:.1f}em;--high:{height}px">'
            f'<figcaption>{title}</figcaption><p class="axis">{escape(y.title)}</p>'
            f'<div class="plot"><div class="up">{tick_labels(up, "bottom")}</div><div class="area">'
            f'<svg viewBox="0 0 {SIDE} {SIDE}" preserveAspectRatio="none" role="img" '
            f'aria-label="{title}">{shapes}</svg>{over}</div>'
            f'<div class="across">{tick_labels(across, "left")}</div></div>'
            f'<p class="axis x">{escape(x.title)}</p>{legend(keys)}{said(self.note)}</figure>\n'
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
    placed, crowded = place(points, height)
    html = "".join(
        f'<b class="label" style="left:calc({100 * p.x:.2f}% + {p.right:.1f}px);'
        f'bottom:calc({100 * p.y:.2f}% + {p.up:.1f}px)">{escape(p.text)}</b>'
        for p in placed
    )
    return html, [Key(number, "var(--ink)", text) for number, text in crowded]


# -- labels of points: none covers another one or a point at any width -----------------------------

WIDTHS = (250, 480, 760, 1040)
"""Widths of the picture, in pixels, that are tried: from a phone to a wide screen."""
_LETTER, _LINE, _MARK = 7.2, 15, 12
"""Pixels of a character, a line and a point."""


class Box(NamedTuple):
    """Left, right, bottom, top in pixels."""

    left: float
    right: float
    low: float
    high: float

    def meets(self, other: Box) -> bool:
        """True if the two share a pixel."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.low < other.high
            and other.low < self.high
        )


class Placed(NamedTuple):
    """A label: its text, the place of its point (0 to 1), pixels from there to its left bottom."""

    text: str
    x: float
    y: float
    right: float
    up: float


def _offsets(width: float) -> list[tuple[float, float]]:
    """Places of a label of this width around its point, the best first."""
    beside = [(_MARK / 2 + 2, -_LINE / 2), (-_MARK / 2 - 2 - width, -_LINE / 2)]
    over = [(side, up) for up in (8, -8 - _LINE) for side in (-width / 2, 4, -width - 4)]
    sides = (-width / 2, 4, -width - 4, 12, -width - 12)
    far = [(side, up) for up in (22, -22 - _LINE) for side in sides]
    return [*beside, *over, *far]


def place(
    points: Sequence[tuple[float, float, str]], height: float
) -> tuple[list[Placed], list[tuple[str, str]]]:
    """Return the labels of points (x and y from 0 to 1), each where it is free at every width.

    A label that has no such place is a number, if there is room for that; the second list says
    which number has which text, for the legend."""
    taken = [[_around(x * w, y * height) for x, y, _ in points] for w in WIDTHS]
    found, crowded = [], []
    for x, y, text in points:
        placed = _placed(x, y, text, taken, height) if text else None
        if placed is not None:
            found.append(placed)
        elif text:
            crowded.append((x, y, text))
    keys = []
    for number, (x, y, text) in enumerate(crowded, 1):
        placed = _placed(x, y, str(number), taken, height)
        found += [placed] if placed is not None else []
        keys.append((str(number) if placed is not None else "-", text))
    return found, keys


def _placed(
    x: float, y: float, text: str, taken: Sequence[list[Box]], height: float
) -> Placed | None:
    """The first place around a point that is free; it is taken then."""
    size = len(text) * _LETTER
    for right, up in _offsets(size):
        boxes = [_label(x * w + right, y * height + up, size) for w in WIDTHS]
        if _is_free(boxes, taken, height):
            for box, covered in zip(boxes, taken, strict=True):
                covered.append(box)
            return Placed(text, x, y, right, up)
    return None


def _around(x: float, y: float) -> Box:
    half = _MARK / 2
    return Box(x - half, x + half, y - half, y + half)


def _label(left: float, low: float, width: float) -> Box:
    return Box(left, left + width, low, low + _LINE)


def _is_free(boxes: Sequence[Box], taken: Sequence[Sequence[Box]], height: float) -> bool:
    return all(
        box.left >= 0
        and box.right <= width
        and box.low >= 0
        and box.high <= height
        and not any(box.meets(other) for other in covered)
        for box, covered, width in zip(boxes, taken, WIDTHS, strict=True)
    )
