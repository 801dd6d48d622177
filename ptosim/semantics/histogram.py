"""Cumulative histograms of one byte of 16-bit keys (A5)."""

from __future__ import annotations

import numpy as np

from ptosim.semantics.access import tile_array
from ptosim.semantics.binding import Binding
from ptosim.semantics.registry import Commit, kernel, nothing

_BINS = 256


@kernel("pto.thistogram")
def thistogram(op: Binding) -> Commit:
    """dst[r, b] = how many keys of row r have a byte not above b: the upper byte of every key
    (`isMSB`), or the lower byte of the keys whose upper byte is idx[r, 0]."""
    src, idx, dst = op.tile("src"), op.tile("idx"), op.tile("dst")
    if src.is_empty:
        return nothing
    rows = src.v_row
    keys = op.region("src", rows, src.v_col)
    bins = op.region("dst", rows, _BINS)
    chosen = tile_array(idx, (rows, 1), (1, 1), np.uint8)
    upper = bool(op.attr("isMSB"))
    edges = np.arange(rows)[:, None] * _BINS

    def count() -> None:
        words = keys.view(np.uint16)
        high = (words >> 8).astype(np.intp)
        numbers = high if upper else (words & 0xFF).astype(np.intp)
        places = (numbers + edges)[slice(None) if upper else high == chosen]
        found = np.bincount(places.reshape(-1), minlength=rows * _BINS).reshape(rows, _BINS)
        bins[...] = found.cumsum(axis=1).astype(dst.dtype)

    return count
