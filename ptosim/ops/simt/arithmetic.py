"""Arithmetic of the arith dialect on the values of threads. Integers wrap; floats are rounded to
their type after each operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.ir.types import DType
from ptosim.machine.numbers.lanes import shift_left, shift_right
from ptosim.ops.simt.frame import Frame, LanePtr, Lanes, PrivatePtr, Run
from ptosim.ops.simt.table import LaneContext, computed, element_type, lane_dtype, lanes

Function = Callable[..., Any]


def as_unsigned(value: Lanes) -> Lanes:
    """Return the bits of integers as unsigned ones."""
    kind = value.dtype
    return value if kind.kind in "ub" else value.view(f"u{kind.itemsize}")


def as_signed(value: Lanes) -> Lanes:
    """Return the bits of integers as signed ones; true is -1."""
    kind = value.dtype
    if kind.kind == "b":
        return -value.astype(np.int8)
    return value if kind.kind == "i" else value.view(f"i{kind.itemsize}")


def _viewed(view: Callable[[Lanes], Lanes], function: Function) -> Callable[[DType], Function]:
    def make(kind: DType) -> Function:
        wanted = lane_dtype(kind)

        def compute(a: Lanes, b: Lanes) -> Lanes:
            found = function(view(a), view(b))
            return found.view(wanted) if found.dtype.itemsize == wanted.itemsize else _low(found)

        return compute

    return make


def _low(found: Lanes) -> Lanes:
    return (found.astype(np.int64) & 1).astype(bool)


def _plain(function: Function, on_bits: Function) -> Callable[[DType], Function]:
    """`on_bits` is what the operation is on single bits."""
    return lambda kind: on_bits if kind.name == "i1" else function


_INTEGERS: dict[str, Callable[[DType], Function]] = {
    "arith.addi": _plain(np.add, np.logical_xor),
    "arith.subi": _plain(np.subtract, np.logical_xor),
    "arith.muli": _plain(np.multiply, np.logical_and),
    "arith.andi": lambda kind: np.bitwise_and,
    "arith.ori": lambda kind: np.bitwise_or,
    "arith.xori": lambda kind: np.bitwise_xor,
    "arith.maxsi": _viewed(as_signed, np.maximum),
    "arith.maxui": _viewed(as_unsigned, np.maximum),
    "arith.minsi": _viewed(as_signed, np.minimum),
    "arith.minui": _viewed(as_unsigned, np.minimum),
}


@lanes(*_INTEGERS)
def integers(ctx: LaneContext) -> Run:
    """Sums, products, bits and extremes."""
    return ctx.computed(_INTEGERS[ctx.op.name](ctx.elem("lhs")), "lhs", "rhs")


# -- shifts ----------------------------------------------------------------------------------------


def _viewed_shift(
    function: Function, view: Callable[[Lanes], Lanes]
) -> Callable[[DType], Function]:
    """A shift of lanes as signed or unsigned integers; of one bit, all but an arithmetic shift by 1
    leaves nothing."""

    def make(kind: DType) -> Function:
        wanted = lane_dtype(kind)
        if wanted.kind == "b":
            return lambda a, b: a & (~b if view is as_unsigned else np.ones_like(b))
        return lambda a, b: function(view(a), as_unsigned(b)).view(wanted)

    return make


_SHIFTS = {
    "arith.shli": _viewed_shift(shift_left, as_unsigned),
    "arith.shrui": _viewed_shift(shift_right, as_unsigned),
    "arith.shrsi": _viewed_shift(shift_right, as_signed),
}


@lanes(*_SHIFTS)
def shifts(ctx: LaneContext) -> Run:
    """Shifts of integers."""
    return ctx.computed(_SHIFTS[ctx.op.name](ctx.elem("lhs")), "lhs", "rhs")


# -- quotients -------------------------------------------------------------------------------------


def _truncated(a: Lanes, b: Lanes) -> Lanes:
    quotient = np.floor_divide(a, b)
    inexact = (quotient * b != a) & ((a < 0) != (b < 0))
    return quotient + inexact.astype(quotient.dtype)


def _ceiling(a: Lanes, b: Lanes) -> Lanes:
    quotient = np.floor_divide(a, b)
    return quotient + (quotient * b != a).astype(quotient.dtype)


_QUOTIENTS: dict[str, tuple[Function, Callable[[Lanes], Lanes]]] = {
    "arith.divsi": (_truncated, as_signed),
    "arith.divui": (np.floor_divide, as_unsigned),
    "arith.remsi": (lambda a, b: a - _truncated(a, b) * b, as_signed),
    "arith.remui": (np.remainder, as_unsigned),
    "arith.ceildivsi": (_ceiling, as_signed),
    "arith.ceildivui": (_ceiling, as_unsigned),
    "arith.floordivsi": (np.floor_divide, as_signed),
}


@lanes(*_QUOTIENTS)
def quotients(ctx: LaneContext) -> Run:
    """Quotients and remainders; a thread that divides by zero stops the launch."""
    function, view = _QUOTIENTS[ctx.op.name]
    first, second, target, op = ctx.slots["lhs"], ctx.slots["rhs"], ctx.results[0], ctx.op
    wanted = lane_dtype(ctx.elem("lhs"))

    def run(frame: Frame) -> None:
        a, b = view(frame.values[first]), view(frame.values[second])
        if wanted.kind == "b":
            a, b = a.astype(np.int8), b.astype(np.int8)
        zero = b == 0
        if zero.any():
            zero = frame.full(zero)
            wrong = frame.active()[zero[frame.active()]]
            if len(wrong):
                raise frame.fault(
                    "PTO6007", op, f"of thread {frame.name_of(wrong[0])} divides by zero"
                )
            b = np.where(zero, np.ones_like(b), b)
        found = function(a, b)
        frame.values[target] = _low(found) if wanted.kind == "b" else found.view(wanted)

    return run


# -- floats ----------------------------------------------------------------------------------------


def _maximum(a: Lanes, b: Lanes) -> Lanes:
    """NaN if either is; +0 is above -0."""
    found = np.maximum(a, b)
    tie = (a == 0) & (b == 0)
    return np.where(tie, a + b, found) if tie.any() else found


def _minimum(a: Lanes, b: Lanes) -> Lanes:
    return -_maximum(-a, -b)


def number_wins(function: Function) -> Function:
    """Return a choice that takes the number where one of two is NaN."""

    def choose(a: Lanes, b: Lanes) -> Lanes:
        lost, other = np.isnan(a), np.isnan(b)
        if lost.any() or other.any():
            return np.where(lost, b, np.where(other, a, function(a, b)))
        return function(a, b)

    return choose


def _remainder(a: Lanes, b: Lanes) -> Lanes:
    return np.fmod(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)


maxnum, minnum = number_wins(_maximum), number_wins(_minimum)

_FLOATS: dict[str, Function] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.remf": _remainder,
    "arith.maximumf": _maximum,
    "arith.minimumf": _minimum,
    "arith.maxnumf": maxnum,
    "arith.minnumf": minnum,
}


@lanes(*_FLOATS)
def floats(ctx: LaneContext) -> Run:
    """Sums, products, quotients and extremes of floats."""
    return ctx.computed(_FLOATS[ctx.op.name], "lhs", "rhs")


@lanes("arith.negf")
def negation(ctx: LaneContext) -> Run:
    """The other sign."""
    return ctx.computed(np.negative, "operand")


# -- comparisons and choices -----------------------------------------------------------------------

_ORDERS: dict[str, Function] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


@lanes("arith.cmpi")
def compare_integers(ctx: LaneContext) -> Run:
    """Comparison of integers."""
    word = str(ctx.word("predicate"))
    if word in ("eq", "ne"):
        return ctx.computed(_ORDERS[word], "lhs", "rhs")
    view = as_signed if word[0] == "s" else as_unsigned
    function = _ORDERS[word[1:]]
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
    function = _ORDERS[word[1:]]
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
    return ctx.computed(_CASTS[ctx.op.name](element_type(ctx.result_type())), "operand")


@lanes("arith.addui_extended", "arith.mulsi_extended", "arith.mului_extended")
def extended(ctx: LaneContext) -> Run:
    """Sum and carry, or both halves of a product."""
    kind = ctx.elem("lhs")
    first, second = ctx.slots["lhs"], ctx.slots["rhs"]
    low, high = ctx.results
    name = ctx.op.name

    def run(frame: Frame) -> None:
        a, b = frame.values[first], frame.values[second]
        if name == "arith.addui_extended":
            total = a + b
            frame.values[low] = total
            frame.values[high] = as_unsigned(total) < as_unsigned(a)
        else:
            signed = name == "arith.mulsi_extended"
            frame.values[low] = a * b
            frame.values[high] = high_half(a, b, kind, signed=signed)

    return run


def high_half(a: Lanes, b: Lanes, kind: DType, *, signed: bool) -> Lanes:
    """Return the high half of products of integers."""
    bits, wanted = kind.bits, lane_dtype(kind)
    view = as_signed if signed else as_unsigned
    if bits < 64:
        wide = np.int64 if signed else np.uint64
        product = view(a).astype(wide) * view(b).astype(wide)
        return (product >> np.array(bits, wide)).astype(f"u{wanted.itemsize}").view(wanted)
    high = _high_of_64(as_unsigned(a), as_unsigned(b))
    if signed:
        zero = np.uint64(0)
        high = high - np.where(as_signed(a) < 0, as_unsigned(b), zero)
        high = high - np.where(as_signed(b) < 0, as_unsigned(a), zero)
    return high.view(wanted)


def _high_of_64(a: Lanes, b: Lanes) -> Lanes:
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (other >> half)


@lanes("arith.bitcast", "llvm.bitcast")
def bitcast(ctx: LaneContext) -> Run:
    """The same bits in another type."""
    source, target = ctx.type("operand"), ctx.result_type()
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
