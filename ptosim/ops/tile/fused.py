"""Arithmetic with a second step: multiply-add, activation, conversion.

Multiply-add rounds once, as a fused instruction does; no public document says whether the
hardware's multiply-accumulate rounds its product, so the switch `muladd.rounding` has the other
answer too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ptosim.ground.isa.conversions import conversion_name
from ptosim.machine.numbers.formats import lookup
from ptosim.machine.numbers.integers import clamp_int, float_to_int
from ptosim.machine.numbers.rounding import narrow
from ptosim.machine.space import POISON
from ptosim.ops.base.binding import Binding, typed_scalar
from ptosim.ops.base.functions import Commit, kernel
from ptosim.ops.tile.arithmetic import Function, lane_function, maximum, relu, word
from ptosim.ops.tile.elementwise import register


def _multiply_add(op: Binding, dtype: np.dtype) -> Function:
    return lane_function("muladd", dtype, op.switch("muladd.rounding"))


def _multiply_add_relu(op: Binding, dtype: np.dtype) -> Function:
    """Negative results are 0."""
    combine, activate = _multiply_add(op, dtype), relu(op, dtype)

    def compute(*factors: Any, out: np.ndarray) -> None:
        total = np.empty_like(out)
        combine(*factors, out=total)
        activate(total, out=out)

    return compute


def _subtracting_relu(op: Binding, dtype: np.dtype) -> Function:
    """max(0, a - b): zero is the first operand of the comparison."""
    larger, zero = maximum(op, dtype), dtype.type(0)
    return lambda first, second, out: larger(zero, np.subtract(first, second), out=out)


register("src0 src1 dst", {"tmuladddst": _multiply_add})
register("src0 dst src1", {"tfusedmuladd": _multiply_add, "tfusedmuladdrelu": _multiply_add_relu})
register("src0 src1", {"tsubrelu": _subtracting_relu})


@kernel("pto.taxpy", over="dst src")
def taxpy(op: Binding) -> Commit:
    """dst = scalar * src + dst. An f16 source can be added to an f32 destination; its scalar is
    f16."""
    out, values = op.array_operands(("dst", "src"))
    factor = typed_scalar(op.scalar("scalar"), values.dtype)
    return partial(_multiply_add(op, out.dtype), values, factor, out, out=out)


def _activated(name: str, op: Binding) -> Commit:
    """dst = convert(max(src0 +- src1, 0)), rounding half to even and saturating."""
    out, first, second = op.array_operands(("dst", "src0", "src1"))
    combine, activate = word(op, name, first.dtype), relu(op, first.dtype)
    source, destination = (conversion_name(op.tile(n).type.dtype) for n in ("src0", "dst"))
    convert = _saturating(source, destination)

    def compute() -> None:
        wide = np.empty_like(first)
        combine(first, second, out=wide)
        activate(wide, out=wide)
        out[...] = convert(wide)

    return compute


def _saturating(source: str, destination: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return a conversion that rounds half to even and clamps to the destination's finite range."""
    kinds = lookup(source).kind, lookup(destination).kind
    if kinds == ("float", "float"):
        return partial(narrow, dst=destination, mode="rint", saturate=True)
    if kinds[0] == "float":
        return partial(float_to_int, dst=destination, mode="rint")
    return partial(clamp_int, src=source, dst=destination)


for _name in ("add", "sub"):
    kernel(f"pto.t{_name}reluconv", over="dst src0 src1")(partial(_activated, _name))


@kernel("pto.tadddeqrelu", over="dst src0 src1")
def tadddeqrelu(op: Binding) -> Commit:
    """dst = f16(max((src0 + src1) * scalar, 0)): the wrapped i32 sum goes to f32, is scaled by
    2^-17, by the scalar and by 2^17 with one rounding each, and is narrowed half to even,
    saturating."""
    out, first, second = op.array_operands(("dst", "src0", "src1"))
    scale = np.float32(op.scalar("scalar"))
    add = word(op, "add", first.dtype)
    spoiled = first.view(np.uint8) if op.switch("tadddeqrelu.src0") == "spoiled" else None

    def compute() -> None:
        total = np.empty_like(first)
        add(first, second, out=total)
        scaled = total.astype(np.float32) * np.float32(2.0**-17) * scale * np.float32(2.0**17)
        result = narrow(np.maximum(scaled, np.float32(0)), "f16", "rint", saturate=True)
        if spoiled is not None:
            spoiled[...] = POISON  # the library works in src0; what it leaves is not documented
        out[...] = result

    return compute
