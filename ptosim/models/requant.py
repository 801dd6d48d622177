"""From int32 sums to quantised outputs on the vector unit, as three systems compute it.

`single`: f32 product, rounding, integer zero point (onnxruntime). `double`: the exact product with
the zero point added before the one rounding (onnx.reference, which computes in f64). `onednn`:
scale by scale, bias and post-operation in f32, reciprocal, zero point before rounding."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import DType, ScalarType, Type, VectorType
from ptosim.ground.isa.schema import dtype, dtypes
from ptosim.ground.records import dataclass, replace
from ptosim.language.build import Builder
from ptosim.machine.quant.mlir.types import UniformType, float_array
from ptosim.machine.quant.parameters import Storage
from ptosim.models import chains
from ptosim.models.chains import Affine, Parameter, apply
from ptosim.models.kernel_builder import KernelBuilder, TileValue
from ptosim.models.quant.onednn.attributes import PostOp
from ptosim.ops.tile.quant_casts import element, uniform

LARGEST_SUM = 1 << 24
"""Sums beyond this are not exact in f32, and `double` is not exact for them."""
_WIDE = float(1 << 20)
_SPLITTER = 4097.0  # 2^12 + 1: halves of 12 bits of a 24-bit mantissa
_TIE_SCALE = float(1 << 25)
_SIGN_SCALE = 2.0**120
_TOO_LARGE = 2.0**31


def single(
    f: KernelBuilder, acc: TileValue, factor: Parameter, zero: int, out: Storage
) -> TileValue:
    """Return sat(round(f32(acc) * factor) + zero)."""
    real = chains.real(f, acc)
    apply(f, "mul", real, factor, real)
    return _finish(f, real, zero, out)


def _finish(f: KernelBuilder, real: TileValue, zero: int, out: Storage) -> TileValue:
    whole = chains.converted(f, real, "whole", "i32", chains.CLAMPED)
    if zero:
        chains.clamp(f, whole, -chains.FAR, chains.FAR)
        f.tile_op("pto.tadds", [whole, f.integer(zero, "i32")], [whole])
    return chains.narrow(f, whole, real, out)


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor with its two halves of 12 bits: whole = high + low."""

    whole: Parameter
    high: Parameter
    low: Parameter


def double(f: KernelBuilder, acc: TileValue, factor: Factor, zero: int, out: Storage) -> TileValue:
    """Return sat(round(acc * factor + zero)), the product exact, for |acc| <= 2^24.

    Dekker's product gives acc * factor = p + e without error. p rounds as the sum does unless it
    is a tie; there the sign of e decides, and if e is 0 the parity of the result.
    """
    a = chains.real(f, acc)
    p, e = _exact_product(f, a, factor)
    _limit(f, p, _WIDE)
    whole = chains.converted(f, p, "whole", "i32", chains.CLAMPED)
    f.tile_op("pto.tcvt", [whole], [a], chains.RINT)  # a: the rounded value from here on
    f.tile_op("pto.tsub", [p, a], [p])  # p: the fraction, half at a tie
    f.tile_op("pto.tmuls", [e, f.real(_SIGN_SCALE)], [e])
    _limit(f, e, 1.0)  # e: its sign
    move = _move(f, p, e, odd=bool(zero % 2))
    f.tile_op("pto.tadd", [a, move], [a])
    return _finish(f, a, zero, out)


def integer_quotients(
    f: KernelBuilder, x: TileValue, scale: Factor, affine: Affine, out: Storage
) -> TileValue:
    """Quantise int32 values as if the quotient were exact: clamp(round(x / scale) + zero).

    The rounded f32 quotient k is off by one at most. What x - k * scale is, without error, says
    whether it is: more than half a scale means the next integer."""
    high, low = _halves_of(f, x)
    value, quotient, large = (f.tile(n, "f32", x.rows, x.cols) for n in ("value", "k", "quotient"))
    f.tile_op("pto.tadd", [high, low], [value])
    f.tile_op("pto.tsub", [value, high], [high])
    f.tile_op("pto.tsub", [low, high], [low])  # low: what value lacks
    apply(f, "div", value, scale.whole, large)  # not in place: A2/A3 multiplies there
    f.tile_op("pto.tmins", [large, f.real(_WIDE)], [quotient])
    f.tile_op("pto.tmaxs", [quotient, f.real(-_WIDE)], [quotient])
    whole = chains.converted(f, quotient, "whole", "i32", chains.CLAMPED)
    k = chains.real(f, whole)
    f.tile_op("pto.tcvt", [whole], [quotient], chains.RINT)
    product, rest = _exact_product(f, k, scale)
    f.tile_op("pto.tsub", [value, product], [high])
    f.tile_op("pto.tadd", [high, low], [high])
    f.tile_op("pto.tsub", [high, rest], [high])  # high: x - k * scale
    for sign in (1.0, -1.0):
        f.tile_op("pto.tmuls", [high, f.real(2 * sign)], [product])
        apply(f, "sub", product, scale.whole, low)
        f.tile_op("pto.tmuls", [low, f.real(_SIGN_SCALE)], [low])
        f.tile_op("pto.tmaxs", [low, f.real(0.0)], [low])
        f.tile_op("pto.tmins", [low, f.real(1.0)], [low])
        f.tile_op("pto.tadd" if sign > 0 else "pto.tsub", [quotient, low], [quotient])
    if affine.through_int32:
        chains.choose(f, large, f.real(_TOO_LARGE), "ge", _TOO_LARGE, quotient, low)
    whole = chains.converted(f, quotient, "whole", "i32", chains.CLAMPED)
    return chains.offset(f, whole, affine, out, low)


