"""Strided views of a tile's bytes that its own layout does not have, checked against the space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptosim.machine.tile import Tile


def tile_array(
    tile: Tile,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: np.dtype | type | None = None,
    offset: int = 0,
) -> np.ndarray:
    """Return a view from `offset` bytes after a tile's base, with strides in bytes.

    Raises OpFault where it would leave the memory space; leaving the tile is the caller's concern.
    """
    kind = np.dtype(dtype if dtype is not None else tile.dtype)
    if 0 in shape:
        return np.empty(tuple(shape), kind)
    return tile.strided(shape, strides, kind, offset)


def flat_bytes(tile: Tile, count: int, offset: int = 0) -> np.ndarray:
    """Return `count` consecutive bytes from `offset` bytes after a tile's base."""
    return tile_array(tile, (count,), (1,), np.uint8, offset)
