"""Arithmetic of logical vectors, lane by lane.

Numbers are those of the vector instruction of the same name (`semantics.micro.arithmetic`), but
integers without a sign are unsigned. Operations that the assembler makes of several instructions
are rounded after each of them: `vlrelu` and `vprelu` are max(x, 0) + slope * min(x, 0), so that no
result is -0 and an infinite slope gives NaN for x >= 0."""

from __future__ import annotations

import numpy as np

from ptosim.ground.ir.types import VirtualMaskType
from ptosim.machine.logical import LogicalMask
from ptosim.machine.numbers import integers
from ptosim.machine.numbers import lanes as numerics
from ptosim.machine.numbers.integers import unsigned
from ptosim.ops.vmi.context import Function, LogicalContext, Run, logical

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