def _halves_of(f: KernelBuilder, x: TileValue) -> tuple[TileValue, TileValue]:
    """Return int32 values as two exact f32: multiples of 2^12, and what is left."""
    upper, lower = (f.tile(n, "i32", x.rows, x.cols) for n in ("upper", "lower"))
    f.tile_op("pto.tshrs", [x, f.integer(12, "i32")], [upper])
    f.tile_op("pto.tmuls", [upper, f.integer(-4096, "i32")], [lower])
    f.tile_op("pto.tadd", [x, lower], [lower])
    high, low = chains.real(f, upper), chains.real(f, lower)
    f.tile_op("pto.tmuls", [high, f.real(4096.0)], [high])
    return high, low


def _limit(f: KernelBuilder, tile: TileValue, size: float) -> None:
    f.tile_op("pto.tmaxs", [tile, f.real(-size)], [tile])
    f.tile_op("pto.tmins", [tile, f.real(size)], [tile])


def _exact_product(f: KernelBuilder, a: TileValue, factor: Factor) -> tuple[TileValue, TileValue]:
    """Return p = f32(a * factor) and e = a * factor - p, both exact; `a` is overwritten."""
    p, e, high, t = (f.tile(n, "f32", a.rows, a.cols) for n in ("p", "e", "high", "t"))
    apply(f, "mul", a, factor.whole, p)
    f.tile_op("pto.tmuls", [a, f.real(_SPLITTER)], [t])
    f.tile_op("pto.tsub", [t, a], [high])
    f.tile_op("pto.tsub", [t, high], [high])
    f.tile_op("pto.tsub", [a, high], [a])  # a: its lower half
    apply(f, "mul", high, factor.high, e)
    f.tile_op("pto.tsub", [e, p], [e])
    for half, other in ((high, factor.low), (a, factor.high), (a, factor.low)):
        apply(f, "mul", half, other, t)
        f.tile_op("pto.tadd", [e, t], [e])
    return p, e


def _move(f: KernelBuilder, d: TileValue, s: TileValue, *, odd: bool) -> TileValue:
    """Return how far ties move: with fraction d and sign s of what p lacks, to the side of s; where
    it lacks nothing, to the other integer if the zero point is odd. Both operands are
    overwritten."""
    tie, move = f.tile("tie", "f32", d.rows, d.cols), f.tile("move", "f32", d.rows, d.cols)
    f.tile_op("pto.tabs", [d], [tie])
    f.tile_op("pto.tmuls", [tie, f.real(_TIE_SCALE)], [tie])
    f.tile_op("pto.tadds", [tie, f.real(1.0 - _TIE_SCALE / 2)], [tie])
    f.tile_op("pto.tmaxs", [tie, f.real(0.0)], [tie])  # tie: 1 at a tie, else 0
    f.tile_op("pto.tabs", [s], [move])
    f.tile_op("pto.tmul", [move, d], [move])
    f.tile_op("pto.tmuls", [s, f.real(0.5)], [s])
    if odd:
        f.tile_op("pto.tsub", [s, move], [s])
        f.tile_op("pto.tadd", [d, d], [d])
        f.tile_op("pto.tadd", [s, d], [move])
    else:
        f.tile_op("pto.tadd", [s, move], [move])
    f.tile_op("pto.tmul", [move, tie], [move])
    return move


