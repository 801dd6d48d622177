"""Which scale belongs to which element: per tensor, per axis, per block.

Every granularity becomes views in which NumPy's broadcasting does the rest: an axis with blocks is
split in two, blocks and positions in a block, and the parameters have one entry for the block.
Views are cut into pieces of a bounded number of elements, so that work needs few and small
temporaries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass

PIECE = 1 << 16
"""Elements that are worked on at a time: the temporaries of a piece stay in the second-level
cache."""

View = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True)
class Cover:
    """Part of a tensor with the scales that cover it. `data` cuts it out of an array of the
    tensor's shape, `parameter` out of an array of the scale's shape; the two broadcast."""

    data: View
    parameter: View


def spread(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return parameters in a shape; one value is that of all."""
    return values if values.shape == shape else np.broadcast_to(values.reshape(()), shape)


def check_alike(shape: tuple[int, ...], values: np.ndarray, what: str) -> None:
    """Raise UsageError unless a parameter beside the scale is one value or has the scale's
    shape."""
    if values.size != 1 and values.shape != shape:
        raise UsageError(f"scale and {what} must have the same shape: {shape} and {values.shape}")


def along(values: np.ndarray, rank: int, axis: int) -> np.ndarray:
    """Return a vector so that it runs along an axis of arrays of a rank; one value as a scalar."""
    if values.size == 1:
        return values.reshape(())
    shape = [1] * rank
    shape[axis] = values.size
    return values.reshape(shape)


def normal_axis(axis: int, rank: int) -> int:
    """Return the axis counted from the front; raises UsageError if there is no such axis."""
    if not -rank <= axis < rank:
        raise UsageError(f"axis {axis} is not in valid range [{-rank},{rank - 1}]")
    return axis % rank


def covering(
    shape: tuple[int, ...],
    scale_shape: tuple[int, ...],
    axis: int | None = None,
    block: int | None = None,
) -> list[Cover]:
    """Return how scales of `scale_shape` cover a tensor of `shape`.

    One scale covers everything. With `block`, scales have the tensor's rank and cover `block`
    consecutive elements along `axis` (the last block may be short). With `axis` alone they are a
    vector along it. Without either they must have the tensor's rank and divide each of its
    dimensions (blocks along several axes; 1: the whole axis). Raises UsageError for anything else.
    """
    if math.prod(scale_shape) == 1 and not block:
        return [Cover(_per_tensor, lambda p: p.reshape((1,) * len(shape)))]
    if block:
        return _blocked(shape, scale_shape, 1 if axis is None else axis, block)
    if axis is not None:
        return [_axis(shape, scale_shape, axis)]
    return [_grid(shape, scale_shape)]


def _per_tensor(array: np.ndarray) -> np.ndarray:
    return array


def _axis(shape: tuple[int, ...], scale_shape: tuple[int, ...], axis: int) -> Cover:
    where = normal_axis(axis, len(shape))
    if scale_shape != (shape[where],):
        raise UsageError(
            f"for per axis quantization, scale must be 1D tensor with size {shape[where]} "
            f"(axis {where} of {_text(shape)}), not {_text(scale_shape)}"
        )
    spread = tuple(shape[where] if d == where else 1 for d in range(len(shape)))
    return Cover(_per_tensor, lambda p: p.reshape(spread))


def _grid(shape: tuple[int, ...], scale_shape: tuple[int, ...]) -> Cover:
    fits = len(shape) == len(scale_shape) and all(
        n > 0 and d % n == 0 for d, n in zip(shape, scale_shape, strict=True)
    )
    if not fits:
        raise UsageError(
            f"scales of shape {_text(scale_shape)} do not cover a tensor of shape {_text(shape)}",
            help="name the axis (and block) that they belong to, or give them the tensor's rank",
        )
    split = [(n, d // n) for d, n in zip(shape, scale_shape, strict=True)]
    whole = tuple(size for pair in split for size in pair)
    spread = tuple(size for n, _ in split for size in (n, 1))
    return Cover(lambda a: a.reshape(whole), lambda p: p.reshape(spread))


def _blocked(
    shape: tuple[int, ...], scale_shape: tuple[int, ...], axis: int, block: int
) -> list[Cover]:
    check_blocks(shape, scale_shape, axis, block)
    where = normal_axis(axis, len(shape))
    before, after = math.prod(shape[:where]), math.prod(shape[where + 1 :])
    size, count = shape[where], scale_shape[where]
    full = size // block
    flat = (before, size, after)
    scales = (before, count, 1, after)
    parts = []
    if full:
        parts.append(
            Cover(
                lambda a: a.reshape(flat)[:, : full * block].reshape(before, full, block, after),
                lambda p: p.reshape(scales)[:, :full],
            )
        )
    if size % block:
        parts.append(
            Cover(
                lambda a: a.reshape(flat)[:, None, full * block :],
                lambda p: p.reshape(scales)[:, full:],
            )
        )
    return parts


def check_blocks(
    shape: tuple[int, ...], scale_shape: tuple[int, ...], axis: int, block: int
) -> None:
    """Raise UsageError unless scales of a shape cover blocks along an axis of a tensor."""
    if block < 0:
        raise UsageError(f"'block_size' must be non-negative, not {block}")
    if len(scale_shape) != len(shape):
        raise UsageError(
            "scale and x must have the same rank for blocked quantization: "
            f"{len(scale_shape)} and {len(shape)}"
        )
    where = normal_axis(axis, len(shape))
    if any(n != d for i, (n, d) in enumerate(zip(scale_shape, shape, strict=True)) if i != where):
        raise UsageError(
            "scale and x must have the same shape despite the quantize axis for blocked "
            f"quantization: {_text(scale_shape)} and {_text(shape)}"
        )
    needed = -(-shape[where] // block)
    if scale_shape[where] != needed:
        raise UsageError(
            "scale must be ceil(Di/block_size) on the quantize axis i for blocked quantization: "
            f"{needed}, not {scale_shape[where]}"
        )


def pieces(shape: tuple[int, ...], limit: int = PIECE) -> Iterator[tuple[slice | int, ...]]:
    """Yield indices that cut an array of `shape` into parts of at most about `limit` elements."""
    inner = 1
    for cut in reversed(range(len(shape))):
        if inner * shape[cut] > limit:
            step = max(limit // inner, 1)
            for lead in np.ndindex(*shape[:cut]):
                for start in range(0, shape[cut], step):
                    yield (*(slice(i, i + 1) for i in lead), slice(start, start + step))
            return
        inner *= shape[cut]
    yield (slice(None),) * len(shape)


def part_of(parameter: np.ndarray, index: tuple[slice | int, ...]) -> np.ndarray:
    """Return what a parameter array, which broadcasts, contributes to a piece."""
    return parameter[
        tuple(
            slice(None) if size == 1 else where
            for where, size in zip(index, parameter.shape, strict=False)
        )
    ]


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
