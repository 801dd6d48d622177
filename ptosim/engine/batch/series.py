"""Values of a round before it is executed: known, a series of one for each round, or not known."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import ScalarType
from ptosim.machine.logical import LogicalMask
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView, Pointer
from ptosim.machine.vector import Mask

KNOWN = frozenset((int, bool, Pointer, Mask, LogicalMask, TileRef, GmView))
"""Values that are looked at before rounds are executed; all others are only copied."""


class NotAtOnceError(Exception):
    """The rounds have to be executed one after the other."""


class Register:
    """In the place of what only the execution of a round gives."""

    __slots__ = ()


ONE, MANY = Register(), Register()
"""The same in every round, or one for each."""


def is_series(*values: Any) -> bool:
    return any(isinstance(v, np.ndarray) for v in values)


def is_open(value: Any) -> bool:
    """True for what is not known before the rounds, or differs from round to round."""
    if isinstance(value, Register | np.ndarray):
        return True
    return isinstance(value, Pointer) and isinstance(value.byte, np.ndarray)


def number_of(value: Any) -> Any:
    """The number that grows from round to round: of a pointer its byte."""
    if isinstance(value, Pointer):
        return value.byte
    return value if type(value) is int or isinstance(value, np.ndarray) else None


def is_like(before: Any, value: Any) -> bool:
    """True for two numbers, and for two pointers into one memory."""
    if isinstance(before, Pointer):
        return isinstance(value, Pointer) and value.memory == before.memory
    return type(before) is int and (type(value) is int or isinstance(value, np.ndarray))


def with_number(value: Any, series: np.ndarray) -> Any:
    return value._replace(byte=series) if isinstance(value, Pointer) else series


def of_round(value: Any, at: int) -> Any:
    if isinstance(value, np.ndarray):
        return value[at].item()
    if isinstance(value, Pointer) and isinstance(value.byte, np.ndarray):
        return value._replace(byte=value.byte[at].item())
    return value


def window(on: np.ndarray, size: int, width: int) -> tuple[int, int]:
    """The bytes that active lanes store, if they are neighbours."""
    chosen = np.flatnonzero(on[: size // width])
    if not len(chosen):
        return 0, 0
    first, last = int(chosen[0]), int(chosen[-1])
    if last - first + 1 != len(chosen):
        raise NotAtOnceError
    return first * width, (last + 1) * width


def is_wide(op: Operation) -> bool:
    """True for operations on signed numbers of 32 bits and more, which those computed here are in
    the range of."""
    values = [*op.results, *op.operand_values()]
    types = [v.type for v in values]
    return all(
        isinstance(t, ScalarType) and t.dtype.bits >= 32 and t.dtype.kind == "int" for t in types
    )
