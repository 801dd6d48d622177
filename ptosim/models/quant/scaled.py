"""Fixed-point and affine values, and what can be computed with them (MLIR documentation,
Quantization: fixed point values, affine values, converting between them).

    real = scaled * scale = (affine - zero point) * scale

Scaled values are integers: they are multiplied with any scales (the scales are multiplied too) and
added if their scales are equal. Affine values are shifted by the zero point; nothing can be
computed with them, they are converted first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

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


# Integer matrix products and convolutions with 32-bit accumulators.
#
# The products run in f64, where sums of products of 9-bit integers are exact for more than 10^10
# terms; the result is reduced to 32 bits as an accumulator that wraps would be.


def to_int32(values: np.ndarray) -> np.ndarray:
    """Return exact integers in f64 as int32, wrapped around."""
    return values.astype(np.int64).astype(np.int32)


def matmul_int32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a @ b of integer arrays (batched as NumPy does) with int32 accumulators."""
    return to_int32(np.matmul(a.astype(np.float64), b.astype(np.float64)))


class Window:
    """Geometry of a convolution: how far the kernel moves and what is added around the image.

    `pads` lists the elements before each dimension and then those after; `is_ceil`: a last window
    that begins inside is one too, with what is `beyond` the pads. Raises UsageError if sizes do
    not fit.
    """

    def __init__(
        self,
        image: Sequence[int],
        kernel: Sequence[int],
        strides: Sequence[int] = (),
        pads: Sequence[int] = (),
        dilations: Sequence[int] = (),
        auto_pad: str = "NOTSET",
        is_ceil: bool = False,
    ) -> None:
        rank = len(kernel)
        if len(image) != rank:
            raise UsageError(f"the image has {len(image)} spatial dimensions, the kernel {rank}")
        self.kernel = tuple(kernel)
        self.strides = tuple(strides) or (1,) * rank
        self.dilations = tuple(dilations) or (1,) * rank
        for name, given in (("strides", self.strides), ("dilations", self.dilations)):
            if len(given) != rank or any(v < 1 for v in given):
                raise UsageError(f"{name} {list(given)} do not fit {rank} spatial dimensions")
        self.reach = tuple(
            (k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)
        )
        self.pads = self._pads(image, pads, auto_pad)
        self.beyond = tuple(self._beyond(i, n) if is_ceil else 0 for i, n in enumerate(image))
        self.pads = tuple(
            (b, a + more) for (b, a), more in zip(self.pads, self.beyond, strict=True)
        )
        padded = (n + b + a for n, (b, a) in zip(image, self.pads, strict=True))
        self.out = tuple(
            (n - r) // s + 1 for n, r, s in zip(padded, self.reach, self.strides, strict=True)
        )
        if any(n < 1 for n in self.out):
            raise UsageError(f"the kernel {list(self.kernel)} does not fit the image {list(image)}")

    def _pads(
        self, image: Sequence[int], pads: Sequence[int], auto_pad: str
    ) -> tuple[tuple[int, int], ...]:
        rank = len(self.kernel)
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            return tuple(self._same(i, n, auto_pad) for i, n in enumerate(image))
        if auto_pad == "VALID" or not pads:
            return ((0, 0),) * rank
        if auto_pad != "NOTSET":
            raise UsageError(f"unknown auto_pad `{auto_pad}`")
        if len(pads) != 2 * rank or any(p < 0 for p in pads):
            raise UsageError(f"pads {list(pads)} do not fit {rank} spatial dimensions")
        return tuple((pads[i], pads[i + rank]) for i in range(rank))

    def _same(self, index: int, size: int, auto_pad: str) -> tuple[int, int]:
        steps = -(-size // self.strides[index])
        total = max((steps - 1) * self.strides[index] + self.reach[index] - size, 0)
        less, more = total // 2, total - total // 2
        return (less, more) if auto_pad == "SAME_UPPER" else (more, less)

    def _beyond(self, index: int, size: int) -> int:
        """How far the last window reaches beyond the pads."""
        (before, after), stride = self.pads[index], self.strides[index]
        total = size + before + after
        steps = -(-(total - self.reach[index]) // stride) + 1
        steps -= (steps - 1) * stride >= size + before  # it would start after the image
        return max((steps - 1) * stride + self.reach[index] - total, 0)

    def patches(self, image: np.ndarray, fill: float = 0) -> np.ndarray:
        """Return [batch, positions, channels * taps] of an image [batch, channels, ...]."""
        wide = np.pad(image, ((0, 0), (0, 0), *self.pads), constant_values=fill)
        rank = len(self.kernel)
        axes = tuple(range(2, 2 + rank))
        views = np.lib.stride_tricks.sliding_window_view(wide, self.reach, axes)
        steps = (slice(None), slice(None), *(slice(None, None, s) for s in self.strides))
        taps = (*steps, *(slice(None, None, d) for d in self.dilations))
        picked = np.moveaxis(views[taps], 1, 1 + rank)
        batch, channels = image.shape[:2]
        return picked.reshape(batch, math.prod(self.out), channels * math.prod(self.kernel))

    def taps(self, image: np.ndarray, fill: float = 0) -> Iterator[np.ndarray]:
        """Yield for each place of the kernel what is there of an image [..., spatial axes], for all
        positions: [..., *out]."""
        rank = len(self.kernel)
        wide = np.pad(
            image, [*[(0, 0)] * (image.ndim - rank), *self.pads], constant_values=fill
        )  # fmt: skip
        steps = tuple(zip(self.dilations, self.out, self.strides, strict=True))
        for place in np.ndindex(*self.kernel):
            cuts = (slice(p * d, p * d + (n - 1) * s + 1, s)
                    for p, (d, n, s) in zip(place, steps, strict=True))  # fmt: skip
            yield wide[(..., *cuts)]


Product = Callable[[np.ndarray, np.ndarray, slice], np.ndarray]
"""Multiplies patches [positions, taps] by filters [taps, n]; the slice says which filters."""


def convolve(
    image: np.ndarray,
    weights: np.ndarray,
    window: Window,
    groups: int,
    product: Product,
    fill: int = 0,
    absent: np.ndarray | None = None,
) -> np.ndarray:
    """Return the convolution of [batch, channels, ...] with [out, channels / groups, ...]; `fill`,
    the stored value of real 0, is what surrounds the image.

    `product` is called group by group; with `absent`, the stored value of weight 0 for all or for
    each filter, for many groups at once, whose filters weigh the channels of the others with 0."""
    batch, channels = image.shape[:2]
    filters, depth = weights.shape[:2]
    if groups < 1 or channels != depth * groups or filters % groups:
        raise UsageError(
            f"{channels} channels, {filters} filters of depth {depth} do not make {groups} groups"
        )
    share = filters // groups
    found = []
    size = depth * math.prod(window.kernel) * share
    many = 1 if absent is None else max(math.isqrt(MOST_WEIGHTS // max(size, 1)), 1)
    for group in range(0, groups, many):
        count = min(many, groups - group)
        patches = window.patches(image[:, group * depth : (group + count) * depth], fill)
        chosen = slice(group * share, (group + count) * share)
        rows = weights[chosen].reshape(count * share, -1).T
        if count > 1:
            assert absent is not None
            rows = _side_by_side(
                rows, count, absent.reshape(-1)[chosen if absent.size > 1 else ...]
            )
        part = product(patches.reshape(-1, patches.shape[-1]), rows, chosen)
        found.append(part.reshape(batch, math.prod(window.out), -1).transpose(0, 2, 1))
    return np.concatenate(found, 1).reshape(batch, filters, *window.out)


MOST_WEIGHTS = 1 << 22
"""Elements of the filters of several groups as one matrix."""


def _side_by_side(rows: np.ndarray, count: int, absent: np.ndarray) -> np.ndarray:
    """Filters [taps of a group, filters of all] as one matrix over the taps of all groups."""
    taps, filters = rows.shape
    share = filters // count
    whole = np.empty((count, taps, filters), rows.dtype)
    whole[:] = absent.astype(rows.dtype)
    for i in range(count):
        own = slice(i * share, (i + 1) * share)
        whole[i, :, own] = rows[:, own]
    return whole.reshape(count * taps, filters)


def conv_int32(
    image: np.ndarray, weights: np.ndarray, window: Window, groups: int = 1
) -> np.ndarray:
    """Return a convolution in int32 of integers from which zero points are subtracted already: what
    surrounds the image is 0."""
    return convolve(image, weights, window, groups, lambda a, b, _: matmul_int32(a, b))
