"""Matrix products of the cube unit.

No public document states the order in which the cube adds up its products. `exact`, the default,
needs none: products are exact, their sum over the k of an instruction is exact and rounded to f32
once, then it is added to the accumulator or bias in f32. A NaN is the one of IEEE 754 without sign
and payload, a sum of zero is +0. `f64` sums in f64 in the order of the BLAS of the machine, start
included, and rounds to f32 at the end. `sequential` rounds to f32 after every step along k,
`blocks` after every 16 (the products of a block are added in f64). Integer products are exact
modulo 2^32.

With `sat` a NaN operand counts as 0 and an infinite one as the largest finite value of its type;
the result likewise. tf32 operands are rounded to 10 bits of mantissa, to nearest, ties to even or
away (PTO micro-instruction specification, cube): `rounding.keep_mantissa`."""

from __future__ import annotations

import numpy as np

from ptosim.machine.numbers.exact_sums import exact_product, multiply
from ptosim.machine.numbers.formats import decode, lookup, require

ORDERS = ("exact", "f64", "sequential", "blocks")
BLOCK = 16
_LARGEST = float(np.finfo(np.float32).max)


def operand(values: np.ndarray, name: str, *, saturate: bool = False) -> np.ndarray:
    """Return the values of an operand of format `name` as f64 (integers: i64); 8- and 4-bit floats
    are codes. With `saturate` NaN is 0 and an infinity the largest finite value of the format."""
    form = lookup(name)
    if form.kind in ("signed", "unsigned"):
        return values.astype(np.int64)
    wide = (decode(values, name) if form.kind == "code" else values).astype(np.float64)
    if saturate:
        wide = np.nan_to_num(wide, nan=0.0, posinf=form.highest, neginf=form.lowest)
    return wide


def scaled(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Multiply each group of 32 columns of `values` (f64) by 2^(scale - 127); `scales` are the e8m0
    codes of its row, code 255 is NaN."""
    factors = decode(scales, "f8E8M0FNU").astype(np.float64)
    return values * np.repeat(factors, 32, axis=1)[:, : values.shape[1]]


@np.errstate(all="ignore")
def product(
    left: np.ndarray,
    right: np.ndarray,
    start: np.ndarray | None = None,
    *,
    order: str = "exact",
    saturate: bool = False,
) -> np.ndarray:
    """start + left x right of operands made by `operand`: f32 of floats, i32 of integers.

    `left` is [m, k], `right` [k, n]; `start` is [m, n] or broadcasts to it (an accumulator, a
    bias)."""
    require("order of sums", order, ORDERS)
    if left.dtype.kind == "i":
        return _integers(left, right, start)
    if order == "exact":
        result = added(exact_product(left, right), start)
    elif order == "f64":
        total = multiply(left, right)
        if start is not None:
            total = total + start.astype(np.float64)
        result = total.astype(np.float32)
    else:
        result = _stepwise(left, right, start, 1 if order == "sequential" else BLOCK)
    return _saturated(result) if saturate else result


@np.errstate(all="ignore")
def added(sums: np.ndarray, start: np.ndarray | None) -> np.ndarray:
    """Return f32 sums plus an accumulator or biases, in f32 (in `sums`); each NaN as the plain
    one, whose bits do not depend on the processor."""
    if start is not None:
        sums += start.astype(np.float32, copy=False)
    unknown = np.isnan(sums)
    if unknown.any():
        sums[unknown] = np.nan
    return sums


def _integers(left: np.ndarray, right: np.ndarray, start: np.ndarray | None) -> np.ndarray:
    # BLAS has no integers: sums of 256 8-bit products stay below 2^24, all others below 2^53.
    kind = np.float32 if left.shape[1] <= 256 else np.float64
    total = multiply(left.astype(kind), right.astype(kind)).astype(np.int64)
    if start is not None:
        total = total + start
    return total.astype(np.int32)


def _stepwise(
    left: np.ndarray, right: np.ndarray, start: np.ndarray | None, step: int
) -> np.ndarray:
    shape = (left.shape[0], right.shape[1])
    total = np.zeros(shape, np.float32)
    if start is not None:
        total[:] = start
    for k in range(0, left.shape[1], step):
        part = multiply(left[:, k : k + step], right[k : k + step])
        # A single product is rounded before it is added, the sum of a block with the accumulator.
        total = (
            (total + part.astype(np.float32)) if step == 1 else (total + part).astype(np.float32)
        )
    return total


def _saturated(result: np.ndarray) -> np.ndarray:
    return np.nan_to_num(result, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST)
