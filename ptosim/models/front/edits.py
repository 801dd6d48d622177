"""Changes of an ONNX graph: nodes replaced, constants added, what nothing uses removed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.models import onnx_model
from ptosim.models.onnx_model import captured

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto


_OPTIONAL = ("Dropout", "LayerNormalization", "MaxPool")
"""Operators whose outputs after the first are left out where nothing takes them."""


class Editor:
    """One model being changed. Nodes are taken as a list and put back by `put`."""

    def __init__(self, proto: ModelProto) -> None:
        self.proto = proto
        self.onnx = onnx_model.package()
        self.constants: dict[str, np.ndarray] = {
            t.name: onnx_model.array_of(t) for t in proto.graph.initializer
        }
        self.outputs = {o.name for o in proto.graph.output}
        self.names = {n for node in proto.graph.node for n in (*node.input, *node.output)}
        self.names |= set(self.constants) | {i.name for i in proto.graph.input}

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""
        imports = self.proto.opset_import
        return next((o.version for o in imports if o.domain in ("", "ai.onnx")), 1)

    def fresh(self, stem: str) -> str:
        """Return a name that nothing has, and take it."""
        name, count = stem, 0
        while name in self.names:
            count += 1
            name = f"{stem}_{count}"
        self.names.add(name)
        return name

    def constant(self, stem: str, value: np.ndarray) -> str:
        """Add a constant and return its name."""
        name = self.fresh(stem)
        self.keep(name, value)
        return name

    def keep(self, name: str, value: np.ndarray) -> None:
        """Add the constant that a name is from now on."""
        self.names.add(name)
        self.constants[name] = value
        tensor = self.onnx.numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape))
        tensor.name = name
        self.proto.graph.initializer.append(tensor)

    def node(self, op: str, inputs: Iterable[str], stem: str, **attrs: Any) -> NodeProto:
        """Return a node with one output of a new name."""
        name = self.fresh(stem)
        return self.onnx.helper.make_node(op, list(inputs), [name], name, **attrs)

    def put(self, nodes: Iterable[NodeProto]) -> None:
        """Let the graph hold these nodes."""
        copies = [type(n).FromString(n.SerializeToString()) for n in nodes]
        del self.proto.graph.node[:]
        self.proto.graph.node.extend(copies)

    def users(self) -> dict[str, list[NodeProto]]:
        """Return the nodes that take each value, those that capture it too."""
        found: dict[str, list[NodeProto]] = {}
        for node in self.proto.graph.node:
            for name in (*node.input, *captured(node)):
                found.setdefault(name, []).append(node)
        return found

    def swept(self) -> None:
        """Remove nodes and constants that no output needs."""
        graph = self.proto.graph
        needed, kept = set(self.outputs), []
        for node in reversed(graph.node):
            if node.op_type in _OPTIONAL and not any(n in needed for n in node.output[1:]):
                del node.output[1:]
            if any(n in needed for n in node.output):
                needed |= set(node.input) | captured(node)
                kept.insert(0, node)
        if len(kept) != len(graph.node):
            self.put(kept)
        tensors = [t for t in graph.initializer if t.name in needed]
        if len(tensors) != len(graph.initializer):
            copies = [type(t).FromString(t.SerializeToString()) for t in tensors]
            del graph.initializer[:]
            graph.initializer.extend(copies)


class Chain:
    """Nodes one after the other, under names that begin with the node's."""

    def __init__(self, editor: Editor, node: NodeProto) -> None:
        self.editor = editor
        self.node = node
        self.stem = node.name or node.output[0]
        self.made: list[NodeProto] = []

    def add(self, op: str, *inputs: str, **attrs: Any) -> str:
        """Add a node and return its result."""
        self.made.append(self.editor.node(op, inputs, f"{self.stem}_{op.lower()}", **attrs))
        return self.made[-1].output[0]

    def constant(self, value: Any, kind: type) -> str:
        """Add a constant and return its name."""
        return self.editor.constant(f"{self.stem}_constant", np.asarray(value, kind))

    def reduced(self, op: str, value: str, *axes: int) -> str:
        """Add a reduction; its axes are an attribute before operator set 18 (13 for sums)."""
        if self.editor.opset < (13 if op == "ReduceSum" else 18):
            return self.add(op, value, axes=list(axes))
        return self.add(op, value, self.constant(axes, np.int64))

    def shaped(self, name: str, shape: Iterable[int]) -> str:
        """Add a Reshape to a static shape; of a constant another constant."""
        held = self.editor.constants.get(name)
        if held is not None:
            return self.editor.constant(f"{self.stem}_shaped", held.reshape(tuple(shape)))
        return self.add("Reshape", name, self.constant(list(shape), np.int64))

    def rename(self, old: str, new: str) -> None:
        """Give a result of these nodes another name."""
        for node in self.made:
            for names in (node.input, node.output):
                for place, name in enumerate(names):
                    names[place] = new if name == old else name

    def finish(self) -> list[NodeProto]:
        """Let the last node give the node's result."""
        self.made[-1].output[0] = self.node.output[0]
        return self.made


def attributes(node: NodeProto) -> dict[str, Any]:
    """Return the attributes of a node as values."""
    helper = onnx_model.package().helper
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def is_standard(node: NodeProto) -> bool:
    """Return True for an operator of ONNX itself."""
    return node.domain in ("", "ai.onnx")
