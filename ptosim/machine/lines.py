"""Copies by long items: NumPy moves one item of many bytes faster than what it is made of."""

from __future__ import annotations

from functools import lru_cache

import numpy as np


def in_lines(target: np.ndarray, source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return views of two arrays of one shape and type, so that `np.copyto` of the first from the
    second copies the same elements: what follows one another in both is one item, wherever its axes
    are. Arrays without such a run come back as they are."""
    if target.dtype != source.dtype or target.shape != source.shape or target.size < 2:
        return target, source
    plan = _plan(target.shape, target.strides, source.strides, target.itemsize)
    if plan is None:
        return target, source
    return _items(target, *plan), _items(source, *plan)


@lru_cache(maxsize=1024)
def _plan(
    shape: tuple[int, ...], strides: tuple[int, ...], others: tuple[int, ...], size: int
) -> tuple[tuple[int, ...], tuple[int, ...], np.dtype] | None:
    """How to see two arrays as items: the order of their axes, the sizes of those that stay, and
    the type of an item. None if no two elements follow one another in both."""
    axes = [axis for axis, count in enumerate(shape) if count > 1]
    axes.sort(key=lambda axis: -abs(strides[axis]))
    run = size
    outer = len(axes)
    while outer and strides[axes[outer - 1]] == run == others[axes[outer - 1]]:
        outer -= 1
        run *= shape[axes[outer]]
    if outer == len(axes):
        return None
    rest = [axis for axis, count in enumerate(shape) if count == 1]
    kept = tuple(shape[axis] for axis in axes[:outer])
    return (*rest, *axes), (*kept, -1), np.dtype((np.void, run))


def _items(
    array: np.ndarray, order: tuple[int, ...], shape: tuple[int, ...], item: np.dtype
) -> np.ndarray:
    return array.transpose(order).reshape(shape).view(item)[..., 0]
