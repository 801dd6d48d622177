"""Element arithmetic of the arith dialect and of casts lowered to it, in Python's numbers."""

from __future__ import annotations

import math


def _quotient(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)


def _pick(a: float, b: float, larger: bool) -> float:
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    return max(a, b) if larger else min(a, b)


def _strict(a: float, b: float) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else max(a, b)


FLOAT = {
    "addf": lambda a, b: a + b,
    "subf": lambda a, b: a - b,
    "mulf": lambda a, b: a * b,
    "divf": _quotient,
    "maxnumf": lambda a, b: _pick(a, b, True),
    "minnumf": lambda a, b: _pick(a, b, False),
    "maximumf": _strict,
}


def integer(name: str, a: int, b: int, bits: int) -> int:
    """Sum, difference or product modulo 2^bits, signed."""
    exact = {"addi": a + b, "subi": a - b, "muli": a * b}[name]
    return (exact + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
