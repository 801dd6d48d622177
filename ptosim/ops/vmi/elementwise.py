"""Arithmetic of logical vectors, lane by lane.

Numbers are those of the vector instruction of the same name (`semantics.micro.arithmetic`), but
integers without a sign are unsigned. Operations that the assembler makes of several instructions
are rounded after each of them: `vlrelu` and `vprelu` are max(x, 0) + slope * min(x, 0), so that no
result is -0 and an infinite slope gives NaN for x >= 0."""

from __future__ import annotations

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import VirtualMaskType
from ptosim.machine.core import Core
from ptosim.machine.numbers import integers
from ptosim.machine.numbers import lanes as numerics
from ptosim.machine.numbers.integers import unsigned
from ptosim.machine.vector import LogicalMask
from ptosim.ops.vmi.context import Function, LogicalContext, Run, logical, register_lanes

MASK_LOGIC: dict[str, Function] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


# -- two vectors ----------------------------------------------------------------------------------


@logical(
    "vadd", "vsub", "vmul", "vdiv", "vmax", "vmin", "vand", "vor", "vxor", drops=True
)  # fmt: skip
def two_vectors(ctx: LogicalContext) -> Run:
    """dst = function of lhs and rhs; of masks lane by lane."""
    name = ctx.name.removeprefix("v")
    if isinstance(ctx.type("lhs"), VirtualMaskType):
        logic = MASK_LOGIC[name]
        return ctx.computed(lambda a, b: LogicalMask(logic(a.on, b.on)), "lhs", "rhs")
    function = numerics.of(name, ctx.lanes("lhs"))
    return ctx.only_full(ctx.dropping(function, "lhs", "rhs", many=True))


@logical("vadds", "vmuls", "vmaxs", "vmins")
def vector_and_scalar(ctx: LogicalContext) -> Run:
    """dst = function of a vector and a scalar in every lane."""
    lanes = ctx.lanes("src")
    function, scalar = numerics.of(ctx.name[1:-1], lanes), ctx.scalar("scalar", lanes)
    return ctx.of_first(
        lambda a, s: function(a, scalar(s)), "src", "scalar", drops=False, many=True
    )


# -- shifts ---------------------------------------------------------------------------------------


def _reporting_shift(ctx: LogicalContext, source: str) -> Function:
    """Return the shift by unsigned counts, which tells of those of the width or more."""
    most = ctx.lanes(source).itemsize * 8
    function = numerics.of("shl" if "shl" in ctx.name else "shr", ctx.lanes(source))

    def shift(values: np.ndarray, amounts: np.ndarray) -> np.ndarray:
        if (amounts >= most).any():
            ctx.report(
                "PTO6701",
                f"shifts {most}-bit lanes by {int(amounts.max())}: the sources call that defined "
                "by the target",
                f"shift by 0 to {most - 1}",
            )
        return function(values, amounts)

    return shift


@logical("vshl", "vshr", drops=True)
def shift(ctx: LogicalContext) -> Run:
    """dst = lhs shifted by the count in each lane of rhs."""
    function, raw = _reporting_shift(ctx, "lhs"), unsigned(ctx.lanes("lhs"))
    run = ctx.dropping(lambda a, b: function(a, b.view(raw)), "lhs", "rhs")
    return ctx.only_full(run)


@logical("vshls", "vshrs")
def shift_by_scalar(ctx: LogicalContext) -> Run:
    """dst = src shifted by one count, the unsigned number of 16 bits."""
    function, count = _reporting_shift(ctx, "src"), ctx.scalar("scalar", np.dtype(np.uint16))
    return ctx.of_first(lambda a, s: function(a, count(s)), "src", "scalar", drops=False, many=True)


# -- one vector -----------------------------------------------------------------------------------


@logical(
    "vabs", "vneg", "vrelu", "vexp", "vln", "vsqrt", drops=True
)  # fmt: skip
def one_vector(ctx: LogicalContext) -> Run:
    """dst = function of src."""
    function = numerics.of(ctx.name.removeprefix("v"), ctx.lanes("src"))
    return ctx.of_first(function, "src", drops=True, many=True)


