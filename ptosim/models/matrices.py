"""Tensors of any rank and granularity as matrices with a parameter for all, each row or each
column.

The host moves data where a block or an axis in the middle has to become a row; `back` undoes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ptosim.ground.records import dataclass
from ptosim.machine.quant.granularity import check_blocks, normal_axis, spread

WIDTH = 512


@dataclass(frozen=True, slots=True)
class Matrix:
    """A tensor as [rows, cols], which parameters run along what, and the way back."""

    array: np.ndarray
    along: str  # tensor, row or column
    scale: np.ndarray
    zero: np.ndarray
    back: Callable[[np.ndarray], np.ndarray]


def matrix(
    x: np.ndarray,
    scale: np.ndarray,
    zero: np.ndarray,
    axis: int | None = None,
    block: int | None = None,
) -> Matrix:
    """Return a tensor and its parameters as a matrix; raises UsageError if they do not fit."""
    zero = spread(zero, scale.shape)
    if block:
        return _blocks(x, scale, zero, 1 if axis is None else axis, block)
    if scale.size == 1:
        return _flat(x, scale.reshape(1), zero.reshape(1))
    return _axis(x, scale, zero, normal_axis(1 if axis is None else axis, x.ndim))


def _flat(x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> Matrix:
    width = min(WIDTH, max(x.size, 1))
    rows = -(-x.size // width)
    whole = x.reshape(-1)
    if whole.size != rows * width:
        whole = np.zeros(rows * width, x.dtype)
        whole[: x.size] = x.reshape(-1)
    return Matrix(
        whole.reshape(rows, width), "tensor", scale, zero,
        lambda y: y.reshape(-1)[: x.size].reshape(x.shape),
    )  # fmt: skip


def _axis(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int) -> Matrix:
    size, after = x.shape[axis], math.prod(x.shape[axis + 1 :])
    if after == 1 and axis:
        array = x.reshape(-1, size)
        return Matrix(array, "column", scale, zero, lambda y: y.reshape(x.shape))
    moved = np.moveaxis(x, axis, 0)
    return Matrix(
        moved.reshape(size, -1), "row", scale, zero,
        lambda y: np.moveaxis(y.reshape(moved.shape), 0, axis),
    )  # fmt: skip


def _blocks(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int, block: int) -> Matrix:
    check_blocks(x.shape, scale.shape, axis, block)
    where = normal_axis(axis, x.ndim)
    moved = np.moveaxis(x, where, -1)
    size, count = x.shape[where], scale.shape[where]
    wide = moved
    if size != count * block:
        wide = np.zeros((*moved.shape[:-1], count * block), x.dtype)
        wide[..., :size] = moved
    shape = wide.shape

    def back(y: np.ndarray) -> np.ndarray:
        return np.moveaxis(y.reshape(shape)[..., :size], -1, where)

    def per_row(values: np.ndarray) -> np.ndarray:
        return np.moveaxis(values, where, -1).reshape(-1)

    return Matrix(wide.reshape(-1, block), "row", per_row(scale), per_row(zero), back)