@dataclass(frozen=True, slots=True)
class OneDnn:
    """Parameters of oneDNN's requantisation; `bias` None where there is none."""

    src_scale: Parameter
    weights_scale: Parameter
    bias: Parameter | None
    post: tuple[PostOp, ...]
    reciprocal: Parameter  # f32(1 / destination scale)
    zero: int


def onednn(f: KernelBuilder, acc: TileValue, given: OneDnn, out: Storage) -> TileValue:
    """Return sat(round(post(acc * s_src * s_wei + bias) * (1/s_dst) + zero)), each step in f32."""
    real = scaled_sums(f, acc, given.src_scale, given.weights_scale, given.bias)
    for post in given.post:
        _post_op(f, real, post)
    return requantised(f, real, given.reciprocal, given.zero, out)


def scaled_sums(
    f: KernelBuilder, acc: TileValue, src: Parameter, weights: Parameter, bias: Parameter | None
) -> TileValue:
    """Return acc * s_src * s_wei + bias, each step in f32."""
    real = chains.real(f, acc)
    apply(f, "mul", real, src, real)
    apply(f, "mul", real, weights, real)
    if bias is not None:
        apply(f, "add", real, bias, real)
    return real


def requantised(
    f: KernelBuilder, real: TileValue, reciprocal: Parameter, zero: int, out: Storage
) -> TileValue:
    """Return sat(round(real * (1/s_dst) + zero)); floats are only converted."""
    apply(f, "mul", real, reciprocal, real)
    if zero:
        f.tile_op("pto.tadds", [real, f.real(float(zero))], [real])
    if not out.is_integer:
        return real if out.name == "f32" else chains.half(f, real, out.name)
    return _finish(f, real, 0, out)


def _post_op(f: KernelBuilder, x: TileValue, post: PostOp) -> None:
    if post.name == "abs":
        f.tile_op("pto.tabs", [x], [x])
    elif post.name == "square":
        f.tile_op("pto.tmul", [x, x], [x])
    else:
        relu = "lrelu" if post.alpha else "maxs"
        steps = {"relu": (relu,), "clip": ("maxs", "mins"), "linear": ("muls", "adds")}[post.name]
        for step, number in zip(steps, (post.alpha, post.beta), strict=False):
            f.tile_op(f"pto.t{step}", [x, f.real(number)], [x])


# `quant` casts of scalars and tensors as the arith dialect: the steps of the dialect's page.
#
# qcast: division, sum, rounding to nearest even and limits in the expressed type, conversion to the
# integer; dcast: conversion, difference, product. Parameters per axis are constants of the tensor's
# shape. Stored values are signless integers; the conversion says how they are read.

_EXPRESSED = ("f16", "bf16", "f32", "f64")
_WIDER = "f64"
"""Where limits are compared that the expressed type does not hold: it holds all of 32 bits."""
_MOST_ELEMENTS = 1 << 18
"""Of a tensor whose parameters are written out: one number for each of its elements."""


def lowered_value(op: Operation, name: str, number: int) -> list[Operation]:
    """Return the operations that compute a cast of a scalar or tensor; `number` makes their names
    unique. Raises UnsupportedError for types without arithmetic."""
    source = op.bound["input"]
    held, made = source.type, op.results[0].type
    steps = _Steps(number)
    given = f"%{source.value.name}"
    if op.name == "quant.scast":
        steps.step("arith.bitcast", [given], stored_type(held), stored_type(made), name)
        return steps.ops
    is_qcast = op.name == "quant.qcast"
    type_ = uniform(element(made if is_qcast else held))
    if type_ is None or type_.blocks is not None:
        raise chains.unsupported(f"{op.name} with {element(made if is_qcast else held)}")
    _check(op, type_, made)
    (_qcast if is_qcast else _dcast)(steps, given, type_, held, made, name)
    return steps.ops


def stored_type(type_: Type) -> Type:
    """Return a scalar or tensor type with signless integers in place of quantised values. Raises
    UnsupportedError for integers of a width that no value has, as 3 bits."""
    found = uniform(element(type_))
    if found is None:
        return type_
    kind = dtypes().get(found.storage.kind)
    if kind is None:
        raise chains.unsupported(f"values of {found.storage.word}")
    return _with(type_, kind)


