"""Merging and splitting two tiles element by element (A5).

Neither tile pair is tied to rows: the elements of a row alternate, and the row of the result that
does not fit into the first destination goes on in the second.
"""

from __future__ import annotations

import numpy as np

from ptosim.semantics.base.binding import Binding
from ptosim.semantics.base.functions import Commit, kernel

_TILES = "src0 src1 dst0 dst1"


def _regions(op: Binding) -> list[np.ndarray]:
    first = op.tile("dst0")
    return [op.region(name, first.v_row, first.v_col) for name in _TILES.split()]


@kernel("pto.tinterleave", over=_TILES)
def tinterleave(op: Binding) -> Commit:
    """Elements of src0 and src1 alternate along each row of dst0, then along that of dst1."""
    src0, src1, dst0, dst1 = _regions(op)
    cols = dst0.shape[1]

    def merge() -> None:
        merged = np.stack((src0, src1), axis=2).reshape(len(src0), 2 * cols)
        dst0[...] = merged[:, :cols]
        dst1[...] = merged[:, cols:]

    return merge


@kernel("pto.tdeinterleave", over=_TILES)
def tdeinterleave(op: Binding) -> Commit:
    """Of each row of src0 and then src1, even places go to dst0, odd places to dst1."""
    src0, src1, dst0, dst1 = _regions(op)

    def split() -> None:
        joined = np.concatenate((src0, src1), axis=1)
        dst0[...] = joined[:, 0::2]
        dst1[...] = joined[:, 1::2]

    return split
