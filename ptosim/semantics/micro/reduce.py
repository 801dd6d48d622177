"""Reductions within a register: over all lanes, over groups of 32 bytes, over pairs.

PTO micro-instruction specification, reductions. Inactive lanes count as 0 in sums and lose every
comparison; lanes without a result are 0. Sums add adjacent pairs, level by level, in the type of
the lanes (the order is not documented; the data do not separate it), integers wrap. vcpadd adds
pairs, as the programs' data and the headers have it, although the text describes a prefix sum."""

from __future__ import annotations

import numpy as np

from ptosim.ground.ir.types import REGISTER_BYTES
from ptosim.machine.core import Core
from ptosim.numerics.lanes import PairTree, highest, lowest, unsigned
from ptosim.semantics.base.functions import vector
from ptosim.semantics.micro.context import Run, VectorContext


@vector("pto.vcadd", "pto.vcgadd", "pto.vcpadd")
def sums(ctx: VectorContext) -> Run:
    """Sums of all lanes, of each group, of each pair, in the first lanes."""
    lanes, wanted = ctx.lanes("src"), ctx.lanes("dst")
    count = REGISTER_BYTES // lanes.itemsize
    results = {"pto.vcadd": 1, "pto.vcgadd": 8, "pto.vcpadd": count // 2}[ctx.op.name]
    tree = PairTree(wanted if wanted.itemsize > lanes.itemsize else lanes, count, results)
    source, mask, target = ctx.register("src", lanes), ctx["mask"], ctx["dst"]
    inactive, length = ctx.inactive(lanes.itemsize), REGISTER_BYTES // wanted.itemsize

    def run(core: Core) -> None:
        slots = core.slots
        values = filled(slots[source], inactive(slots[mask]), 0)
        result = np.zeros(length, wanted)
        result[:results] = tree(values)
        slots[target] = result

    return ctx.made(run)


def filled(values: np.ndarray, off: np.ndarray | None, fill: object) -> np.ndarray:
    """Return a register with the inactive lanes replaced; the register itself stays as it is."""
    if off is None:
        return values
    made = values.copy()
    made[off] = fill
    return made


_EXTREMA = {
    "pto.vcmax": (np.argmax, lowest, 1),
    "pto.vcmin": (np.argmin, highest, 1),
    "pto.vcgmax": (np.argmax, lowest, 8),
    "pto.vcgmin": (np.argmin, highest, 8),
}


@vector("pto.vcmax", "pto.vcmin")
def extremum(ctx: VectorContext) -> Run:
    """Lane 0: the extremum of the active lanes; lane 1: the index of the first one, as an
    integer."""
    find, worst, _ = _EXTREMA[ctx.op.name]
    lanes = ctx.lanes("src")
    raw, fill, size = unsigned(lanes), worst(lanes), lanes.itemsize
    source, mask, target = ctx.register("src", lanes), ctx["mask"], ctx["dst"]
    inactive, wanted = ctx.inactive(size), ctx.lanes("dst")

    def run(core: Core) -> None:
        slots = core.slots
        values = filled(slots[source], inactive(slots[mask]), fill)
        result = np.zeros(REGISTER_BYTES // size, raw)
        at = int(find(values))
        result[0] = values.view(raw)[at]
        result[1] = at
        slots[target] = result.view(wanted)

    return ctx.made(run)


@vector("pto.vcgmax", "pto.vcgmin")
def group_extrema(ctx: VectorContext) -> Run:
    """Lanes 0 to 7: the extrema of the active lanes of each group."""
    find, worst, groups = _EXTREMA[ctx.op.name]
    lanes = ctx.lanes("src")
    fill, count = worst(lanes), REGISTER_BYTES // lanes.itemsize
    starts = np.arange(groups) * (count // groups)
    source, mask, target = ctx.register("src", lanes), ctx["mask"], ctx["dst"]
    inactive, wanted = ctx.inactive(lanes.itemsize), ctx.lanes("dst")

    def run(core: Core) -> None:
        slots = core.slots
        values = filled(slots[source], inactive(slots[mask]), fill)
        result = np.zeros(count, lanes)
        result[:groups] = values[find(values.reshape(groups, -1), axis=1) + starts]
        slots[target] = result.view(wanted)

    return ctx.made(run)