def _check(op: Operation, type_: UniformType, made: Type) -> None:
    storage = type_.storage
    if storage.is_float:
        raise chains.unsupported(
            f"{op.name}: arith has no conversion to {storage.word} with limits"
        )
    if type_.expressed not in _EXPRESSED:
        raise chains.unsupported(f"{op.name}: arithmetic on {type_.expressed}")
    if isinstance(made, ScalarType):
        return
    assert isinstance(made, VectorType)
    if storage.bits not in (8, 16, 32):
        raise chains.unsupported(f"{op.name}: arithmetic on tensors of {storage.word}")
    if made.is_unranked or None in made.dims:
        raise chains.unsupported(f"{op.name} of {made}: constants have a static shape")
    count = math.prod(int(d or 0) for d in made.dims)
    if type_.axis is not None and count > _MOST_ELEMENTS:
        raise chains.unsupported(
            f"{op.name} of {made}: parameters per axis are constants of its {count:,} elements"
        )


class _Steps(Builder):
    """Operations with names of their own."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def step(
        self, op: str, given: list[str], type_: Type, made: Type | None = None, name: str = ""
    ) -> str:
        """Add an operation and return the name of its result; `made` is the type that a conversion
        gives."""
        result = f"%{name}" if name else self._fresh()
        types = [str(type_)] if made is None else [str(type_), "to", str(made)]
        self.op(op, given, types, results=[result])
        return result

    def number_of(self, type_: Type, values: float | np.ndarray, spelled: Callable) -> str:
        """Add a constant: of one value for all elements, or of one for each index of an axis."""
        result = self._fresh()
        literal = _dense(values, spelled) if isinstance(type_, VectorType) else spelled(values)
        self.constant(result, literal, str(type_))
        return result

    def _fresh(self) -> str:
        return f"%q{self.number}_{len(self.ops)}"


def _dense(values: float | np.ndarray, spelled: Callable) -> str:
    def nested(part: np.ndarray) -> str:
        if part.ndim == 0:
            return spelled(part)
        return f"[{', '.join(map(nested, part))}]"

    return f"dense<{nested(np.asarray(values))}>"


def _real(value: float) -> str:
    """A literal that is a float in every reader: with a point, exact."""
    text = repr(float(value))
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}"


def _parameter(steps: _Steps, values: np.ndarray, type_: UniformType, real: Type) -> str:
    values = values.astype(float_array(type_.expressed)).astype(np.float64)
    if type_.axis is None:
        return steps.number_of(real, float(values.reshape(-1)[0]), _real)
    assert isinstance(real, VectorType)
    shape = tuple(int(d or 0) for d in real.dims)
    along = [1] * len(shape)
    along[type_.axis] = -1
    return steps.number_of(real, np.broadcast_to(values.reshape(along), shape), _real)


def _with(type_: Type, elem: DType) -> Type:
    if isinstance(type_, VectorType):
        return replace(type_, elem=elem)
    assert isinstance(type_, ScalarType)
    return replace(type_, dtype=elem)


def _qcast(steps: _Steps, x: str, type_: UniformType, real: Type, made: Type, name: str) -> None:
    scale = _parameter(steps, type_.scale_array(), type_, real)
    value = steps.step("arith.divf", [x, scale], real)
    if any(type_.zeros):
        zero = _parameter(steps, type_.zero_array(), type_, real)
        value = steps.step("arith.addf", [value, zero], real)
    value = steps.step("math.roundeven", [value], real)
    low, high = type_.storage.low, type_.storage.high
    if not _holds(type_.expressed, low) or not _holds(type_.expressed, high):
        wide = _with(real, dtype(_WIDER))
        value = steps.step("arith.extf", [value], real, wide)
        real = wide
    lowest = steps.number_of(real, low, _real)
    value = steps.step("arith.maxnumf", [value, lowest], real)  # NaN is the lower limit
    highest = steps.number_of(real, high, _real)
    value = steps.step("arith.minnumf", [value, highest], real)
    convert = "arith.fptosi" if type_.storage.signed else "arith.fptoui"
    steps.step(convert, [value], real, stored_type(made), name)


def _holds(expressed: str, limit: int) -> bool:
    with np.errstate(over="ignore"):
        return float(np.array(limit).astype(float_array(expressed))) == limit


def _dcast(steps: _Steps, q: str, type_: UniformType, held: Type, real: Type, name: str) -> None:
    convert = "arith.sitofp" if type_.storage.signed else "arith.uitofp"
    value = steps.step(convert, [q], stored_type(held), real)
    if any(type_.zeros):
        zero = _parameter(steps, type_.zero_array(), type_, real)
        value = steps.step("arith.subf", [value, zero], real)
    scale = _parameter(steps, type_.scale_array(), type_, real)
    steps.step("arith.mulf", [value, scale], real, None, name)
