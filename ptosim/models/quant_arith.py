"""`quant` casts of scalars and tensors as the arith dialect: the steps of the dialect's page.

qcast: division, sum, rounding to nearest even and limits in the expressed type, conversion to the
integer; dcast: conversion, difference, product. Parameters per axis are constants of the tensor's
shape. Stored values are signless integers; the conversion says how they are read."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import DType, ScalarType, Type, VectorType
from ptosim.ground.isa.enums import dtype, dtypes
from ptosim.ground.records import replace
from ptosim.language.build import Builder
from ptosim.machine.quant.mlir.types import UniformType, float_array
from ptosim.models import chains
from ptosim.ops.tile.quant_casts import element, uniform

_EXPRESSED = ("f16", "bf16", "f32", "f64")
_WIDE = "f64"
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
        wide = _with(real, dtype(_WIDE))
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
