"""Ranges of values for calibration: of a whole tensor (layer) and of each index of an axis, as
`quant.stats` carries them, and the types and scales that they suggest."""

from __future__ import annotations

import math

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass
from ptosim.machine.quant.fake_quant import fake_quant_type
from ptosim.machine.quant.granularity import PIECE, normal_axis, pieces
from ptosim.machine.quant.mlir.types import UniformType, float_text
from ptosim.machine.quant.parameters import Storage


@dataclass(slots=True)
class Statistics:
    """Ranges of finite values: `layer` [2] and `axes` [n, 2] (f32; empty without an axis).

    `skipped` counts values that are not finite, `seen` how many arrays were looked at."""

    layer: np.ndarray
    axes: np.ndarray
    axis: int | None
    skipped: int
    seen: int = 1

    def merged(self, other: Statistics) -> Statistics:
        """Return the ranges of both; raises UsageError if their axes have different lengths."""
        if self.axes.shape != other.axes.shape:
            raise UsageError(
                f"axis {self.axis} has {len(self.axes)} indices and then {len(other.axes)}"
            )
        return Statistics(
            _both(self.layer, other.layer), _both(self.axes, other.axes), self.axis,
            self.skipped + other.skipped, self.seen + other.seen,
        )  # fmt: skip

    def proposal(
        self, *, bits: int = 8, signed: bool = True, narrow: bool = False, per_axis: bool = False
    ) -> UniformType:
        """Return the uniform type for the ranges, widened to contain zero so that it has a code."""
        ranges = self.axes if per_axis else self.layer.reshape(1, 2)
        low, high = np.minimum(ranges[:, 0], 0), np.maximum(ranges[:, 1], 0)
        return fake_quant_type(
            low.tolist(), high.tolist(), bits, narrow_range=narrow, is_signed=signed,
            axis=self.axis if per_axis else None,
        )  # fmt: skip

    def attributes(self) -> str:
        """Return the attributes of `quant.stats`."""
        text = f"layerStats = dense<{_list(self.layer)}> : tensor<2xf32>"
        if self.axis is None:
            return text
        rows = ", ".join(_list(row) for row in self.axes)
        return (
            f"{text}, axisStats = dense<[{rows}]> : tensor<{len(self.axes)}x2xf32>, "
            f"axis = {self.axis} : i64"
        )


def statistics(x: np.ndarray, axis: int | None = None) -> Statistics:
    """Return the ranges of an array; raises UsageError for an axis that it does not have, or if it
    holds no finite number."""
    values = np.asarray(x).astype(np.float32)
    finite = np.isfinite(values)
    if not finite.any():
        raise UsageError("there is no finite value to take statistics of")
    skipped = int(values.size - np.count_nonzero(finite))
    layer = _range(values, finite, None)
    if axis is None:
        return Statistics(layer, np.zeros((0, 2), np.float32), None, skipped)
    where = normal_axis(axis, values.ndim)
    rest = tuple(i for i in range(values.ndim) if i != where)
    return Statistics(layer, _range(values, finite, rest), where, skipped)


def _range(values: np.ndarray, finite: np.ndarray, axes: tuple[int, ...] | None) -> np.ndarray:
    low = np.where(finite, values, np.inf).min(axis=axes)
    high = np.where(finite, values, -np.inf).max(axis=axes)
    empty = low > high  # no finite value at this index
    return np.stack([np.where(empty, 0, low), np.where(empty, 0, high)], -1).astype(np.float32)


def _both(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.stack([np.minimum(a[..., 0], b[..., 0]), np.maximum(a[..., 1], b[..., 1])], -1)


def _list(values: np.ndarray) -> str:
    return f"[{', '.join(float_text(float(v)) for v in values)}]"


# -- scales ----------------------------------------------------------------------------------------


def amax(x: np.ndarray, axis: int | None = None, block: int | None = None) -> np.ndarray:
    """Return the largest finite magnitude, in the shape that scales of this granularity have."""
    if axis is None:
        flat = np.ascontiguousarray(x).reshape(-1)
        tops = [_sizes(flat[i : i + PIECE]).max() for i in range(0, flat.size, PIECE)]
        return np.asarray(max(tops, default=0.0))
    where = normal_axis(axis, x.ndim)
    before, length, after = x.shape[:where], x.shape[where], x.shape[where + 1 :]
    rows = x.reshape(math.prod(before), length, math.prod(after))
    if not block:
        tops = np.zeros(length)
        for index in pieces(rows.shape) if x.size else ():
            part = _sizes(rows[index]).max(axis=(0, 2))
            along = (*index, slice(None))[1]
            tops[along] = np.maximum(tops[along], part)
        return tops
    shape = len(rows), -(-length // block), rows.shape[2]
    tops = np.zeros(shape)
    for index in pieces(shape, max(PIECE // block, 1)) if x.size else ():
        outer, which, inner = (*index, slice(None), slice(None))[:3]
        low, high, _ = which.indices(shape[1])  # type: ignore[union-attr]  # slices, all of them
        size = _sizes(rows[outer, low * block : high * block, inner])
        starts = np.arange(0, size.shape[1], block)
        tops[index] = np.maximum.reduceat(size, starts, axis=1)
    return tops.reshape(*before, shape[1], *after)


def _sizes(x: np.ndarray) -> np.ndarray:
    return np.abs(np.where(np.isfinite(x), x, 0).astype(np.float64))


def symmetric_scale(
    x: np.ndarray, out: Storage, axis: int | None = None, block: int | None = None
) -> np.ndarray:
    """Return f32 scales that map the largest magnitude to the largest value of `out`; 1 for all
    zeros."""
    top = (amax(x, axis, block) / float(out.high)).astype(np.float32)
    return np.where(top > 0, top, np.float32(1)).astype(np.float32)
