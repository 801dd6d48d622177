"""Fixed-point and affine values, and what can be computed with them (MLIR documentation,
Quantization: fixed point values, affine values, converting between them).

    real = scaled * scale = (affine - zero point) * scale

Scaled values are integers: they are multiplied with any scales (the scales are multiplied too) and
added if their scales are equal. Affine values are shifted by the zero point; nothing can be
computed with them, they are converted first."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass
from ptosim.machine.quant.inverse import dequantize
from ptosim.machine.quant.parameters import ElementType, storage
from ptosim.machine.quant.quantize import as_array, quantize

_MOST = 2.0**63


@dataclass(frozen=True, slots=True, eq=False)
class FixedPoint:
    """Integers `scaled` of which each stands for `scaled * scale`; `scale` is an f32 above 0."""

    scaled: np.ndarray
    scale: float

    @classmethod
    def of(cls, scaled: ArrayLike, scale: float) -> FixedPoint:
        """Return scaled values from integers; raises UsageError for anything else."""
        return cls(_integers(scaled, "scaled values"), _scale(scale))

    @classmethod
    def from_real(cls, real: ArrayLike, scale: float) -> FixedPoint:
        """Return the nearest scaled values, of two the even one: f32(x / scale), rounded. No finite
        value is farther away than `max_error` and the rounding of that division."""
        values = as_array(real, "real values").astype(np.float32)
        if not np.isfinite(values).all():
            raise UsageError("real values that are not finite have no scaled value")
        quotient = values / np.float32(_scale(scale))
        if np.abs(quotient).max(initial=0) >= _MOST:
            raise UsageError(f"real values are too large for the scale {scale:g}")
        return cls(np.rint(quotient).astype(np.int64), _scale(scale))

    @property
    def max_error(self) -> float:
        """The largest rounding error of a real value: half a scale."""
        return self.scale / 2

    def real(self) -> np.ndarray:
        """Return the real values in f32: f32(f32(scaled) * scale)."""
        return self.scaled.astype(np.float32) * np.float32(self.scale)

    def affine(self, zero_point: int, dtype: ElementType = "ui8") -> Affine:
        """Return the affine values with the same scale: the zero point added. Raises UsageError for
        values that the type does not hold."""
        out = Affine.zero(zero_point, self.scale, dtype)
        values = self.scaled + zero_point
        low, high = storage(dtype).low, storage(dtype).high
        wrong = values[(values < low) | (values > high)]
        if wrong.size:
            raise UsageError(
                f"the affine value {wrong.flat[0]} is outside [{low}, {high}] of {storage(dtype)}"
            )
        return Affine(values.astype(out.stored.dtype), self.scale, zero_point)

    def __add__(self, other: FixedPoint) -> FixedPoint:
        """Return the sum; raises UsageError for scales that differ."""
        return FixedPoint(_exact(np.add, self.scaled, self._same(other)), self.scale)

    def __sub__(self, other: FixedPoint) -> FixedPoint:
        """Return the difference; raises UsageError for scales that differ."""
        return FixedPoint(_exact(np.subtract, self.scaled, self._same(other)), self.scale)

    def __mul__(self, other: FixedPoint) -> FixedPoint:
        """Return the product, whose scale is the product of the scales."""
        return FixedPoint(_exact(np.multiply, self.scaled, other.scaled), self.scale * other.scale)

    def _same(self, other: FixedPoint) -> np.ndarray:
        if np.float32(self.scale) != np.float32(other.scale):
            raise UsageError(
                f"scaled values are added if their scales are equal, not {self.scale:g} and "
                f"{other.scale:g}",
                help="convert one of them: FixedPoint.from_real(x.real(), scale)",
            )
        return other.scaled


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """Stored integers of which each stands for `(stored - zero_point) * scale`. They are not added
    or multiplied: `fixed()` first."""

    stored: np.ndarray
    scale: float
    zero_point: int

    @classmethod
    def zero(cls, zero_point: int, scale: float, dtype: ElementType = "ui8") -> Affine:
        """Return the affine value of real zero; raises UsageError if the type does not hold it:
        padding with zeros would be biased."""
        kind = storage(dtype)
        if not kind.is_integer:
            raise UsageError(f"affine values are integers, not {kind}")
        if not kind.low <= zero_point <= kind.high:
            raise UsageError(
                f"zero point {zero_point} is outside [{kind.low}, {kind.high}] of {kind}: real "
                "zero has no affine value"
            )
        return cls(np.array([zero_point]).astype(kind.array), _scale(scale), int(zero_point))

    @classmethod
    def from_real(
        cls, real: ArrayLike, scale: float, zero_point: int, dtype: ElementType = "ui8"
    ) -> Affine:
        """Return clamp(round(x / scale) + zero point), the page's formula."""
        cls.zero(zero_point, scale, dtype)
        stored = quantize(
            real, scheme="mlir-page", scale=np.float32(scale), zero_point=zero_point, dtype=dtype
        )
        return cls(stored, _scale(scale), zero_point)

    def real(self) -> np.ndarray:
        """Return the real values in f32: f32(f32(stored - zero point) * scale)."""
        return dequantize(
            self.stored,
            scheme="mlir-page",
            scale=np.float32(self.scale),
            zero_point=self.zero_point,
        )

    def fixed(self) -> FixedPoint:
        """Return the scaled values with the same scale: the zero point subtracted."""
        return FixedPoint(_integers(self.stored, "affine values") - self.zero_point, self.scale)


def _scale(scale: float) -> float:
    value = float(np.float32(scale))
    if not np.isfinite(value) or value <= 0:
        raise UsageError(f"a scale is a finite number above 0, not {scale:g}")
    return value


def _integers(values: ArrayLike, what: str) -> np.ndarray:
    array = as_array(values, what)
    if array.dtype.kind not in "iu":
        whole = np.rint(array.astype(np.float64))
        if not (np.isfinite(whole).all() and np.array_equal(whole, array)):
            raise UsageError(f"{what} are integers")
        array = whole
    return array.astype(np.int64)


def _exact(operation: np.ufunc, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """An operation on 64-bit integers; raises UsageError where the result has more bits."""
    try:
        size = np.abs(operation(a.astype(np.float64), b.astype(np.float64))).max(initial=0)
        if size >= _MOST:
            raise UsageError("the result has more than 64 bits")
        return operation(a, b)
    except ValueError as problem:
        raise UsageError(f"shapes {a.shape} and {b.shape} do not fit each other") from problem
