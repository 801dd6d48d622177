"""Conversions between lane types: which lane goes where, and how it is rounded.

PTO micro-instruction specification, vector conversions. Between lanes of the same width everything
stays in place. Narrowing by r puts lane i into lane r*i + k, widening takes it from there; k is 0
or 1 for EVEN and ODD, 0 to 3 for P0 to P3. Lanes of a narrower result that nothing goes into are 0.
A byte of two 4-bit floats is one lane, and takes or gives two of bf16: byte 4*j + k and lanes 2*j
and 2*j + 1. The mask is that of the source's lanes; in April it may also be that of the
destination's. Confirmed by the public programs' data, for 8 and 4 bits on special values."""

from __future__ import annotations

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import REGISTER_BYTES
from ptosim.ground.isa.conversions import conversion_name
from ptosim.ground.isa.profiles import Profile
from ptosim.machine.numbers import lanes as numerics
from ptosim.machine.numbers.vcvt import PAIRS_OF_CODES, Conversion, truncation, vector_conversion
from ptosim.ops.base.functions import support, vector
from ptosim.ops.micro.context import Function, Run, VectorContext

_PARTS = {"EVEN": 0, "ODD": 1, "P0": 0, "P1": 1, "P2": 2, "P3": 3}


@vector("pto.vcvt")
def vcvt(ctx: VectorContext) -> Run:
    """Each active lane in the destination's type."""
    sat, by_pair = ctx.attr("sat"), ctx.op.has("by_pair")
    convert = _conversion(ctx, "src", saturates=sat == "SAT" or (by_pair and sat is None))
    return _placed(ctx, lambda source: source, ["src"], convert, ctx.attr("part"))


def _conversion(ctx: VectorContext, name: str, *, saturates: bool) -> Conversion:
    src, dst = conversion_name(ctx.elem(name)), conversion_name(ctx.elem("dst"))
    letter = ctx.attrs.get("rnd") or ctx.attrs.get("round_mode")
    keeps_nan = not ctx.op.has("by_pair")
    if letter is None or (keeps_nan and dst in _OWN_ROUNDING):
        letter = _OWN_ROUNDING.get(dst, "R")
    return vector_conversion(src, dst, letter, saturate=saturates, keeps_nan=keeps_nan)


_OWN_ROUNDING = {"f8E4M3FN": "R", "f8E5M2": "R", "hif8": "A"}
"""What a conversion to these types rounds by where it does not say."""


@support("pto.vcvt")
def _has_rounding(op: Operation, profile: Profile) -> str | None:
    if "H" in (op.attributes.get("rnd"), op.attributes.get("round_mode")):
        return "no public document says how rounding H (hybrid) rounds"
    return None


def _placed(
    ctx: VectorContext, combine: Function, names: list[str], convert: Conversion, word: str | None
) -> Run:
    """Lanes of combine(operands), converted, in the places of the part that a word names."""
    src, dst = ctx.lanes(names[0]), ctx.lanes("dst")
    sources = [ctx.register(n, src) for n in names]
    part, count = _PARTS[word or "EVEN"], REGISTER_BYTES // dst.itemsize
    step = _lanes_a_number(ctx, names[0])
    taken = slice(part, None, step) if dst.itemsize > src.itemsize else slice(None)
    place = slice(part, None, step) if dst.itemsize < src.itemsize else slice(None)
    mask, inactive, by_source = _gate(ctx, src, dst)

    def cast(off: np.ndarray | None, registers: tuple[np.ndarray, ...]) -> np.ndarray:
        values = combine(*registers)[..., taken]
        if off is not None and by_source:
            values = values.copy()
            values[..., off[..., taken]] = 0  # which is 0 in every type
        result = np.zeros((*values.shape[:-1], count), dst)
        result[..., place] = convert(values)
        if off is not None and not by_source:
            result[..., off] = 0
        return result

    if mask is None:
        return ctx.of_slots(lambda *registers: cast(None, registers), *sources, many=True)
    return ctx.of_slots(
        lambda gate, *registers: cast(inactive(gate), registers), mask, *sources, many=True
    )


def _lanes_a_number(ctx: VectorContext, name: str) -> int:
    """How many narrow lanes there are for one of the wide ones; twice as many where a narrow one
    holds two numbers."""
    elems = ctx.elem(name), ctx.elem("dst")
    narrow, wide = sorted(elem.bits for elem in elems)
    return wide // narrow * (2 if any(e.family in PAIRS_OF_CODES for e in elems) else 1)


def _gate(ctx: VectorContext, src: np.dtype, dst: np.dtype) -> tuple:
    """The slot of the mask, its inactive lanes, and whether they are those of the source."""
    if not ctx.has("mask"):
        return None, None, True
    by_source = ctx.width("mask") == min(src.itemsize, 4)
    return ctx["mask"], ctx.inactive(src.itemsize if by_source else dst.itemsize), by_source


@vector("pto.vtrc")
def vtrc(ctx: VectorContext) -> Run:
    """Each active lane rounded to an integral value of its own type."""
    return ctx.lane_wise(truncation(ctx.word("rnd")), "src")


@vector("pto.vbitcast")
def vbitcast(ctx: VectorContext) -> Run:
    """The same bytes as other lanes."""
    lanes = ctx.lanes("dst")
    return ctx.of_slots(lambda register: register.view(lanes), ctx["src"], many=True)


@vector("pto.vaddreluconv")
def vaddreluconv(ctx: VectorContext) -> Run:
    """max(lhs + rhs, 0), converted; documentation gives neither rounding nor saturation: R,
    saturated."""
    relu = numerics.of("relu", ctx.lanes("lhs"))
    convert = _conversion(ctx, "lhs", saturates=True)
    part = ctx.attr("part")
    return _placed(ctx, lambda a, b: relu(a + b), ["lhs", "rhs"], convert, part)


@vector("pto.vmulconv")
def vmulconv(ctx: VectorContext) -> Run:
    """lhs * rhs, converted; documentation gives neither rounding nor saturation: R, saturated."""
    convert = _conversion(ctx, "lhs", saturates=True)
    return _placed(ctx, np.multiply, ["lhs", "rhs"], convert, ctx.attr("part"))


@vector("pto.vmulscvt")
def vmulscvt(ctx: VectorContext) -> Run:
    """src * scalar in f32, converted to f16: rounded half away from zero, not saturated."""
    convert = vector_conversion("f32", "f16", ctx.word("rnd"), saturate=False)
    return _placed(ctx, np.multiply, ["src", "scalar"], convert, ctx.word("part"))
