"""Broadcast, ramps, and lanes in other places.

PTO micro-instruction specification, rearrangement. These have no governing mask except where the
text gives one. An index register holds unsigned numbers, taken modulo the number of lanes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.ir.types import REGISTER_BYTES
from ptosim.machine.core import Core
from ptosim.machine.numbers.lanes import is_float
from ptosim.machine.vector import Mask
from ptosim.ops.base.binding import typed_scalar
from ptosim.ops.base.functions import vector
from ptosim.ops.micro.context import Run, VectorContext

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
