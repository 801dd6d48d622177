"""Models in MXFP8 or MXFP4: groups of 32 along the axis that a product sums over, a power of two
for each, chosen from the values as they come (OCP); weights are codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ptosim.machine.numbers.mx import quantizer
from ptosim.machine.quant.storage import storage
from ptosim.models import onnx_model
from ptosim.models.conversion.plan import Layer, Plan
from ptosim.models.conversion.types import PointType, Types, WeightType
from ptosim.models.conversion.write_nodes import Writer
from ptosim.models.explore import GROUP
from ptosim.models.mx_kernels import FORMATS, Format
from ptosim.models.onnx_model import Graph, GraphNode
from ptosim.models.quant.convert import calibration

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET = 24
"""The first operator set with float8e8m0."""
FORMAT = {"mxfp8": FORMATS["f8E4M3FN"], "mxfp4": FORMATS["f4E2M1FN"]}
_NUMBERS = {"f8E4M3FN": 17, "f4E2M1FN": 23}
_FLOAT, _BF16, _E8M0 = 1, 16, 24


def weight_axis(layer: Layer) -> int:
    """Return the axis of a layer's weights that is summed over."""
    return 1 if layer.node.attrs.get("transB", 0) else 0


def choose(graph: Graph, plan: Plan, values: dict[str, list[np.ndarray]], form: Format) -> Types:
    """Return the types of a plan."""
    word = f"{form.name}, groups of {GROUP} with a power of two"
    none = np.ones((), np.float32), np.zeros((), np.int8)
    points = {}
    for name in plan.users:
        seen = calibration.limits(values[name])
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


def rewritten(
    graph: Graph, plan: Plan, types: Types, values: dict[str, list[np.ndarray]], form: Format
) -> ModelProto:
    """Return the model with the nodes that choose exponents and quantise."""
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
            _weights(writer, layer, types.weights[layer.name])
    for name, users in plan.users.items():
        for axis in sorted({_axis(node, place) for node, place in users}):
            own = [u for u in users if _axis(*u) == axis]
            _point(writer, name, own, axis, values[name][0].shape, form)
    writer.finish()
    return made


def _axis(node: GraphNode, place: int) -> int:
    return -1 if place == 0 or node.attrs.get("transB", 0) else -2


def _weights(writer: Writer, layer: Layer, found: WeightType) -> None:
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
    name: str,
    users: list[tuple[GraphNode, int]],
    axis: int,
    shape: tuple[int, ...],
    form: Format,
) -> None:
    stem = name if axis == -1 else f"{name}_columns"
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
