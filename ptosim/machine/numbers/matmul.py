"""Matrix products of the cube unit.

No public document states the order in which the cube adds up its products. `f64`, the default, sums
in f64 and rounds once to f32 at the end of an instruction: products of f16, bf16 and 8-bit floats
are exact there, so the result does not depend on the order but for a double rounding in rare ties.
`sequential` rounds to f32 after every step along k, `blocks` after every 16 (the products of a
block are added in f64). Integer products are exact modulo 2^32.

With `sat` a NaN operand counts as 0 and an infinite one as the largest finite value of its type;
the result likewise. tf32 operands are rounded to 10 bits of mantissa, to nearest, ties to even or
away (PTO micro-instruction specification, cube): `rounding.keep_mantissa`.

Products of matrices without threads of their own.

BLAS divides a product of a tile among threads that then wait for one another: on a quiet machine
little is gained, on a shared one a product of 128 x 128 x 128 takes fifty times as long. So
products run on as many threads as `PTOSIM_THREADS` says, one unless it is set; several cores are
used by blocks that run side by side.

The command line says so to BLAS before NumPy is loaded (`ptosim.ground.processes`). As a library,
where NumPy and its threads are the caller's, the number is set around each product that BLAS would
divide and set back after it, with threadpoolctl (`ptosim[speed]`); without that package a product
is made in pieces that are too small to be divided."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np

from ptosim.ground.processes import OF_BLAS, wanted_threads
from ptosim.machine.numbers.codes import decode
from ptosim.machine.numbers.formats import lookup, require

# -- the f64 product -------------------------------------------------------------------------------

UNDIVIDED = 64**3
"""m x n x k up to which OpenBLAS keeps a product on one thread (interface/gemm.c: four times its
smallest threshold of 65,536)."""


def multiply(left: np.ndarray, right: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return left x right ([m, k], [k, n]; in `out` if it is given) as `np.matmul` does. Raises
    UsageError where `PTOSIM_THREADS` is no number."""
    m, k = left.shape
    n = right.shape[1]
    if m * n * k <= UNDIVIDED:
        return np.matmul(left, right, out=out)
    libraries = _libraries()
    if libraries is None:
        return _in_pieces(left, right, out)
    threads = wanted_threads()
    changed = [(c, c.get_num_threads()) for c in libraries]
    changed = [(c, number) for c, number in changed if number != threads]
    for library, _ in changed:
        library.set_num_threads(threads)
    try:
        return np.matmul(left, right, out=out)
    finally:
        for library, number in changed:
            library.set_num_threads(number)


def _in_pieces(left: np.ndarray, right: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """A product of some rows and columns at a time; the sum of an element is in one of them."""
    (m, k), n = left.shape, right.shape[1]
    if out is None:
        out = np.empty((m, n), np.result_type(left, right))
    rows = max(min(m, 64, UNDIVIDED // k), 1)
    columns = max(UNDIVIDED // (k * rows), 1)
    for row in range(0, m, rows):
        for column in range(0, n, columns):
            there = slice(row, row + rows), slice(column, column + columns)
            np.matmul(left[there[0]], right[:, there[1]], out=out[there])
    return out


@cache
def _libraries() -> tuple[Any, ...] | None:
    """The libraries whose threads threadpoolctl can set, () if none is to be set; None without that
    package, where products have to be small."""
    threads = wanted_threads()
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        # What was in the environment when NumPy was loaded is what holds.
        told = any(os.environ.get(name) == "1" for name in OF_BLAS)
        return () if told or threads > 1 else None
    return tuple(c for c in ThreadpoolController().lib_controllers if c.user_api == "blas")


# -- products --------------------------------------------------------------------------------------


ORDERS = ("f64", "sequential", "blocks")
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
    order: str = "f64",
    saturate: bool = False,
) -> np.ndarray:
    """start + left x right of operands made by `operand`: f32 of floats, i32 of integers.

    `left` is [m, k], `right` [k, n]; `start` is [m, n] or broadcasts to it (an accumulator, a
    bias)."""
    require("order of sums", order, ORDERS)
    if left.dtype.kind == "i":
        return _integers(left, right, start)
    if order == "f64":
        total = multiply(left, right)
        if start is not None:
            total = total + start.astype(np.float64)
        result = total.astype(np.float32)
    else:
        result = _stepwise(left, right, start, 1 if order == "sequential" else BLOCK)
    return _saturated(result) if saturate else result


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
