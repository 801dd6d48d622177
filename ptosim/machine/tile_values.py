"""Tiles as the arrays that a caller gives and gets: logical, row-major, in the caller's types."""

from __future__ import annotations

import numpy as np

from ptosim.machine.core import Core
from ptosim.machine.storage import argument_dtype
from ptosim.machine.tile import Tile, TileRef


def load_tile(core: Core, ref: TileRef) -> np.ndarray:
    """Return the valid region of a tile, shape (valid rows, valid columns): ml_dtypes types for
    narrow floats, one entry for each element of a 4-bit type, codes where NumPy has no type."""
    tile = _tile_of(core, ref)
    values = np.array(tile.read())
    dtype = argument_dtype(tile.type.dtype)
    if tile.type.dtype.array == "int4":
        values = np.where(values > 7, values | 0xF0, values).astype(np.uint8)
    return values.view(dtype) if dtype.itemsize == values.itemsize else values


def store_tile(core: Core, ref: TileRef, array: np.ndarray) -> None:
    """Write an array of the valid region's shape and the tile's type into a tile."""
    _tile_of(core, ref).write(_stored(array, ref))


def _tile_of(core: Core, ref: TileRef) -> Tile:
    return Tile(ref, core.space(ref.type.loc).data)


def _stored(array: np.ndarray, ref: TileRef) -> np.ndarray:
    """An argument array as memory holds it: codes for narrow floats, bytes for i1."""
    if array.dtype == np.bool_ or (ref.type.dtype.bits <= 8 and not ref.type.dtype.is_integer):
        codes = array.view(np.uint8)
        return codes & 15 if ref.type.dtype.bits == 4 else codes
    if ref.type.dtype.bits == 4:
        return array.view(np.uint8) & 15
    return array
