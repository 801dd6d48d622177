"""oneDNN quantisation attributes: masks, groups, and how many values they call for.

Bit d of a mask set: one value for every index of dimension d (for every group of indices where
groups are given, which hold for the last two dimensions). Mask 0: one value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ptosim.ground.diagnostics.model import UnsupportedError, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass, field

# -- post-operations -------------------------------------------------------------------------------

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


# --------------------------------------------------------------------------------------------------

ARGUMENTS = ("src", "weights", "dst")


@dataclass(frozen=True, slots=True)
class Mask:
    """Which dimensions of an operand have values of their own."""

    mask: int = 0
    groups: tuple[int, ...] = ()

    def shape(self, dims: Sequence[int]) -> tuple[int, ...]:
        """Return the values for each dimension of an operand; raises UsageError if the mask or the
        groups do not fit it."""
        rank = len(dims)
        if not isinstance(self.mask, int):
            raise UsageError(f"a mask is a whole number, a bit for each dimension, not {self.mask}")
        if self.mask < 0 or self.mask >> rank:
            raise UsageError(
                f"mask {self.mask} names dimensions beyond those of an operand of rank {rank}"
            )
        groups = self._groups(rank)
        shape = []
        for axis, size in enumerate(dims):
            if not self.mask >> axis & 1:
                shape.append(1)
                continue
            group = groups[axis]
            if size % group:
                raise UsageError(
                    f"dimension {axis} of size {size} does not divide into groups of {group}"
                )
            shape.append(size // group)
        return tuple(shape)

    def _groups(self, rank: int) -> tuple[int, ...]:
        if not self.groups:
            return (1,) * rank
        if len(self.groups) > rank or any(g < 1 for g in self.groups):
            raise UsageError(f"groups {list(self.groups)} do not fit an operand of rank {rank}")
        return (1,) * (rank - len(self.groups)) + self.groups

    def count(self, dims: Sequence[int]) -> int:
        """Return how many values the mask calls for."""
        return math.prod(self.shape(dims))

    def spread(self, values: np.ndarray, dims: Sequence[int], what: str) -> np.ndarray:
        """Return values in a shape that broadcasts against the operand.

        Raises UsageError if there are more or fewer than the mask calls for.
        """
        shape = self.shape(dims)
        if values.size != math.prod(shape):
            raise UsageError(
                f"{what}: mask {self.mask} on {'x'.join(map(str, dims))} calls for "
                f"{math.prod(shape)} values, not {values.size}"
            )
        wide = values.reshape(shape)
        for axis, (size, count) in enumerate(zip(dims, shape, strict=True)):
            if count not in (1, size):
                wide = np.repeat(wide, size // count, axis)
        return wide


@dataclass(slots=True)
class Attributes:
    """The quantisation attributes of a primitive, set before it is made; values come at run
    time."""

    scales: dict[str, Mask] = field(default_factory=dict)
    zero_points: dict[str, Mask] = field(default_factory=dict)
    rounding: dict[str, str] = field(default_factory=dict)
    post_ops: list[PostOp] = field(default_factory=list)

    def set_scales(
        self, arg: str, mask: int, groups: Sequence[int] = (), dtype: str = "f32"
    ) -> None:
        """Give an operand scales, in groups on its last dimensions."""
        if dtype not in ("f32", "bf16", "f16"):
            raise UsageError(f"scales are f32, bf16 or f16, not {dtype}")
        self.scales[_argument(arg)] = Mask(mask, tuple(groups))

    set_scales_mask = set_scales  # oneDNN's own name of the form without groups

    def set_zero_points(
        self, arg: str, mask: int, groups: Sequence[int] = (), dtype: str = "s32"
    ) -> None:
        """Give an operand zero points, in groups on its last dimensions."""
        if dtype not in ("s32", "s8", "u8", "s4", "u4"):
            raise UsageError(f"zero points are s32, s8, u8, s4 or u4, not {dtype}")
        self.zero_points[_argument(arg)] = Mask(mask, tuple(groups))

    set_zero_points_mask = set_zero_points  # oneDNN's own name of the form without groups

    def set_rounding_mode(self, arg: str, mode: str) -> None:
        """Choose how an operand is rounded: `environment` is the CPU's mode, nearest even."""
        if mode == "stochastic":
            raise _unimplemented("stochastic rounding of the destination")
        if mode != "environment":
            raise UsageError(f"unknown rounding mode `{mode}`", help="environment or stochastic")
        self.rounding[_argument(arg)] = mode

    def append(self, name: str, alpha: float = 0.0, beta: float = 0.0) -> None:
        """Add an element-wise post-operation: relu (slope alpha), clip (alpha to beta), linear
        (alpha*x + beta), gelu_erf, tanh, …"""
        self.post_ops.append(eltwise(name, alpha, beta))

    append_eltwise = append  # oneDNN's own name

    def append_binary(self, name: str, operand: np.ndarray) -> None:
        """Add a binary post-operation with a tensor that broadcasts against the destination."""
        self.post_ops.append(binary(name, operand))

    def append_sum(self, scale: float = 1.0, zero_point: float = 0) -> None:
        """Add the destination's previous value: scale * (previous - zero point)."""
        self.post_ops.append(accumulate(scale, zero_point))

    def check_int8(self, primitive: str, weights: Sequence[int]) -> None:
        """Raise UnsupportedError for a combination that no int8 implementation has."""
        if "weights" in self.zero_points and primitive == "convolution":
            raise _unimplemented("zero points of the weights of an int8 convolution")
        if "weights" in self.zero_points:
            raise _unimplemented("zero points of int8 matmul weights")
        for arg in ("src", "dst"):
            for kind, table in (("scales", self.scales), ("zero points", self.zero_points)):
                if arg in table and table[arg].mask:
                    raise _unimplemented(f"{kind} of {arg} with mask {table[arg].mask}")
        mask = self.scales.get("weights", Mask())
        if mask.groups:
            raise _unimplemented("grouped scales of int8 weights")
        if mask.mask and mask.count(weights) not in (1, _channels(primitive, weights)):
            raise _unimplemented(f"scales of weights with mask {mask.mask}")


def _channels(primitive: str, weights: Sequence[int]) -> int:
    """Output channels of weights [K, N], OIHW or, grouped, GOIHW."""
    if primitive == "matmul":
        return weights[-1]
    return weights[0] * weights[1] if len(weights) == 5 else weights[0]


def _argument(arg: str) -> str:
    word = arg.lower().removeprefix("dnnl_arg_")
    if word not in ARGUMENTS:
        raise UsageError(f"unknown argument `{arg}`", help=f"one of {', '.join(ARGUMENTS)}")
    return word


def _unimplemented(what: str) -> UnsupportedError:
    found = finding(
        "PTO8203",
        f"oneDNN: {what}: unimplemented",
        notes=("primitive creation fails with dnnl_unimplemented for such attributes",),
    )
    return UnsupportedError([found])
