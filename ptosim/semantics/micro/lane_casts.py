"""Conversions between lane types: which lane goes where, and how it is rounded.

PTO micro-instruction specification, vector conversions. Between lanes of the same width everything
stays in place. Narrowing by r puts lane i into lane r*i + k, widening takes it from there; k is 0
or 1 for EVEN and ODD, 0 to 3 for P0 to P3. Lanes of a narrower result that nothing goes into are 0.
The mask is that of the source's lanes, or of the destination's where it has their width."""

from __future__ import annotations

import numpy as np

from ptosim.ground.ir.types import REGISTER_BYTES
from ptosim.ground.isa.conversions import conversion_name
from ptosim.machine.core import Core
from ptosim.numerics import lanes as numerics
from ptosim.numerics.vcvt import Conversion, truncation, vector_conversion
from ptosim.semantics.base.functions import vector
from ptosim.semantics.micro.context import Function, Run, VectorContext

_PARTS = {"EVEN": 0, "ODD": 1, "P0": 0, "P1": 1, "P2": 2, "P3": 3}


@vector("pto.vcvt")
def vcvt(ctx: VectorContext) -> Run:
    """Each active lane in the destination's type."""
    convert = _conversion(ctx, "src", saturates=ctx.opt_word("sat") == "SAT")
    return _placed(ctx, lambda source: source, ["src"], convert)


def _conversion(ctx: VectorContext, name: str, *, saturates: bool) -> Conversion:
    letter = ctx.attrs.get("rnd") or "R"
    src, dst = conversion_name(ctx.elem(name)), conversion_name(ctx.elem("dst"))
    return vector_conversion(src, dst, letter, saturate=saturates)


def _placed(ctx: VectorContext, combine: Function, names: list[str], convert: Conversion) -> Run:
    """Lanes of combine(operands), converted, in their places."""
    src, dst = ctx.lanes(names[0]), ctx.lanes("dst")
    sources = [ctx.register(n, src) for n in names]
    part = _PARTS[ctx.opt_word("part") or "EVEN"]
    step = max(src.itemsize, dst.itemsize) // min(src.itemsize, dst.itemsize)
    taken = slice(part, None, step) if dst.itemsize > src.itemsize else slice(None)
    place = slice(part, None, step) if dst.itemsize < src.itemsize else slice(None)
    count = REGISTER_BYTES // dst.itemsize
    mask, inactive, by_source = _gate(ctx, src, dst)
    target = ctx["dst"]

    def run(core: Core) -> None:
        slots = core.slots
        result = np.zeros(count, dst)
        converted = convert(combine(*[slots[s] for s in sources])[taken])
        off = None if mask is None else inactive(slots[mask])
        if off is not None and by_source:
            converted[off[taken]] = 0
        result[place] = converted
        if off is not None and not by_source:
            result[off] = 0
        slots[target] = result

    return ctx.made(run)


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
    return ctx.computed(lambda register: register.view(lanes), ctx["src"])


@vector("pto.vaddreluconv")
def vaddreluconv(ctx: VectorContext) -> Run:
    """max(lhs + rhs, 0), converted; documentation gives neither rounding nor saturation: R,
    saturated."""
    relu = numerics.relu(ctx.lanes("lhs"))
    convert = _conversion(ctx, "lhs", saturates=True)
    return _placed(ctx, lambda a, b: relu(a + b), ["lhs", "rhs"], convert)


@vector("pto.vmulconv")
def vmulconv(ctx: VectorContext) -> Run:
    """lhs * rhs, converted; documentation gives neither rounding nor saturation: R, saturated."""
    convert = _conversion(ctx, "lhs", saturates=True)
    return _placed(ctx, np.multiply, ["lhs", "rhs"], convert)
