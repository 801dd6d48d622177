"""Dequantisation: (q - z) * scale, in the type that the scheme names.

Differences of 16-bit and narrower integers are exact in f32, so that the systems differ only where
32-bit integers are rounded on the way, or where the arithmetic runs in f16 or bf16.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ptosim.ground.errors import UsageError
from ptosim.machine.quant.granularity import Cover, check_alike, covering, part_of, pieces, spread
from ptosim.machine.quant.parameters import (
    EXTENDED,
    FLOATS,
    TF32,
    ElementType,
    Narrow,
    Scheme,
    Storage,
    float_name,
    integer_storage,
    narrowed,
    of_array,
    storage,
    wrap,
)
from ptosim.machine.quant.parameters import scheme as scheme_of
from ptosim.machine.quant.quantize import as_array


def dequantize(
    q: ArrayLike,
    *,
    scheme: str | Scheme,
    scale: ArrayLike,
    zero_point: ArrayLike = 0,
    dtype: ElementType | None = None,
    axis: int | None = None,
    block: int | None = None,
) -> np.ndarray:
    """Return the expressed values of stored ones by a named scheme.

    `q` holds one stored element an entry, in an integer or ml_dtypes type. `dtype` is the type of
    the result: f32 (the default), f16, bf16 or f64; where a scheme computes in the scale's type,
    that type is the default. The other arguments are those of `quantize`. Raises UsageError for
    arguments that do not fit each other.
    """
    return dequantized(q, scheme_of(scheme), scale, zero_point, dtype, axis, block)


def dequantized(
    q: ArrayLike,
    chosen: Scheme,
    scale: ArrayLike,
    zero_point: ArrayLike,
    dtype: ElementType | None,
    axis: int | None = None,
    block: int | None = None,
    expressed: str | None = None,
) -> np.ndarray:
    """Dequantise; see `dequantize`. `expressed`: the type of the result where its array does not
    say it (tf32, f80)."""
    stored, kind = _stored(q)
    scales = as_array(scale, "scale")
    result, work, narrow = _types(chosen, scales.dtype, dtype, expressed)
    zeros = as_array(zero_point, "zero_point")
    check_alike(scales.shape, zeros, "zero point")
    if "wrap" in chosen.overflow and kind.is_integer:
        zeros = wrap(zeros.astype(np.int64), kind)
    covers = covering(stored.shape, scales.shape, axis, block)
    with np.errstate(all="ignore"):
        values = _expand(
            stored, scales, spread(zeros, scales.shape), covers, (result, work, narrow)
        )
    return values.reshape(np.shape(q))


def _stored(q: ArrayLike) -> tuple[np.ndarray, Storage]:
    array = np.ascontiguousarray(q)  # a scalar becomes a vector of one
    known = of_array(array)
    if known is not None and known.kind in ("int", "float"):
        return array, known
    if array.dtype.kind in "iu":
        return array, integer_storage(32, signed=True)
    raise UsageError(f"stored values are integers or narrow floats, not {array.dtype}")


def _default(chosen: Scheme, scale: np.dtype) -> str:
    name = float_name(scale)
    return name if chosen.inverse == "scale" and name in ("f16", "bf16") else "f32"


Types = tuple[np.dtype, np.dtype, Narrow | None]
"""Of the result, of the computation, and what every step of it is rounded to (None: nothing)."""


def _types(
    chosen: Scheme, scale: np.dtype, dtype: ElementType | None, expressed: str | None
) -> Types:
    if expressed is not None and chosen.inverse == "expressed":
        if expressed == TF32:
            return FLOATS["f32"], FLOATS["f64"], TF32
        return EXTENDED, EXTENDED, None
    result = storage(dtype if dtype is not None else _default(chosen, scale))
    if result.kind != "wide":
        raise UsageError(f"the result of a dequantisation is f16, bf16, f32 or f64, not {result}")
    return result.array, _work(chosen, result), None


def _work(chosen: Scheme, result: Storage) -> np.dtype:
    if chosen.inverse == "expressed":
        return result.array
    return FLOATS["f64"] if result.name == "f64" else FLOATS["f32"]


def _expand(
    stored: np.ndarray,
    scales: np.ndarray,
    zeros: np.ndarray,
    covers: list[Cover],
    types: Types,
) -> np.ndarray:
    result, work, narrow = types

    def through(values: np.ndarray) -> np.ndarray:
        return values if narrow is None else narrowed(values, narrow).astype(work)

    factors = through(scales.astype(work))
    shifts = through(zeros.astype(work))
    has_zero = bool(np.any(shifts != 0))
    values = np.empty(stored.shape, result)
    for region in covers:
        data, target = region.data(stored), region.data(values)
        factor, shift = region.parameter(factors), region.parameter(shifts)
        for index in pieces(data.shape):
            part = through(data[index].astype(work))
            if has_zero:
                part -= part_of(shift, index)
                part = through(part)
            part *= part_of(factor, index)
            part = through(part)
            target[index] = part
    return values
