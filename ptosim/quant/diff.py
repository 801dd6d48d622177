"""Every scheme on one tensor: how many results differ, which of them are ties, and why the first
does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.data import read_toml
from ptosim.ground.records import dataclass
from ptosim.quant import metrics
from ptosim.quant.granularity import covering, spread
from ptosim.quant.inverse import dequantize
from ptosim.quant.quantize import Options, Traced, explain, quantize_array
from ptosim.quant.schemes import Scheme, scheme, schemes
from ptosim.quant.storage import Storage, storage

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
    expected = setting.stored(chosen)
    spread_scale, spread_zero = setting.spread(setting.scale), setting.spread(setting.zero)
    rows = [_row(setting, chosen, chosen, expected, spread_scale, spread_zero)]
    for name in names or schemes():
        if name == base:
            continue
        try:
            rows.append(_row(setting, chosen, scheme(name), expected, spread_scale, spread_zero))
        except UsageError as problem:
            if names:
                raise
            rows.append(Row(name, why_not=str(problem)))
    return Report(setting, base, rows)


def _row(
    setting: Setting,
    base: Scheme,
    other: Scheme,
    expected: np.ndarray,
    scale: np.ndarray,
    zero: np.ndarray,
) -> Row:
    got = expected if other is base else setting.stored(other)
    left, right = (a.astype(np.float64).reshape(scale.shape) for a in (expected, got))
    with np.errstate(all="ignore"):
        gap = np.abs(left - right)
    wrong = metrics.differs(left, right)
    quality = metrics.sqnr(setting.x, _back(setting, got))
    if not wrong.any():
        return Row(other.name, sqnr=quality)
    steps = metrics.ratio(setting.x.reshape(scale.shape), scale)
    if setting.multiplier is not None:
        steps = setting.x.reshape(scale.shape) * setting.multiplier.astype(np.float64)
    ties = wrong & (gap == 1) & metrics.near_tie(steps) if setting.out.is_integer else wrong & False
    worst = float(np.nanmax(gap[wrong])) if np.isfinite(gap[wrong]).any() else math.inf
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    return Row(
        other.name,
        int(wrong.sum()),
        int(ties.sum()),
        worst,
        quality,
        _difference(setting, base, other, first, scale, zero, steps),
    )


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
    setting: Setting,
    base: Scheme,
    other: Scheme,
    index: tuple[int, ...],
    scale: np.ndarray,
    zero: np.ndarray,
    steps: np.ndarray,
) -> Difference:
    x = np.ascontiguousarray(setting.x)[index]
    factor = None
    if setting.multiplier is not None:
        factor = float(setting.spread(setting.multiplier)[index])

    def trace(which: Scheme) -> Trace:
        return explain(
            x.item(), scale[index].item(), zero[index].item(), which, setting.out,
            multiplier=factor, dtype=x.dtype,
        )  # fmt: skip

    place = index if setting.x.ndim else ()
    return Difference(
        place,
        float(x),
        float(scale[index]),
        float(zero[index]),
        float(steps[index]),
        trace(base),
        trace(other),
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
