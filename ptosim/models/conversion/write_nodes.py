"""Writing the nodes and constants of a quantised model into a copy of the float model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.models.onnx_model import Graph, GraphNode

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
        _replace(graph.node, made)
        _replace(graph.initializer, kept)
        del graph.value_info[:]


def _replace(field: Any, messages: Sequence[Any]) -> None:
    """Let a repeated field hold these messages; they may be its own, so they are copied first."""
    copies = [type(message).FromString(message.SerializeToString()) for message in messages]
    del field[:]
    field.extend(copies)
