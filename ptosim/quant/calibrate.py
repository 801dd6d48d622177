"""Scales from the data: the largest magnitude of each tensor, channel or block becomes the largest
code."""

from __future__ import annotations

import numpy as np

from ptosim.quant.granularity import normal_axis
from ptosim.quant.storage import Storage


def amax(x: np.ndarray, axis: int | None = None, block: int | None = None) -> np.ndarray:
    """Return the largest finite magnitude, in the shape that scales of this granularity have."""
    size = np.abs(np.where(np.isfinite(x), x, 0).astype(np.float64))
    if axis is None:
        return np.asarray(size.max(initial=0))
    where = normal_axis(axis, x.ndim)
    if not block:
        return size.max(axis=tuple(i for i in range(x.ndim) if i != where), initial=0)
    length = x.shape[where]
    count = -(-length // block)
    padded = np.pad(size, [(0, count * block - length if i == where else 0) for i in range(x.ndim)])
    shape = (*x.shape[:where], count, block, *x.shape[where + 1 :])
    return padded.reshape(shape).max(axis=where + 1, initial=0)


def symmetric_scale(
    x: np.ndarray, out: Storage, axis: int | None = None, block: int | None = None
) -> np.ndarray:
    """Return f32 scales that map the largest magnitude to the largest value of `out`; 1 for all
    zeros."""
    top = (amax(x, axis, block) / float(out.high)).astype(np.float32)
    return np.where(top > 0, top, np.float32(1)).astype(np.float32)
