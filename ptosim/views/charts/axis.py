"""Axes: where a value is, which ticks there are, and how numbers are written."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ptosim.ground.records import dataclass
from ptosim.views.table import bytes_text

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
    if value == round(value):
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
    `high` numbers grow downwards. An axis of `names` has a place from i to i + 1 for name i."""

    label: str
    low: float = 0.0
    high: float = 1.0
    unit: str = ""
    log: bool = False
    names: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What the axis shows, and the unit where the ticks do not say it."""
        return (
            f"{self.label} ({self.unit})" if self.unit not in ("", "bytes", "steps") else self.label
        )

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
