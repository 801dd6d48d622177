"""Post-operations of oneDNN's primitives: on the f32 value, before the scale of the destination.

Formulas are those of the element-wise algorithms that oneDNN documents and of its reference
implementation, step by step in f32. Exponentials and their kin are rounded from f64; the CPU's own
functions may differ in the last bit."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass

Eltwise = Callable[[np.ndarray, np.float32, np.float32], np.ndarray]
_F = np.float32
_LARGEST_EXP = _F(88.72283172607421875)
"""Beyond it the exponential of an f32 is infinite."""


@dataclass(frozen=True, slots=True, eq=False)
class PostOp:
    """One operation.

    `kind` eltwise: algorithm `name` with `alpha` and `beta`. `kind` binary: `name` with `operand`,
    of the destination's rank with 1 where it is broadcast. `kind` sum: the destination's previous
    value, times `alpha`, without the zero point `beta`, is added."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0
    kind: str = "eltwise"
    operand: np.ndarray | None = None

    def apply(self, values: np.ndarray, previous: np.ndarray | None = None) -> np.ndarray:
        """Return the values after the operation, in f32; `previous` is the destination before the
        primitive. Raises UsageError for operands that are missing or do not fit."""
        with np.errstate(all="ignore"):
            if self.kind == "eltwise":
                return ELTWISE[self.name](values, _F(self.alpha), _F(self.beta))
            if self.kind == "sum":
                return values + _F(self.alpha) * (self._previous(values, previous) - _F(self.beta))
            assert self.operand is not None
            try:
                other = np.broadcast_to(self.operand, values.shape)
            except ValueError as problem:
                raise UsageError(
                    f"the operand of the post-op {self.name} has shape {self.operand.shape}; the "
                    f"destination has {values.shape}"
                ) from problem
            return BINARY[self.name](values, other).astype(np.float32)

    def _previous(self, values: np.ndarray, previous: np.ndarray | None) -> np.ndarray:
        if previous is None:
            raise UsageError("the post-op sum needs the destination's previous value")
        if previous.shape != values.shape:
            raise UsageError(
                f"the destination's previous value has shape {previous.shape}, not {values.shape}"
            )
        return previous.astype(np.float32)

    @property
    def is_on_vector_unit(self) -> bool:
        """True if the vector unit computes the same bits."""
        return self.kind == "eltwise" and self.name in VECTOR


def eltwise(name: str, alpha: float = 0.0, beta: float = 0.0) -> PostOp:
    """Return an element-wise operation; raises UsageError for an unknown one, and for parameters
    that are no f32 numbers."""
    word = {"gelu": "gelu_erf", "clamp": "clip", "sigmoid": "logistic"}.get(name, name)
    if word not in ELTWISE:
        raise UsageError(f"unknown post-op `{name}`", help=f"known: {', '.join(ELTWISE)}")
    _check_numbers(word, alpha, beta)
    return PostOp(word, alpha, beta)


def binary(name: str, operand: np.ndarray) -> PostOp:
    """Return a binary operation with a tensor; raises UsageError for an unknown one."""
    word = name.removeprefix("binary_")
    if word not in BINARY:
        raise UsageError(f"unknown binary post-op `{name}`", help=f"known: {', '.join(BINARY)}")
    return PostOp(word, kind="binary", operand=np.asarray(operand, np.float32))


def accumulate(scale: float = 1.0, zero_point: float = 0) -> PostOp:
    """Return the operation `sum`; raises UsageError for parameters that are no f32 numbers."""
    _check_numbers("sum", scale, zero_point)
    return PostOp("sum", scale, zero_point, kind="sum")


def _check_numbers(name: str, *numbers: float) -> None:
    """An infinity is a bound that does not bind; what only rounds to one is a mistake."""
    largest = float(np.finfo(_F).max)
    for number in numbers:
        if math.isnan(number) or largest < abs(number) < math.inf:
            raise UsageError(
                f"post-op {name}: {number} is no number of f32",
                help=f"a number up to {largest:.8g}, or inf",
            )


# -- element by element ----------------------------------------------------------------------------


def _rounded(function: Callable[[np.ndarray], np.ndarray], values: np.ndarray) -> np.ndarray:
    """A function of f32 values, computed in f64 and rounded once."""
    return function(values.astype(np.float64)).astype(np.float32)


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _erf_of(values: np.ndarray) -> np.ndarray:
    """erf of an array through its distinct values: an int8 product has few."""
    distinct, places = np.unique(values, return_inverse=True)
    return _erf(distinct)[places].reshape(values.shape) if values.size else values


def _tanh(v: np.ndarray) -> np.ndarray:
    return _rounded(np.tanh, v)


def _exp(v: np.ndarray) -> np.ndarray:
    return _rounded(np.exp, v)


def _logistic(v: np.ndarray, a: np.float32, b: np.float32) -> np.ndarray:
    inside = -v < _LARGEST_EXP
    return np.where(inside | np.isnan(v), _F(1) / (_F(1) + _exp(-v)), _F(0))


def _soft_relu(v: np.ndarray, a: np.float32, b: np.float32) -> np.ndarray:
    slope = a if a else _F(1)
    scaled = v * slope
    soft = _rounded(np.log1p, _exp(scaled)) / slope
    return np.where(scaled < _LARGEST_EXP, soft, v)


def _gelu_tanh(v: np.ndarray, a: np.float32, b: np.float32) -> np.ndarray:
    g = _F(math.sqrt(2 / math.pi)) * v * (_F(1) + _F(0.044715) * v * v)
    return _F(0.5) * v * (_F(1) + _tanh(g))


def _gelu_erf(v: np.ndarray, a: np.float32, b: np.float32) -> np.ndarray:
    return _F(0.5) * v * (_F(1) + _rounded(_erf_of, v * _F(math.sqrt(0.5))))


def _hardsigmoid(v: np.ndarray, a: np.float32, b: np.float32) -> np.ndarray:
    return np.maximum(_F(0), np.minimum(_F(1), a * v + b))


ELTWISE: dict[str, Eltwise] = {
    "relu": lambda v, a, b: np.where(v > 0, v, v * a if a else np.float32(0)),
    "clip": lambda v, a, b: np.clip(v, a, b),
    "linear": lambda v, a, b: v * a + b,
    "abs": lambda v, a, b: np.abs(v),
    "square": lambda v, a, b: v * v,
    "sqrt": lambda v, a, b: np.sqrt(v),
    "tanh": lambda v, a, b: _tanh(v),
    "elu": lambda v, a, b: np.where(v > 0, v, a * _rounded(np.expm1, v)),
    "exp": lambda v, a, b: _exp(v),
    "log": lambda v, a, b: _rounded(np.log, v),
    "logistic": _logistic,
    "soft_relu": _soft_relu,
    "mish": lambda v, a, b: v * _tanh(_soft_relu(v, _F(1), b)),
    "gelu_tanh": _gelu_tanh,
    "gelu_erf": _gelu_erf,
    "swish": lambda v, a, b: v / (_F(1) + _exp(-a * v)),
    "hardsigmoid": _hardsigmoid,
    "hardswish": lambda v, a, b: v * _hardsigmoid(v, a, b),
    "pow": lambda v, a, b: a * _rounded(lambda x: np.power(x, np.float64(b)), v),
    "round": lambda v, a, b: np.rint(v),
}
VECTOR = ("relu", "clip", "linear", "abs", "square")
"""Those that tile operations compute to the last bit."""

BINARY: dict[str, np.ufunc] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "eq": np.equal,
    "ne": np.not_equal,
}
