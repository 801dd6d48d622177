"""The model with QuantizeLinear and DequantizeLinear: at its values, on its weights and biases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ptosim.models import onnx_model
from ptosim.models.conversion.plan import Layer, Plan
from ptosim.models.conversion.types import Types
from ptosim.models.conversion.write_nodes import Writer
from ptosim.models.onnx_model import Graph, GraphNode

if TYPE_CHECKING:
    from onnx import ModelProto


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
