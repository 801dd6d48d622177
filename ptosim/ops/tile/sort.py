"""Sorting by a score: blocks of 32 elements into records, and merging of sorted lists of records.

A record has 8 bytes: an f32 score and a u32 index, or an f16 score, 16 zero bits and a u32 index.
Records are sorted downwards; equal scores keep their order, in a merge that of their lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import MAX_REPEATS
from ptosim.machine.effects.account import SCRATCHED, Effects, effects_of
from ptosim.machine.effects.strided import Touch
from ptosim.machine.numbers.sorting import merge_order, sorted_order, until_one_is_empty
from ptosim.machine.tile import Tile, TileRef
from ptosim.ops.base.binding import Binding, OpFault, tile_array
from ptosim.ops.base.functions import Commit, kernel, nothing

_BLOCK = 32
_RECORD = 8


@kernel("pto.tsort32", over="src")
def tsort32(op: Binding) -> Commit:
    """Sort each 32 elements of a row. A partial last block is filled up with -infinity; its index
    words are those that follow in memory, because the sort unit reads 32 of them."""
    src, idx, dst = op.tile("src"), op.tile("idx"), op.tile("dst")
    rows, cols = src.v_row, src.v_col
    scores = op.region("src", rows, cols)
    lanes = -(-cols // _BLOCK) * _BLOCK
    step = 0 if idx.v_row == 1 else idx.row_bytes
    if step and idx.v_row < rows:
        raise OpFault("PTO6021", f"'{op.op.name}' sorts {rows} rows; idx has {idx.v_row}")
    indices = tile_array(idx, (rows, lanes), (step, 4), np.uint32)
    op.finds("idx", lanes * 4, (rows if step else 1, step))
    _check_room(op, dst, rows, lanes)
    op.covers("dst", rows, lanes * _RECORD * 8 // dst.bits)
    out = tile_array(dst, (rows, lanes, 2), (dst.row_bytes, _RECORD, 4), np.uint32)
    nan = op.switch("sort.nan")
    shape = (rows, lanes // _BLOCK, _BLOCK)

    def sort() -> None:
        padded = np.full((rows, lanes), -np.inf, src.dtype)
        padded[:, :cols] = scores
        _warn_nan(op, padded)
        order = sorted_order(padded.reshape(shape), nan)
        words = padded.view(f"u{src.dtype.itemsize}").astype(np.uint32).reshape(shape)
        places = indices.reshape(shape)
        made = [np.take_along_axis(part, order, -1) for part in (words, places)]
        for number, part in enumerate(made):
            out[..., number] = part.reshape(rows, lanes)

    return sort


def _check_room(op: Binding, dst: Tile, rows: int, lanes: int) -> None:
    if lanes * _RECORD > dst.row_bytes or rows > dst.rows:
        raise OpFault(
            "PTO6410",
            f"'{op.op.name}' writes {lanes} records of {_RECORD} bytes for each of {rows} rows; "
            f"dst has {dst.rows} rows of {dst.row_bytes} bytes",
            notes=("a row is sorted in whole blocks of 32 elements",),
            help=f"give dst at least {lanes * _RECORD * 8 // dst.bits} columns",
        )


def _warn_nan(op: Binding, scores: np.ndarray) -> None:
    if np.isnan(scores).any():
        op.report(
            "PTO6420",
            "sorts a NaN, whose place no public document names",
            notes=("switch `sort.nan`: `sign` or `last`",),
        )


# -- merging ---------------------------------------------------------------------------------------


def _records(tile: Tile, count: int) -> np.ndarray:
    """Return the first records of a one-row tile as pairs of words."""
    return tile_array(tile, (count, 2), (_RECORD, 4), np.uint32)


def _count(op: Binding, tile: Tile, name: str) -> int:
    size = tile.v_col * tile.bits // 8
    if size % _RECORD:
        raise OpFault(
            "PTO6411",
            f"'{op.op.name}': {name} has {size} valid bytes, which are no whole records of "
            f"{_RECORD} bytes",
        )
    return size // _RECORD


def _scores(records: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the scores of records: the low bytes of their first word."""
    return np.ascontiguousarray(records[:, 0]).astype(f"u{dtype.itemsize}").view(dtype)


@kernel("pto.tmrgsort:runs", over="src")
def merge_runs(op: Binding) -> Commit:
    """Each four sorted runs of `blockLen` elements become one."""
    src, dst = op.tile("src"), op.tile("dst")
    length = int(op.scalar("blockLen"))
    groups, rest = _groups(op, src, length)
    count = _count(op, src, "src")
    if dst.cols < src.v_col:
        raise OpFault(
            "PTO6412", f"'{op.op.name}' writes {src.v_col} elements; dst has {dst.cols} columns"
        )
    records, out = _records(src, count), _records(dst, count)
    nan, dtype, run = op.switch("sort.nan"), src.dtype, length * src.bits // 64

    def merge() -> None:
        given = records.copy()
        scores = _scores(given, dtype)
        _warn_nan(op, scores)
        lists = [
            np.split(group, 4) for group in scores[: groups * 4 * run].reshape(groups, 4 * run)
        ]
        if rest:
            lists.append([tail for tail in _runs(scores[groups * 4 * run :], run) if len(tail)])
        order = [merge_order(group, nan) + i * 4 * run for i, group in enumerate(lists)]
        out[...] = given[np.concatenate(order)]

    return merge


