"""Whether an operation that works in steps writes bytes that a later step of it still has to read.

A step is a row, and inside a row a repeat: 256 bytes of the wider type, ascending. A reduction of
columns writes its one row again with each row that it reads. A conversion into fewer bits does the
last columns of all rows after the rest of all rows (pto-isa headers of A5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import REGISTER_BYTES
from ptosim.ground.records import NamedTuple
from ptosim.machine.tile import TileRef


class _Steps(NamedTuple):
    """Rows and first columns of the steps in order, and columns of a step."""

    rows: np.ndarray
    cols: np.ndarray
    width: int
    total: int


def overwrites_early(op: Operation, dst: Any, src: Any) -> bool | None:
    """True if a step writes bytes of `dst` that a later one reads as `src`; None where nothing is
    known of the steps."""
    if not op.has("by_rows") or not isinstance(dst, TileRef) or not isinstance(src, TileRef):
        return None
    sizes = [r.type.dtype.bits // 8 for r in (dst, src)]
    if 0 in sizes or None in (_pitch(dst), _pitch(src)):
        return None
    same = [(r.addr, _pitch(r), size) for r, size in zip((dst, src), sizes, strict=True)]
    if same[0] == same[1] and not src.v_row > dst.v_row:
        return False
    rows = max(dst.v_row, src.v_row)
    steps = _steps(op, dst, rows, max(sizes), narrows=sizes[0] < sizes[1])
    return _meets_earlier(_bytes(dst, steps, sizes[0]), _bytes(src, steps, sizes[1]))


def _pitch(ref: TileRef) -> int | None:
    """Elements from one row to the next; None for a tile that is not laid out by rows."""
    if ref.type.slayout != "none_box":
        return None
    if ref.type.blayout == "row_major":
        return ref.type.cols
    return 1 if ref.type.cols == 1 else None  # a column is a row for each element


def _steps(op: Operation, dst: TileRef, count: int, size: int, *, narrows: bool) -> _Steps:
    width = REGISTER_BYTES // size
    starts = np.arange(0, dst.v_col, width)
    rows, cols = np.repeat(np.arange(count), len(starts)), np.tile(starts, count)
    if op.has("tails_last") and narrows and dst.v_col % width:
        order = np.argsort(cols + width > dst.v_col, kind="stable")
        rows, cols = rows[order], cols[order]
    return _Steps(rows, cols, width, dst.v_col)


def _bytes(ref: TileRef, steps: _Steps, size: int) -> tuple[np.ndarray, np.ndarray]:
    """First and last bytes of each step; one row, or fewer columns, are a broadcast."""
    rows = steps.rows if ref.v_row > 1 else 0 * steps.rows
    line = ref.addr + rows * ((_pitch(ref) or 0) * size)
    if ref.v_col != steps.total:
        return line, line + ref.v_col * size
    ends = np.minimum(steps.cols + steps.width, steps.total)
    return line + steps.cols * size, line + ends * size


def _meets_earlier(
    written: tuple[np.ndarray, np.ndarray], read: tuple[np.ndarray, np.ndarray]
) -> bool:
    order = np.argsort(written[0], kind="stable")
    starts, ends = written[0][order], written[1][order]
    first = np.searchsorted(ends, read[0], "right")
    last = np.searchsorted(starts, read[1], "left")
    now = np.arange(len(read[0]))
    for more in range(int(max((last - first).max(initial=0), 0))):
        at = np.minimum(first + more, len(order) - 1)
        if ((first + more < last) & (order[at] < now)).any():
            return True
    return False
