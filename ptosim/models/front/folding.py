"""What needs no data: constants, arithmetic of shapes, and branches whose condition is the same for
all samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ptosim.models.front.edits import Editor, attributes, is_standard
from ptosim.models.front.shapes import observed
from ptosim.models.onnx_model import array_of, captured, graphs_of
from ptosim.models.reference_node import computed

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

QUANTISING = frozenset((
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearMatMul",
    "QLinearConv", "MatMulInteger", "ConvInteger",
))  # fmt: skip
"""Nodes that quantise; of constants too they stay, for their codes are the weights."""
_RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike",
           "Multinomial", "Bernoulli")  # fmt: skip
_BY_DATA = ("NonZero", "Unique", "Compress", "NonMaxSuppression", "Loop", "Scan", "If",
            "StringSplit")  # fmt: skip
"""Nodes whose results have sizes that depend on values."""
_BY_OPERANDS = ("Range", "Slice", "Expand", "ConstantOfShape", "Reshape", "Tile", "Pad", "Resize",
                "TopK", "Squeeze", "Unsqueeze", "Split", "OneHot", "CenterCropPad")  # fmt: skip
"""Nodes whose results have sizes that depend on the values of their other operands."""
MOST = 1 << 26
"""Elements of a constant that is computed; larger ones are computed with the model."""
_ROUNDS = 32

Runs = Sequence[Mapping[str, np.ndarray]]


def fold(proto: ModelProto, runs: Runs) -> list[str]:
    """Fold a model whose inputs have static shapes; `runs` are values of the inputs. Return what a
    reader has to know: branches that the samples alone decided."""
    notes: list[str] = []
    for _ in range(_ROUNDS):
        editor = Editor(proto)
        has_branches = any(n.op_type == "If" for n in proto.graph.node)
        seen = [observed(proto, feeds) for feeds in (runs if has_branches else runs[:1])]
        again = _Pass(editor, seen, notes).run()
        editor.swept()
        if not again:
            break
    return notes


class _Pass:
    """One walk over the nodes in order."""

    def __init__(
        self, editor: Editor, seen: Sequence[Mapping[str, np.ndarray]], notes: list[str]
    ) -> None:
        self.editor = editor
        self.seen = seen
        self.notes = notes
        self.open: set[str] = set()
        """Names whose sizes depend on data."""

    def run(self) -> bool:
        """Fold; return True if a branch was taken, so that there is more to do."""
        kept: list[NodeProto] = []
        branched = False
        for node in self.editor.proto.graph.node:
            body = self._branch(node)
            if body is not None:
                kept += body
                branched = True
                continue
            made = self._computed(node)
            if made is None:
                kept.append(node)
                self._sizes(node)
                continue
            for name, value in zip(node.output, made, strict=False):
                if name:
                    self.editor.keep(name, value)
        self.editor.put(kept)
        return branched

    def _sizes(self, node: NodeProto) -> None:
        known = self.editor.constants
        by_operands = node.op_type in _BY_OPERANDS and any(
            n and n not in known
            for n in (
                node.input if node.op_type in ("Range", "ConstantOfShape") else node.input[1:]
            )
        )
        if node.op_type in _BY_DATA or by_operands or any(n in self.open for n in node.input):
            self.open |= set(node.output)

    def _computed(self, node: NodeProto) -> list[np.ndarray] | None:
        """The constants that a node's outputs are; None if they are none."""
        if not is_standard(node) or node.op_type in QUANTISING or node.op_type in _RANDOM:
            return None
        shape = self._shape(node)
        if shape is not None:
            return [shape]
        known = self.editor.constants
        if any(n and n not in known for n in node.input) or any(graphs_of(node)):
            return None
        if node.op_type == "ConstantOfShape" and np.prod(known[node.input[0]], dtype=float) > MOST:
            return None
        if node.op_type == "Expand" and np.prod(known[node.input[1]], dtype=float) > MOST:
            return None
        return evaluated(node, known, self.editor.opset)

    def _shape(self, node: NodeProto) -> np.ndarray | None:
        if node.op_type not in ("Shape", "Size") or not self.seen:
            return None
        name = node.input[0]
        value = self.editor.constants.get(name, self.seen[0].get(name))
        if value is None or name in self.open:
            return None
        if node.op_type == "Size":
            return np.asarray(value.size, np.int64)
        attrs = attributes(node)
        chosen = slice(attrs.get("start", 0), attrs.get("end"))
        return np.asarray(value.shape[chosen], np.int64)

    # -- branches ----------------------------------------------------------------------------------

    def _branch(self, node: NodeProto) -> list[NodeProto] | None:
        """The nodes of the branch that is always taken."""
        if node.op_type != "If" or not is_standard(node):
            return None
        name = node.input[0]
        constant = self.editor.constants.get(name)
        found = [constant] if constant is not None else [s[name] for s in self.seen if name in s]
        decided = {bool(np.asarray(v).reshape(-1)[0]) for v in found if np.asarray(v).size}
        if len(decided) != 1 or (constant is None and len(found) != len(self.seen)):
            return None
        taken = decided.pop()
        if constant is None:
            word = "true" if taken else "false"
            label = node.name or node.output[0]
            self.notes.append(f"If {label}: its condition is {word} for all samples; that branch")
        wanted = "then_branch" if taken else "else_branch"
        graph = next(a.g for a in node.attribute if a.name == wanted)
        return self._inlined(node, graph)

    def _inlined(self, node: NodeProto, graph) -> list[NodeProto]:
        editor, helper = self.editor, self.editor.onnx.helper
        stem = node.name or node.output[0]
        renamed: dict[str, str] = {}
        for tensor in graph.initializer:
            value = array_of(tensor)
            renamed[tensor.name] = editor.constant(f"{stem}_{tensor.name}", value)
        made = []
        for inner in graph.node:
            copy = type(inner).FromString(inner.SerializeToString())
            for name in inner.output:
                if name:
                    renamed[name] = editor.fresh(f"{stem}_{name}")
            _rename(copy, renamed)
            copy.name = f"{stem}_{inner.name or inner.op_type}"
            made.append(copy)
        for outer, inner in zip(node.output, graph.output, strict=False):
            source = renamed.get(inner.name, inner.name)
            made.append(helper.make_node("Identity", [source], [outer], f"{stem}_{outer}"))
        return made


def _rename(node: NodeProto, names: Mapping[str, str]) -> None:
    for place, name in enumerate(node.input):
        node.input[place] = names.get(name, name)
    for place, name in enumerate(node.output):
        node.output[place] = names.get(name, name)
    for graph in graphs_of(node):
        inside = {n: names[n] for n in captured(node) if n in names}
        for inner in graph.node:
            _rename(inner, inside)
        for value in graph.output:
            value.name = inside.get(value.name, value.name)


def evaluated(
    node: NodeProto, values: Mapping[str, np.ndarray], opset: int
) -> list[np.ndarray] | None:
    """Return the outputs of one node by onnx.reference; None if it does not compute it."""
    try:
        found = computed(node, {n: values[n] for n in node.input if n}, opset)
    except Exception:  # whatever its operators raise: the node stays, and is told of when it runs
        return None
    if any(v.dtype == object for v in found.values()):
        return None
    return [found.get(n, np.zeros(0)) for n in node.output]
