"""The types of quantised values: scales and zero points from what calibration saw.

With short scales the bits of both operands' scales are what is left of 24 after the largest sum, so
that dequantised sums are exact in f32; a scale is rounded up for that, and covers a little more (a
little less where Clip ends a value and the last code is then at its limit: nothing has to cut it
off)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ptosim.ground.records import dataclass
from ptosim.machine.numbers.mx import quantizer
from ptosim.machine.quant.parameters import Storage, scheme, storage
from ptosim.machine.quant.quantize import quantize_array
from ptosim.models import onnx_model
from ptosim.models.conversion.plan import Layer, Plan
from ptosim.models.explore import GROUP
from ptosim.models.fusion.groups import limits_of
from ptosim.models.mx_kernels import FORMATS, Format
from ptosim.models.onnx_model import Graph, GraphNode, Writer
from ptosim.models.quant import causes
from ptosim.models.quant.statistics import amax

if TYPE_CHECKING:
    from onnx import ModelProto


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
    percentile: float = causes.PERCENTILE
    activations: str = "i8"
    per_channel: bool = True
    scales: str = "short"  # or f32
    format: str = "int8"
    layers: tuple[tuple[str, str], ...] = ()  # with "mixed": the format of each layer


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

    def joined(self, other: Types) -> Types:
        """Return these types and those of more layers; of a value that both take, these."""
        return Types(
            other.points | self.points, self.weights | other.weights, self.biases | other.biases
        )


def choose(
    graph: Graph, plan: Plan, values: Mapping[str, list[np.ndarray]], settings: Settings
) -> Types:
    """Return the types of a plan; `values` are those that the float model gave, by name."""
    out = storage(settings.activations)
    seen = {n: causes.limits(values[n], "minmax") for n in plan.users}
    covered = {
        n: causes.limits(values[n], settings.method, settings.percentile) for n in plan.users
    }
    for names in plan.coupled:
        joint = min(covered[n][0] for n in names), max(covered[n][1] for n in names)
        covered |= dict.fromkeys(names, joint)
    free = {n: causes.affine(*covered[n], out) for n in plan.users}
    depth = {x.name: values[x.node.inputs[0]][0].shape[-1] for x in plan.layers}
    room = {x.name: _room(graph, x, free, out, settings, depth[x.name]) for x in plan.layers}
    ends = _ends(graph)
    points = {}
    for name in plan.users:
        bits = _point_bits(name, plan, room) if settings.scales == "short" else None
        scale, zero = causes.affine(*covered[name], out, bits, ends.get(name))
        points[name] = PointType(seen[name], covered[name], scale, zero, bits)
    for names in plan.coupled:
        widest = max((points[n] for n in names), key=lambda p: float(p.scale))
        points |= dict.fromkeys(names, widest)
    types = Types(points, {}, {})
    for layer in plan.layers:
        if layer.weights:
            _weights(graph, layer, types, room[layer.name], settings)
    return types


def _ends(graph: Graph) -> dict[str, float]:
    """The upper limits of values that Clip cuts off at 0 and there."""
    found = {}
    for node in graph.nodes:
        limits = limits_of(node, graph.constants.get) if node.op == "Clip" else None
        if limits is not None and limits[0] == 0 < limits[1] < np.inf:
            found[node.outputs[0]] = float(limits[1])
    return found


def _depth(graph: Graph, layer: Layer, values: np.ndarray) -> tuple[int, ...]:
    """The axes of weights that are summed over."""
    if layer.node.op == "Conv":
        return tuple(range(1, values.ndim))
    if layer.node.op == "Gemm" and layer.node.attrs.get("transB", 0):
        return (1,)
    return (values.ndim - 2,)


def _channel_axis(weights: np.ndarray, layer: Layer, settings: Settings) -> int | None:
    """The axis of a layer's weights that its output channels are along; None for one scale, which
    several matrices in one constant have."""
    if not settings.per_channel:
        return None
    is_first = layer.node.op == "Conv" or layer.node.attrs.get("transB", 0)
    if layer.node.op != "Conv" and weights.ndim != 2:
        return None
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
    most = float(total.max(initial=1))
    return FITS - math.ceil(math.log2(max(most, 1))) if math.isfinite(most) else 0


def _point_bits(name: str, plan: Plan, room: Mapping[str, int]) -> int:
    own = [room[x.name] for x in plan.layers if name in x.points.values()]
    return min(max(min(own) // 2, 1), _MOST_BITS)


def _weight_scale(
    weights: np.ndarray, layer: Layer, settings: Settings, bits: int | None
) -> np.ndarray:
    axis = _channel_axis(weights, layer, settings)
    return causes.symmetric(amax(weights, axis), storage("i8"), bits)


def _codes(weights: np.ndarray, scale: np.ndarray, layer: Layer, settings: Settings) -> np.ndarray:
    axis = _channel_axis(weights, layer, settings)
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
    axis = _channel_axis(weights, layer, settings)
    types.weights[layer.name] = WeightType(codes, scale, axis)
    if layer.bias is None:
        return
    bias = _bias_of(graph, layer)
    unit = (source.scale * scale).astype(np.float32)
    whole = np.rint(bias / unit.astype(np.float64))
    fits = bool(np.all(np.abs(whole) <= _LARGEST_BIAS)) and bool(np.all(unit > 0))
    types.biases[layer.name] = (whole.astype(np.int32), unit) if fits else None


# -- the model with QuantizeLinear and DequantizeLinear at its values, on its weights and biases --


def rewritten(graph: Graph, plan: Plan, types: Types) -> ModelProto:
    """Return the quantised model: `V_quantized` and `V_dequantized` for each value V of the plan,
    weights as codes."""
    onnx = onnx_model.package()
    made = onnx.ModelProto()
    made.CopyFrom(graph.proto)
    writer = _QdqWriter(onnx, graph, made)
    for layer in plan.layers:
        if layer.name in types.weights:
            writer.weights(layer, types)
    for name, users in plan.users.items():
        writer.point(name, users, types)
    writer.finish()
    return made


class _QdqWriter(Writer):
    """Writes values, weights and biases with one scale, or one for each channel."""

    def weights(self, layer: Layer, types: Types) -> None:
        """Codes of the weights, and of the bias, with DequantizeLinear."""
        found = types.weights[layer.name]
        source = layer.weights
        stem = f"{source}_{layer.name}" if self.is_shared(source) else source
        codes = self.constant(f"{stem}_quantized", found.codes)
        self._dequantized(
            stem, codes, found.scale, np.zeros(found.scale.shape, np.int8), found.axis
        )
        self.replace(layer.node, 1, f"{stem}_dequantized")
        bias = types.biases.get(layer.name)
        if bias is None or layer.bias is None:
            return
        node, place = layer.bias
        stem = f"{node.inputs[place]}_{layer.name}_bias"
        codes = self.constant(f"{stem}_quantized", bias[0])
        axis = bias[0].ndim - 1 if bias[1].size > 1 else None
        self._dequantized(stem, codes, bias[1], None, axis)
        self.replace(node, place, f"{stem}_dequantized")

    def _dequantized(
        self, stem: str, codes: str, scale: np.ndarray, zero: np.ndarray | None, axis: int | None
    ) -> None:
        inputs = [codes, self.constant(f"{stem}_scale", scale)]
        if zero is not None:
            inputs.append(self.constant(f"{stem}_zero_point", zero))
        extra = {} if axis is None else {"axis": axis}
        helper = self.onnx.helper
        self.first.append(
            helper.make_node(
                "DequantizeLinear", inputs, [f"{stem}_dequantized"], f"{stem}_DQ", **extra
            )
        )

    def point(self, name: str, users: list[tuple[GraphNode, int]], types: Types) -> None:
        """QuantizeLinear and DequantizeLinear after a value, for the users named."""
        found = types.points[name]
        parameters = [
            self.constant(f"{name}_scale", found.scale),
            self.constant(f"{name}_zero_point", found.zero),
        ]  # fmt: skip
        codes, back = f"{name}_quantized", f"{name}_dequantized"
        helper = self.onnx.helper
        pair = [
            helper.make_node("QuantizeLinear", [name, *parameters], [codes], f"{name}_Q"),
            helper.make_node("DequantizeLinear", [codes, *parameters], [back], f"{name}_DQ"),
        ]
        self.after[name] = pair
        for node, place in users:
            self.replace(node, place, back)


# -- blocks of 32 ----------------------------------------------------------------------------------

OPSET = 24
"""The first operator set with float8e8m0."""
FORMAT = {"mxfp8": FORMATS["f8E4M3FN"], "mxfp4": FORMATS["f4E2M1FN"]}
_NUMBERS = {"f8E4M3FN": 17, "f4E2M1FN": 23}
_FLOAT, _BF16, _E8M0 = 1, 16, 24


def weight_axis(layer: Layer) -> int:
    """Return the axis of a layer's weights that is summed over."""
    return 1 if layer.node.attrs.get("transB", 0) else 0


