"""The types of quantised values: scales and zero points from what calibration saw.

With short scales the bits of both operands' scales are what is left of 24 after the largest sum, so
that dequantised sums are exact in f32; a scale is rounded up for that, and covers a little more."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ptosim.ground.records import dataclass
from ptosim.machine.quant.quantize import quantize_array
from ptosim.machine.quant.schemes import scheme
from ptosim.machine.quant.storage import Storage, storage
from ptosim.models.conversion.plan import Layer, Plan
from ptosim.models.onnx_model import Graph
from ptosim.models.quant.convert import calibration, scales
from ptosim.models.quant.statistics import amax

FITS = 24
"""Bits of the mantissa of an f32."""
_MOST_BITS = 4
"""Bits of the scale of an activation, where there is room: steps of an eighth."""
_MOST_WEIGHT_BITS = 8
_LARGEST_BIAS = (1 << 30) - 1


@dataclass(frozen=True, slots=True)
class Settings:
    """How a model is quantised."""

    method: str = "minmax"
    percentile: float = calibration.PERCENTILE
    activations: str = "i8"
    per_channel: bool = True
    scales: str = "short"  # or f32
    format: str = "int8"


@dataclass(frozen=True, slots=True)
class PointType:
    """The type of a value: what calibration saw, the limits that are covered, scale and zero."""

    seen: tuple[float, float]
    covered: tuple[float, float]
    scale: np.ndarray
    zero: np.ndarray
    bits: int | None
    described: str = ""  # the type in words, where a scale and a zero point do not say it

    @property
    def storage(self) -> Storage:
        """The stored type."""
        return storage(self.zero.dtype)


@dataclass(frozen=True, slots=True)
class WeightType:
    """Quantised weights: codes, and a scale for all or for each index of `axis`."""

    codes: np.ndarray
    scale: np.ndarray
    axis: int | None
    described: str = ""


@dataclass(slots=True)
class Types:
    """Types of values by name, of weights and biases by the name of the layer. A bias has int32
    codes in units of its scale; None where it stays f32."""

    points: dict[str, PointType]
    weights: dict[str, WeightType]
    biases: dict[str, tuple[np.ndarray, np.ndarray] | None]


def choose(
    graph: Graph, plan: Plan, values: Mapping[str, list[np.ndarray]], settings: Settings
) -> Types:
    """Return the types of a plan; `values` are those that the float model gave, by name."""
    out = storage(settings.activations)
    seen = {n: calibration.limits(values[n], "minmax") for n in plan.users}
    covered = {
        n: calibration.limits(values[n], settings.method, settings.percentile) for n in plan.users
    }
    for names in plan.coupled:
        joint = min(covered[n][0] for n in names), max(covered[n][1] for n in names)
        covered |= dict.fromkeys(names, joint)
    free = {n: scales.affine(*covered[n], out) for n in plan.users}
    depth = {x.name: values[x.node.inputs[0]][0].shape[-1] for x in plan.layers}
    room = {x.name: _room(graph, x, free, out, settings, depth[x.name]) for x in plan.layers}
    points = {}
    for name in plan.users:
        bits = _point_bits(name, plan, room) if settings.scales == "short" else None
        scale, zero = scales.affine(*covered[name], out, bits)
        points[name] = PointType(seen[name], covered[name], scale, zero, bits)
    for names in plan.coupled:
        widest = max((points[n] for n in names), key=lambda p: float(p.scale))
        points |= dict.fromkeys(names, widest)
    types = Types(points, {}, {})
    for layer in plan.layers:
        if layer.weights:
            _weights(graph, layer, types, room[layer.name], settings)
    return types


def _depth(graph: Graph, layer: Layer, values: np.ndarray) -> tuple[int, ...]:
    """The axes of weights that are summed over."""
    if layer.node.op == "Conv":
        return tuple(range(1, values.ndim))
    if layer.node.op == "Gemm" and layer.node.attrs.get("transB", 0):
        return (1,)
    return (0,)


def channel_axis(layer: Layer) -> int:
    """Return the axis of a layer's weights that its output channels are along."""
    is_first = layer.node.op == "Conv" or layer.node.attrs.get("transB", 0)
    return 0 if is_first else 1


def _room(
    graph: Graph,
    layer: Layer,
    free: Mapping[str, tuple[np.ndarray, np.ndarray]],
    out: Storage,
    settings: Settings,
    depth: int,
) -> int:
    """Bits of both scales that leave every sum exact."""
    if layer.node.op == "Add":
        return FITS
    top = 255 if not out.signed else 128
    if not layer.weights:
        return FITS - math.ceil(math.log2(top * top * depth))
    weights = graph.constants[layer.weights]
    scale = _weight_scale(weights, layer, settings, None)
    codes = _codes(weights, scale, layer, settings)
    sums = np.abs(codes.astype(np.int64)).sum(_depth(graph, layer, weights))
    total = sums.astype(np.float64) * top
    if layer.bias is not None:
        unit = free[layer.points[0]][0].astype(np.float64) * scale
        total = total + np.abs(_bias_of(graph, layer).reshape(-1) / unit) + 1
    return FITS - math.ceil(math.log2(max(float(total.max(initial=1)), 1)))


def _point_bits(name: str, plan: Plan, room: Mapping[str, int]) -> int:
    own = [room[x.name] for x in plan.layers if name in x.points.values()]
    return min(max(min(own) // 2, 1), _MOST_BITS)


def _weight_scale(
    weights: np.ndarray, layer: Layer, settings: Settings, bits: int | None
) -> np.ndarray:
    axis = channel_axis(layer) if settings.per_channel else None
    return scales.symmetric(amax(weights, axis), storage("i8"), bits)


def _codes(weights: np.ndarray, scale: np.ndarray, layer: Layer, settings: Settings) -> np.ndarray:
    axis = channel_axis(layer) if settings.per_channel else None
    zero = np.zeros(scale.shape, np.int8)
    return quantize_array(weights, scale, zero, scheme("onnx"), storage("i8"), axis)


def _bias_of(graph: Graph, layer: Layer) -> np.ndarray:
    assert layer.bias is not None
    node, place = layer.bias
    return graph.constants[node.inputs[place]].astype(np.float64)


def _weights(graph: Graph, layer: Layer, types: Types, room: int, settings: Settings) -> None:
    source = types.points[layer.points[0]]
    bits = None
    if settings.scales == "short":
        bits = min(max(room - (source.bits or 1), 1), _MOST_WEIGHT_BITS)
    weights = graph.constants[layer.weights]
    scale = _weight_scale(weights, layer, settings, bits)
    codes = _codes(weights, scale, layer, settings)
    axis = channel_axis(layer) if settings.per_channel else None
    types.weights[layer.name] = WeightType(codes, scale, axis)
    if layer.bias is None:
        return
    bias = _bias_of(graph, layer)
    unit = (source.scale * scale).astype(np.float32)
    whole = np.rint(bias / unit.astype(np.float64))
    fits = bool(np.all(np.abs(whole) <= _LARGEST_BIAS)) and bool(np.all(unit > 0))
    types.biases[layer.name] = (whole.astype(np.int32), unit) if fits else None
