"""Arithmetic of the arith dialect on the values of threads. Integers wrap; floats are rounded to
their type after each operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.ir.types import DType
from ptosim.machine.numbers.integers import high_half
from ptosim.machine.numbers.lanes import COMPARISONS, is_float, of
from ptosim.ops.scalar.numbers import ARITHMETIC, DIVIDES
from ptosim.ops.simt.frame import (
    Frame,
    LaneContext,
    LanePtr,
    Lanes,
    PrivatePtr,
    Run,
    computed,
    element_type,
    lane_dtype,
    lanes,
)

Function = Callable[..., Any]


def as_unsigned(value: Lanes) -> Lanes:
    """Return the bits of integers as unsigned ones."""
    kind = value.dtype
    return value if kind.kind == "u" else value.view(f"u{kind.itemsize}")


def as_signed(value: Lanes) -> Lanes:
    """Return the bits of integers as signed ones; true is -1."""
    kind = value.dtype
    if kind.kind == "b":
        return -value.astype(np.int8)
    return value if kind.kind == "i" else value.view(f"i{kind.itemsize}")


_VIEWS: dict[str, Callable[[Lanes], Lanes]] = {"s": as_signed, "u": as_unsigned}


def seen_as(kind: str, word: str, lanes_type: np.dtype, rule: str = "") -> Function:
    """Return a word of two values that are seen with or without a sign (`s`, `u`) or as they are;
    results have the type of the values."""
    view = _VIEWS.get(kind)
    if view is None:
        return of(word, lanes_type, rule)
    function = of(word, view(np.empty(0, lanes_type)).dtype, rule)
    if lanes_type.kind == "b":
        return lambda a, b: (function(view(a), view(b)) & 1).astype(bool)
    return lambda a, b: function(view(a), view(b)).view(lanes_type)


def extreme(word: str, kind: np.dtype, *, unsigned: bool) -> Function:
    """Return `max` or `min` as SIMT code has it: of floats the number where one is NaN."""
    if is_float(kind):
        return of(f"{word}num", kind)
    return seen_as("u" if unsigned else "s", word, kind)


@lanes(*ARITHMETIC)
def arithmetic(ctx: LaneContext) -> Run:
    """What a word of arithmetic makes of two values."""
    word, kind = ARITHMETIC[ctx.op.name]
    function = seen_as(kind, word, lane_dtype(ctx.elem("lhs")))
    if word in DIVIDES and kind != "f":
        return _divided(ctx, function)
    return ctx.computed(function, "lhs", "rhs")


def _divided(ctx: LaneContext, function: Function) -> Run:
    """A quotient or remainder: a thread that divides by zero stops the launch."""
    first, second, target, op = ctx.slots["lhs"], ctx.slots["rhs"], ctx.results[0], ctx.op

    def run(frame: Frame) -> None:
        a, b = frame.values[first], frame.values[second]
        zero = b == 0
        if zero.any():
            zero = frame.full(zero)
            wrong = frame.active()[zero[frame.active()]]
            if len(wrong):
                raise frame.fault(
                    "PTO6007", op, f"of thread {frame.name_of(wrong[0])} divides by zero"
                )
            b = np.where(zero, np.ones_like(b), b)
        frame.values[target] = function(a, b)

    return run


@lanes("arith.negf")
def negation(ctx: LaneContext) -> Run:
    """The other sign."""
    return ctx.computed(np.negative, "operand")


# -- comparisons and choices -----------------------------------------------------------------------


@lanes("arith.cmpi")
def compare_integers(ctx: LaneContext) -> Run:
    """Comparison of integers."""
    word = str(ctx.word("predicate"))
    if word in ("eq", "ne"):
        return ctx.computed(COMPARISONS[word], "lhs", "rhs")
    view = as_signed if word[0] == "s" else as_unsigned
    function = COMPARISONS[word[1:]]
    return ctx.computed(lambda a, b: function(view(a), view(b)), "lhs", "rhs")


@lanes("arith.cmpf")
def compare_floats(ctx: LaneContext) -> Run:
    """Comparison of floats: o… is false with NaN, u… true."""
    word = str(ctx.word("predicate")).lower()
    return ctx.computed(_float_comparison(word), "lhs", "rhs")


def _float_comparison(word: str) -> Function:
    if word in ("true", "false"):
        return lambda a, b: np.full(np.broadcast_shapes(a.shape, b.shape), word == "true")
    if word in ("ord", "uno"):
        return lambda a, b: (np.isnan(a) | np.isnan(b)) == (word == "uno")
    function = COMPARISONS[word[1:]]
    if word[0] == "u":
        return lambda a, b: function(a, b) | np.isnan(a) | np.isnan(b)
    if word[1:] == "ne":
        return lambda a, b: (a < b) | (a > b)
    return function


@lanes("arith.select")
def select(ctx: LaneContext) -> Run:
    """One of two values."""
    names = ("condition", "true_value", "false_value")
    return computed(merged, [ctx.slots[n] for n in names], ctx.results[0])


def merged(mask: Lanes, one: Any, other: Any) -> Any:
    """Return one value where the mask holds, another one elsewhere."""
    if isinstance(one, (LanePtr, PrivatePtr)):
        if one.memory != other.memory:
            return _of_several(mask, one, other)
        return one._replace(byte=np.where(mask, one.byte, other.byte))
    return np.where(mask, one, other)


def _of_several(mask: Lanes, one: Any, other: Any) -> Any:
    """Pointers into two memories: only where every thread takes the same."""
    if mask.all():
        return one
    if not mask.any():
        return other
    raise MixedPointers(one, other)


class MixedPointers(Exception):
    """Threads of a launch have pointers into several memories in one value."""


# -- casts -----------------------------------------------------------------------------------------


def _resized(view: Callable[[Lanes], Lanes]) -> Callable[[DType], Function]:
    def make(result: DType) -> Function:
        wanted = lane_dtype(result)
        if wanted.kind == "b":
            return lambda a: (a & np.array(1, a.dtype)).astype(bool)
        return lambda a: view(a).astype(wanted)

    return make


def _to_float(view: Callable[[Lanes], Lanes]) -> Callable[[DType], Function]:
    """One rounding: floats of 16 bits hold no integer that f64 would round first."""

    def make(result: DType) -> Function:
        wanted = lane_dtype(result)

        def convert(a: Lanes) -> Lanes:
            found = view(a)
            if wanted == np.float32 or wanted == np.float64:
                return found.astype(wanted)
            return _odd(found).astype(wanted)

        return convert

    return make


def _odd(value: Lanes) -> Lanes:
    """Integers as f64; of those with more bits the last one says that something was cut off, so
    that rounding once more is rounding once."""
    if value.dtype.itemsize < 8:
        return value.astype(np.float64)
    cut, sticky = np.array(0xFFF, value.dtype), np.array(0x800, value.dtype)
    odd = (value & ~cut) | np.where(value & cut, sticky, np.zeros_like(sticky))
    exact = value.astype(np.float64)
    return np.where(np.abs(exact) < 2.0**53, exact, odd.astype(np.float64))


def _to_integer(signed: bool) -> Callable[[DType], Function]:
    def make(result: DType) -> Function:
        bits, wanted = result.bits, lane_dtype(result)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

        def convert(a: Lanes) -> Lanes:
            return clamped(np.trunc(a.astype(np.float64)), low, high, wanted)

        return convert

    return make


def clamped(value: Lanes, low: int, high: int, wanted: np.dtype) -> Lanes:
    """Return whole numbers in f64 as integers of a range; NaN is 0."""
    over, under = value >= float(high), value <= float(low)
    inside = np.where(over | under | np.isnan(value), 0.0, value)
    unsigned = np.dtype(f"u{wanted.itemsize}")
    kind = unsigned if high >= 1 << 8 * wanted.itemsize - 1 else np.dtype(f"i{wanted.itemsize}")
    found = inside.astype(kind)
    found = np.where(over, np.array(high, kind), found)
    return np.where(under, np.array(low, kind), found).view(wanted)


_CASTS: dict[str, Callable[[DType], Function]] = {
    "arith.index_cast": _resized(as_signed),
    "arith.index_castui": _resized(as_unsigned),
    "arith.extsi": _resized(as_signed),
    "arith.extui": _resized(as_unsigned),
    "arith.trunci": _resized(as_unsigned),
    "arith.extf": lambda result: lambda a: a.astype(lane_dtype(result)),
    "arith.truncf": lambda result: lambda a: a.astype(lane_dtype(result)),
    "arith.sitofp": _to_float(as_signed),
    "arith.uitofp": _to_float(as_unsigned),
    "arith.fptosi": _to_integer(signed=True),
    "arith.fptoui": _to_integer(signed=False),
}


@lanes(*_CASTS)
def casts(ctx: LaneContext) -> Run:
    """Between types of numbers."""
    return ctx.computed(_CASTS[ctx.op.name](element_type(ctx.result_type)), "operand")


@lanes("arith.addui_extended", "arith.mulsi_extended", "arith.mului_extended")
def extended(ctx: LaneContext) -> Run:
    """Sum and carry, or both halves of a product."""
    first, second = ctx.slots["lhs"], ctx.slots["rhs"]
    low, high = ctx.results
    name = ctx.op.name
    view = as_signed if name == "arith.mulsi_extended" else as_unsigned

    def run(frame: Frame) -> None:
        a, b = frame.values[first], frame.values[second]
        if name == "arith.addui_extended":
            total = a + b
            frame.values[low] = total
            frame.values[high] = as_unsigned(total) < as_unsigned(a)
        else:
            frame.values[low] = a * b
            frame.values[high] = high_half(view(a), view(b)).view(a.dtype)

    return run


@lanes("arith.bitcast", "llvm.bitcast")
def bitcast(ctx: LaneContext) -> Run:
    """The same bits in another type."""
    source, target = ctx.type("operand"), ctx.result_type
    count = getattr(target, "dims", (None,))[0]
    before = getattr(source, "dims", (None,))[0]
    wanted = lane_dtype(element_type(target))

    def cast(value: Lanes) -> Lanes:
        if before is None and count is None:
            return value.view(wanted)
        flat = value.T if before is not None else value
        raw = np.ascontiguousarray(flat).view(wanted)
        return raw.reshape(-1) if count is None else raw.reshape(-1, count).T

    return ctx.computed(cast, "operand")
