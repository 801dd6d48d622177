"""Every scheme on one tensor: how many results differ, which of them are ties, and why the first
does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.cache import read_toml
from ptosim.ground.progress import part_done
from ptosim.ground.records import dataclass
from ptosim.machine.quant.granularity import PIECE, check_alike, covering, normal_axis, spread
from ptosim.machine.quant.inverse import dequantize
from ptosim.machine.quant.parameters import Scheme, Storage, scheme, schemes, storage
from ptosim.machine.quant.quantize import Options, Traced, explain, quantize_array

# -- distances -------------------------------------------------------------------------------------

_PIECE = 1 << 16
"""Elements that are looked at together."""


def differs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return True where two arrays hold different numbers; NaN is equal to NaN."""
    left, right = a.astype(np.float64), b.astype(np.float64)
    return ~((left == right) | (np.isnan(left) & np.isnan(right)))


def ratio(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return x / scale in f64."""
    with np.errstate(all="ignore"):
        return x.astype(np.float64) / scale.astype(np.float64)


def near_tie(ratios: np.ndarray) -> np.ndarray:
    """Return True where a ratio is within two f32 ulp of the middle between two integers."""
    with np.errstate(all="ignore"):
        middle = np.floor(ratios) + 0.5
        ulp = np.spacing(np.abs(ratios).astype(np.float32)).astype(np.float64)
        return np.abs(ratios - middle) <= 2 * ulp


def sqnr(x: np.ndarray, approximation: np.ndarray) -> float:
    """Return the signal to quantisation noise ratio in dB over finite elements; inf if there is no
    noise, NaN if there is no signal."""
    return decibels(*sums(x, approximation))


def sums(x: np.ndarray, approximation: np.ndarray) -> tuple[float, float]:
    """Return the sums of squares of a signal and of its noise over finite elements."""
    one, other = x.reshape(-1), approximation.reshape(-1)
    power = lost = 0.0
    for at in range(0, one.size, _PIECE):
        signal = one[at : at + _PIECE].astype(np.float64)
        with np.errstate(invalid="ignore"):  # infinities, which do not count
            noise = signal - other[at : at + _PIECE].astype(np.float64)
        finite = np.isfinite(signal) & np.isfinite(noise)
        power += float(np.sum(signal[finite] ** 2))
        lost += float(np.sum(noise[finite] ** 2))
    return power, lost


def decibels(power: float, lost: float) -> float:
    """Return the ratio of two sums of squares, of a signal and of its noise, in dB: inf if there is
    no noise, NaN if there is no signal either."""
    if power == 0:
        return math.nan if lost == 0 else -math.inf
    return math.inf if lost == 0 else 10 * math.log10(power / lost)


# --------------------------------------------------------------------------------------------------

Trace = list[Traced]


@dataclass(frozen=True, slots=True)
class Setting:
    """What is quantised, and how: the same for every scheme."""

    x: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    out: Storage
    axis: int | None = None
    block: int | None = None
    multiplier: np.ndarray | None = None
    saturate: bool = True

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return parameters, one for each element."""
        whole = np.empty(np.ascontiguousarray(self.x).shape, values.dtype)
        given = spread(values, self.scale.shape)
        for region in covering(whole.shape, self.scale.shape, self.axis, self.block):
            region.data(whole)[...] = region.parameter(given)
        return whole

    def stored(self, chosen: Scheme) -> np.ndarray:
        """Return the results of a scheme."""
        options = Options(self.saturate, None, None, self.multiplier)
        return quantize_array(
            self.x, self.scale, self.zero, chosen, self.out, self.axis, self.block, options
        )

    def pieces(self) -> Iterator[tuple[tuple[int, ...], Setting]]:
        """Yield parts of the tensor with their parameters, each with the index of its first
        element: cut along the first axis that is longer than one. Raises UsageError for parameters
        that do not fit."""
        self._check_parameters()
        shape = self.x.shape
        cut = next((i for i, size in enumerate(shape) if size > 1), 0)
        if not self.x.ndim or self.x.size <= PIECE:
            yield (0,) * self.x.ndim, self
            return
        covering(shape, self.scale.shape, self.axis, self.block)  # refuses what does not fit
        each = self._covered(cut)
        step = max(PIECE * shape[cut] // self.x.size // each, 1) * each
        for start in range(0, shape[cut], step):
            yield (
                tuple(start if i == cut else 0 for i in range(self.x.ndim)),
                self._part(cut, start, start + step, each),
            )

    def _check_parameters(self) -> None:
        check_alike(self.scale.shape, self.zero, "zero point")
        if self.multiplier is not None:
            check_alike(self.scale.shape, self.multiplier, "multiplier")

    def _covered(self, cut: int) -> int:
        """Consecutive elements along an axis that have their parameters in common and must not be
        separated."""
        if self.scale.size == 1 and not self.block:
            return 1
        axis = 1 if self.axis is None else self.axis
        if self.block:
            return self.block if normal_axis(axis, self.x.ndim) == cut else 1
        return 1 if self.axis is not None else self.x.shape[cut] // self.scale.shape[cut]

    def _part(self, cut: int, start: int, stop: int, each: int) -> Setting:
        """Elements [start, stop) along an axis, of whole covers of `each`."""

        def parameters(values: np.ndarray) -> np.ndarray:
            if values.size == 1:
                return values
            if self.axis is not None and not self.block:
                is_cut = normal_axis(self.axis, self.x.ndim) == cut
                return values[start:stop] if is_cut else values
            window = slice(start // each, -(-stop // each))
            return values[(slice(None),) * cut + (window,)]

        return Setting(
            self.x[(slice(None),) * cut + (slice(start, stop),)],
            parameters(self.scale),
            parameters(self.zero),
            self.out,
            self.axis,
            self.block,
            None if self.multiplier is None else parameters(self.multiplier),
            self.saturate,
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """One element on which two schemes disagree, with the steps of both."""

    index: tuple[int, ...]
    x: float
    scale: float
    zero: float
    ratio: float
    base: Trace
    other: Trace


@dataclass(frozen=True, slots=True)
class Row:
    """One scheme against the base. `why_not` says why it was not run."""

    scheme: str
    mismatches: int = 0
    ties: int = 0
    worst: float = 0
    sqnr: float = math.nan
    first: Difference | None = None
    why_not: str | None = None

    @property
    def errors(self) -> int:
        """Mismatches that are no ties."""
        return self.mismatches - self.ties


@dataclass(frozen=True, slots=True)
class Report:
    """All rows, the base first."""

    setting: Setting
    base: str
    rows: list[Row]


def compare(setting: Setting, base: str = "onnx", names: Sequence[str] = ()) -> Report:
    """Run schemes (all by default) on a setting and compare them with the base.

    Raises UsageError for names that are unknown, or if the base or a named scheme cannot run.
    """
    chosen = scheme(base)
    for name in names:
        scheme(name)
    others = [name for name in names or schemes() if name != base]
    sums = {name: _Sums(scheme(name)) for name in (base, *others)}
    for at, piece in setting.pieces():
        expected = _Expected(piece, chosen)
        for one in sums.values():
            if one.why_not is not None:
                continue
            try:
                one.add(expected, at)
            except UsageError as problem:
                if names or one.scheme is chosen:
                    raise
                one.why_not = str(problem)
        part_done(piece.x.size)
    return Report(setting, base, [one.row() for one in sums.values()])


class _Expected:
    """What the base gives on a piece, and how far its values are from those of x."""

    def __init__(self, setting: Setting, base: Scheme) -> None:
        self.setting = setting
        self.base = base
        self.stored = setting.stored(base)
        self.signal = setting.x.astype(np.float64).reshape(-1)
        self.noise = self.signal - _back(setting, self.stored).reshape(-1)
        self.counts = np.isfinite(self.signal) & np.isfinite(self.noise)
        kept = (np.where(self.counts, values, 0) for values in (self.signal, self.noise))
        self.power, self.lost = (float(np.dot(values, values)) for values in kept)

    def differs(self, got: np.ndarray) -> np.ndarray:
        """Return the numbers of the elements that others give another value."""
        if self.stored.dtype.kind in "iu":
            return np.flatnonzero(got != self.stored)
        return np.flatnonzero(differs(self.stored, got))

    @cached_property
    def parameters(self) -> tuple[np.ndarray, np.ndarray]:
        """Scale and zero point of each element."""
        setting = self.setting
        return setting.spread(setting.scale), setting.spread(setting.zero)

    @cached_property
    def factors(self) -> np.ndarray | None:
        """The multiplier of each element; None without one."""
        setting = self.setting
        return None if setting.multiplier is None else setting.spread(setting.multiplier)

    def back(self, got: np.ndarray, wrong: np.ndarray) -> np.ndarray:
        """Return what other stored values mean, of some elements."""
        scale, zero = (p.reshape(-1)[wrong] for p in self.parameters)
        if self.factors is not None:
            with np.errstate(all="ignore"):
                scale = 1 / self.factors.reshape(-1)[wrong].astype(np.float64)
        stored = got.reshape(-1)[wrong]
        return dequantize(
            stored, scheme="onnx", scale=scale.astype(np.float64), zero_point=zero, dtype="f64",
            axis=0,
        )  # fmt: skip

    def steps(self, wrong: np.ndarray) -> np.ndarray:
        """Return x / scale of some elements."""
        x, factors = np.ascontiguousarray(self.setting.x).reshape(-1)[wrong], self.factors
        if factors is not None:
            return x * factors.reshape(-1)[wrong].astype(np.float64)
        return ratio(x, self.parameters[0].reshape(-1)[wrong])


class _Sums:
    """What the pieces so far say of a scheme."""

    def __init__(self, chosen: Scheme) -> None:
        self.scheme = chosen
        self.why_not: str | None = None
        self.mismatches = self.ties = 0
        self.worst, self.is_finite = 0.0, False
        self.power = self.lost = 0.0
        self.first: Difference | None = None

    def add(self, expected: _Expected, at: tuple[int, ...]) -> None:
        """Take a piece into account, which begins at an index of the tensor."""
        setting, is_base = expected.setting, self.scheme is expected.base
        got = expected.stored if is_base else setting.stored(self.scheme)
        wrong = np.empty(0, np.int64) if is_base else expected.differs(got)
        self._noise(expected, got, wrong)
        if not len(wrong):
            return
        left, right = (a.reshape(-1)[wrong].astype(np.float64) for a in (expected.stored, got))
        steps = expected.steps(wrong)
        with np.errstate(all="ignore"):
            gap = np.abs(left - right)
        self.mismatches += len(wrong)
        if setting.out.is_integer:
            self.ties += int(((gap == 1) & near_tie(steps)).sum())
        if np.isfinite(gap).any():
            self.worst = max(self.worst, float(np.nanmax(gap)))
            self.is_finite = True
        if self.first is None:
            place = int(wrong[0]), at
            self.first = _difference(expected, self.scheme, place, float(steps[0]))

    def _noise(self, expected: _Expected, got: np.ndarray, wrong: np.ndarray) -> None:
        """Add what the base's values lose, and how much more or less those that differ lose."""
        self.power += expected.power
        self.lost += expected.lost
        if not len(wrong):
            return
        back = expected.back(got, wrong)
        signal, before = expected.signal[wrong], expected.noise[wrong]
        noise = signal - back
        counted, counts = expected.counts[wrong], np.isfinite(signal) & np.isfinite(noise)
        self.power += float(np.sum(signal[counts] ** 2) - np.sum(signal[counted] ** 2))
        self.lost += float(np.sum(noise[counts] ** 2) - np.sum(before[counted] ** 2))

    def row(self) -> Row:
        """Return the row of the scheme."""
        if self.why_not is not None:
            return Row(self.scheme.name, why_not=self.why_not)
        worst = self.worst if self.is_finite else math.inf if self.mismatches else 0
        quality = decibels(self.power, self.lost)
        numbers = self.mismatches, self.ties, worst, quality, self.first
        return Row(self.scheme.name, *numbers)


def _back(setting: Setting, stored: np.ndarray) -> np.ndarray:
    scale = setting.scale
    if setting.multiplier is not None:
        with np.errstate(all="ignore"):
            scale = 1 / setting.multiplier.astype(np.float64)
        scale = np.broadcast_to(scale, setting.scale.shape)
    return dequantize(
        stored,
        scheme="onnx",
        scale=scale.astype(np.float64),
        zero_point=setting.zero,
        dtype="f64",
        axis=setting.axis,
        block=setting.block,
    )


def _difference(
    expected: _Expected, other: Scheme, place: tuple[int, tuple[int, ...]], ratio: float
) -> Difference:
    """An element, by its number in a piece and the index at which that begins."""
    setting = expected.setting
    number, begin = place
    values = np.ascontiguousarray(setting.x).reshape(-1)
    x = values[number]
    scale, zero = (p.reshape(-1)[number] for p in expected.parameters)
    factor = None if expected.factors is None else float(expected.factors.reshape(-1)[number])

    def trace(which: Scheme) -> Trace:
        return explain(
            x.item(), scale.item(), zero.item(), which, setting.out,
            multiplier=factor, dtype=x.dtype,
        )  # fmt: skip

    inside = np.unravel_index(number, setting.x.shape) if setting.x.ndim else ()
    index = tuple(int(i) + start for i, start in zip(inside, begin, strict=True))
    return Difference(
        index, float(x), float(scale), float(zero), ratio, trace(expected.base), trace(other)
    )


# -- inputs on which schemes are known to disagree -------------------------------------------------


@dataclass(frozen=True, slots=True)
class Example:
    """An input on which two schemes differ, with their results."""

    a: str
    b: str
    source: str
    parameters: str
    first: int
    second: int
    why: str


def examples() -> list[Example]:
    """Return the examples of `isa/quant/examples.toml`, computed."""
    return [_example(row) for row in read_toml("quant/examples.toml")["example"]]


def _example(row: Mapping[str, Any]) -> Example:
    out = storage(row["out"])
    if "acc" in row:
        x = np.array([row["acc"]], np.int32)
        factor = np.array([row["m"]], np.float32)
        source, parameters = f"acc {row['acc']}", f"m {row['m']:g}, z {row['zero']} ({out})"
    else:
        x, factor = np.array([row["x"]], np.float32), None
        source, parameters = f"{x[0]:.10g}", f"s {row['scale']:g}, z {row['zero']} ({out})"
    scale = np.array([row.get("scale", 1.0)], np.float32)
    setting = Setting(x, scale, np.array([row["zero"]]), out, multiplier=factor)
    first, second = (int(setting.stored(scheme(row[k]))[0]) for k in ("a", "b"))
    return Example(row["a"], row["b"], source, parameters, first, second, row["why"])
