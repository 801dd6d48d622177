"""int8 matrix product, convolution and reorder as oneDNN computes them (AVX-512 with VNNI).

Measured order: the int32 sum of (source - zero point) * weight becomes f32; times the source scale;
times the weight scale; plus the bias; post-operations; times f32(1 / destination scale); plus the
destination zero point; rounded to nearest even and saturated. Every step rounds to f32. CPUs
without VNNI multiply u8 by s8 pairs with 16-bit saturation and are not modelled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass
from ptosim.machine.quant.granularity import along
from ptosim.machine.quant.parameters import ElementType, Storage, scheme, storage
from ptosim.machine.quant.quantize import as_array, quantize_array
from ptosim.models.quant.onednn.attributes import Attributes, Mask
from ptosim.models.quant.scaled import Window, conv_int32, matmul_int32


@dataclass(frozen=True, slots=True)
class Values:
    """Run-time values of the attributes: f32 scales, s32 zero points."""

    src_scale: ArrayLike = 1.0
    src_zero: ArrayLike = 0
    weights_scale: ArrayLike = 1.0
    dst_scale: ArrayLike = 1.0
    dst_zero: ArrayLike = 0
    previous: ArrayLike | None = None
    """What the destination holds before: for the post-op `sum`."""


@dataclass(frozen=True, slots=True)
class Requantisation:
    """What turns int32 sums into outputs: one value, or one for each output channel, of each."""

    src_scale: np.ndarray
    weights_scale: np.ndarray
    bias: np.ndarray | None
    attributes: Attributes
    dst_scale: np.ndarray
    dst_zero: np.ndarray
    out: Storage
    previous: np.ndarray | None = None

    def real(self, accumulator: np.ndarray) -> np.ndarray:
        """Return the f32 values after the post-operations."""
        with np.errstate(all="ignore"):
            values = accumulator.astype(np.float32)
            values *= self.src_scale
            values *= self.weights_scale
            if self.bias is not None:
                values += self.bias
            for post_op in self.attributes.post_ops:
                values = post_op.apply(values, self.previous)
        return values

    def __call__(self, accumulator: np.ndarray) -> np.ndarray:
        """Return the outputs of int32 sums."""
        values = self.real(accumulator)
        if self.out.is_integer:
            return quantize_array(values, self.dst_scale, self.dst_zero, scheme("onednn"), self.out)
        with np.errstate(all="ignore"):
            scaled = values * (np.float32(1) / self.dst_scale) + self.dst_zero.astype(np.float32)
            return scaled.astype(self.out.array)


def matmul(
    src: ArrayLike,
    weights: ArrayLike,
    values: Values | None = None,
    *,
    attributes: Attributes | None = None,
    bias: ArrayLike | None = None,
    dst: ElementType = "u8",
) -> np.ndarray:
    """Return src [.., M, K] times weights [K, N]; `dst` is u8, s8, s32, f32 or bf16."""
    attributes, values = attributes or Attributes(), values or Values()
    a, b = _int8(src, "src"), _int8(weights, "weights")
    if b.ndim < 2 or a.ndim < 2 or a.shape[-1] != b.shape[-2]:
        raise UsageError(f"src {list(a.shape)} and weights {list(b.shape)} do not multiply")
    attributes.check_int8("matmul", b.shape)
    sums = matmul_int32(a.astype(np.int32) - _zero(values.src_zero), b)
    return requantisation(attributes, values, b.shape, -1, sums.ndim, bias, dst)(sums)


def convolution(
    src: ArrayLike,
    weights: ArrayLike,
    values: Values | None = None,
    *,
    attributes: Attributes | None = None,
    bias: ArrayLike | None = None,
    dst: ElementType = "u8",
    strides: tuple[int, ...] = (),
    padding: tuple[int, ...] = (),
    dilation: tuple[int, ...] = (),
    groups: int = 1,
) -> np.ndarray:
    """Return the convolution of src [N, C, ...] with weights [O, C/groups, ...]; padded taps are
    real 0.

    With groups > 1 masks are those of weights [groups, O/groups, C/groups, ...].
    """
    attributes, values = attributes or Attributes(), values or Values()
    image, kernel = _int8(src, "src"), _int8(weights, "weights")
    grouped = kernel.shape
    if groups > 1:
        grouped = (groups, kernel.shape[0] // groups, *kernel.shape[1:])
    attributes.check_int8("convolution", grouped)
    window = Window(image.shape[2:], kernel.shape[2:], strides, padding, dilation)
    shifted = image.astype(np.int32) - _zero(values.src_zero)
    sums = conv_int32(shifted, kernel.astype(np.int32), window, groups)
    return requantisation(attributes, values, grouped, 1, sums.ndim, bias, dst)(sums)


def requantisation(
    attributes: Attributes,
    values: Values,
    weights: tuple[int, ...],
    axis: int,
    rank: int,
    bias: ArrayLike | None,
    dst: ElementType,
) -> Requantisation:
    """Return what follows the integer sums; output channels run along `axis` of an array of
    `rank`."""
    mask = attributes.scales.get("weights", Mask())
    scales = mask.spread(_float(values.weights_scale), weights, "weights scales")
    return Requantisation(
        _one(_float(values.src_scale), "src scale"),
        along(scales.reshape(-1), rank, axis),
        None if bias is None else along(_float(bias).reshape(-1), rank, axis),
        attributes,
        _one(_float(values.dst_scale), "dst scale"),
        _one(as_array(values.dst_zero, "dst zero point"), "dst zero point"),
        storage(dst),
        None if values.previous is None else as_array(values.previous, "previous destination"),
    )


def reorder(
    x: ArrayLike,
    values: Values | None = None,
    *,
    attributes: Attributes | None = None,
    dst: ElementType = "s8",
) -> np.ndarray:
    """Return a tensor in another type: (x * src scale) / dst scale + dst zero point.

    Scales of the destination may have any mask, as for weights with a scale for each output
    channel.
    """
    attributes, values = attributes or Attributes(), values or Values()
    source = as_array(x, "x")
    real = source.astype(np.float32)
    if source.dtype.kind in "iu":
        real = real - _spread(attributes.zero_points, "src", values.src_zero, source.shape)
    with np.errstate(all="ignore"):
        real = real * _spread(attributes.scales, "src", values.src_scale, source.shape)
    out = storage(dst)
    scales = _spread(attributes.scales, "dst", values.dst_scale, source.shape)
    zeros = _spread(attributes.zero_points, "dst", values.dst_zero, source.shape)
    if not out.is_integer:
        return (real * (np.float32(1) / scales) + zeros).astype(out.array)
    shape = np.broadcast_shapes(scales.shape, zeros.shape)
    return quantize_array(
        real, np.broadcast_to(scales, shape), np.broadcast_to(zeros, shape), scheme("onednn"), out
    )


def _spread(
    table: dict[str, Mask], arg: str, values: ArrayLike, dims: tuple[int, ...]
) -> np.ndarray:
    return table.get(arg, Mask()).spread(_float(values), dims, f"{arg} values")


def _int8(value: ArrayLike, name: str) -> np.ndarray:
    array = as_array(value, name)
    if array.dtype not in (np.dtype(np.int8), np.dtype(np.uint8)):
        raise UsageError(f"{name} holds s8 or u8, not {array.dtype}")
    return array


def _zero(value: ArrayLike) -> np.int32:
    zero = _one(as_array(value, "src zero point"), "src zero point")
    return np.int32(zero)


def _float(value: ArrayLike) -> np.ndarray:
    return np.asarray(value, np.float32)


def _one(array: np.ndarray, name: str) -> np.ndarray:
    if array.size != 1:
        raise UsageError(f"{name} is one value, not {array.size}")
    return array.reshape(())
