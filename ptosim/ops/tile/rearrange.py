"""Rearrangements of vec tiles: concatenation, transposition, packing of narrow elements, merging
and splitting."""

from __future__ import annotations

from functools import partial

import numpy as np

from ptosim.machine.effects.account import Effects
from ptosim.machine.effects.strided import Touch
from ptosim.ops.base.binding import Binding, OpFault
from ptosim.ops.base.functions import Commit, kernel, nothing
from ptosim.ops.tile.tables import warn_shared


@kernel("pto.tconcat")
def tconcat(op: Binding) -> Commit:
    """dst = the valid columns of src0, then those of src1, over the valid rows of dst. An empty
    source has no columns; the copies are made in this order."""
    dst = op.tile("dst")
    if op.has("src0Idx"):
        return _joined_by_bytes(op)
    names = [n for n in ("src0", "src1") if not op.tile(n).is_empty]
    if dst.v_row == 0 or not names:
        return nothing
    widths = [op.tile(n).v_col for n in names]
    if sum(widths) > dst.cols:
        raise OpFault(
            "PTO6412",
            f"'{op.op.name}' joins {' and '.join(map(str, widths))} columns; dst has {dst.cols}",
        )
    out, steps, at = op.region("dst", dst.v_row, sum(widths)), [], 0
    for name, width in zip(names, widths, strict=True):
        source = op.region(name, dst.v_row, width)
        op.carries(dst.v_row, width, name, dst=(0, at))
        steps.append(partial(np.copyto, out[:, at : at + width], source))
        at += width

    def join() -> None:
        for step in steps:
            step()

    return join


def _joined_by_bytes(op: Binding) -> Commit:
    """The indexed form: as many bytes of each row as its counts say; dstIdx = their sum (pto-isa
    headers)."""
    dst = op.tile("dst")
    if dst.v_row == 0:
        return nothing
    op.report("PTO6607", "joins by counts of bytes, assumed to be in column 0 of each row")
    sums = op.region("dstIdx", dst.v_row, 1)[:, 0]
    return _join_of(op, dst.v_row, sums)


