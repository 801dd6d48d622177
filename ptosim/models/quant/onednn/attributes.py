"""oneDNN quantisation attributes: masks, groups, and how many values they call for.

Bit d of a mask set: one value for every index of dimension d (for every group of indices where
groups are given, which hold for the last two dimensions). Mask 0: one value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ptosim.ground.diagnostics.model import finding
from ptosim.ground.errors import UnsupportedError, UsageError
from ptosim.ground.records import dataclass, field
from ptosim.models.quant.onednn.post_ops import PostOp, accumulate, binary, eltwise

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
