"""A page on how a tensor fares in several formats: table, quality against bytes and cycles, error
histograms over one axis, scale maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from ptosim.ground.records import dataclass
from ptosim.views.charts.chart import Chart
from ptosim.views.charts.marks import Axis, Bars, Cells, Mark, Point, Points, around
from ptosim.views.report import Pair, Part, Section
from ptosim.views.table import Text

_BINS = 48
_SMALLEST = 1e-4
"""The least error that histograms show, as a part of the largest one of all formats."""
_CELLS = 96
"""Rows and columns of a scale map; of a larger one every n-th is shown."""
_INTEGERS, _FLOATS = 0, 1


@dataclass(frozen=True, slots=True)
class Tried:
    """A format and what became of the tensor in it: SQNR in dB, bytes, cycles by target (None: no
    program), what yields its errors part by part, and scales, which are a scalar, a vector or a
    matrix."""

    name: str
    sqnr: float
    bytes: int
    cycles: Mapping[str, int | None]
    errors: Callable[[], Iterator[np.ndarray]]
    scales: np.ndarray


def quant_sections(tried: Sequence[Tried]) -> list[Section]:
    """Return the sections of a page: quality against cost, and one for each format."""
    errors = [_Errors.of(t) for t in tried]
    top = max((e.reach for e in errors), default=0.0) or 1.0
    x = Axis("size of the error", top * _SMALLEST, top * 1.01, log=True)
    bars = [_shares(t, x) for t in tried]
    most = max((n for shown in bars for _, _, n in shown), default=0.0)
    axes = x, Axis("values with it (share of all)", 0, most * 1.05 or 1.0)
    return [
        Section("Quality against cost", _against(tried)),
        *(_section(*each, axes) for each in zip(tried, errors, bars, strict=True)),
    ]


@dataclass(slots=True)
class _Errors:
    """What the errors of a format are like: how many, how many finite ones, zeros among those,
    their ends and their sum."""

    size: int = 0
    finite: int = 0
    zeros: int = 0
    low: float = 0.0
    high: float = 0.0
    total: float = 0.0

    @classmethod
    def of(cls, tried: Tried) -> _Errors:
        """Return them, looked at part by part."""
        found = cls()
        for errors in tried.errors():
            finite = errors[np.isfinite(errors)]
            found.size += errors.size
            found.finite += finite.size
            found.zeros += int(np.count_nonzero(finite == 0))
            found.low = min(found.low, float(finite.min(initial=0)))
            found.high = max(found.high, float(finite.max(initial=0)))
            found.total += float(finite.sum())
        return found

    @property
    def reach(self) -> float:
        """The largest size of a finite error."""
        return max(-self.low, self.high)


def _against(tried: Sequence[Tried]) -> list[Part]:
    """SQNR against bytes, and against cycles of each target."""
    costs: dict[str, Mapping[str, float]] = {"bytes": {t.name: t.bytes for t in tried}}
    for target in dict.fromkeys(target for t in tried for target in t.cycles):
        found = {t.name: t.cycles.get(target) for t in tried}
        costs[f"cycles on {target}"] = {name: c for name, c in found.items() if c is not None}
    return [c for what, of in costs.items() if of for c in _scatter(what, of, tried)]


def _scatter(what: str, of: Mapping[str, float], tried: Sequence[Tried]) -> list[Part]:
    kept = [t for t in tried if t.name in of and np.isfinite(t.sqnr)]
    if not kept:
        return []
    groups: list[Mark] = []
    for series, name in ((_INTEGERS, "integers"), (_FLOATS, "microscaled floats")):
        points = [
            Point(of[t.name], t.sqnr, _of_point(t, of[t.name], what), t.name)
            for t in kept
            if t.name.startswith("MX") == (series == _FLOATS)
        ]
        groups += [Points(name, points, series)] if points else []
    x = around([of[t.name] for t in kept], what, "bytes" if what == "bytes" else "")
    y = around([t.sqnr for t in kept], "SQNR", "dB")
    return [Chart(f"SQNR against {what}: up and left is better", x, y, groups, height=300)]


def _of_point(t: Tried, cost: float, what: str) -> str:
    return f"{t.name}: {t.sqnr:.2f} dB, {cost:,} {what}"


_Bars = list[tuple[float, float, float]]


def _section(tried: Tried, errors: _Errors, bars: _Bars, axes: tuple[Axis, Axis]) -> Section:
    pictures = [_histogram(errors, bars, *axes), _scale_map(np.asarray(tried.scales))]
    return Section(tried.name, [Pair(pictures)])


def _shares(tried: Tried, x: Axis) -> _Bars:
    """Bars of equal width on the logarithmic axis of sizes of errors, and how large a part of all
    values has such an error; what is smaller than the axis shows is in the first bar."""
    edges = np.geomspace(x.low, x.high, _BINS + 1)
    counts, total = np.zeros(_BINS, np.int64), 0
    for errors in tried.errors():
        size = np.abs(errors[np.isfinite(errors)])
        counts += np.histogram(np.maximum(size[size > 0], x.low), edges)[0]
        total += errors.size
    shares = (counts / max(total, 1)).tolist()
    return [(float(a), float(b), n) for a, b, n in zip(edges, edges[1:], shares, strict=False)]


def _histogram(errors: _Errors, bars: _Bars, x: Axis, y: Axis) -> Chart:
    exact, mean = (n / max(errors.finite, 1) for n in (errors.zeros, errors.total))
    note = f"errors from {errors.low:.4g} to {errors.high:.4g}, mean {mean:.3g}"
    note += f"; {exact:.1%} of the values are exact" if exact else ""
    lost = errors.size - errors.finite
    note += f"; {lost:,} not finite" if lost else ""
    return Chart("errors", x, y, [Bars("", bars)], height=180, note=note)


def _scale_map(scales: np.ndarray) -> Chart | Text:
    """Cells as bright as the logarithm of their scale; large maps show every n-th one."""
    grid = scales.reshape(-1, scales.shape[-1] if scales.ndim > 1 else 1)
    if grid.shape == (1, 1):
        return Text(f"one scale for all: {float(grid[0, 0]):.6g}")
    down, across = (-(-n // _CELLS) for n in grid.shape)
    shown = grid[::down, ::across].astype(np.float64)
    known = shown[np.isfinite(shown) & (shown > 0)]
    ends = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    every = "" if (down, across) == (1, 1) else f"; every {down}x{across} is shown"
    return Chart(
        "scales", Axis("group of a row", 0, grid.shape[1], "steps"),
        Axis("row (the first one at the top)", grid.shape[0], 0, "steps"),
        [Cells("scale", shown, log=True)], height=180,
        note=f"scales from {ends[0]:.4g} to {ends[1]:.4g}{every}",
    )  # fmt: skip
