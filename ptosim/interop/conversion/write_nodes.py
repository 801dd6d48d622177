"""Writing the nodes and constants of a quantised model into a copy of the float model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ptosim.interop.onnx_model import Graph, GraphNode

if TYPE_CHECKING:
    from onnx import ModelProto


class Writer:
    """Collects nodes and constants, and puts them in order."""

    def __init__(self, onnx, graph: Graph, made: ModelProto) -> None:
        self.onnx = onnx
        self.graph = graph
        self.made = made
        self.node = dict(zip([n.name for n in graph.nodes], made.graph.node, strict=True))
        self.first: list = []
        self.after: dict[str, list] = {}

    def constant(self, name: str, value: np.ndarray) -> str:
        """Add a constant and return its name."""
        tensor = self.onnx.numpy_helper.from_array(
            np.ascontiguousarray(value).reshape(value.shape), name
        )
        self.made.graph.initializer.append(tensor)
        return name

    def is_shared(self, name: str) -> bool:
        """True if several nodes take a value."""
        return sum(name in n.inputs for n in self.graph.nodes) > 1

    def replace(self, node: GraphNode, place: int, name: str) -> None:
        """Give a node another input."""
        self.node[node.name].input[place] = name

    def finish(self) -> None:
        """Put the nodes in order, and remove constants that nothing uses any more."""
        graph = self.made.graph
        old = list(graph.node)
        made = list(self.first)
        for name in self.graph.inputs:
            made += self.after.get(name, [])
        for node in old:
            made.append(node)
            for name in node.output:
                made += self.after.get(name, [])
        used = {n for node in made for n in node.input} | {o.name for o in graph.output}
        kept = [t for t in graph.initializer if t.name in used]
        listed = list(made)
        copies = []
        for node in listed:
            copy = self.onnx.NodeProto()
            copy.CopyFrom(node)
            copies.append(copy)
        del graph.node[:]
        graph.node.extend(copies)
        tensors = []
        for tensor in kept:
            copy = self.onnx.TensorProto()
            copy.CopyFrom(tensor)
            tensors.append(copy)
        del graph.initializer[:]
        graph.initializer.extend(tensors)
        del graph.value_info[:]
