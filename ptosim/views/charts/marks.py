"""What charts show: lines, bars, boxes, points, rules and cells.

Places are those of two axes. The picture is 1000 by 1000 and stretched, so that marks with text or
a shape of their own are HTML on top of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Protocol

import numpy as np

from ptosim.ground.records import NamedTuple, dataclass
from ptosim.views.table import bytes_text

# Axes: where a value is, which ticks there are, and how numbers are written.

_STEPS = (1, 2, 5, 10)
_COUNTED = ("cycles", "steps")
"""Units without fractions."""
_SHORT = ((1e9, "G"), (1e6, "M"), (1e4, "k"))


def short_text(value: float) -> str:
    """Return a number in at most seven characters or so: `9,072`, `120k`, `3.5M`, `1.2e-07`."""
    size = abs(value)
    for each, letter in _SHORT:
        if size >= each:
            return f"{value / each * (10 if letter == 'k' else 1):.4g}{letter}"
    if value == round(value) or size >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis, from 0 to 1, and its text. A `minor` one gives way on narrow pages."""

    at: float
    text: str
    minor: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of numbers with what they are and their unit; `bytes` have ticks at powers of two.

    A logarithmic axis needs `low` > 0; what is below is shown at its low end. With `low` above
    `high` numbers grow downwards. An axis of `names` has a place from i to i + 1 for name i;
    one without names and without a label has no ticks."""

    label: str
    low: float = 0.0
    high: float = 1.0
    unit: str = ""
    log: bool = False
    names: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What the axis shows, the unit where the ticks do not say it, and whether equal steps are
        equal factors."""
        unit = self.unit if self.unit not in ("bytes", "steps") else ""
        told = ", ".join(filter(None, (unit, "logarithmic" if self.log else "")))
        return f"{self.label} ({told})" if told and self.label else self.label

    def place(self, value: float) -> float:
        """Return where a value is: 0 at the low end, 1 at the high end; never outside."""
        low, high = self._ends()
        if self.log:
            low, high = math.log(low), math.log(high)
            value = math.log(max(value, math.exp(low)))
        if not math.isfinite(value):
            return 1.0 if value > 0 else 0.0
        return min(max((value - low) / ((high - low) or 1.0), 0.0), 1.0)

    def _ends(self) -> tuple[float, float]:
        return (0.0, float(len(self.names))) if self.names else (self.low, self.high)

    def text(self, value: float) -> str:
        """Return a value as a tick would show it."""
        return bytes_text(value) if self.unit == "bytes" else short_text(value)

    def ticks(self, most: int = 5) -> list[Tick]:
        """Return ticks, `most` of them at most that never give way."""
        if self.names:
            every = -(-len(self.names) // most)
            return [
                Tick((i + 0.5) / len(self.names), name, minor=bool(i % every))
                for i, name in enumerate(self.names)
            ]
        if not self.label:  # heights that mean nothing by themselves
            return []
        values = _decades(self.low, self.high) if self.log else self._linear(most)
        every = -(-len(values) // most)
        return [Tick(self.place(v), self.text(v), bool(i % every)) for i, v in enumerate(values)]

    def _linear(self, most: int) -> list[float]:
        low, high = sorted((self.low, self.high))
        step = _step((high - low) / max(most - 1, 1), binary=self.unit == "bytes")
        step = max(step, 1.0) if self.unit in _COUNTED else step
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


def _step(least: float, *, binary: bool) -> float:
    """The next round number from `least` on."""
    if least <= 0 or not math.isfinite(least):
        return 1.0
    if binary:
        return 2.0 ** math.ceil(math.log2(max(least, 1.0)))
    power = 10.0 ** math.floor(math.log10(least))
    return next(s * power for s in _STEPS if s * power >= least * (1 - 1e-9))


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten of a logarithmic axis; of a short one 1, 2, 5 of each, or its ends."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1,) if last - first > 2 else (1, 2, 5)
    found = [s * 10.0**p for p in range(first, last + 1) for s in steps]
    inside = [v for v in found if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]
    return inside if len(inside) > 1 else [low, high]


def around(values: Sequence[float], label: str, unit: str = "", *, log: bool = False) -> Axis:
    """Return an axis from 0 (a logarithmic one: from the least value) to the largest value, or
    from the least value where that is negative, with a little room at the ends."""
    finite = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or [1.0]
    low, high = min(finite), max(finite)
    if log:
        return Axis(label, low / 1.25, high * 1.25, unit, log=True)
    low = min(low, 0.0)
    room = (high - low) * 0.05 or 1.0
    return Axis(label, low - room if low < 0 else 0.0, high + room, unit)


SIDE = 1000
SERIES = 12
"""Colours that tell series apart; there is one more, of what is left over."""
OTHERS = SERIES
GLYPHS = "●▲■◆▼★✚○"
"""Shapes of points, so that colour is not the only difference."""


def colour(series: int) -> str:
    """Return the colour of a series as CSS; those beyond the last begin again."""
    return "var(--others)" if series == OTHERS else f"var(--s{series % SERIES})"


class Key(NamedTuple):
    """An entry of a legend: a sign, its colour, what it means."""

    sign: str
    colour: str
    text: str


class Drawn(NamedTuple):
    """A mark as SVG shapes, as HTML on top of them, and its entries in the legend."""

    svg: str = ""
    html: str = ""
    keys: tuple[Key, ...] = ()


class Mark(Protocol):
    """Something that a chart shows."""

    def draw(self, x: Axis, y: Axis) -> Drawn:
        """Return it on two axes."""
        ...


def _x(axis: Axis, value: float) -> str:
    return _short(axis.place(value) * SIDE)


def _y(axis: Axis, value: float) -> str:
    return _short((1 - axis.place(value)) * SIDE)


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points; `stepped` keeps each height up to the next point, `fill` colours what
    is below."""

    name: str
    points: Sequence[tuple[float, float]]
    series: int = 0
    stepped: bool = False
    fill: bool = False

    def draw(self, x: Axis, y: Axis) -> Drawn:
        """Return it on two axes."""
        corners = [(_x(x, a), _y(y, b)) for a, b in self.points]
        if not corners:
            return Drawn()
        path = f"M{corners[0][0]} {corners[0][1]}"
        for across, up in corners[1:]:
            path += f"H{across}V{up}" if self.stepped else f"L{across} {up}"
        paint = colour(self.series)
        svg = f'<path class="line" d="{path}" stroke="{paint}"/>'
        if self.fill:
            area = f"{path}V{SIDE}H{corners[0][0]}Z"
            svg = f'<path d="{area}" fill="{paint}" fill-opacity=".18"/>{svg}'
        return Drawn(svg, keys=(Key("━", paint, self.name),) if self.name else ())


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars from the bottom: (from, to, height)."""

    name: str
    bars: Sequence[tuple[float, float, float]]
    series: int = 0

    def draw(self, x: Axis, y: Axis) -> Drawn:
        """Return them on two axes; those without height are left out."""
        paint = colour(self.series)
        path = "".join(
            f"M{_x(x, a)} {SIDE}V{_y(y, h)}H{_x(x, b)}V{SIDE}Z" for a, b, h in self.bars if h
        )
        keys = (Key("■", paint, self.name),) if self.name else ()
        return Drawn(f'<path class="bar" d="{path}" fill="{paint}"/>' if path else "", keys=keys)


class Box(NamedTuple):
    """A rectangle: from, to, bottom, top, what is told of it, its series."""

    left: float
    right: float
    low: float
    high: float
    text: str
    series: int = 0


@dataclass(frozen=True, slots=True)
class Boxes:
    """Rectangles, each with its text."""

    boxes: Sequence[Box]
    keys: Sequence[tuple[str, int]] = ()

    def draw(self, x: Axis, y: Axis) -> Drawn:
        """Return them on two axes."""
        svg = "".join(
            f'<path class="box" d="M{_x(x, b.left)} {_y(y, b.high)}H{_x(x, b.right)}'
            f'V{_y(y, b.low)}H{_x(x, b.left)}Z" fill="{colour(b.series)}"><title>{escape(b.text)}'
            "</title></path>"
            for b in self.boxes
        )
        return Drawn(svg, keys=tuple(Key("■", colour(s), name) for name, s in self.keys))


class Point(NamedTuple):
    """A point, what is told of it, its label and the page that a click opens (empty: none)."""

    x: float
    y: float
    text: str
    label: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Points:
    """Points of one series; `glyph` is its shape unless the series has its own."""

    name: str
    points: Sequence[Point]
    series: int = 0
    glyph: str = ""

    @property
    def sign(self) -> str:
        """The shape of the points."""
        return self.glyph or GLYPHS[self.series % len(GLYPHS)]

    def draw(self, x: Axis, y: Axis) -> Drawn:
        """Return them on two axes; labels are placed by the chart, among all points."""
        paint = colour(self.series)
        html = "".join(
            f'<{tag} class="point" style="left:{100 * x.place(p.x):.2f}%;bottom:'
            f'{100 * y.place(p.y):.2f}%;color:{paint}" title="{escape(p.text)}">{self.sign}'
            f"</{tag.split()[0]}>"
            for p in self.points
            for tag in [f'a href="{escape(p.link)}"' if p.link else "i"]
        )
        return Drawn("", html, (Key(self.sign, paint, self.name),) if self.name else ())


_DASHES = {"6 3": "┄", "2 3": "┈"}


@dataclass(frozen=True, slots=True)
class Rule:
    """A line over the whole chart at a value of one axis: a limit, the peak. Its text, with the
    value, is in the legend, where it cannot cover anything."""

    name: str
    value: float
    across: bool = True
    dash: str = "6 3"
    series: int = 2

    def draw(self, x: Axis, y: Axis) -> Drawn:
        """Return it on two axes."""
        path = f"M0 {_y(y, self.value)}H{SIDE}" if self.across else f"M{_x(x, self.value)} 0V{SIDE}"
        paint = colour(self.series)
        svg = f'<path class="line" d="{path}" stroke="{paint}" stroke-dasharray="{self.dash}"/>'
        sign = _DASHES.get(self.dash, "─") if self.across else "┆"
        return Drawn(svg, keys=(Key(sign, paint, self.name),))


@dataclass(frozen=True, slots=True)
class Cells:
    """A heat map: `values` is [rows, columns], row 0 at the top, each cell as bright as its number
    (`log`: its logarithm; `low_is_bright`: the least is brightest). NaN is grey. `texts` are told
    of cells, by row and column."""

    name: str
    values: np.ndarray
    unit: str = ""
    log: bool = False
    texts: Sequence[Sequence[str]] = ()
    low_is_bright: bool = False

    def draw(self, x: Axis, y: Axis) -> Drawn:
        """Return them over the whole of both axes, with their scale as legend."""
        values = np.asarray(self.values, np.float64)
        with np.errstate(all="ignore"):
            level = np.log2(values) if self.log else values
        known = level[np.isfinite(level)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
        rows, columns = values.shape
        svg = "".join(
            self._cell(r, c, rows, columns, (float(level[r, c]) - low) / ((high - low) or 1.0))
            for r, c in np.ndindex(rows, columns)
        )
        of_known = values[np.isfinite(level)]
        ends = (float(of_known.min()), float(of_known.max())) if known.size else (1.0, 1.0)
        scale = Axis(self.name, *ends, self.unit)
        first, last = ends[::-1] if self.low_is_bright else ends
        text = f"{scale.title}: {scale.text(first)} to {scale.text(last)}"
        return Drawn(svg, keys=(Key("", "ramp", text),))

    def _cell(self, r: int, c: int, rows: int, columns: int, level: float) -> str:
        part = 1 - level if self.low_is_bright else level
        left, top = c * SIDE / columns, r * SIDE / rows
        text = self.texts[r][c] if len(self.texts) else ""
        told = f"<title>{escape(text)}</title>" if text else ""
        shape = (
            f'x="{_short(left)}" y="{_short(top)}" width="{_short(SIDE / columns + 0.6)}" '
            f'height="{_short(SIDE / rows + 0.6)}" fill="{bright(part)}"'
        )
        return f"<rect {shape}>{told}</rect>" if told else f"<rect {shape}/>"


RAMP = ((52, 40, 110), (36, 110, 142), (64, 170, 116), (246, 216, 84))
"""Colours of heat maps, the least first: they grow brighter, so that grey prints keep the order."""


def bright(part: float) -> str:
    """Return the colour of a part of the scale of heat maps as CSS, grey for NaN."""
    if not math.isfinite(part):
        return "#888888"
    at = min(max(part, 0.0), 1.0) * (len(RAMP) - 1)
    low = min(int(at), len(RAMP) - 2)
    mixed = (round(a + (b - a) * (at - low)) for a, b in zip(RAMP[low], RAMP[low + 1], strict=True))
    return "#" + "".join(f"{v:02x}" for v in mixed)