def choose_blocks(
    graph: Graph, plan: Plan, values: dict[str, list[np.ndarray]], form: Format
) -> Types:
    """Return the types of a plan."""
    word = f"{form.name}, groups of {GROUP} with a power of two"
    none = np.ones((), np.float32), np.zeros((), np.int8)
    points = {}
    for name in plan.users:
        seen = causes.limits(values[name])
        points[name] = PointType(seen, seen, *none, None, word)
    types = Types(points, {}, {})
    for layer in plan.layers:
        if layer.weights:
            codes, scales = quantised(graph.constants[layer.weights], weight_axis(layer), form)
            types.weights[layer.name] = WeightType(codes, scales, weight_axis(layer), word)
    return types


def quantised(x: np.ndarray, axis: int, form: Format) -> tuple[np.ndarray, np.ndarray]:
    """Return codes and f32 scales of constant weights, as TQUANT.MX makes them."""
    source = "f32" if form.name == "f8E4M3FN" else "bf16"
    held = x.astype(np.float32 if source == "f32" else storage("bf16").array)
    made = quantizer(source, form.name, "ocp", axis=axis)(held)
    codes = made.codes.astype(np.uint8).view(storage(form.name).array)
    scales = made.exponents.astype(np.uint8).view(storage("f8E8M0FNU").array)
    return codes, scales.astype(np.float32)


