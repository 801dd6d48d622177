"""Vector arithmetic: lane by lane on registers and scalars, inactive lanes 0.

PTO micro-instruction specification, vector arithmetic. Integers wrap at the width of the lanes, a
scalar of an integer operation is taken modulo that width and with the sign of the lanes; floats are
rounded once to nearest even. A shift count of the lane width or more gives 0, or the sign to the
right (the public programs only shift by less)."""

from __future__ import annotations

import numpy as np

from ptosim.ground.ir.types import REGISTER_BYTES
from ptosim.ground.isa.rows import isa
from ptosim.machine.core import Core
from ptosim.machine.numbers import integers
from ptosim.machine.numbers import lanes as numerics
from ptosim.machine.numbers.integers import unsigned
from ptosim.machine.numbers.lanes import COMPARISONS, highest, lowest
from ptosim.machine.vector import Mask
from ptosim.ops.base.functions import vector
from ptosim.ops.micro.context import Function, Run, VectorContext

_BITWISE = frozenset(("and", "or", "xor", "not"))
_RULES = {"div": "ones"}
"""Rules of words where the first one is not it."""
_WITH_SCALAR = ("adds", "subs", "muls", "maxs", "mins", "ands", "ors", "xors")


def _named(operands: int, *, but: str = "") -> list[str]:
    """The instructions that are one word of arithmetic, as far as there are rows of them."""
    names = isa().names()
    found = [f"pto.v{word}" for word in numerics.words(operands) if word != but]
    return [name for name in found if name in names]


@vector(*_named(2, but="lrelu"))
def two_registers(ctx: VectorContext) -> Run:
    """dst = function of lhs and rhs."""
    name = ctx.op.name.removeprefix("pto.v")
    lanes = _lanes(ctx, "lhs", name)
    return ctx.lane_wise(numerics.of(name, lanes, _RULES.get(name, "")), "lhs", "rhs", lanes=lanes)


@vector(*(f"pto.v{name}" for name in _WITH_SCALAR), "pto.vlrelu")
def register_and_scalar(ctx: VectorContext) -> Run:
    """dst = function of a register and a scalar in every lane."""
    name = ctx.op.name.removeprefix("pto.v")
    name = name if name == "lrelu" else name.removesuffix("s")
    lanes, const = _lanes(ctx, "src", name), ctx.const("scalar")
    if isinstance(const, (int, float)):
        function = numerics.of_number(name, lanes, const)
    else:
        function = numerics.of(name, lanes)
    return ctx.lane_wise(function, "src", "scalar", lanes=lanes)


