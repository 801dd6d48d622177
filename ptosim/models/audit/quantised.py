"""What a quantised ONNX model says of its numbers without being run: parameters that are constants,
the operations that quantise, and where a stored value goes."""

from __future__ import annotations

import numpy as np

from ptosim.ground.records import dataclass
from ptosim.machine.quant.parameters import as_bytes
from ptosim.models.onnx_model import Graph, GraphNode

MOVES = frozenset(
    ("Identity", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "MaxPool", "Slice")
)
"""Operators that give values of their first input."""
_SELECTS = ("MaxPool", "Slice")
"""Those that leave some of them out."""
PRODUCTS = frozenset(("Conv", "ConvTranspose", "Gemm", "MatMul"))
_INTEGER_PRODUCTS = {"QLinearConv": 8, "QLinearMatMul": 8}


@dataclass(frozen=True, slots=True)
class Parameters:
    """Scale and zero point of a place where a value is quantised; `at` are the inputs of the node
    that hold them. `zero` is None where it is left out."""

    node: GraphNode
    at: tuple[int, int]
    scale: np.ndarray | None
    zero: np.ndarray | None

    @property
    def scale_name(self) -> str:
        """The name of the scale's value."""
        return self.node.inputs[self.at[0]]

    @property
    def shift(self) -> np.ndarray:
        """The zero point as integers, 0 where there is none."""
        return np.zeros(1, np.int64) if self.zero is None else self.zero.astype(np.int64)

    @property
    def axis(self) -> int:
        """The axis of scales for each index."""
        found = self.node.attrs.get("axis", 1)
        return found if isinstance(found, int) else 1

    @property
    def block(self) -> int:
        """The length of a block, 0 without blocks."""
        found = self.node.attrs.get("block_size", 0)
        return found if isinstance(found, int) else 0


class Model:
    """A graph with what is known of its values: constants, makers, takers."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.constants = {name: as_bytes(np.asarray(a)) for name, a in graph.constants.items()}
        self.maker: dict[str, GraphNode] = {}
        self.takers: dict[str, list[GraphNode]] = {}
        for node in graph.nodes:
            value = node.attrs.get("value")
            if node.op == "Constant" and isinstance(value, np.ndarray):
                self.constants[node.outputs[0]] = as_bytes(value)
            if node.op == "Identity" and node.inputs[0] in self.constants:
                self.constants[node.outputs[0]] = self.constants[node.inputs[0]]
            self.maker |= dict.fromkeys(node.outputs, node)
            for name in node.inputs:
                self.takers.setdefault(name, []).append(node)

    def constant(self, node: GraphNode, place: int) -> np.ndarray | None:
        """The constant that an input is; None for another one."""
        name = node.inputs[place] if len(node.inputs) > place else ""
        return self.constants.get(name)

    def parameters(self, node: GraphNode, scale: int = 1, zero: int = 2) -> Parameters:
        """The parameters at two inputs of a node."""
        return Parameters(
            node, (scale, zero), self.constant(node, scale), self.constant(node, zero)
        )

    def every(self) -> list[Parameters]:
        """The parameters of all nodes, in the order of the model."""
        found = []
        for node in self.graph.nodes:
            if node.op in ("QuantizeLinear", "DequantizeLinear"):
                found.append(self.parameters(node))
            elif node.op in _INTEGER_PRODUCTS:
                found += [self.parameters(node, s, s + 1) for s in (1, 4, 6)]
            elif node.op in ("QGemm", "QLinearAdd", "QLinearMul"):
                found += [self.parameters(node, s, s + 1) for s in (1, 4)]
        return found

    def source(self, name: str) -> GraphNode | None:
        """The node that gives a value, past those that only move it."""
        node = self.maker.get(name)
        while node is not None and node.op in MOVES:
            node = self.maker.get(node.inputs[0])
        return node

    def selects(self, name: str) -> bool:
        """Return True if a value is a part of one, past nodes that only move it."""
        node = self.maker.get(name)
        while node is not None and node.op in MOVES:
            if node.op in _SELECTS:
                return True
            node = self.maker.get(node.inputs[0])
        return False

    def dequantised(self, name: str, op: str = "DequantizeLinear") -> GraphNode | None:
        """The node of this operator that gives a value."""
        node = self.source(name)
        return node if node is not None and node.op == op else None

    def goes_to(self, name: str) -> list[tuple[GraphNode, int]]:
        """The nodes that take a value, each with the place, past those that only move it."""
        found = []
        for node in self.takers.get(name, []):
            if node.op in MOVES and node.inputs[0] == name:
                found += self.goes_to(node.outputs[0])
            else:
                found.append((node, node.inputs.index(name)))
        return found


def reduction_axis(node: GraphNode, place: int, rank: int) -> int | None:
    """The axis of an operand that a product sums over; None where it is not one axis."""
    if node.op == "MatMul":
        return rank - 1 if place == 0 else max(rank - 2, 0)
    if node.op == "Gemm":
        turned = bool(node.attrs.get("transA" if place == 0 else "transB", 0))
        return int(turned) if place else 1 - int(turned)
    return 1 if node.op == "Conv" else None


def channel_axis(node: GraphNode, place: int, rank: int) -> int | None:
    """The axis of the results' channels in the weights of a product."""
    if place != 1 or node.op not in PRODUCTS:
        return None
    if node.op == "Conv":
        return 0
    if node.op == "ConvTranspose":
        return None  # exporters differ
    if node.op == "Gemm":
        return 0 if node.attrs.get("transB", 0) else 1
    return rank - 1


def along(scale: np.ndarray, axis: int, rank: int) -> np.ndarray:
    """A vector of parameters in a shape that broadcasts over a tensor."""
    if scale.size == 1 or scale.ndim != 1:
        return scale.reshape(()) if scale.size == 1 else scale
    shape = [1] * rank
    shape[axis] = scale.size
    return scale.reshape(shape)
