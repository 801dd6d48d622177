"""Cumulative histograms of one byte of 16- or 32-bit keys (A5)."""

from __future__ import annotations

from functools import partial

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ops.base.binding import Binding, tile_array
from ptosim.ops.base.functions import Commit, kernel

_BINS = 256


def thistogram(op: Binding) -> Commit:
    """dst[r, b] = how many keys of row r have a byte not above b: the highest byte of every key, or
    a lower one of the keys whose higher bytes equal idx (pto-isa headers)."""
    src = op.tile("src")
    if src.is_empty:
        counts = op.region("dst", op.tile("dst").v_row, _BINS)
        return partial(counts.fill, 0)
    size = src.dtype.itemsize
    keys = op.region("src", src.v_row, src.v_col).view(f"u{size}")
    bins = op.region("dst", src.v_row, _BINS)
    place = counted_byte(op.op, size)
    if size == 4:
        op.report(
            "PTO6607", "counts 32-bit keys; idx is assumed to be read in the column of the key"
        )
    wanted = [_filter(op, size, n) for n in range(size - 1 - place)]
    if size == 4 or not wanted:
        op.covers("idx", len(wanted), src.v_col if wanted else 0)
    return partial(_count, keys, bins, place, wanted)


kernel("pto.thistogram", over="src")(thistogram)
kernel("pto.thistogram:bytes", over="dst")(thistogram)


def counted_byte(op: Operation, size: int) -> int:
    """Return the byte that is counted, 0 for the lowest of `size`."""
    named, highest = op.attributes.get("byte"), op.attributes.get("isMSB")
    if named is not None:
        return int(str(named).removeprefix("byte_"))
    if op.variant is not None and op.variant.name == "bytes":
        return 0 if highest is False else 1
    return size - 1 if highest else size - 2


def _filter(op: Binding, size: int, number: int) -> np.ndarray:
    """What byte `number` of a key, counted from the highest, must equal: one value for each row of
    16-bit keys, one for each column of 32-bit keys."""
    src, idx = op.tile("src"), op.tile("idx")
    if size == 2:
        return tile_array(idx, (src.v_row, 1), (1, 1), np.uint8)
    return tile_array(idx, (1, src.v_col), (1, 1), np.uint8, number * idx.cols)


def _count(keys: np.ndarray, bins: np.ndarray, place: int, wanted: list[np.ndarray]) -> None:
    rows = len(keys)
    counted = (keys >> (8 * place) & 0xFF).astype(np.intp)
    places = counted + np.arange(rows)[:, None] * _BINS
    chosen = np.ones(keys.shape, bool)
    top = keys.dtype.itemsize - 1
    for number, byte in enumerate(wanted):
        chosen &= (keys >> (8 * (top - number)) & 0xFF) == byte
    found = np.bincount(places[chosen], minlength=rows * _BINS).reshape(rows, _BINS)
    bins[...] = found.cumsum(axis=1).astype(bins.dtype)
