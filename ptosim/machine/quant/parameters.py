"""Scale and zero point in the forms that the steps of a scheme need."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass
from ptosim.machine.quant.schemes import Scheme
from ptosim.machine.quant.storage import Storage

FLOATS = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
EXTENDED = np.dtype(np.longdouble)
"""80 bits on most machines; MLIR's f80 or f128 where it has as many (`isa/quant/mlir.toml`)."""
TF32 = "tf32"
Narrow = np.dtype | str
"""A float type that values are rounded to: of NumPy or ml_dtypes, or `tf32`, held in f32."""
_NAMES = {dtype: name for name, dtype in FLOATS.items()}
_SCALES = {dtype: name for dtype, name in _NAMES.items() if name != "f64"}
_FP19_MASK = np.uint32(0xFFFFE000)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Scales, multipliers and zero points of a tensor, all of the scale's shape.

    `work` is the type that the values are computed in, `narrow` the type that every result of the
    scaling is rounded to (None: the work type), `entry` the type that x is rounded to first (None:
    it fits the work type). `zero` is in the work type.
    """

    work: np.dtype
    narrow: Narrow | None
    entry: Narrow | None
    scale: np.ndarray
    multiplier: np.ndarray
    zero: np.ndarray

    def map(self, view: Callable[[np.ndarray], np.ndarray]) -> Parameters:
        """Return the parameters with each array cut or reshaped."""
        return Parameters(
            self.work,
            self.narrow,
            self.entry,
            view(self.scale),
            view(self.multiplier),
            view(self.zero),
        )

    def entered(self, x: np.ndarray) -> np.ndarray:
        """Return a new array of elements of x in the work type."""
        return (x if self.entry is None else narrowed(x, self.entry)).astype(self.work)

    @property
    def has_zero(self) -> bool:
        """True if some zero point is not 0."""
        return bool(np.any(self.zero != 0))


def float_name(dtype: np.dtype) -> str | None:
    """Return f16, bf16, f32 or f64, or None for any other type."""
    return _NAMES.get(dtype)


def narrowed(values: np.ndarray, kind: Narrow) -> np.ndarray:
    """Return values rounded to a float type, to nearest even."""
    if not isinstance(kind, str):
        return values.astype(kind)
    wide = values.astype(np.float64)
    with np.errstate(all="ignore"):
        # tf32 has the exponents of f32 and 10 bits of mantissa; one rounding, from f64.
        bits = wide.view(np.int64)
        step = np.int64(1) << np.int64(52 - 10)
        small = np.abs(wide) < 2.0**-126
        even = (bits + (step // 2 - 1) + ((bits >> np.int64(42)) & 1)) & ~(step - 1)
        found = np.where(np.isfinite(wide), even, bits).view(np.float64)
        found = np.where(small, np.rint(wide * 2.0**136) * 2.0**-136, found)
        return np.where(np.abs(found) >= 2.0**128, np.copysign(np.inf, found), found).astype(
            np.float32
        )


def fp19(multiplier: np.ndarray | float) -> np.ndarray:
    """Return f32 multipliers as the fixpipe holds them: sign, 8 exponent and 10 mantissa bits."""
    bits = np.asarray(multiplier, np.float32).view(np.uint32) & _FP19_MASK
    return bits.view(np.float32)


def reciprocal(scale: np.ndarray) -> np.ndarray:
    """Return f32(1/scale)."""
    with np.errstate(all="ignore"):
        return np.float32(1) / scale.astype(np.float32)


def prepare(
    scheme: Scheme,
    out: Storage,
    x_dtype: np.dtype,
    scale: np.ndarray,
    zero: np.ndarray,
    multiplier: np.ndarray | None,
    precision: str | None,
    expressed: str | None = None,
) -> Parameters:
    """Return the parameters of a quantisation. Raises UsageError for a zero point that the scheme
    cannot hold."""
    work, narrow = _work_types(scheme, out, x_dtype, scale.dtype, precision)
    if expressed == TF32 and scheme.precision == "expressed":
        work, narrow = FLOATS["f64"], TF32
    entry = narrow
    if narrow is None and x_dtype == FLOATS["f64"] and scheme.precision not in _WIDE:
        entry = FLOATS["f32"]
    factor = reciprocal(scale) if multiplier is None else multiplier.astype(np.float32)
    if scheme.multiplier == "fp19":
        factor = fp19(factor)
    divisor = narrowed(scale, work if narrow is None else narrow).astype(work)
    return Parameters(
        work, narrow, entry, divisor, factor.astype(work), _zero(scheme, out, zero).astype(work)
    )


_WIDE = ("f64", "expressed")


def _work_types(
    scheme: Scheme, out: Storage, x: np.dtype, scale: np.dtype, precision: str | None
) -> tuple[np.dtype, np.dtype | None]:
    chosen = scheme.precision
    if chosen == "scale":
        chosen = precision or _SCALES.get(scale, "f32")
    elif chosen == "expressed":
        if x == EXTENDED and x != FLOATS["f64"]:
            return EXTENDED, None
        chosen = _NAMES.get(x, "f32")
    elif chosen == "exact":
        chosen = "f64"
    if "promotes" in scheme.quirks and precision is None:
        chosen = _promoted(x, scale)
    work = FLOATS["f64"] if chosen == "f64" else FLOATS["f32"]
    if out.bits > 16 and out.is_integer:
        work = FLOATS["f64"]  # an f32 cannot hold every integer of the output
    narrow = FLOATS[chosen]
    return work, None if narrow == work else narrow


def _promoted(x: np.dtype, scale: np.dtype) -> str:
    """The type of x / scale by NumPy's promotion rules: integers with f32 give f64."""
    if x.kind in "iu":
        return "f64"
    return _NAMES.get(x, "f32") if x == scale else "f32"


def _zero(scheme: Scheme, out: Storage, zero: np.ndarray) -> np.ndarray:
    values = zero.astype(np.float64)
    if scheme.name not in _FRACTIONAL and np.any(values != np.rint(values)):
        raise UsageError(f"scheme {scheme.name}: a zero point is an integer")
    if out.is_integer and scheme.name in _TYPED:
        _check_range(scheme, values, out.low, out.high, f"the output type {out}")
    if scheme.field == "s":
        half = 1 << out.bits
        _check_range(scheme, values, -half, half - 1, f"the signed {out.bits + 1}-bit offset field")
    elif scheme.field == "u":
        values = values.astype(np.int64) & ((1 << (out.bits + 1)) - 1)
    elif scheme.overflow == "wrap" and scheme.scale == "divide" and out.is_integer:
        values = wrap(values.astype(np.int64), out)
    return values


_TYPED = ("onnx", "onnx-ref", "ort")
_FRACTIONAL = ("pto-hw", "naive-f16", "onednn", "page")


def _check_range(scheme: Scheme, values: np.ndarray, low: float, high: float, what: str) -> None:
    wrong = values[(values < low) | (values > high) | np.isnan(values)]
    if wrong.size:
        raise UsageError(
            f"scheme {scheme.name}: zero point {wrong.flat[0]:g} is outside {what} [{low}, {high}]"
        )


def wrap(values: np.ndarray, out: Storage) -> np.ndarray:
    """Return the low bits of int64 values as values of an integer type, still int64."""
    half = 1 << (out.bits - 1) if out.signed else 0
    low = values + half
    low &= (1 << out.bits) - 1
    low -= half
    return low