def _join_of(op: Binding, rows: int, sums: np.ndarray | None) -> Commit:
    """The effect of both forms; `sums` receives the bytes of each row."""
    sources, counts, out = _joined(op, rows)
    size = op.tile("dst").dtype.itemsize
    done: list[np.ndarray] = []
    op.done = lambda: [_joining(op, rows, *done)] if done else None

    def join() -> None:
        done[:] = first, second = [c.astype(np.int64) for c in counts]
        _check_counts(op, [first, second], size)
        _join_rows(out, sources, [first // size, second // size])
        if sums is not None:
            sums[...] = (first + second).astype(sums.dtype)

    return join


def _joining(op: Binding, rows: int, first: np.ndarray, second: np.ndarray) -> Effects:
    """What a join did: the counts of bytes say what it read and wrote."""
    effects = Effects([*_rows(op, "src0", first), *_rows(op, "src1", second)])
    effects.writes += _rows(op, "dst", first + second)
    for name, reached in (
        ("src0Idx", effects.reads), ("src1Idx", effects.reads), ("dstIdx", effects.writes)
    ):  # fmt: skip
        if op.has(name):
            reached += _rows(op, name, np.full(rows, op.tile(name).dtype.itemsize))
    return effects


def _joined(op: Binding, rows: int) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """The sources, their counts, and the result: how much of a row is taken, the counts say."""
    first, second, out = (
        op.region(n, rows, op.tile(n).cols, is_covered=False) for n in ("src0", "src1", "dst")
    )
    for name in ("src0", "src1", "dst"):
        op.covers(name, rows, op.tile(name).v_col)
    counts = [op.region(n, rows, 1)[:, 0] for n in ("src0Idx", "src1Idx")]
    return [first, second], counts, out


def _check_counts(op: Binding, given: list[np.ndarray], size: int) -> None:
    """Raise OpFault for a count of bytes that its row does not have, or that ends in an element."""
    widths = [size * op.tile(n).cols for n in ("src0", "src1", "dst")]
    for name, bytes_, width in zip(
        ("src0", "src1", "dst"), (*given, given[0] + given[1]), widths, strict=True
    ):
        wrong = np.flatnonzero((bytes_ < 0) | (bytes_ > width) | (bytes_ % size != 0))
        if wrong.size:
            row = int(wrong[0])
            raise OpFault(
                "PTO6412",
                f"'{op.op.name}' joins {bytes_[row]} bytes of row {row} of {name}, "
                f"which has {width}",
                notes=(f"the counts are bytes, whole elements of {size}",),
                help="give src0Idx and src1Idx the bytes of each row, not its elements",
            )


@kernel("pto.tconcatidx", over="dst")
def tconcatidx(op: Binding) -> Commit:
    """dst[r] = the first src0Idx[r, 0] bytes of src0's row, then the first src1Idx[r, 0] of
    src1's."""
    return _join_of(op, op.tile("dst").v_row, None)


def _rows(op: Binding, name: str, sizes: np.ndarray) -> list[Touch]:
    """So many bytes from the start of each row of a tile, of rows of one size at once."""
    tile = op.tile(name)
    ends = np.flatnonzero(np.diff(sizes)) + 1
    return [
        Touch(
            name, op.core, tile.type.loc, tile.addr + int(low) * tile.row_bytes, int(sizes[low]),
            ((int(high - low), tile.row_bytes),),
        )
        for low, high in zip([0, *ends], [*ends, len(sizes)], strict=True)
        if high > low and sizes[low]
    ]  # fmt: skip


def _join_rows(out: np.ndarray, sources: list[np.ndarray], counts: list[np.ndarray]) -> None:
    """Element c of a row of the result is that of source 0 before its count, then of source 1."""
    left, right = (c[:, None] for c in counts)
    columns = np.arange(out.shape[1])[None, :]
    last = [s.shape[1] - 1 for s in sources]
    first = np.take_along_axis(sources[0], np.minimum(columns, last[0]) + 0 * left, 1)
    second = np.take_along_axis(sources[1], np.clip(columns - left, 0, last[1]), 1)
    np.copyto(out, np.where(columns < left, first, second), where=columns < left + right)


@kernel("pto.ttrans", over="src")
def ttrans(op: Binding) -> Commit:
    """dst[c, r] = src[r, c], for the valid region of src or its whole static shape (switch
    `ttrans.extent`), as far as dst has room for the latter."""
    src, dst = op.tile("src"), op.tile("dst")
    rows, cols = src.v_row, src.v_col
    if op.switch("ttrans.extent") == "static":
        rows, cols = max(rows, min(src.rows, dst.cols)), max(cols, min(src.cols, dst.rows))
    warn_shared(op, "dst", "src", is_certain=op.op.passes is not None)  # element by element, tails
    source, out = op.region("src", rows, cols, is_covered=False), op.region("dst", cols, rows)
    op.copies("src", rows, cols, "dst", turned=True)
    return lambda: np.copyto(out, source.T.copy())


@kernel("pto.tpack", over="dst")
def tpack(op: Binding) -> Commit:
    """dst = the low bits of each element of src."""
    src, dst = op.tile("src"), op.tile("dst")
    source, out = (op.region(n, dst.v_row, dst.v_col) for n in ("src", "dst"))
    wide, narrow = f"u{src.dtype.itemsize}", f"u{dst.dtype.itemsize}"
    return lambda: np.copyto(out.view(narrow), source.view(wide).astype(narrow))


# -- two tiles element by element (A5) -------------------------------------------------------------
#
# Neither tile pair is tied to rows: the elements of a row alternate, and the row of the result that
# does not fit into the first destination goes on in the second.

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
