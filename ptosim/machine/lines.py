"""Copies by long items: NumPy moves one item of many bytes faster than what it is made of."""

from __future__ import annotations

import numpy as np


def in_lines(target: np.ndarray, source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return views of two arrays of one shape and type, so that `np.copyto` of the first from the
    second copies the same elements: what follows one another in both is one item, wherever its axes
    are. Arrays without such a run come back as they are."""
    if target.dtype != source.dtype or target.shape != source.shape or target.size < 2:
        return target, source
    axes = [axis for axis, size in enumerate(target.shape) if size > 1]
    axes.sort(key=lambda axis: -abs(target.strides[axis]))
    run = target.dtype.itemsize
    outer = len(axes)
    while outer and target.strides[axes[outer - 1]] == run == source.strides[axes[outer - 1]]:
        outer -= 1
        run *= target.shape[axes[outer]]
    if outer == len(axes):
        return target, source
    return _items(target, axes, outer, run), _items(source, axes, outer, run)


def _items(array: np.ndarray, axes: list[int], outer: int, run: int) -> np.ndarray:
    """The array with its axes in an order, those from `outer` on together each `run` bytes."""
    rest = [axis for axis in range(array.ndim) if axis not in axes]
    ordered = array.transpose(*rest, *axes)
    shape = [array.shape[axis] for axis in axes[:outer]]
    return ordered.reshape(*shape, -1).view(np.dtype((np.void, run)))[..., 0]