def _runs(scores: np.ndarray, run: int) -> list[np.ndarray]:
    return np.split(scores, range(run, len(scores), run))


def _groups(op: Binding, src: Tile, length: int) -> tuple[int, int]:
    """Return how many groups of four runs the tile has, and the columns after them: a last group
    that is shorter is merged as it is."""
    groups, rest = divmod(src.v_col, 4 * length) if length > 0 and length % 64 == 0 else (0, -1)
    if rest < 0 or groups + bool(rest) > MAX_REPEATS:
        raise OpFault(
            "PTO6411",
            f"'{op.op.name}' cannot merge runs of {length} elements in {src.v_col} valid columns",
            notes=(
                "a run is a multiple of 64 elements",
                f"the columns are at most {MAX_REPEATS} times four runs",
            ),
        )
    if rest:
        op.report(
            "PTO6481",
            f"merges a last group of {rest} columns, which is shorter than four runs of {length}",
        )
    return groups, rest


@kernel("pto.tmrgsort:lists_alone")
@kernel("pto.tmrgsort:lists")
def merge_lists(op: Binding) -> Commit:
    """Two to four sorted tiles become one: merged into `tmp` (where nobody gives one into bytes of
    the simulator's own), from where the valid columns of dst are taken, so that a shorter dst
    receives the largest."""
    refs: Sequence[TileRef] = op.values["srcs"]
    tiles = [op.bind_tile(ref, f"srcs[{i}]") for i, ref in enumerate(refs)]
    tmp, dst = op.opt_tile("tmp"), op.tile("dst")
    lists = [_records(t, _count(op, t, f"srcs[{i}]")) for i, t in enumerate(tiles)]
    lengths = [len(records) for records in lists if len(records)]
    total = sum(lengths)
    if tmp is not None and total * _RECORD * 8 > tmp.cols * tmp.bits:
        raise OpFault(
            "PTO6412",
            f"'{op.op.name}' merges {total} records of {_RECORD} bytes; tmp has "
            f"{tmp.cols * tmp.bits // 8} bytes",
        )
    if total == 0:
        return nothing
    merged, taken = _merge_target(tmp, dst, total)
    out = tile_array(dst, (dst.v_col,), (dst.dtype.itemsize,), dst.dtype)
    nan, dtype, exhausted = op.switch("sort.nan"), tiles[0].dtype, bool(op.attr("exhausted"))
    sizes: list[int] = []
    op.done = lambda: [_merged(op, dst, sizes[-1])] if sizes else None

    def merge() -> None:
        given = np.concatenate(lists)
        scores = _scores(given, dtype)
        _warn_nan(op, scores)
        order = merge_order(np.split(scores, np.cumsum(lengths)[:-1]), nan)
        if exhausted:
            order = order[: until_one_is_empty(order, lengths)]
            _note_counts(op, order, [len(records) for records in lists])
        merged[: len(order)] = given[order]
        out[...] = taken.copy()
        sizes[:] = [len(order) * _RECORD]

    return merge


def _merged(op: Binding, dst: Tile, size: int) -> Effects:
    """What a merge did: dst takes what scratch held before it after so many bytes of records."""
    effects, rest = effects_of(op), dst.v_col * dst.bits // 8 - size
    if rest > 0:
        tail = Touch("dst", op.core, dst.type.loc, dst.addr + size, rest)
        effects.spoils.append((tail, SCRATCHED))
    return effects


def _merge_target(tmp: Tile | None, dst: Tile, total: int) -> tuple[np.ndarray, np.ndarray]:
    """The records of the merged list, and the elements of it that dst takes."""
    size = dst.dtype.itemsize
    if tmp is not None:
        return _records(tmp, total), tile_array(tmp, (dst.v_col,), (size,), dst.dtype)
    own = np.zeros(max(total * _RECORD, dst.v_col * size) + _RECORD, np.uint8)
    records = own[: total * _RECORD].view(np.uint32).reshape(total, 2)
    return records, own[: dst.v_col * size].view(dst.dtype)


def _note_counts(op: Binding, order: np.ndarray, lengths: list[int]) -> None:
    """The counts that the operation returns: a register of the core has them, which `get_vms4_sr`
    reads (C++ has fields for them)."""
    ends = np.cumsum(lengths)
    counts = np.bincount(np.searchsorted(ends, order, "right"), minlength=len(lengths))
    op.core.registers["vms4_sr"] = sum(int(n) << 16 * k for k, n in enumerate(counts))
    op.report("PTO6421", f"took {', '.join(map(str, counts))} records of its lists")


# Cumulative histograms of one byte of 16- or 32-bit keys (A5).

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
    return partial(_histogram_count, keys, bins, place, wanted)


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


def _histogram_count(
    keys: np.ndarray, bins: np.ndarray, place: int, wanted: list[np.ndarray]
) -> None:
    rows = len(keys)
    counted = (keys >> (8 * place) & 0xFF).astype(np.intp)
    places = counted + np.arange(rows)[:, None] * _BINS
    chosen = np.ones(keys.shape, bool)
    top = keys.dtype.itemsize - 1
    for number, byte in enumerate(wanted):
        chosen &= (keys >> (8 * (top - number)) & 0xFF) == byte
    found = np.bincount(places[chosen], minlength=rows * _BINS).reshape(rows, _BINS)
    bins[...] = found.cumsum(axis=1).astype(bins.dtype)
