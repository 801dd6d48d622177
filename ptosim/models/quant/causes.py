"""Why two formulas disagree: each element that differs is given to the part of the formula that has
to be exchanged for the results to agree.

A formula (a scheme) has four parts: how it scales, where the zero point goes, how it rounds, and
what is out of range. For an element on which two formulas differ, parts of the one are put into
the other, the fewest first, until the element comes out alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass, field, replace
from ptosim.machine.quant.parameters import Scheme, Storage
from ptosim.models.quant import diff
from ptosim.models.quant.diff import Setting

SCALE, ZERO, ROUNDING, RANGE = "scale precision", "zero point", "rounding", "saturation"
TIE, SEVERAL = "ties", "several"
CAUSES = (TIE, ROUNDING, RANGE, ZERO, SCALE, SEVERAL)
"""What an element that differs is counted under: `ties` are those of `rounding` that lie within two
ulp of the middle between two integers, `several` need more than one part."""

_PARTS = {
    ROUNDING: ("rounding",),
    RANGE: ("overflow", "nan", "range"),
    ZERO: ("zero", "field"),
    SCALE: ("scale", "precision", "multiplier"),
}

_NINE_BITS = "s9"
"""The conversion that belongs to the range; the others belong to the rounding."""


@dataclass(slots=True)
class Verdict:
    """How a step differs from another formula on its data.

    `causes` counts elements by cause, `change` are the parts that have to be exchanged for all
    elements to agree: the fewest. `worst` is the largest difference of stored values."""

    differ: int = 0
    worst: float = 0
    causes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))
    change: tuple[str, ...] = ()

    def add(self, other: Verdict) -> None:
        """Take the verdict on further elements into account."""
        self.differ += other.differ
        self.worst = max(self.worst, other.worst)
        for cause, count in other.causes.items():
            self.causes[cause] += count
        self.change = tuple(p for p in _PARTS if p in {*self.change, *other.change})


def parts_that_differ(one: Scheme, other: Scheme) -> tuple[str, ...]:
    """Return the parts in which two formulas are not alike."""
    return tuple(p for p in _PARTS if _part(one, p) != _part(other, p))


def _part(scheme: Scheme, part: str) -> tuple[object, ...]:
    own = tuple(getattr(scheme, name) for name in _PARTS[part])
    # Conversions on the way belong to what they change: a first rounding to f16, or a range.
    if part == ROUNDING:
        return (*own, _rounds_twice(scheme))
    return (*own, _NINE_BITS in scheme.through) if part == RANGE else own


def _rounds_twice(scheme: Scheme) -> bool:
    return "f16" in scheme.through and "s32" not in scheme.through


def exchanged(own: Scheme, other: Scheme, parts: tuple[str, ...]) -> Scheme | None:
    """Return a formula with some parts of another one; None where they do not go together."""
    names = [name for part in parts for name in _PARTS[part]]
    through = [w for w in (other if ROUNDING in parts else own).through if w != _NINE_BITS]
    if _NINE_BITS in (other if RANGE in parts else own).through:
        through.append(_NINE_BITS)
    made = replace(
        own, **{name: getattr(other, name) for name in names}, through=tuple(through), outputs=()
    )
    if made.scale == "fused" and made.zero != "before":
        return None  # one rounding for product and sum: the sum cannot come later
    return made


def judge(setting: Setting, own: Scheme, other: Scheme) -> Verdict:
    """Compare the results of two formulas on a setting.

    Raises UsageError if one of them cannot take it."""
    found = Verdict()
    for _, piece in setting.pieces():
        found.add(_judge(piece, own, other))
    return found


def _judge(setting: Setting, own: Scheme, other: Scheme) -> Verdict:
    ours, theirs = setting.stored(own), setting.stored(other)
    wrong = np.flatnonzero(diff.differs(ours, theirs))
    found = Verdict(len(wrong))
    if not len(wrong):
        return found
    want, got = (a.reshape(-1)[wrong].astype(np.float64) for a in (theirs, ours))
    found.worst = float(np.abs(want - got).max())
    few = _elements(setting, wrong)
    cause = np.full(len(wrong), SEVERAL, object)
    open_ = np.ones(len(wrong), bool)
    found.change = parts_that_differ(own, other)
    is_whole = False
    for parts, made in _exchanges(own, other):
        same = few.stored(made).astype(np.float64) == want
        if len(parts) == 1:
            cause[open_ & same] = parts[0]
            open_ &= ~same
        if same.all() and not is_whole:
            is_whole = not diff.differs(setting.stored(made), theirs).any()
            found.change = parts if is_whole else found.change
    near = diff.near_tie(_ratios(few))
    cause[near & (cause == ROUNDING)] = TIE
    for name in cause:
        found.causes[name] += 1
    return found


def _exchanges(own: Scheme, other: Scheme) -> Iterator[tuple[tuple[str, ...], Scheme]]:
    """Yield what can be exchanged, the fewest parts first."""
    differing = parts_that_differ(own, other)
    for size in range(1, len(differing) + 1):
        for parts in combinations(differing, size):
            made = exchanged(own, other, parts)
            if made is not None:
                yield parts, made


def _elements(setting: Setting, chosen: np.ndarray) -> Setting:
    """Return some elements with their own parameters, in one row."""

    def own(values: np.ndarray) -> np.ndarray:
        return (
            values.reshape(-1) if values.size == 1 else setting.spread(values).reshape(-1)[chosen]
        )

    factor = setting.multiplier
    count = len(chosen)
    scale, zero = (np.broadcast_to(own(v), (count,)) for v in (setting.scale, setting.zero))
    return Setting(
        np.ascontiguousarray(setting.x).reshape(-1)[chosen], scale, zero, setting.out, 0, None,
        None if factor is None else np.broadcast_to(own(factor), (count,)), setting.saturate,
    )  # fmt: skip


def _ratios(setting: Setting) -> np.ndarray:
    if setting.multiplier is None:
        return diff.ratio(setting.x, setting.scale)
    with np.errstate(all="ignore"):
        return setting.x * setting.multiplier.astype(np.float64)


# What range of a tensor its codes cover: four methods on the values that calibration saw.
#
# `minmax` takes all of it, `percentile` leaves out the rarest magnitudes, `entropy` takes the limit
# at which a histogram of 128 levels diverges least from the values (Kullback and Leibler, as
# TensorRT and onnxruntime do it), `mse` the one with the least squared error of 8-bit codes.

METHODS = ("minmax", "percentile", "entropy", "mse")
PERCENTILE = 99.99
_BINS = 2048
_LITTLE = 1 / 64
"""The share of a range that a rounded scale may leave out."""
_LEVELS = 128


def limits(
    values: Sequence[np.ndarray], method: str = "minmax", percentile: float = PERCENTILE
) -> tuple[float, float]:
    """Return the lowest and the highest value that codes should cover, zero among them.

    `values` are the arrays of one tensor; what is not finite is left out. Raises UsageError for an
    unknown method, a percentile outside (0, 100], or values none of which is finite."""
    if method not in METHODS:
        raise UsageError(f"unknown method `{method}`", help=f"known: {', '.join(METHODS)}")
    if not 0 < percentile <= 100:
        raise UsageError(f"a percentile is above 0 and at most 100, not {percentile:g}")
    flat = np.concatenate([np.asarray(v, np.float32).reshape(-1) for v in values])
    flat = flat[np.isfinite(flat)].astype(np.float64)
    if not flat.size:
        raise UsageError("there is no finite value to calibrate with")
    low, high = min(float(flat.min()), 0.0), max(float(flat.max()), 0.0)
    sizes = np.abs(flat)
    top = float(sizes.max())
    if method == "minmax" or top == 0:
        return low, high
    limit = _LIMITS[method](sizes, top, percentile)
    return max(low, -limit), min(high, limit)


def _percentile(sizes: np.ndarray, top: float, percentile: float) -> float:
    return float(np.percentile(sizes, percentile, method="higher")) or top


def _entropy(sizes: np.ndarray, top: float, percentile: float) -> float:
    counts, edges = np.histogram(sizes, _BINS, (0.0, top))
    counts = counts.astype(np.float64)
    counts[0] = counts[1]  # zeros of Relu say nothing about a limit
    ends = range(_LEVELS, _BINS + 1)
    found = [_divergence(counts, end) for end in ends]
    return float(edges[_LEVELS + int(np.argmin(found))])


def _divergence(counts: np.ndarray, end: int) -> float:
    """Of the values, those beyond the limit counted at it, from what 128 levels make of them."""
    kept = counts[:end]
    real = kept.copy()
    real[-1] += counts[end:].sum()
    starts = np.arange(_LEVELS) * end // _LEVELS
    which = np.repeat(np.arange(_LEVELS), np.diff(np.append(starts, end)))
    filled = (kept > 0).astype(np.float64)
    totals = np.add.reduceat(kept, starts)
    share = totals / np.maximum(np.add.reduceat(filled, starts), 1)
    coded = share[which] * filled
    if not coded.any():
        return np.inf
    p, q = real / real.sum(), coded / coded.sum()
    inside = (p > 0) & (q > 0)
    lost = p[(p > 0) & (q <= 0)].sum()  # counted as if the other had the smallest share
    return float(np.sum(p[inside] * np.log(p[inside] / q[inside])) + lost * np.log(1e6))


def _mse(sizes: np.ndarray, top: float, percentile: float) -> float:
    counts, edges = np.histogram(sizes, _BINS, (0.0, top))
    middle = (edges[:-1] + edges[1:]) / 2
    limits = top * np.arange(10, 101) / 100
    steps = limits[:, None] / (_LEVELS - 1)
    coded = np.minimum(np.rint(middle / steps), _LEVELS - 1) * steps
    return float(limits[np.argmin(((coded - middle) ** 2) @ counts)])


_LIMITS: dict[str, Callable[[np.ndarray, float, float], float]] = {
    "percentile": _percentile,
    "entropy": _entropy,
    "mse": _mse,
}


# -- scales of extremes ----------------------------------------------------------------------------


def shortened(scale: np.ndarray, bits: int | None) -> np.ndarray:
    """Return f32 scales rounded up to a number of significant bits (None: as they are); rounding up
    keeps every value inside the range."""
    values = np.asarray(scale, np.float32)
    if bits is None:
        return values
    mantissa, exponent = np.frexp(values.astype(np.float64))
    return np.ldexp(np.ceil(np.ldexp(mantissa, bits)), exponent - bits).astype(np.float32)


def symmetric(limit: np.ndarray | float, out: Storage, bits: int | None = None) -> np.ndarray:
    """Return f32 scales that map magnitudes to the largest code; 1 where there is nothing."""
    top = np.asarray(limit, np.float64) / float(out.high)
    tiny = float(np.finfo(np.float32).tiny)
    return shortened(np.where(top > 0, np.maximum(top, tiny), 1.0).astype(np.float32), bits)


def affine(
    low: float, high: float, out: Storage, bits: int | None = None, end: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the f32 scale and the zero point, of the type of `out`, of a range with zero in it;
    `end`: no value is above it, and a scale whose last code is beyond is rounded down if that cuts
    little off."""
    codes = float(out.high) if out.signed else float(out.high - out.low)
    span = max(-low, high) if out.signed else high - low
    scale = symmetric(span * float(out.high) / codes, out, bits)
    if end is not None and low == 0 and bits is not None and np.rint(end / scale) < codes:
        lower = -shortened(np.asarray(-end / codes), bits)  # up is down on the other side
        scale = lower if end - float(lower) * codes <= end * _LITTLE else scale
    if out.signed:
        return scale, np.zeros((), out.array)
    zero = np.clip(np.rint(float(out.low) - low / float(scale)), out.low, out.high)
    return scale, zero.astype(out.array)


def clipped_share(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, out: Storage) -> float:
    """Return the share of values that the lowest or highest code represents though they are more
    than half a step beyond it."""
    if not x.size:
        return 0.0
    place = x.astype(np.float64) / scale.astype(np.float64) + zero.astype(np.float64)
    beyond = (place > float(out.high) + 0.5) | (place < float(out.low) - 0.5)
    return float(np.count_nonzero(beyond) / x.size)
