"""Broadcast, ramps, and lanes in other places.

PTO micro-instruction specification, rearrangement. These have no governing mask except where the
text gives one. An index register holds unsigned numbers, taken modulo the number of lanes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ptosim.ground.ir.types import REGISTER_BYTES
from ptosim.machine.core import Core
from ptosim.machine.effects.account import Effects
from ptosim.machine.effects.strided import Touch
from ptosim.machine.numbers.lanes import is_float
from ptosim.machine.numbers.sorting import merge_order, sorted_order, until_one_is_empty
from ptosim.machine.pages import view_dtype
from ptosim.machine.vector import Mask
from ptosim.ops.base.binding import Binding, typed_scalar
from ptosim.ops.base.functions import Commit, kernel, nothing, vector
from ptosim.ops.micro.context import Run, VectorContext
from ptosim.ops.micro.pointers import Place, place, reads, require, writes

# -- broadcast and ramps ---------------------------------------------------------------------------


@vector("pto.vbr")
def vbr(ctx: VectorContext) -> Run:
    """A scalar in every lane."""
    source = ctx.register("src", ctx.lanes("dst"))
    return ctx.of_slots(lambda register: register, source, many=True)


@vector("pto.vdup")
def vdup(ctx: VectorContext) -> Run:
    """A scalar, or the lowest or highest lane whether it is active or not, in every active lane."""
    lanes = ctx.lanes("dst")
    count = REGISTER_BYTES // lanes.itemsize
    if getattr(ctx.op.variant, "name", "") == "scalar":
        return ctx.lane_wise(np.copy, "src", lanes=lanes)
    lane = count - 1 if ctx.word("position") == "HIGHEST" else 0
    sources = [ctx.register("src", lanes)]

    def everywhere(values: np.ndarray) -> np.ndarray:
        return np.repeat(values[..., lane : lane + 1], count, axis=-1)

    return ctx.masked(everywhere, sources, lanes, many=True)


@vector("pto.vci")
def vci(ctx: VectorContext) -> Run:
    """Lane i = scalar + i, or scalar - i; integers wrap, floats are rounded."""
    lanes = ctx.lanes("dst")
    ramp = np.arange(REGISTER_BYTES // lanes.itemsize)
    if ctx.word("order") == "DESC":
        ramp = -ramp
    steps = ramp.astype(np.float32 if is_float(lanes) else lanes)

    def count(scalar: float) -> np.ndarray:
        first = typed_scalar(scalar, lanes)
        return (steps + first.astype(steps.dtype)).astype(lanes)

    return ctx.of_slots(count, ctx["src"], many=True)


# -- two registers ---------------------------------------------------------------------------------


@vector("pto.vintlv")
def vintlv(ctx: VectorContext) -> Run:
    """The lanes of two registers in turn, as two registers."""

    def in_turn(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both, count = np.stack((a, b), axis=-1).reshape(*a.shape[:-1], -1), a.shape[-1]
        return both[..., :count], both[..., count:]

    return _two(ctx, in_turn)


@vector("pto.vdintlv")
def vdintlv(ctx: VectorContext) -> Run:
    """The even and the odd lanes of two registers one after the other."""

    def apart(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both = np.concatenate((a, b), axis=-1)
        return both[..., ::2].copy(), both[..., 1::2].copy()

    return _two(ctx, apart)


def _two(ctx: VectorContext, function: Callable[..., tuple[np.ndarray, np.ndarray]]) -> Run:
    lanes = ctx.lanes("low")
    lhs, rhs = ctx.register("lhs", lanes), ctx.register("rhs", lanes)
    return ctx.several(function, [lhs, rhs], [ctx["low"], ctx["high"]])


@vector("pto.vslide")
def vslide(ctx: VectorContext) -> Run:
    """The lanes amount .. amount + N - 1 of low and then high."""
    lanes = ctx.lanes("dst")
    low, high = ctx.register("low", lanes), ctx.register("high", lanes)
    count = REGISTER_BYTES // lanes.itemsize

    def slide(low: np.ndarray, high: np.ndarray, amount: int) -> np.ndarray:
        first = amount % (count + 1)
        return np.concatenate((low, high), axis=-1)[..., first : first + count].copy()

    return ctx.of_slots(slide, low, high, ctx["amount"], many=True)


# -- one register ----------------------------------------------------------------------------------


@vector("pto.vselr", "pto.vperm")
def vselr(ctx: VectorContext) -> Run:
    """Lane i = the lane that index i names, modulo the number of lanes."""
    lanes = ctx.lanes("dst")
    last = REGISTER_BYTES // lanes.itemsize - 1
    indices = ctx.register("indices", np.dtype(f"u{ctx.width('indices')}"))
    source = ctx.register("src", lanes)

    def pick(values: np.ndarray, places: np.ndarray) -> np.ndarray:
        if values.ndim == 1:
            return values[places & last]
        return np.take_along_axis(values, (places & last).astype(np.intp), axis=-1)

    return ctx.of_slots(pick, source, indices, many=True)


@vector("pto.vshift")
def vshift(ctx: VectorContext) -> Run:
    """Lane i = lane i - amount; lanes from outside are 0."""
    lanes = ctx.lanes("dst")
    count = REGISTER_BYTES // lanes.itemsize

    def shift(values: np.ndarray, amount: int) -> np.ndarray:
        by = max(-count, min(amount, count))
        result = np.zeros(values.shape, lanes)
        if by >= 0:
            result[..., by:] = values[..., : count - by]
        else:
            result[..., :by] = values[..., -by:]
        return result

    return ctx.of_slots(shift, ctx.register("src", lanes), ctx["amount"], many=True)


@vector("pto.vsqz")
def vsqz(ctx: VectorContext) -> Run:
    """The active lanes one after the other, the rest 0; SQZN counts their bytes."""
    lanes = ctx.lanes("dst")
    source, mask, target = ctx.register("src", lanes), ctx["mask"], ctx["dst"]
    active, size = ctx.active(lanes.itemsize), lanes.itemsize

    def run(core: Core) -> None:
        slots = core.slots
        chosen = slots[source][active(slots[mask])]
        result = np.zeros(REGISTER_BYTES // size, lanes)
        result[: len(chosen)] = chosen
        slots[target] = result
        core.registers["sqzn"] = len(chosen) * size

    return ctx.made(run)


@vector("pto.vusqz")
def vusqz(ctx: VectorContext) -> Run:
    """Lane i = the number of active lanes in front of it; the source is not read."""
    lanes = ctx.lanes("dst")
    active = ctx.active(lanes.itemsize)

    def count(mask: Mask) -> np.ndarray:
        on = active(mask)
        return (np.cumsum(on) - on).astype(lanes)

    return ctx.of_slots(count, ctx["mask"])


@vector("pto.vpack")
def vpack(ctx: VectorContext) -> Run:
    """The lower half of each lane, in one half of the result; the other half is 0."""
    lanes = ctx.lanes("dst")
    source = ctx.register("src", lanes)  # each lane is two narrow ones, the lower half first
    half = REGISTER_BYTES // lanes.itemsize // 2
    place = slice(half, None) if ctx.word("half") == "HIGHER" else slice(half)

    def pack(values: np.ndarray) -> np.ndarray:
        result = np.zeros(values.shape, lanes)
        result[..., place] = values[..., ::2]
        return result

    return ctx.of_slots(pack, source, many=True)


@vector("pto.vsunpack", "pto.vzunpack")
def unpack(ctx: VectorContext) -> Run:
    """One half of the lanes, with sign or zeros extended to twice their width."""
    wanted, width = ctx.lanes("dst"), ctx.lanes("src").itemsize
    kind = "i" if ctx.op.name == "pto.vsunpack" else "u"
    source = ctx.register("src", np.dtype(f"{kind}{width}"))
    wide = np.dtype(f"{kind}{2 * width}")
    half = REGISTER_BYTES // width // 2

    def unpack(values: np.ndarray, upper: bool) -> np.ndarray:
        first = half if upper else 0
        return values[..., first : first + half].astype(wide).view(wanted)

    return ctx.of_slots(unpack, source, ctx["part"], many=True)


# Sorting in UB: 32 scores with their indices, and the merge of sorted lists of records.
#
# PTO micro-instruction specification, sorting. A record is 8 bytes: the score in the first 4 (f16:
# 2), the index in the last 4. Ties keep the order of the input, and of two lists the lower one
# comes first. The merge compares f32 scores. No document says where NaN goes; here it is larger
# than every number (in a merge as large as infinity).


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
