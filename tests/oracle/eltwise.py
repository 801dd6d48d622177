"""oneDNN's element-wise post-operations, one f32 at a time: the steps of its reference formulas, with
Python's own functions in f64 rounded to f32. Without ptosim."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable


def f32(value: float) -> float:
    """Return a double rounded to f32."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def exp(v: float) -> float:
    return f32(math.exp(v)) if v < 89 else math.inf


def soft_relu(s: float, a: float) -> float:
    v = f32(s * a)
    return f32(f32(math.log1p(exp(v))) / a) if v < 88.72283172607421875 else s


def gelu_tanh(s: float) -> float:
    root, fit = f32(math.sqrt(2 / math.pi)), f32(0.044715)
    inner = f32(1 + f32(f32(fit * s) * s))
    g = f32(f32(root * s) * inner)
    return f32(f32(0.5 * s) * f32(1 + f32(math.tanh(g))))


def gelu_erf(s: float) -> float:
    v = f32(s * f32(math.sqrt(0.5)))
    return f32(f32(0.5 * s) * f32(1 + f32(math.erf(v))))


def hardsigmoid(s: float, a: float, b: float) -> float:
    return max(0.0, min(1.0, f32(f32(a * s) + b)))


FORMULAS: dict[str, Callable[[float, float, float], float]] = {
    "relu": lambda s, a, b: s if s > 0 else f32(s * a),
    "clip": lambda s, a, b: min(max(s, a), b),
    "linear": lambda s, a, b: f32(f32(a * s) + b),
    "abs": lambda s, a, b: abs(s),
    "square": lambda s, a, b: f32(s * s),
    "sqrt": lambda s, a, b: f32(math.sqrt(s)) if s >= 0 else math.nan,
    "tanh": lambda s, a, b: f32(math.tanh(s)),
    "elu": lambda s, a, b: s if s > 0 else f32(a * f32(math.expm1(s))),
    "exp": lambda s, a, b: exp(s),
    "log": lambda s, a, b: f32(math.log(s)) if s > 0 else (-math.inf if s == 0 else math.nan),
    "logistic": lambda s, a, b: f32(1 / f32(1 + exp(-s))) if -s < 88.72283172607421875 else 0.0,
    "soft_relu": lambda s, a, b: soft_relu(s, a),
    "mish": lambda s, a, b: f32(s * f32(math.tanh(soft_relu(s, 1.0)))),
    "gelu_tanh": lambda s, a, b: gelu_tanh(s),
    "gelu_erf": lambda s, a, b: gelu_erf(s),
    "swish": lambda s, a, b: f32(s / f32(1 + exp(f32(-a * s)))),
    "hardsigmoid": hardsigmoid,
    "hardswish": lambda s, a, b: f32(s * hardsigmoid(s, a, b)),
    "pow": lambda s, a, b: f32(a * f32(s**b)),
    "round": lambda s, a, b: float(round(s)) if math.isfinite(s) else s,
}