@vector("pto.vshls", "pto.vshrs")
def shift_by_scalar(ctx: VectorContext) -> Run:
    """dst = src shifted by one count, an unsigned number of 16 bits."""
    lanes = ctx.lanes("src")
    raw, most = unsigned(lanes), lanes.itemsize * 8
    function = numerics.of(ctx.op.name[len("pto.v") : -1], lanes)
    amounts = [
        np.full(REGISTER_BYTES // lanes.itemsize, n, raw).view(lanes) for n in range(most + 1)
    ]
    return ctx.masked(
        lambda values, count: function(values, amounts[min(count & 0xFFFF, most)]),
        [ctx.register("src", lanes), ctx["scalar"]],
        lanes,
        many=True,
    )


@vector(*_named(1))
def one_register(ctx: VectorContext) -> Run:
    """dst = function of a register."""
    name = ctx.op.name.removeprefix("pto.v")
    lanes = _lanes(ctx, "src", name)
    return ctx.lane_wise(numerics.of(name, lanes), "src", lanes=lanes)


def _lanes(ctx: VectorContext, name: str, operation: str) -> np.dtype:
    """How the lanes are seen: bitwise operations take the bits of any type."""
    lanes = ctx.lanes(name)
    return unsigned(lanes) if operation in _BITWISE else lanes


# -- three operands --------------------------------------------------------------------------------


@vector("pto.vaxpy")
def vaxpy(ctx: VectorContext) -> Run:
    """dst = scalar * lhs + rhs."""
    function = numerics.of("muladd", ctx.lanes("lhs"), ctx.switch("muladd.rounding"))
    return ctx.lane_wise(lambda a, b, s: function(s, a, b), "lhs", "rhs", "scalar")


@vector("pto.vmula")
def vmula(ctx: VectorContext) -> Run:
    """dst = acc + lhs * rhs."""
    function = numerics.of("muladd", ctx.lanes("lhs"), ctx.switch("muladd.rounding"))
    return ctx.lane_wise(lambda c, a, b: function(a, b, c), "acc", "lhs", "rhs")


@vector("pto.vmadd")
def vmadd(ctx: VectorContext) -> Run:
    """dst = acc * lhs + rhs, always rounded once."""
    return ctx.lane_wise(numerics.of("muladd", ctx.lanes("lhs")), "acc", "lhs", "rhs")


# -- two results -----------------------------------------------------------------------------------


@vector("pto.vmull")
def vmull(ctx: VectorContext) -> Run:
    """low and high = the halves of the 64-bit products."""
    lanes = ctx.lanes("lhs")
    lhs, rhs = ctx.register("lhs", lanes), ctx.register("rhs", lanes)
    low, high, mask = ctx["low"], ctx["high"], ctx["mask"]
    wanted = ctx.lanes("low")
    inactive = ctx.inactive(lanes.itemsize)

    def run(core: Core) -> None:
        slots = core.slots
        halves = integers.wide_product(slots[lhs], slots[rhs])
        off = inactive(slots[mask])
        for slot, half in zip((low, high), halves, strict=True):
            if off is not None:
                half[off] = 0
            slots[slot] = half.view(wanted)

    return ctx.made(run)


_CARRY = {
    "pto.vaddc": integers.add_with_carry,
    "pto.vaddcs": integers.add_with_carry,
    "pto.vsubc": integers.subtract_with_carry,
    "pto.vsubcs": integers.subtract_with_carry,
}


@vector(*_CARRY)
def with_carry(ctx: VectorContext) -> Run:
    """dst and carry, the latter only in active lanes; after a subtraction it means no borrow."""
    function = _CARRY[ctx.op.name]
    lanes = np.dtype(np.uint32)
    lhs, rhs = ctx.register("lhs", lanes), ctx.register("rhs", lanes)
    mask, target, carry = ctx["mask"], ctx["dst"], ctx["carry"]
    carry_in = ctx.slots.get("carry_in")
    wanted, active, inactive = ctx.lanes("dst"), ctx.active(4), ctx.inactive(4)

    def run(core: Core) -> None:
        slots = core.slots
        given = None if carry_in is None else active(slots[carry_in])
        result, carried = function(slots[lhs], slots[rhs], given)
        off = inactive(slots[mask])
        if off is not None:
            result[off] = 0
            carried &= active(slots[mask])
        slots[target] = result.view(wanted)
        slots[carry] = Mask.of_lanes(carried)

    return ctx.made(run)


@vector("pto.vexpdif")
def vexpdif(ctx: VectorContext) -> Run:
    """dst = e^(lhs - rhs) in f32. Of f16 lanes the even or the odd ones, whose mask lanes count; of
    f32 lanes all, whatever `part` says."""
    lanes = ctx.lanes("lhs")
    if lanes.itemsize == 4:
        return ctx.lane_wise(numerics.exponential_of_difference, "lhs", "rhs")
    first = 1 if ctx.word("part") == "ODD" else 0
    lhs, rhs = ctx.register("lhs", lanes), ctx.register("rhs", lanes)
    inactive = ctx.inactive(lanes.itemsize)

    def compute(mask: Mask, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        result = numerics.exponential_of_difference(left[..., first::2], right[..., first::2])
        off = inactive(mask)
        if off is not None:
            result[..., off[..., first::2]] = 0
        return result

    return ctx.of_slots(compute, ctx["mask"], lhs, rhs, many=True)


# -- compare and select ----------------------------------------------------------------------------


@vector("pto.vcmp", "pto.vcmps")
def vcmp(ctx: VectorContext) -> Run:
    """A mask of the lanes that compare as the word says, in active lanes; NaN is only unequal."""
    first, second = ("lhs", "rhs") if ctx.op.name == "pto.vcmp" else ("src", "scalar")
    lanes = ctx.lanes(first)
    lhs, rhs = ctx.register(first, lanes), ctx.register(second, lanes)
    function = COMPARISONS[ctx.word("predicate")]
    active, inactive = ctx.active(lanes.itemsize), ctx.inactive(lanes.itemsize)

    def compare(gate: Mask, left: np.ndarray, right: np.ndarray) -> Mask:
        result = function(left, right)
        if inactive(gate) is not None:
            result &= active(gate)
        return Mask.of_lanes(result)

    return ctx.of_slots(compare, ctx["mask"], lhs, rhs, many=True)


@vector("pto.vsel")
def vsel(ctx: VectorContext) -> Run:
    """dst = lhs where the mask is set, else rhs."""
    lanes = ctx.lanes("dst")
    active, inactive = ctx.active(lanes.itemsize), ctx.inactive(lanes.itemsize)

    def select(gate: Mask, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return left if inactive(gate) is None else np.where(active(gate), left, right)

    lhs, rhs = ctx.register("lhs", lanes), ctx.register("rhs", lanes)
    return ctx.of_slots(select, ctx["mask"], lhs, rhs, many=True)


# Reductions within a register: over all lanes, over groups of 32 bytes, over pairs.
#
# PTO micro-instruction specification, reductions. Inactive lanes count as 0 in sums and lose every
# comparison; lanes without a result are 0. Sums add adjacent pairs, level by level, in the type of
# the lanes (the order is not documented; the data do not separate it), integers wrap. vcpadd adds
# pairs, as the programs' data and the headers have it, although the text describes a prefix sum.


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
