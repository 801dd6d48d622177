"""The steps of a quantisation on a piece of a tensor, each in place on a float array.

A step takes the array and the piece's parameters and returns the array (a new one only where the
type changes). Steps that never change the result of the whole are marked `neutral`: they are left
out in bulk and shown where a single element is explained.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.records import dataclass
from ptosim.machine.numbers.rounding import to_integral
from ptosim.machine.quant.granularity import Cover, part_of, pieces
from ptosim.machine.quant.parameters import Narrow, Parameters, Scheme, Storage, narrowed, wrap

Apply = Callable[[np.ndarray, Parameters], np.ndarray]


@dataclass(frozen=True, slots=True)
class FormulaStep:
    """One step with the text that explains it."""

    text: str
    apply: Apply
    neutral: bool = False


def run(
    chain: list[FormulaStep],
    parameters: Parameters,
    covers: list[Cover],
    x: np.ndarray,
    result: np.ndarray,
    store: Apply,
) -> None:
    """Take each piece of `x` through the steps; `store` makes the elements of `result` of it."""
    for region in covers:
        data, target = region.data(x), region.data(result)
        local = parameters.map(region.parameter)
        for index in pieces(data.shape):
            part = local.map(lambda p, at=index: part_of(p, at))
            values = parameters.entered(data[index])
            for step in chain:
                values = step.apply(values, part)
            target[index] = store(values, part)


def scaling(scheme: Scheme, parameters: Parameters) -> list[FormulaStep]:
    """Return the steps from x to the scaled value."""
    found = {"divide": _divide, "multiply": _multiply, "fused": _fused}[scheme.scale](scheme)
    if parameters.narrow is not None:
        narrow = parameters.narrow
        name = str(narrow)
        found.append(FormulaStep(f"rounded to {name}", lambda v, p: _through(v, narrow)))
    return found


def _divide(scheme: Scheme) -> list[FormulaStep]:
    return [FormulaStep("x / scale", lambda v, p: np.divide(v, p.scale, out=v))]


def _multiply(scheme: Scheme) -> list[FormulaStep]:
    text = "x * fp19(m)" if scheme.multiplier == "fp19" else "x * m, m = f32(1/scale)"
    return [FormulaStep(text, lambda v, p: np.multiply(v, p.multiplier, out=v))]


def _fused(scheme: Scheme) -> list[FormulaStep]:
    return [
        FormulaStep("x * m + z in one rounding", lambda v, p: fused_f32(v, p.multiplier, p.zero))
    ]


def add_before(scheme: Scheme, parameters: Parameters) -> list[FormulaStep]:
    """Return the steps that add the zero point to the scaled value."""
    if scheme.scale == "fused" or scheme.precision == "exact":
        return []
    if not parameters.has_zero:
        return []
    steps = [FormulaStep("+ z", lambda v, p: np.add(v, p.zero, out=v))]
    if parameters.narrow is not None:
        narrow = parameters.narrow
        name = str(narrow)
        steps.append(FormulaStep(f"rounded to {name}", lambda v, p: _through(v, narrow)))
    return steps


def rounding(scheme: Scheme, parameters: Parameters, out: Storage) -> list[FormulaStep]:
    """Return the steps to an integral value."""
    steps = []
    if "f16" in scheme.through and "s32" not in scheme.through:
        steps.append(FormulaStep("rounded to f16", lambda v, p: _through(v, np.dtype(np.float16))))
    if scheme.precision == "exact" and scheme.zero == "before" and parameters.has_zero:
        modulo = float(1 << out.bits) if scheme.overflow == "wrap" else None
        text = "exact sum with z, rounded half to even"
        steps.append(FormulaStep(text, lambda v, p: _round_exact_sum(v, p, modulo)))
        return steps
    text = {"rne": "rounded half to even", "away": "rounded half away", "trunc": "truncated"}
    steps.append(FormulaStep(text[scheme.rounding], _ROUND[scheme.rounding]))
    return steps


_ROUND: dict[str, Apply] = {
    "rne": lambda v, p: np.rint(v, out=v),
    "trunc": lambda v, p: np.trunc(v, out=v),
    "away": lambda v, p: to_integral(v, "round"),
}


def _round_exact_sum(v: np.ndarray, p: Parameters, modulo: float | None) -> np.ndarray:
    """Round v + z half to even, where the sum itself need not be a float.

    Rounding v first is right but for ties with an odd z, where the other neighbour is the even sum.
    Where only the low bits count, those of a large v are taken before z is lost in it.
    """
    whole = np.rint(v)
    np.subtract(v, whole, out=v)
    tie = np.abs(v) == 0.5
    tie &= (p.zero % 2) != 0
    if tie.any():
        whole[tie] += 2 * v[tie]
    if modulo is not None and not np.abs(whole).max(initial=0) < 2.0**52:
        whole[~np.isfinite(whole)] = np.nan
        np.fmod(whole, modulo, out=whole)
    whole += p.zero
    return whole


def add_after(scheme: Scheme, parameters: Parameters, out: Storage) -> list[FormulaStep]:
    """Return the steps between the rounding and the limits of the output."""
    steps = []
    if scheme.nan == "zero" and scheme.zero == "after" and "s9" not in scheme.through:
        steps.append(FormulaStep("NaN as 0", _nan_as_zero, neutral=not parameters.has_zero))
    if "s32" in scheme.through:
        steps.append(FormulaStep("to s32, saturating", _to_s32, neutral=True))
        steps.append(FormulaStep("to f16, saturating", _to_f16, neutral=True))
    if "s9" in scheme.through:
        edge = float(1 << out.bits)
        text = f"clamped to {out.bits + 1} signed bits"
        steps.append(FormulaStep(text, lambda v, p: _nan_zero(v, -edge, edge - 1)))
    if scheme.zero == "after" and scheme.overflow == "int32":
        steps.append(FormulaStep("as s32 (out of range: -2^31), + z wrapping", _int32_sum))
    elif scheme.zero == "after" and parameters.has_zero:
        steps.append(FormulaStep("+ z (integer)", lambda v, p: np.add(v, p.zero, out=v)))
    return steps


def _nan_as_zero(v: np.ndarray, p: Parameters) -> np.ndarray:
    v[np.isnan(v)] = 0
    return v


def _to_s32(v: np.ndarray, p: Parameters) -> np.ndarray:
    return np.clip(v.astype(np.float64), -(2.0**31), 2.0**31 - 1)


def _to_f16(v: np.ndarray, p: Parameters) -> np.ndarray:
    return np.clip(v, -65504, 65504).astype(np.float16).astype(p.work)


def _int32_sum(v: np.ndarray, p: Parameters) -> np.ndarray:
    limit = 2.0**31
    if v.min(initial=0) > -(2.0**30) and v.max(initial=0) < 2.0**30:
        return np.add(v, p.zero, out=v)
    inside = np.abs(v) < limit
    whole = np.where(inside, v, -limit).astype(np.int64) + p.zero.astype(np.int64)
    return ((whole + (1 << 31)) % (1 << 32) - (1 << 31)).astype(v.dtype)


def _through(v: np.ndarray, kind: Narrow) -> np.ndarray:
    v[...] = narrowed(v, kind)
    return v


def fused_f32(x: np.ndarray, factor: np.ndarray, addend: np.ndarray) -> np.ndarray:
    """Return f32(x * factor + addend) with one rounding, for f32 arrays.

    The product is exact in f64; the f64 sum is rounded, which changes the final rounding only where
    it lands exactly between two f32 values. Only there the lost part decides.
    """
    total = x.astype(np.float64)
    np.multiply(total, factor, out=total)
    np.add(total, addend, out=total)
    middle = np.flatnonzero((total.view(np.int64) & 0x1FFFFFFF) == 0x10000000)
    if middle.size:
        _nudge(total, x, factor, addend, middle)
    np.copyto(x, total, casting="same_kind")
    return x


def _nudge(
    total: np.ndarray, x: np.ndarray, factor: np.ndarray, addend: np.ndarray, where: np.ndarray
) -> None:
    """Move sums that were rounded onto a middle towards the exact value (Knuth's two-sum)."""

    def at(values: np.ndarray) -> np.ndarray:
        if values.size == 1:
            return values.reshape(1).astype(np.float64)
        return np.broadcast_to(values, total.shape).reshape(-1)[where].astype(np.float64)

    flat = total.reshape(-1)  # a view: pieces are made here, contiguous
    added, found = at(addend), flat[where]
    product = at(x) * at(factor)
    part = found - product
    lost = (product - (found - part)) + (added - part)
    off = np.flatnonzero(np.isfinite(found) & (lost != 0))
    if off.size:
        towards = np.where(lost[off] > 0, np.inf, -np.inf)
        flat[where[off]] = np.nextafter(found[off], towards)


# -- to the output type ----------------------------------------------------------------------------


def store(scheme: Scheme, out: Storage, low: int, high: int) -> Apply:
    """Return the last step: limits, NaN rule and conversion to the integer array type."""
    if scheme.overflow == "wrap":
        return lambda v, p: _wrapped(v, scheme, out, low, high)
    nan = scheme.nan
    if nan == "edge":
        nan = "low" if out.signed else "high"
    limits = {"low": _nan_low, "high": _nan_high, "zero": _nan_zero}[nan]
    return lambda v, p: limits(v, low, high)


def _nan_low(v: np.ndarray, low: int, high: int) -> np.ndarray:
    np.fmax(v, low, out=v)
    return np.minimum(v, high, out=v)


def _nan_high(v: np.ndarray, low: int, high: int) -> np.ndarray:
    np.fmin(v, high, out=v)
    return np.maximum(v, low, out=v)


def _nan_zero(v: np.ndarray, low: float, high: float) -> np.ndarray:
    np.clip(v, low, high, out=v)
    if np.isnan(v.max(initial=low)):
        v[np.isnan(v)] = 0
    return v


def _wrapped(v: np.ndarray, scheme: Scheme, out: Storage, low: int, high: int) -> np.ndarray:
    """Low bits of the integer, as a conversion instruction or as the modulo of an exact value."""
    limit = 2.0**31 if out.signed or out.bits < 32 else 2.0**63
    inside = v.min(initial=0) >= -limit and v.max(initial=0) < limit
    full = (low, high) == (out.low, out.high)
    if inside and full and out.bits == 8 * out.array.itemsize:
        return v.astype(np.int32 if limit < 2.0**63 else np.int64)  # cut when it is stored
    if not inside:
        if scheme.scale == "divide":
            v[~((v >= -limit) & (v < limit))] = -limit
        else:
            v[~np.isfinite(v)] = 0
            v = v.astype(np.float64, copy=False)
            np.fmod(v, float(1 << out.bits), out=v)
    whole = wrap(v.astype(np.int64), out)
    if not full:
        np.clip(whole, low, high, out=whole)
    return whole
