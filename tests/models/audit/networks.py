"""A small convolution network, quantised as static quantisation does it, in which faults are planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.models.lower.models import model

Plant = Callable[["Network"], None]


@dataclass
class Network:
    """Nodes by name and constants by name: x 1x3x8x8 -> Conv 6 -> Relu -> Conv 8 -> Gemm 10."""

    nodes: dict[str, onnx.NodeProto] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def add(self, name: str, op: str, inputs: list[str], output: str, **attrs: object) -> str:
        self.nodes[name] = helper.make_node(op, inputs, [output], name, **attrs)
        return output

    def pair(self, value: str, low: float, high: float) -> str:
        """Quantise and dequantise a value with the range that was seen."""
        scale = np.float32((max(high, 0) - min(low, 0)) / 255)
        self.constants[f"{value}_s"] = scale
        self.constants[f"{value}_z"] = np.uint8(np.round(-min(low, 0) / scale))
        given = [f"{value}_s", f"{value}_z"]
        self.add(f"{value}_Q", "QuantizeLinear", [value, *given], f"{value}_q")
        return self.add(f"{value}_DQ", "DequantizeLinear", [f"{value}_q", *given], f"{value}_d")

    def weights(self, name: str, w: np.ndarray, b: np.ndarray, x: str, axis: int) -> list[str]:
        """Symmetric weights with a scale for each channel, and a bias in 32 bits."""
        rest = tuple(i for i in range(w.ndim) if i != axis)
        scale = (np.abs(w).max(axis=rest) / 127).astype(np.float32)
        shape = [-1 if i == axis else 1 for i in range(w.ndim)]
        codes = np.clip(np.rint(w / scale.reshape(shape)), -127, 127).astype(np.int8)
        bias = (self.constants[f"{x}_s"] * scale).astype(np.float32)
        self.constants |= {
            f"{name}_w": codes, f"{name}_ws": scale, f"{name}_wz": np.zeros(scale.size, np.int8),
            f"{name}_b": np.rint(b / bias).astype(np.int32), f"{name}_bs": bias,
            f"{name}_bz": np.zeros(scale.size, np.int32),
        }  # fmt: skip
        parts = [f"{name}_w", f"{name}_ws", f"{name}_wz"]
        given = self.add(f"{name}_wDQ", "DequantizeLinear", parts, f"{name}_wd", axis=axis)
        parts = [f"{name}_b", f"{name}_bs", f"{name}_bz"]
        return [given, self.add(f"{name}_bDQ", "DequantizeLinear", parts, f"{name}_bd", axis=0)]

    def proto(self) -> onnx.ModelProto:
        wires = [("x", TensorProto.FLOAT, [1, 3, 8, 8])], [("y_d", TensorProto.FLOAT, [1, 10])]
        return model(list(self.nodes.values()), *wires, self.constants)


def samples(count: int = 4) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((count, 1, 3, 8, 8)).astype(np.float32)


def network(plant: Plant | None = None) -> Network:
    rng = np.random.default_rng(0)
    w1, w2 = rng.standard_normal((6, 3, 3, 3)) * 0.2, rng.standard_normal((8, 6, 3, 3)) * 0.15
    w3 = rng.standard_normal((10, 128)) * 0.1
    b1, b2, b3 = (rng.standard_normal(n) * 0.1 for n in (6, 8, 10))
    net = Network()
    x = net.pair("x", float(samples().min()), float(samples().max()))
    net.add("conv1", "Conv", [x, *net.weights("c1", w1, b1, "x", 0)], "h", pads=[1, 1, 1, 1])
    net.add("relu", "Relu", ["h"], "r")
    r = net.pair("r", 0, 4.2)
    given = [r, *net.weights("c2", w2, b2, "r", 0)]
    net.add("conv2", "Conv", given, "g", pads=[1, 1, 1, 1], strides=[2, 2])
    g = net.pair("g", -4.5, 4.5)
    net.add("flat", "Flatten", [g], "f")
    net.add("gemm", "Gemm", ["f", *net.weights("fc", w3, b3, "g", 0)], "y", transB=1)
    net.pair("y", -6.0, 6.0)
    if plant is not None:
        plant(net)
    return net
