"""Integer arithmetic on the values that an operand has in many rounds of a loop, for numbers that
are small enough for all of it to stay in 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Numbers = Any
"""An int, or an array (int64) of the values of all rounds."""

LARGEST = 1 << 31
"""Numbers up to here add and multiply without leaving 64 bits."""


def is_small(value: Numbers) -> bool:
    """True for integers below LARGEST."""
    if isinstance(value, np.ndarray):
        return value.dtype == np.int64 and int(np.abs(value).max()) < LARGEST
    return type(value) in (int, np.int64) and abs(value) < LARGEST


def _divided(function: np.ufunc) -> Callable[[Numbers, Numbers], Numbers | None]:
    """Of numbers without a sign only; others, and a division by zero, are not computed here."""

    def divide(a: Numbers, b: Numbers) -> Numbers | None:
        return function(a, b) if np.min(a) >= 0 and np.min(b) > 0 else None

    return divide


OF_MANY: dict[str, Callable[..., Numbers | None]] = {
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
    "arith.divui": _divided(np.floor_divide), "arith.remui": _divided(np.remainder),
    "arith.divsi": _divided(np.floor_divide), "arith.remsi": _divided(np.remainder),
    "arith.index_cast": np.positive,
}  # fmt: skip
"""Functions of small numbers by the name of the operation; None where one is not computed here."""