@logical("vnot", drops=True)
def invert(ctx: LogicalContext) -> Run:
    """dst = not src, bit by bit; of masks lane by lane."""
    if isinstance(ctx.type("src"), VirtualMaskType):
        return ctx.computed(lambda mask: LogicalMask(~mask.on), "src")
    return ctx.of_first(np.invert, "src", drops=True, many=True)


# -- sums with products ---------------------------------------------------------------------------


@logical("vmula", drops=True)
def vmula(ctx: LogicalContext) -> Run:
    """dst = acc + lhs * rhs."""
    function = numerics.of("muladd", ctx.lanes("acc"), ctx.switch("muladd.rounding"))
    run = ctx.dropping(lambda c, a, b: function(a, b, c), "acc", "lhs", "rhs", many=True)
    return ctx.only_full(run)


@logical("vaxpy", drops=True)
def vaxpy(ctx: LogicalContext) -> Run:
    """dst = alpha * src + acc."""
    lanes = ctx.lanes("src")
    function = numerics.of("muladd", lanes, ctx.switch("muladd.rounding"))
    alpha = ctx.scalar("alpha", lanes)

    def axpy(x: np.ndarray, acc: np.ndarray, a: object) -> np.ndarray:
        return function(np.broadcast_to(alpha(a), x.shape), x, acc)

    return ctx.only_full(ctx.dropping(axpy, "src", "acc", "alpha", many=True))


@logical("vlrelu", drops=True)
def vlrelu(ctx: LogicalContext) -> Run:
    """dst = max(src, 0) + slope * min(src, 0)."""
    lanes = ctx.lanes("src")
    function, slope = numerics.of("lrelu", lanes, "sum"), ctx.scalar("slope", lanes)
    run = ctx.dropping(lambda x, s: function(x, slope(s)), "src", "slope", many=True)
    return ctx.only_full(run)


@logical("vprelu", drops=True)
def vprelu(ctx: LogicalContext) -> Run:
    """dst = max(src, 0) + slope * min(src, 0)."""
    function = numerics.of("prelu", ctx.lanes("src"), "sum")
    return ctx.only_full(ctx.dropping(function, "src", "slope", many=True))


@logical("vexpdif")
def vexpdif(ctx: LogicalContext) -> Run:
    """dst = e^(src - max) in f32."""
    run = ctx.zeroing(numerics.exponential_of_difference, "src", "max", many=True)
    return ctx.only_full(run)


# -- two results ----------------------------------------------------------------------------------


@logical("vaddc", "vaddcs")
def add_with_carry(ctx: LogicalContext) -> Run:
    """Sums modulo 2^32 and their carry, with a carry in or without."""
    lanes, raw = ctx.lanes("lhs"), np.dtype(np.uint32)

    def add(a: np.ndarray, b: np.ndarray, carry: LogicalMask | None = None) -> tuple:
        into = None if carry is None else carry.on
        total, out = integers.add_with_carry(a.view(raw), b.view(raw), into)
        return total.view(lanes), LogicalMask(out)

    names = ("lhs", "rhs", *(("carry_in",) if ctx.has("carry_in") else ()))
    return ctx.only_full(ctx.zeroing(add, *names, results=("dst", "carry")))


@logical("vmull")
def vmull(ctx: LogicalContext) -> Run:
    """The low and the high words of the products: signed for i32, unsigned for ui32."""
    lanes = ctx.lanes("lhs")
    seen = np.dtype(np.uint32 if ctx.elem("lhs").name == "ui32" else np.int32)

    def product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        low, high = integers.wide_product(a.view(seen), b.view(seen))
        return low.view(lanes), high.view(lanes)

    return ctx.zeroing(product, "lhs", "rhs", results=("low", "high"))


# Logical vectors in another order: interleaving, lanes by index, bits seen as other lanes.


