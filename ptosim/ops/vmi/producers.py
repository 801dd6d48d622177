"""Vectors of scalars, of one lane for each group, of counting numbers, of the text."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.ir.attributes import Dense, attr_value
from ptosim.ground.ir.types import REGISTER_BYTES, VirtualVRegType
from ptosim.machine.numbers.formats import BF16
from ptosim.machine.numbers.lanes import is_float
from ptosim.ops.base.context import constant
from ptosim.ops.vmi.context import LogicalContext, Run, logical


def groups(ctx: LogicalContext) -> int | None:
    """Return the number of groups that an operation names, None if it names none."""
    for name in ("group", "num_groups"):
        value = ctx.attr(name)
        if value is not None:
            return int(value)
    return None


@logical("vbrc")
def broadcast(ctx: LogicalContext) -> Run:
    """A scalar or a single lane in every lane, or one lane in every lane of its group."""
    count, lanes = ctx.count("dst"), ctx.lanes("dst")
    if not isinstance(ctx.type("src"), VirtualVRegType):
        scalar = ctx.scalar("src", lanes)
        fixed = ctx.const("src")
        if fixed is not None:
            register = np.full(count, scalar(fixed)[0], lanes)
            return ctx.computed(lambda: register, many=True)
        return ctx.computed(lambda value: np.repeat(scalar(value), count), "src", many=True)
    times = count // ctx.count("src")
    return ctx.computed(lambda values: np.repeat(values, times, axis=-1), "src", many=True)


@logical("vci")
def count_up(ctx: LogicalContext) -> Run:
    """base + j or base - j in lane j of each group. Integers wrap, floats are computed in f32 and
    rounded."""
    count, lanes = ctx.count("dst"), ctx.lanes("dst")
    size = count // (groups(ctx) or 1)
    step = -1 if ctx.attr("order", "ASC") == "DESC" else 1
    at = np.arange(count) % size * step
    if is_float(lanes):
        steps = at.astype(np.float32)
        return ctx.computed(lambda b: (np.float32(b) + steps).astype(lanes), "base")
    steps = at.astype(np.int64)
    return ctx.computed(lambda b: (steps + int(b)).astype(lanes), "base")


@logical("constant")
def constant_vector(ctx: LogicalContext) -> Run:
    """A vector of the text."""
    return constant(dense(ctx), ctx["dst"])


# -- dense attributes -----------------------------------------------------------------------------


def dense(ctx: LogicalContext) -> np.ndarray:
    """Return the lanes of the attribute `value`, `dense<…>` of one value or of one a lane."""
    count = ctx.count("dst")
    type_ = ctx.type("dst")
    lanes = ctx.lanes("dst") if isinstance(type_, VirtualVRegType) else np.dtype(np.bool_)
    value = attr_value(ctx.op.attrs.get("value") or ctx.attr("value"))
    bits = lanes.itemsize * 8
    found = value.of(value.dims or (count,), bits) if isinstance(value, Dense) else None
    if not found or len(found) not in (1, count):
        raise UsageError(f"the value of '{ctx.op.name}' does not have its elements")
    try:
        numbers = [_number(literal.value, lanes) for literal in found]
    except (ValueError, OverflowError) as problem:
        raise UsageError(f"the value of '{ctx.op.name}' has no numbers: {problem}") from problem
    whole = numbers * count if len(numbers) == 1 else numbers
    return np.array(whole, lanes)


def _number(word: str, lanes: np.dtype) -> Any:
    if word in ("true", "false"):
        return word == "true"
    if word.lower().startswith("0x") and is_float(lanes):
        return np.array(int(word, 16), f"u{lanes.itemsize}").view(lanes)[()]
    if is_float(lanes):
        return np.float64(word) if lanes != BF16 else np.float32(word)
    bits = lanes.itemsize * 8
    return np.array(int(word, 0) & ((1 << bits) - 1), f"u{lanes.itemsize}").view(lanes)[()]


def register_lanes(lanes: np.dtype) -> int:
    """Return the lanes of one register."""
    return REGISTER_BYTES // lanes.itemsize
