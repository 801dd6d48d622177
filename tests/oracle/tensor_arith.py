"""Element arithmetic of the arith dialect and of casts lowered to it, in Python's numbers."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np


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


_FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def qcast(x, storage: str, expressed: str, parameters: str):
    """Stored values of an array [2, 8]: clamp(round(x / scale + zero point)), each step in the
    expressed type; NaN is the lower limit. `parameters`: `scale:zero point`, or a list in braces
    for each index of the axis that has as many."""
    word, _, limits = storage.partition("<")
    bits, signed = int(word[1:]), word[0] == "i"
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if limits:
        low, high = map(int, limits.rstrip(">").split(":"))
    pairs = [p.partition(":") for p in parameters.strip("{}").split(", ")]
    kind = _FLOATS[expressed]
    made = np.zeros(x.shape, f"{'i' if signed else 'u'}{bits // 8}")
    for at in np.ndindex(x.shape):
        index = 0 if len(pairs) == 1 else at[0] if len(pairs) == x.shape[0] else at[1]
        scale, _, zero = pairs[index]
        with np.errstate(all="ignore"):
            value = float(kind(kind(x[at] / kind(float(scale))) + kind(float(zero or 0))))
        if math.isnan(value):
            made[at] = low
        elif math.isinf(value):
            made[at] = high if value > 0 else low
        else:
            made[at] = min(max(round(value), low), high)
    return made
