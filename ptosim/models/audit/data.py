"""Faults of quantising steps of programs, on the values of a run: scales that are none, results at
the ends of their type, codes unused, a row or column out of line.

The cost is of the step alone: the signal-to-noise ratio of what its codes stand for, with a scale
from the largest magnitudes, less that with its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.records import replace
from ptosim.machine.core import Core
from ptosim.machine.quant.parameters import Scheme
from ptosim.machine.tile import TileRef
from ptosim.models.audit.repair import Fault
from ptosim.models.quant.diff import Setting
from ptosim.ops.base.binding import Binding

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


def key_of(core: Core, ref: TileRef) -> tuple[int, str, int]:
    """Return the place of a tile: its core, memory and address."""
    return id(core), ref.type.loc, ref.addr


# -- codes and what reads them ---------------------------------------------------------------------


class Pairs:
    """The codes that tiles hold and the numbers that come of them, by the parameters of both: they
    have to be the same, and numbers that come of codes are not quantised again."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._codes: dict[tuple[int, str, int], tuple[Setting, np.ndarray, str]] = {}
        self._numbers: dict[tuple[int, str, int], str] = {}

    def issued(self, core: Core, op: Operation, binding: Binding, place: str) -> None:
        """An operation is about to execute; `place` is its line."""
        dst = binding.values.get("dst")
        if op.has("makes_numbers"):
            self._read(core, binding, place)
        elif op.has("makes_codes") and binding.has("fp"):
            source = self._numbers.get(key_of(core, binding.tile("src").ref))
            if source is not None:
                self.faults.append(Fault(
                    "quantised twice", place, f"its numbers come of codes, by {source}",
                    "take the codes that there are", why_not="the numbers before are not known",
                ))  # fmt: skip
        if isinstance(dst, TileRef):
            key = key_of(core, dst)
            self._codes.pop(key, None)
            self._numbers.pop(key, None)
            if op.has("makes_numbers"):
                self._numbers[key] = place

    def stored(
        self, key: tuple[int, str, int] | None, setting: Setting, codes: np.ndarray, place: str
    ) -> None:
        """A step has stored codes of a setting in a tile, one scale for all or for each row."""
        if key is not None and {setting.scale.size, setting.zero.size} <= {1, len(codes)}:
            self._codes[key] = setting, codes, place

    def _read(self, core: Core, binding: Binding, place: str) -> None:
        made = self._codes.get(key_of(core, binding.tile("src").ref))
        if made is None:
            return
        setting, codes, maker = made
        rows = len(codes)
        scale, offset = (_of_rows(binding.tile(n).read(), rows) for n in ("scale", "offset"))
        if scale is None or offset is None:
            return
        own = np.broadcast_to(setting.scale.reshape(-1).astype(np.float64), (rows,))
        zero = np.broadcast_to(setting.zero.reshape(-1).astype(np.float64), (rows,))
        for word, there, here in (("scales", own, scale), ("offsets", zero, offset)):
            if np.allclose(there, here, rtol=1e-3, atol=0 if word == "scales" else 1e-3):
                continue
            row = int(np.argmax(np.abs(there - here)))
            fault = Fault(
                "Q and DQ disagree", place,
                f"the {word} of {maker} are others: {there[row]:g} in row {row}, this has "
                f"{here[row]:g}", f"take the {word} that the codes were made with",
            )  # fmt: skip
            x, whole = setting.x.astype(np.float64), codes.astype(np.float64)
            fault.cost = _decibels(x, (whole - zero[:, None]) * own[:, None]) - _decibels(
                x, (whole - offset[:, None]) * scale[:, None]
            )
            self.faults.append(fault)


def _of_rows(held: np.ndarray, rows: int) -> np.ndarray | None:
    """A value for each row: in the first column, or in a row of them."""
    values = np.asarray(held, np.float64)
    if values.shape[0] >= rows:
        return values[:rows, 0]
    return values.reshape(-1)[:rows] if values.size >= rows else None


def _decibels(x: np.ndarray, made: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        noise, signal = float(np.sum((made - x) ** 2)), float(np.sum(x * x))
    if not np.isfinite(noise) or not signal:
        return -100.0
    return float(np.clip(10 * np.log10(signal / noise), -100, 150)) if noise else 150.0


# -- sums of integer products ----------------------------------------------------------------------


class Accumulators:
    """The exact sums of integer products, beside those that 32 bits hold: both are the same, or the
    accumulator has wrapped."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._sums: dict[tuple[int, str, int], np.ndarray] = {}

    def issued(self, core: Core, binding: Binding, place: str) -> None:
        """An operation is about to execute; `place` is its line."""
        dst = binding.values.get("dst")
        if not isinstance(dst, TileRef) or dst.type.loc != "acc" or str(dst.type.dtype) != "i32":
            return
        key = key_of(core, dst)
        before = self._sums.pop(key, None)
        if not (binding.has("lhs") and binding.has("rhs")):
            return
        left, right = (np.array(binding.tile(n).read()) for n in ("lhs", "rhs"))
        if left.dtype.kind not in "iu" or left.ndim != 2 or left.shape[1] != right.shape[0]:
            return
        exact = left.astype(np.int64) @ right.astype(np.int64)
        if binding.has("acc"):
            held = np.array(binding.tile("acc").read()).astype(np.int64)
            exact = exact + (held if before is None or before.shape != held.shape else before)
        elif binding.has("bias"):
            exact = exact + np.array(binding.tile("bias").read()).astype(np.int64)[:1]
        self._sums[key] = exact
        beyond = (exact < -(1 << 31)) | (exact >= 1 << 31)
        if beyond.any():
            self._told(place, exact, beyond)

    def _told(self, place: str, exact: np.ndarray, beyond: np.ndarray) -> None:
        worst_at = np.unravel_index(np.argmax(np.abs(exact)), exact.shape)
        held = ((exact + (1 << 31)) % (1 << 32)) - (1 << 31)
        found = Fault(
            "accumulator overflow", f"{place}, channel {worst_at[1]}",
            f"{int(beyond.sum())} of {exact.size} sums are beyond 32 bits, up to "
            f"{int(exact[worst_at])}", "fewer terms in a sum, or smaller codes",
        )  # fmt: skip
        real = exact.astype(np.float64)
        found.cost = _decibels(real, real) - _decibels(real, held.astype(np.float64))
        self.faults.append(found)
