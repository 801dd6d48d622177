"""The order in which a row is reduced, which decides how float sums and products round.

A2/A3 (a row of more than one 256-byte repeat): repeats are combined lane by lane from left to
right, then the lanes of the one remaining repeat by the reduce instruction. Four f32 shapes take a
path of group reductions over the whole row instead: 64x128, 32x256, 16x512 and 8x1024. A5: each
256-byte chunk is reduced by the reduce instruction, then the results are combined from left to
right, the first with the neutral element.

The reduce instruction combines neighbors in pairs, level by level ("binary tree, two by two" in the
public documentation of the reduce interfaces); a lane without a partner goes up unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.ir.types import REGISTER_BYTES

Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]

_WHOLE_ROW_SHAPES = frozenset({(64, 128), (32, 256), (16, 512), (8, 1024)})


def tree(values: np.ndarray, combine: Combine) -> np.ndarray:
    """Combine the last axis, neighbors in pairs, level by level."""
    while values.shape[-1] > 1:
        paired = combine(values[..., 0:-1:2], values[..., 1::2])
        if values.shape[-1] % 2:
            paired = np.concatenate((paired, values[..., -1:]), axis=-1)
        values = paired
    return values[..., 0]


def is_whole_row(rows: int, cols: int, dtype: np.dtype) -> bool:
    """True for the shapes that A2/A3 reduce by groups over the whole row."""
    return dtype == np.float32 and (rows, cols) in _WHOLE_ROW_SHAPES


def by_lanes(values: np.ndarray, combine: Combine, neutral: Any) -> np.ndarray:
    """A2/A3: repeats lane by lane, then the tree."""
    rows, cols = values.shape
    lanes = REGISTER_BYTES // values.dtype.itemsize
    if cols <= lanes or is_whole_row(rows, cols, values.dtype):
        return tree(values, combine)
    total = np.array(values[:, :lanes])
    for start in range(lanes, cols, lanes):
        piece = values[:, start : start + lanes]
        total[:, : piece.shape[1]] = combine(total[:, : piece.shape[1]], piece)
    return tree(total, combine)


def by_chunks(values: np.ndarray, combine: Combine, neutral: Any) -> np.ndarray:
    """A5: the tree for each chunk, then the chunks from left to right."""
    rows, cols = values.shape
    lanes = REGISTER_BYTES // values.dtype.itemsize
    total = np.full(rows, neutral, values.dtype)
    whole = cols // lanes * lanes
    if whole:
        chunks = tree(values[:, :whole].reshape(rows, whole // lanes, lanes), combine)
        for column in chunks.T:
            total = combine(total, column)
    if whole < cols:
        total = combine(total, tree(values[:, whole:], combine))
    return total


def one_by_one(values: np.ndarray, combine: Combine, neutral: Any) -> np.ndarray:
    """The CPU simulator: from left to right; sums of f16 and bf16 in f32, rounded at the end."""
    wide = values.dtype.kind not in "iu" and combine is np.add
    columns = values.astype(np.float32) if wide else values
    total = np.full(len(values), neutral, columns.dtype)
    for column in columns.T:
        total = combine(total, column)
    return total.astype(values.dtype)


ORDERS = {"lanes": by_lanes, "chunks": by_chunks, "sequential": one_by_one}


def in_rows(values: np.ndarray, combine: Combine) -> np.ndarray:
    """Combine the rows from top to bottom."""
    total = np.array(values[0])
    for row in values[1:]:
        total = combine(total, row)
    return total


def in_row_pairs(values: np.ndarray, combine: Combine, *, odd_into_first: bool) -> np.ndarray:
    """Combine rows in pairs, level by level. An odd last row is added to the first (A2/A3) or the
    last (A5) result of its level."""
    while len(values) > 1:
        paired = combine(values[0:-1:2], values[1::2])
        if len(values) % 2:
            place = 0 if odd_into_first else -1
            paired[place] = combine(paired[place], values[-1])
        values = paired
    return np.array(values[0])
