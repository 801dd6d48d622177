"""Sorting in UB: 32 scores with their indices, and the merge of sorted lists of records.

PTO micro-instruction specification, sorting. A record is 8 bytes: the score in the first 4 (f16:
2), the index in the last 4. Ties keep the order of the input, and of two lists the lower one comes
first. The merge compares f32 scores. No document says where NaN goes; here it is larger than every
number (in a merge as large as infinity)."""

from __future__ import annotations

from functools import partial

import numpy as np

from ptosim.machine.core import Core
from ptosim.machine.effects.account import Effects
from ptosim.machine.effects.strided import Touch
from ptosim.machine.numbers.sorting import merge_order, sorted_order, until_one_is_empty
from ptosim.machine.storage import view_dtype
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.functions import Commit, kernel, nothing
from ptosim.ops.micro.pointers import Place, place, reads, require, writes


@kernel("pto.vbitsort")
def vbitsort(op: Binding) -> Commit:
    """Each repeat: 32 scores and indices as 32 records, descending and stable."""
    repeat = op.values["repeat"]
    if repeat <= 0:
        return nothing
    scores, indices, target = place(op, "scores"), place(op, "indices"), place(op, "dst")
    dtype = view_dtype(op.op.bound["scores"].type.elem)
    count = 32 * repeat
    require(op, scores, scores.start, scores.start + count * dtype.itemsize)
    require(op, indices, indices.start, indices.start + count * 4)
    require(op, target, target.start, target.start + count * 8)
    reads(op, scores, count * dtype.itemsize)
    reads(op, indices, count * 4)
    writes(op, target, count * 8)
    keys = np.ndarray((repeat, 32), dtype, scores.data, scores.start)
    values = np.ndarray((repeat, 32), np.uint32, indices.data, indices.start)
    out = np.ndarray((repeat, 32, 8), np.uint8, target.data, target.start)
    return partial(_sort, keys, values, out)


def _sort(keys: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    order = sorted_order(keys, "first")
    records = np.zeros(out.shape, np.uint8)
    for part, at in ((keys, 0), (values, 4)):
        chosen = np.take_along_axis(part, order, -1)
        size = chosen.itemsize
        records[..., at : at + size] = chosen.view(np.uint8).reshape(*out.shape[:2], size)
    out[:] = records


@kernel("pto.vmrgsort4")
def vmrgsort4(op: Binding) -> Commit:
    """Merge up to four lists; with the suspend bit stop when the first one runs empty."""
    counts, config = op.values["counts"], op.values["config"]
    repeats, present, suspends = config & 0xFF, config >> 8 & 0xF, bool(config >> 12 & 1)
    lengths = [counts >> 16 * k & 0xFFFF if present >> k & 1 else 0 for k in range(4)]
    sources, target = [place(op, f"src{k}") for k in range(4)], place(op, "dst")
    total = sum(lengths)
    for where, length in (*zip(sources, lengths, strict=True), (target, total)):
        if length and repeats:
            require(op, where, where.start, where.start + length * 8 * repeats)
        tell = writes if where is target else reads
        tell(op, where, length * 8 * repeats)
    done: list[Effects] = []
    if suspends:  # the scores decide how far it comes
        op.done = lambda: done or None
    return partial(_merge_all, op.core, sources, target, lengths, repeats, done, suspends)


def _merge_all(
    core: Core,
    sources: list[Place],
    target: Place,
    lengths: list[int],
    repeats: int,
    done: list[Effects],
    suspends: bool,
) -> None:
    at, taken, reached = target.start, [0] * 4, Effects()
    for r in range(repeats):
        lists = [
            _records(where, where.start + r * length * 8, length)
            for where, length in zip(sources, lengths, strict=True)
        ]
        merged, taken = merge(lists, suspends=suspends)
        target.data[at : at + len(merged) * 8] = merged.reshape(-1)
        reached.writes.append(_at(target, at, len(merged)))
        for where, length, count in zip(sources, lengths, taken, strict=True):
            looked = min(count + 1, length)  # the record after the last one taken was compared
            if looked:
                reached.reads.append(_at(where, where.start + r * length * 8, looked))
        at += sum(lengths) * 8
    done[:] = [reached]
    core.registers["vms4_sr"] = sum(count << 16 * k for k, count in enumerate(taken))


def _at(where: Place, start: int, count: int) -> Touch:
    return Touch(where.operand, where.core, where.where, start, count * 8)


def _records(where: Place, start: int, count: int) -> np.ndarray:
    return where.data[start : start + count * 8].reshape(count, 8).copy()


def merge(lists: list[np.ndarray], *, suspends: bool) -> tuple[np.ndarray, list[int]]:
    """Return the merged records and how many of each list were taken."""
    scores = [records[:, :4].copy().view(np.float32)[:, 0] for records in lists]
    order = merge_order([np.where(np.isnan(s), np.float32(np.inf), s) for s in scores], "first")
    lengths = [len(records) for records in lists]
    if suspends and len(order):
        order = order[: until_one_is_empty(order, [n for n in lengths if n])]
    places = np.searchsorted(np.cumsum(lengths), order, "right")
    taken = np.bincount(places, minlength=len(lists)).tolist()
    return np.concatenate(lists)[order], taken
