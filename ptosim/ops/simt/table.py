"""Functions of operations in SIMT code, by name: the maker of an operation gets what the text fixes
and returns the function that executes it for every thread of a launch at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.ir.types import DType, MemRefType, PtrType, ScalarType, Type, VectorType
from ptosim.ground.isa.dtypes import dtype
from ptosim.ground.records import dataclass
from ptosim.machine.storage import view_dtype
from ptosim.machine.tile import TileRef
from ptosim.machine.values import Fragment, GmView, Pointer, near
from ptosim.ops.base.context import Context
from ptosim.ops.base.functions import registrar
from ptosim.ops.simt.frame import Frame, LanePtr, Lanes, PrivatePtr, Run

Maker = Callable[["LaneContext"], Run]

LANE_OPS: dict[str, Maker] = {}


def lanes(*names: str) -> Callable[[Maker], Maker]:
    """Register the maker of operations in SIMT code."""
    return registrar(LANE_OPS, names)


@dataclass(slots=True, eq=False)
class LaneContext(Context):
    """An operation of SIMT code, on the values of all threads of a launch at once."""

    def has(self, name: str) -> bool:
        """True if an optional operand or flag is there."""
        return self.op.bound.get(name) is not None

    def elem(self, name: str) -> DType:
        """Return the type of the numbers of an operand."""
        return element_type(self.type(name))

    def computed(self, function: Callable[..., Any], *names: str) -> Run:
        """Return the instruction: the result is the function of operands, lane by lane."""
        return computed(function, [self.slots[n] for n in names], self.results[0])


def computed(function: Callable[..., Any], sources: list[int], target: int) -> Run:
    """Return the instruction: a slot becomes the function of the values in others."""
    if len(sources) == 1:
        (only,) = sources

        def one(frame: Frame) -> None:
            values = frame.values
            values[target] = function(values[only])

        return one
    if len(sources) == 2:
        first, second = sources

        def two(frame: Frame) -> None:
            values = frame.values
            values[target] = function(values[first], values[second])

        return two

    def many(frame: Frame) -> None:
        values = frame.values
        values[target] = function(*[values[s] for s in sources])

    return many


def element_type(type_: Type) -> DType:
    """Return the type of the numbers that a value is made of."""
    if isinstance(type_, ScalarType):
        return type_.dtype
    return type_.elem if isinstance(type_, (VectorType, PtrType, MemRefType)) else dtype("i64")


def lane_dtype(found: DType) -> np.dtype:
    """Return the NumPy type of a number of a value."""
    return np.dtype(bool) if found.name == "i1" else view_dtype(found)


def width_of(type_: Type) -> int | None:
    """Return how many numbers a value of a type is, None for one."""
    if isinstance(type_, VectorType):
        return type_.dims[0]
    return None


def uniform(value: Any, type_: Type) -> Any:
    """Return a value of the scalar unit as the value of every thread."""
    if isinstance(value, GmView):
        value = value.start
    if isinstance(value, Fragment):
        return PrivatePtr(value, np.zeros(1, np.int64))
    if isinstance(value, TileRef):
        value = Pointer(value.type.loc, value.addr)
    if isinstance(value, Pointer):
        return LanePtr(value.memory, np.array([near(value.byte)], np.int64))
    kind = element_type(type_)
    if isinstance(value, tuple):
        return np.concatenate([_number(v, kind) for v in value])[:, None]
    return _number(value, kind)


def _number(value: Any, kind: DType) -> Lanes:
    wanted = lane_dtype(kind)
    if wanted.kind in "iu" and not isinstance(value, float):
        bits = int(value) & ((1 << 8 * wanted.itemsize) - 1)
        return np.array([bits], f"u{wanted.itemsize}").view(wanted)
    return np.array([value]).astype(wanted)
