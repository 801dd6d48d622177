"""Faults of quantising steps of programs, on the values of a run: scales that are none, results at
the ends of their type, codes unused, a row or column out of line.

The cost is of the step alone: the signal-to-noise ratio of what its codes stand for, with a scale
from the largest magnitudes, less that with its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ptosim.ground.records import replace
from ptosim.machine.quant.parameters import Scheme
from ptosim.models.audit.repair import Fault
from ptosim.models.quant.diff import Setting

_TINY = float(np.finfo(np.float32).tiny)
_SATURATED, _UNUSED, _OUT_OF_LINE = 0.02, 1 / 8, 8.0
_FEWEST = 32
_CUT = 1 / 8
"""Share of the results of a column, one of many, that no calibration cuts off."""
_FAR = 32.0
"""How many times fewer codes a column of sums reaches that is out of line."""
_CODES = 256
"""Steps that 8 bits hold."""
GAINS = 0.1
"""dB that a range is mended for: calibration may cut off a little, and gain by it."""


def find_in_step(place: str, setting: Setting, own: Scheme) -> list[Fault]:
    """Return the faults of one execution of a step that makes integers of real numbers."""
    if setting.block or setting.x.size < _FEWEST or not setting.out.is_integer:
        return []
    x = np.asarray(setting.x).astype(np.float64)
    if not np.isfinite(x).all():
        return []
    with np.errstate(all="ignore"):
        found, gains = list(_scales(place, setting)), -math.inf
        if not found:
            found, gains = list(_ranges(place, setting, x)), GAINS
    for fault in found:
        fault.cost = _cost(setting, own, x)
        fault.why_not = "" if fault.cost is not None else "the step's formula is not computed"
    return [f for f in found if f.cost is None or f.cost >= gains]


def find_in_sums(place: str, setting: Setting, own: Scheme) -> list[Fault]:
    """Return the faults of one execution of a requantisation of integer sums: its multipliers, and
    where its results are."""
    if setting.multiplier is None or setting.x.size < _FEWEST or not setting.out.is_integer:
        return []
    x = np.asarray(setting.x).astype(np.float64)
    if not np.isfinite(x).all():
        return []
    factor = setting.multiplier.astype(np.float64).reshape(-1)
    with np.errstate(all="ignore"):
        found = list(_multipliers(place, factor, x)) or list(_sum_ranges(place, setting, x))
        for fault in found:
            fault.cost = _cost(setting, own, x)
            fault.why_not = "" if fault.cost is not None else "the formula is not computed"
    return found


def _sum_ranges(place: str, setting: Setting, x: np.ndarray) -> Iterator[Fault]:
    """Where the results of sums are. Columns have one scale for the result of all, so that only one
    far from the others is out of line; what is cut off at a zero point of the lowest code is
    Relu."""
    low, high = float(setting.out.low), float(setting.out.high)
    scale, zero = (setting.spread(a).astype(np.float64) for a in (setting.scale, setting.zero))
    codes = x / scale + zero
    outside = (codes > high + 1) | ((codes < low - 1) & (zero > low))
    used = np.abs(np.where(zero > low, codes - zero, np.maximum(codes - zero, 0))) / (high - low)
    share, top = outside.mean(axis=0), used.max(axis=0)
    usual = float(np.median(top))
    far = (
        (top > 0) & (top < usual / _FAR) & (usual > _UNUSED) if setting.scale.size > 1 else top < 0
    )
    bad = np.flatnonzero((share > _CUT) & (np.median(share) == 0) | far)
    if not bad.size or bad.size > max(1, top.size // 4):
        yield from _whole(place, outside, used, _UNUSED / 4)
        return
    for channel in bad[:4]:
        yield Fault(
            "channel out of line", f"{place}, channel {channel}",
            f"{100 * share[channel]:.1f} % of its results are outside the codes, they reach "
            f"{200 * top[channel]:.1f} %", "the multiplier of the channel's own weights",
        )  # fmt: skip


def _multipliers(place: str, factor: np.ndarray, x: np.ndarray) -> Iterator[Fault]:
    """No numbers above zero; so large that sums that are next to one another skip codes and most
    saturate; so small that every sum becomes the zero point."""
    most = np.abs(x).max(axis=0) if factor.size > 1 else np.abs(x).max()
    tests = {
        "NaN": np.isnan(factor),
        "zero or infinite": (factor == 0) | np.isinf(factor),
        "negative": factor < 0,
        "subnormal": np.abs(factor) < _TINY,
        "too small": (factor * most < 0.5) & (most > 0),
        "1 and more": (factor >= 1) & (np.mean(np.abs(x * factor) > _CODES, axis=0) > _SATURATED),
    }
    for word, bad in tests.items():
        where = np.flatnonzero(bad)
        if where.size:
            at = int(where[0])
            yield Fault(
                f"requantisation multiplier {word}", _at(place, factor, at),
                f"{factor[at]:g} of sums up to {np.reshape(most, -1)[at if most.ndim else 0]:g}",
                "input scale times weight scale over output scale, below 1",
            )  # fmt: skip
            return


def _scales(place: str, setting: Setting) -> Iterator[Fault]:
    scale = setting.scale.astype(np.float64).reshape(-1)
    tests: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "NaN": np.isnan,
        "zero or infinite": lambda s: (s == 0) | np.isinf(s),
        "negative": lambda s: s < 0,
        "subnormal": lambda s: np.abs(s) < _TINY,
    }
    for word, test in tests.items():
        bad = np.flatnonzero(test(scale))
        if bad.size:
            yield Fault(
                f"scale {word}", _at(place, scale, int(bad[0])),
                f"a step of {scale[bad[0]]:g} between codes",
                "a scale is a normal number above zero: the largest magnitude / the largest code",
            )  # fmt: skip
            return
    low, high = float(setting.out.low), float(setting.out.high)
    zero = setting.zero.astype(np.float64).reshape(-1)
    bad = np.flatnonzero((zero < low) | (zero > high))
    if bad.size:
        yield Fault(
            "zero point outside the codes", _at(place, zero, int(bad[0])),
            f"{zero[bad[0]]:g} is no value of {setting.out.name}: zero has no code",
            f"a zero point of {low:g} to {high:g}",
        )  # fmt: skip


def _at(place: str, values: np.ndarray, index: int) -> str:
    return f"{place}, channel {index}" if values.size > 1 else place


def _ranges(place: str, setting: Setting, x: np.ndarray) -> Iterator[Fault]:
    low, high = float(setting.out.low), float(setting.out.high)
    scale, zero = (setting.spread(a).astype(np.float64) for a in (setting.scale, setting.zero))
    codes = x / scale + zero
    outside = (codes < low - 1) | (codes > high + 1)
    used = np.abs(codes - zero) / (high - low)
    rows = _channels(setting, x)
    if rows is not None:
        yield from _one_channel(place, rows, outside, used)
        return
    yield from _whole(place, outside, used)


def _channels(setting: Setting, x: np.ndarray) -> int | None:
    """The axis that parameters run along; None where there is one for all."""
    if setting.scale.size == 1:
        return None
    if setting.axis is not None:
        return setting.axis % x.ndim
    sizes = [i for i, n in enumerate(setting.scale.shape) if n > 1]
    return sizes[0] if len(sizes) == 1 and setting.scale.ndim == x.ndim else None


def _one_channel(place: str, axis: int, outside: np.ndarray, used: np.ndarray) -> Iterator[Fault]:
    rest = tuple(i for i in range(used.ndim) if i != axis)
    share, top = outside.mean(axis=rest), used.max(axis=rest)
    bad = np.flatnonzero((share > _SATURATED) | ((top < _UNUSED) & (top > 0)))
    if bad.size > max(1, top.size // 4):
        yield from _whole(place, outside, used)
        return
    for channel in bad[:4]:
        told = (
            f"{100 * share[channel]:.1f} % of its values are outside the codes"
            if share[channel] > _SATURATED
            else f"its values reach {200 * top[channel]:.1f} % of the codes"
        )
        yield Fault(
            "channel out of line", f"{place}, channel {channel}", f"{told}, the others' fit",
            "take the channel's scale from its own values",
        )  # fmt: skip


def _whole(
    place: str, outside: np.ndarray, used: np.ndarray, least: float = _UNUSED
) -> Iterator[Fault]:
    share, top = float(outside.mean()), float(used.max())
    if share > _SATURATED:
        yield Fault(
            "values saturated", place, f"{100 * share:.1f} % of the values are outside the codes",
            "a larger scale: the largest magnitude / the largest code",
        )  # fmt: skip
    elif 0 < top < least:
        yield Fault(
            "codes unused", place, f"the values reach {200 * top:.1f} % of the codes",
            "a smaller scale: the largest magnitude / the largest code",
        )  # fmt: skip


def _cost(setting: Setting, own: Scheme, x: np.ndarray) -> float | None:
    axis = _channels(setting, x)
    rest = None if axis is None else tuple(i for i in range(x.ndim) if i != axis)
    span = (x.max(axis=rest) - x.min(axis=rest)) / float(setting.out.high - setting.out.low)
    scale = np.maximum(np.asarray(span), _TINY).reshape(setting.scale.shape).astype(np.float32)
    low = np.asarray(x.min(axis=rest)).reshape(setting.scale.shape)
    if np.any(setting.zero):
        zero = np.round(float(setting.out.low) - low / scale)
    else:
        zero = np.zeros(scale.shape)
        size = np.asarray(np.abs(x).max(axis=rest)).reshape(scale.shape)
        scale = np.maximum(size / float(setting.out.high), _TINY).astype(np.float32)
    given = None if setting.multiplier is None else np.float32(1) / scale
    better = replace(setting, scale=scale, zero=zero.astype(setting.zero.dtype), multiplier=given)
    try:
        return _ratio(better, own, x) - _ratio(setting, own, x)
    except (ValueError, TypeError):
        return None


def _ratio(setting: Setting, own: Scheme, x: np.ndarray) -> float:
    codes = setting.stored(own).astype(np.float64)
    scale, zero = (setting.spread(a).astype(np.float64) for a in (setting.scale, setting.zero))
    with np.errstate(all="ignore"):
        noise = float(np.sum(((codes - zero) * scale - x) ** 2))
    signal = float(np.sum(x * x))
    if not np.isfinite(noise) or signal == 0:
        return -100.0
    return float(np.clip(10 * np.log10(signal / noise), -100, 150)) if noise else 150.0


def worst(faults: Sequence[Fault]) -> list[Fault]:
    """One finding for each kind and place of all executions: the dearest."""
    kept: dict[tuple[str, str], Fault] = {}
    for fault in faults:
        key = fault.kind, fault.where
        if key not in kept or (fault.cost or 0) > (kept[key].cost or 0):
            kept[key] = fault
    return list(kept.values())
