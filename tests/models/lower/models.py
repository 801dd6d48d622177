"""Small ONNX models, made with the onnx package."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Wire = tuple[str, int, list[int]]
"""Name, element type and shape of an input or output of a model."""


def model(
    nodes: list[Any],
    inputs: list[Wire],
    outputs: list[Wire],
    constants: dict[str, np.ndarray],
    opset: int = 21,
) -> onnx.ModelProto:
    """Return a model; it is not checked, so that tests can make wrong ones."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*wire) for wire in inputs],
        [helper.make_tensor_value_info(*wire) for wire in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def one(
    op: str,
    inputs: dict[str, np.ndarray],
    out: int,
    shape: list[int],
    fed: tuple[str, ...] = (),
    opset: int = 21,
    **attrs: Any,
) -> onnx.ModelProto:
    """Return a model of one node; inputs named in `fed` are the model's, the others constants."""
    wires: list[Wire] = [
        (n, helper.np_dtype_to_tensor_dtype(a.dtype), list(a.shape))
        for n, a in inputs.items()
        if n in fed
    ]
    node = helper.make_node(op, list(inputs), ["y"], "node", **attrs)
    constants = {n: a for n, a in inputs.items() if n not in fed}
    return model([node], wires, [("y", out, shape)], constants, opset)


def multilayer(rng: np.random.Generator) -> onnx.ModelProto:
    """Return x -> Q -> QLinearMatMul -> DQ -> Relu -> Q (axis 0) -> DQ -> y: 24x40 to 24x16."""
    constants = {
        "xs": np.float32(0.05), "xz": np.uint8(131),
        "w": rng.integers(-128, 128, (40, 16)).astype(np.int8),
        "ws": (rng.random(16) * 0.01 + 0.002).astype(np.float32), "wz": np.zeros(16, np.int8),
        "ys": np.float32(0.25), "yz": np.uint8(117),
        "rs": (rng.random(24) * 0.1 + 0.05).astype(np.float32),
        "rz": rng.integers(-9, 9, 24).astype(np.int8),
    }  # fmt: skip
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["xq"], "in"),
        node("QLinearMatMul", ["xq", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["yq"], "product"),
        node("DequantizeLinear", ["yq", "ys", "yz"], ["r"], "out"),
        node("Relu", ["r"], ["p"], "relu"),
        node("QuantizeLinear", ["p", "rs", "rz"], ["pq"], "rows", axis=0),
        node("DequantizeLinear", ["pq", "rs", "rz"], ["y"], "back", axis=0),
    ]
    wires: tuple[list[Wire], list[Wire]] = (
        [("x", TensorProto.FLOAT, [24, 40])],
        [("y", TensorProto.FLOAT, [24, 16]), ("pq", TensorProto.INT8, [24, 16])],
    )
    return model(nodes, *wires, constants)
