"""Reductions within a register: over all lanes, over groups of 32 bytes, over pairs.

PTO micro-instruction specification, reductions. Inactive lanes count as 0 in sums and lose every
comparison; lanes without a result are 0. Sums add adjacent pairs, level by level, in the type of
the lanes (the order is not documented; the data do not separate it), integers wrap. vcpadd adds
pairs, as the programs' data and the headers have it, although the text describes a prefix sum."""

from __future__ import annotations

import numpy as np

from ptosim.ground.ir.types import REGISTER_BYTES
from ptosim.machine.core import Core
from ptosim.machine.numbers.integers import unsigned
from ptosim.machine.numbers.lanes import highest, lowest
from ptosim.machine.vector import Mask
from ptosim.ops.base.functions import vector
from ptosim.ops.micro.context import Function, Run, VectorContext


class PairTree:
    """Sums of adjacent pairs, level by level, in the type of the lanes, until `groups` are left.

    The levels are buffers made once, so that a sum costs one NumPy call for each level.
    """

    def __init__(self, lanes: np.dtype, count: int, groups: int) -> None:
        self._top = np.zeros(count, lanes)
        self._levels = []
        level = self._top
        while len(level) > groups:
            below = np.zeros(len(level) // 2, lanes)
            self._levels.append((level[::2], level[1::2], below))
            level = below
        self._bottom = level

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the sums; the array belongs to the tree. Of rows of numbers, those of each row."""
        if values.ndim > 1:
            return self._rows(values)
        self._top[:] = values
        for even, odd, below in self._levels:
            np.add(even, odd, out=below)
        return self._bottom

    def _rows(self, values: np.ndarray) -> np.ndarray:
        level = values.astype(self._top.dtype, copy=False)
        for _ in self._levels:
            level = level[..., ::2] + level[..., 1::2]
        return level


def _reduced(ctx: VectorContext, function: Function, fill: object) -> Run:
    """dst = the function of a register whose inactive lanes are replaced."""
    lanes, wanted = ctx.lanes("src"), ctx.lanes("dst")
    inactive = ctx.inactive(lanes.itemsize)

    def reduce(values: np.ndarray, mask: Mask) -> np.ndarray:
        off = inactive(mask)
        if off is not None:
            values = values.copy()
            values[..., off] = fill
        return function(values).view(wanted)

    return ctx.of_slots(reduce, ctx.register("src", lanes), ctx["mask"], many=True)


@vector("pto.vcadd", "pto.vcgadd", "pto.vcpadd")
def sums(ctx: VectorContext) -> Run:
    """Sums of all lanes, of each group, of each pair, in the first lanes."""
    lanes, wanted = ctx.lanes("src"), ctx.lanes("dst")
    count, length = REGISTER_BYTES // lanes.itemsize, REGISTER_BYTES // wanted.itemsize
    results = {"pto.vcadd": 1, "pto.vcgadd": 8, "pto.vcpadd": count // 2}[ctx.op.name]
    tree = PairTree(wanted if wanted.itemsize > lanes.itemsize else lanes, count, results)

    def add(values: np.ndarray) -> np.ndarray:
        result = np.zeros((*values.shape[:-1], length), wanted)
        result[..., :results] = tree(values)
        return result

    return _reduced(ctx, add, 0)


_EXTREMA = {
    "max": (np.argmax, lowest),
    "min": (np.argmin, highest),
}


@vector("pto.vcmax", "pto.vcmin")
def extremum(ctx: VectorContext) -> Run:
    """Lane 0: the extremum of the active lanes; lane 1: the index of the first one, as an
    integer."""
    find, worst = _EXTREMA[ctx.op.name.removeprefix("pto.vc")]
    lanes = ctx.lanes("src")
    raw = unsigned(lanes)

    def best(values: np.ndarray) -> np.ndarray:
        result = np.zeros(values.shape, raw)
        if values.ndim > 1:
            places = find(values, axis=-1)[..., None]
            result[..., :1] = np.take_along_axis(values.view(raw), places, axis=-1)
            result[..., 1:2] = places
            return result
        at = int(find(values))
        result[0] = values.view(raw)[at]
        result[1] = at
        return result

    return _reduced(ctx, best, worst(lanes))


@vector("pto.vcbmax", "pto.vcbmin")
def broadcast_extremum(ctx: VectorContext) -> Run:
    """Lane 0: the extremum of the active lanes; a mask of the active lanes that are equal to it."""
    find, worst = _EXTREMA[ctx.op.name.removeprefix("pto.vcb")]
    lanes = ctx.lanes("src")
    fill, source, mask = worst(lanes), ctx.register("src", lanes), ctx["mask"]
    active, target, where = ctx.active(lanes.itemsize), ctx["dst"], ctx["where"]

    def run(core: Core) -> None:
        slots = core.slots
        values, on = slots[source], active(slots[mask])
        candidates = np.where(on, values, fill)
        best = candidates[int(find(candidates))]
        result = np.zeros_like(values)
        result[0] = best
        slots[target] = result
        slots[where] = Mask.of_lanes((values == best) & on)

    return ctx.made(run)


@vector("pto.dhistv2", "pto.chistv2")
def histogram(ctx: VectorContext) -> Run:
    """How many active bytes are equal to each of 128 values, or (chistv2) at most it, and what was
    counted before."""
    is_cumulative = ctx.op.name == "pto.chistv2"
    wide, active = np.dtype(np.uint16), ctx.active(1)
    wanted, source = ctx.lanes("dst"), ctx.register("src", np.dtype(np.uint8))

    def count(acc: np.ndarray, values: np.ndarray, mask: Mask, bin_: int) -> np.ndarray:
        counts = np.bincount(values[active(mask)], minlength=256)
        if is_cumulative:
            counts = np.cumsum(counts)
        places = 128 * bin_ + np.arange(128)
        beyond = counts[-1] if is_cumulative else 0
        found = np.where(places > 255, beyond, counts[np.clip(places, 0, 255)])
        found[places < 0] = 0
        return (acc + found.astype(wide)).view(wanted)

    return ctx.of_slots(count, ctx.register("acc", wide), source, ctx["mask"], ctx["bin"])


@vector("pto.vcgmax", "pto.vcgmin")
def group_extrema(ctx: VectorContext) -> Run:
    """Lanes 0 to 7: the extrema of the active lanes of each group."""
    find, worst = _EXTREMA[ctx.op.name.removeprefix("pto.vcg")]
    lanes = ctx.lanes("src")
    starts = np.arange(8) * (REGISTER_BYTES // lanes.itemsize // 8)

    def best(values: np.ndarray) -> np.ndarray:
        result = np.zeros(values.shape, values.dtype)
        places = find(values.reshape(*values.shape[:-1], 8, -1), axis=-1) + starts
        if values.ndim > 1:
            result[..., :8] = np.take_along_axis(values, places, axis=-1)
        else:
            result[:8] = values[places]
        return result

    return _reduced(ctx, best, worst(lanes))