@logical("vintlv", drops=True)
def interleave(ctx: LogicalContext) -> Run:
    """The lanes of lhs and rhs in turn: the first half of them, and the last."""

    def function(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both, count = np.stack((a, b), axis=-1).reshape(*a.shape[:-1], -1), a.shape[-1]
        return both[..., :count].copy(), both[..., count:].copy()

    return ctx.only_full(_halves(ctx, function))


@logical("vdintlv", drops=True)
def deinterleave(ctx: LogicalContext) -> Run:
    """The even and the odd lanes of lhs and rhs one after the other."""

    def function(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both = np.concatenate((a, b), axis=-1)
        return both[..., ::2].copy(), both[..., 1::2].copy()

    return ctx.only_full(_halves(ctx, function))


def _halves(ctx: LogicalContext, function: Function) -> Run:
    return ctx.dropping(function, "lhs", "rhs", results=("low", "high"), many=True)


@logical("vinterpret_cast")
def interpret(ctx: LogicalContext) -> Run:
    """The same bits as other lanes."""
    lanes = ctx.lanes("dst")
    return ctx.computed(lambda values: np.ascontiguousarray(values).view(lanes), "src", many=True)


@logical("vselr")
def lanes_by_index(ctx: LogicalContext) -> Run:
    """Lane i is the lane of src that index i names. What is outside of the vector is looked up as
    one register would: modulo its lanes, 0 where the vector has none there."""
    count = ctx.count("src")
    lanes = ctx.lanes("src")
    raw = unsigned(lanes)
    modulus = register_lanes(lanes) if count <= register_lanes(lanes) else count

    def function(values: np.ndarray, indices: np.ndarray) -> np.ndarray:
        chosen = indices.view(raw)
        outside = chosen >= count
        if not outside.any():
            return values[chosen]
        ctx.report(
            "PTO6702",
            f"takes lane {int(chosen[outside][0])} of {count}: what a register has there is not "
            "defined",
        )
        wrapped = chosen.astype(np.int64) % modulus
        result = values[np.minimum(wrapped, count - 1)]
        result[wrapped >= count] = 0
        return result

    return ctx.computed(function, "src", "indices")


@logical("shuffle")
def shuffle(ctx: LogicalContext) -> Run:
    """Lane i is lane indices[i] of src, by the text."""
    indices = np.array(indices_of(ctx.op))
    return ctx.computed(lambda values: values[..., indices], "src", many=True)


def indices_of(op: Operation) -> list[int]:
    """Return the lanes that a shuffle takes, in their order."""
    value, attr = op.attributes.get("indices"), op.attrs.get("indices")
    if isinstance(value, list | tuple):
        return [int(getattr(v, "value", v)) for v in value]
    text = str(value if attr is None else getattr(attr.atom, "value", attr.atom))
    body = text.partition(":")[2] if ":" in text else text
    return [int(w) for w in body.replace(",", " ").replace(">", " ").replace("]", " ").split()]


@logical("channel_split")
def channel_split(ctx: LogicalContext) -> Run:
    """Result c has the lanes c, c + k, c + 2k, … of k results."""
    targets, source = ctx.many("dst"), ctx["src"]
    step = len(targets)

    def run(core: Core) -> None:
        slots = core.slots
        for c, target in enumerate(targets):
            slots[target] = slots[source][c::step].copy()

    return run


@logical("channel_merge")
def channel_merge(ctx: LogicalContext) -> Run:
    """The lanes of all sources in turn."""
    sources, target = ctx.many("sources"), ctx["dst"]

    def run(core: Core) -> None:
        slots = core.slots
        slots[target] = np.stack([slots[s] for s in sources], axis=1).reshape(-1)

    return run


@logical("compress")
def compress(ctx: LogicalContext) -> Run:
    """The active lanes one after the other, then 0."""

    def function(values: np.ndarray, mask: LogicalMask) -> np.ndarray:
        result = np.zeros_like(values)
        chosen = values[mask.on]
        result[: len(chosen)] = chosen
        return result

    return ctx.computed(function, "src", "mask")