def blocks_rewritten(
    graph: Graph,
    plan: Plan,
    types: Types,
    values: dict[str, list[np.ndarray]],
    form: Format,
    suffix: str = "",
) -> ModelProto:
    """Return the model with the nodes that choose_blocks exponents and quantise; `suffix` ends
    their names, where a value may be quantised otherwise, too."""
    onnx = onnx_model.package()
    made = onnx.ModelProto()
    made.CopyFrom(graph.proto)
    for opset in made.opset_import:
        if opset.domain in ("", "ai.onnx"):
            opset.version = max(opset.version, OPSET)
    made.ir_version = max(made.ir_version, 11)
    writer = Writer(onnx, graph, made)
    for layer in plan.layers:
        if layer.weights:
            _block_weights(writer, layer, types.weights[layer.name])
    for name, users in plan.users.items():
        for axis in sorted({_axis(node, place) for node, place in users}):
            own = [u for u in users if _axis(*u) == axis]
            stem = f"{name}{suffix}" if axis == -1 else f"{name}{suffix}_columns"
            _point(writer, (name, stem), own, axis, values[name][0].shape, form)
    writer.finish()
    return made


def _axis(node: GraphNode, place: int) -> int:
    return -1 if place == 0 or node.attrs.get("transB", 0) else -2


def _block_weights(writer: Writer, layer: Layer, found: WeightType) -> None:
    stem = f"{layer.weights}_{layer.name}" if writer.is_shared(layer.weights) else layer.weights
    inputs = [
        writer.constant(f"{stem}_quantized", found.codes),
        writer.constant(f"{stem}_scale", found.scale),
    ]
    back = f"{stem}_dequantized"
    node = writer.onnx.helper.make_node(
        "DequantizeLinear", inputs, [back], f"{stem}_DQ", axis=found.axis, block_size=GROUP
    )
    writer.first.append(node)
    writer.replace(layer.node, 1, back)


def _point(
    writer: Writer,
    names: tuple[str, str],
    users: list[tuple[GraphNode, int]],
    axis: int,
    shape: tuple[int, ...],
    form: Format,
) -> None:
    name, stem = names
    where = len(shape) + axis
    split = [*shape[:where], shape[where] // GROUP, GROUP, *shape[where + 1 :]]
    make = writer.onnx.helper.make_node
    source, nodes = name, []
    if form.name == "f4E2M1FN":  # TQUANT.MX takes halves for MXFP4
        nodes += [
            make("Cast", [name], [f"{stem}_half"], f"{stem}_to_bf16", to=_BF16),
            make("Cast", [f"{stem}_half"], [f"{stem}_rounded"], f"{stem}_from_bf16", to=_FLOAT),
        ]
        source = f"{stem}_rounded"
    groups = writer.constant(f"{stem}_groups", np.array(split, np.int64))
    along = writer.constant(f"{stem}_axis", np.array([where + 1], np.int64))
    factor = writer.constant(f"{stem}_largest", np.asarray(2.0**-form.top, np.float32))
    nodes += [
        make("Abs", [source], [f"{stem}_size"], f"{stem}_Abs"),
        make("Reshape", [f"{stem}_size", groups], [f"{stem}_sizes"], f"{stem}_Reshape"),
        make("ReduceMax", [f"{stem}_sizes", along], [f"{stem}_max"], f"{stem}_Max", keepdims=0),
        make("Mul", [f"{stem}_max", factor], [f"{stem}_ratio"], f"{stem}_Mul"),
        make("Cast", [f"{stem}_ratio"], [f"{stem}_e8m0"], f"{stem}_E", to=_E8M0, round_mode="down"),
        make("Cast", [f"{stem}_e8m0"], [f"{stem}_scale"], f"{stem}_S", to=_FLOAT),
        make(
            "QuantizeLinear", [source, f"{stem}_scale"], [f"{stem}_quantized"], f"{stem}_Q",
            axis=axis, block_size=GROUP, output_dtype=_NUMBERS[form.name],
        ),
        make(
            "DequantizeLinear", [f"{stem}_quantized", f"{stem}_scale"], [f"{stem}_dequantized"],
            f"{stem}_DQ", axis=axis, block_size=GROUP,
        ),
    ]  # fmt: skip
    writer.after.setdefault(name, []).extend(nodes)
    for node, place in users:
        writer.replace(node, place, f"{stem}_dequantized")
