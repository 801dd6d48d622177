"""Sizes of a model's inputs: as it says, as `--dim` says, and else those of the samples; the type
of its real numbers: f32, whatever the file holds them in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ptosim.ground.diagnostics.model import ProgramError, finding
from ptosim.ground.errors import UsageError
from ptosim.models import onnx_model
from ptosim.models.front.edits import Editor, attributes, is_standard
from ptosim.models.onnx_model import array_of, captured, graphs_of
from ptosim.models.reference_node import computed, every_name

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto


def fix(proto: ModelProto, dims: Mapping[str, int], samples: Mapping[str, np.ndarray]) -> None:
    """Give every input a size for each dimension. A size is open where the model names it, leaves
    it out or says -1; a shape that is left out has the sample's rank. An array of an axis more than
    the input holds several samples.

    Raises UsageError for dimensions that the model does not have, ProgramError (PTO7641) for sizes
    that nothing says."""
    graph, known = proto.graph, set()
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_param") and dim.dim_param:
                known.add(dim.dim_param)
    for name in dims:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise UsageError(f"the model has no dimension `{name}`", help=f"named: {listed}")
    constants = {t.name for t in graph.initializer}
    sizes: dict[str, int] = {}
    inputs = [i for i in graph.input if i.name not in constants]
    had_open = False
    for value in inputs:
        if not value.type.HasField("tensor_type"):
            continue
        had_open |= _fixed(value, dims, sizes, samples.get(value.name))
    if had_open:
        _forget(proto)


def _fixed(
    value: ValueInfoProto,
    dims: Mapping[str, int],
    sizes: dict[str, int],
    sample: np.ndarray | None,
) -> bool:
    """Fix one input; return True if anything was open. What the user says of a name wins, then the
    sample; `sizes` are those of other inputs by name ("?" is one that paddle gives to all)."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        if sample is None:
            raise _unknown("?", value.name)
        for size in sample.shape:
            tensor.shape.dim.add().dim_value = size
        return True
    rank = len(tensor.shape.dim)
    shape: Sequence[int | None] = [None] * rank
    if sample is not None and sample.ndim in (rank, rank + 1):
        shape = sample.shape[sample.ndim - rank :]
    was_open = False
    for dim, seen in zip(tensor.shape.dim, shape, strict=True):
        if dim.HasField("dim_value") and dim.dim_value != -1:
            continue
        name = dim.dim_param if dim.HasField("dim_param") else ""
        size = dims.get(name, sizes.get(name) if seen is None else seen)
        if size is None:
            raise _unknown(name or "?", value.name)
        if name:
            sizes.setdefault(name, size)
        dim.dim_value = size
        was_open = True
    return was_open


def _unknown(dim: str, name: str) -> ProgramError:
    return ProgramError([finding("PTO7641", f"dimension `{dim}` of input `{name}` is not known")])


def _forget(proto: ModelProto) -> None:
    """Remove the shapes that followed from open sizes; they are inferred again."""
    del proto.graph.value_info[:]
    for value in proto.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()


def give_outputs(proto: ModelProto, feeds: Mapping[str, np.ndarray]) -> None:
    """Give outputs that say no shape the rank that is inferred, or that they have in a run, and
    take back sizes below nothing: the checker wants the one and refuses the other."""
    missing = []
    for value in proto.graph.output:
        tensor = value.type.tensor_type
        for dim in tensor.shape.dim:
            if dim.dim_value < 0:
                dim.Clear()
        if value.type.HasField("tensor_type") and not tensor.HasField("shape"):
            missing.append(value)
    if not missing:
        return
    ranks = _inferred(proto)
    if any(v.name not in ranks for v in missing):
        ranks = {n: v.ndim for n, v in observed(proto, feeds).items()} | ranks
    for value in missing:
        if value.name in ranks:
            value.type.tensor_type.shape.SetInParent()
            for _ in range(ranks[value.name]):
                value.type.tensor_type.shape.dim.add()


def _inferred(proto: ModelProto) -> dict[str, int]:
    """The ranks of outputs that follow from those of the inputs."""
    from onnx import shape_inference

    try:
        outputs = shape_inference.infer_shapes(proto).graph.output
    except Exception:  # of its C++ code
        return {}
    found = {o.name: o.type.tensor_type for o in outputs}
    return {n: len(t.shape.dim) for n, t in found.items() if t.HasField("shape")}


def observed(proto: ModelProto, feeds: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """Return the values of all names in a run; without a run those of the inputs alone."""
    own = {n: v for n, v in feeds.items() if n in {i.name for i in proto.graph.input}}
    try:
        return {**own, **every_name(proto, own)}
    except Exception:  # operators of other domains, and what its operators raise
        return own


# -- real numbers are f32 --------------------------------------------------------------------------

_REAL = {10: "f16", 16: "bf16", 11: "f64"}
"""Numbers of ONNX' element types that become f32."""
_FLOAT = 1
_TYPE_ATTRIBUTES = ("to", "dtype")


def widen(proto: ModelProto) -> list[str]:
    """Let a model compute in f32 what its file says in f16, bf16 or f64; inputs and outputs keep
    their types, by a Cast each. Return what a reader has to know.

    f16 and bf16 are widened without loss; of f64 what is beyond f32 becomes its largest number."""
    found: set[str] = set()
    _widened(proto.graph, found)
    if not found:
        return []
    onnx = onnx_model.package()
    graph = proto.graph
    make, names = onnx.helper.make_node, _names(graph)
    first, last = [], []
    for value in graph.input:
        kind = value.type.tensor_type.elem_type
        if kind in _REAL:
            wide = _fresh(f"{value.name}_f32", names)
            _rename(graph, value.name, wide)
            first.append(make("Cast", [value.name], [wide], f"{value.name}_widened", to=_FLOAT))
    for value in graph.output:
        kind = value.type.tensor_type.elem_type
        if kind in _REAL:
            wide = _fresh(f"{value.name}_f32", names)
            _rename(graph, value.name, wide)
            last.append(make("Cast", [wide], [value.name], f"{value.name}_narrowed", to=kind))
    nodes = [*first, *(type(n).FromString(n.SerializeToString()) for n in graph.node), *last]
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]
    words = " and ".join(sorted(found))
    return [f"values of the model are {words}: they are computed in f32, and so is the float model"]


def _widened(graph: GraphProto, found: set[str]) -> None:
    """Constants, and types that nodes say, also of the graphs inside."""
    for tensor in graph.initializer:
        _wide(tensor, found)
    for node in graph.node:
        for attribute in node.attribute:
            _wide_attribute(attribute, found)
        for inner in onnx_model.graphs_of(node):
            _widened(inner, found)
            for value in (*inner.input, *inner.output, *inner.value_info):
                if value.type.tensor_type.elem_type in _REAL:
                    value.type.tensor_type.elem_type = _FLOAT
    for value in graph.input:
        if value.type.tensor_type.elem_type in _REAL:
            found.add(_REAL[value.type.tensor_type.elem_type])


def _wide_attribute(attribute: AttributeProto, found: set[str]) -> None:
    if attribute.HasField("t"):
        _wide(attribute.t, found)
    for tensor in attribute.tensors:
        _wide(tensor, found)
    if attribute.name in _TYPE_ATTRIBUTES and attribute.i in _REAL:
        found.add(_REAL[attribute.i])
        attribute.i = _FLOAT


def _wide(tensor: TensorProto, found: set[str]) -> None:
    if tensor.data_type not in _REAL:
        return
    found.add(_REAL[tensor.data_type])
    array = onnx_model.array_of(tensor)
    limit = np.finfo(np.float32).max
    if array.dtype == np.float64:
        array = np.where(np.isfinite(array), np.clip(array, -limit, limit), array)
    made = onnx_model.package().numpy_helper.from_array(
        np.ascontiguousarray(array.astype(np.float32)).reshape(array.shape), tensor.name
    )
    tensor.CopyFrom(made)


def _names(graph: GraphProto) -> set[str]:
    found = {v.name for v in (*graph.input, *graph.output)} | {t.name for t in graph.initializer}
    return found | {n for node in graph.node for n in (*node.input, *node.output)}


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _rename(graph: GraphProto, old: str, new: str) -> None:
    """Let nodes take and give a value under another name, in graphs inside too."""
    for node in graph.node:
        for field in (node.input, node.output):
            for place, name in enumerate(field):
                if name == old:
                    field[place] = new
        for inner in onnx_model.graphs_of(node):
            own = {v.name for v in inner.input} | {t.name for t in inner.initializer}
            if old in own:
                continue
            _rename(inner, old, new)
            for value in inner.output:
                if value.name == old:
                    value.name = new


# What needs no data: constants, arithmetic of shapes, and branches whose condition is the same for
# all samples.

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
            _rename_inside(copy, renamed)
            copy.name = f"{stem}_{inner.name or inner.op_type}"
            made.append(copy)
        for outer, inner in zip(node.output, graph.output, strict=False):
            source = renamed.get(inner.name, inner.name)
            made.append(helper.make_node("Identity", [source], [outer], f"{stem}_{outer}"))
        return made


def _rename_inside(node: NodeProto, names: Mapping[str, str]) -> None:
    for place, name in enumerate(node.input):
        node.input[place] = names.get(name, name)
    for place, name in enumerate(node.output):
        node.output[place] = names.get(name, name)
    for graph in graphs_of(node):
        inside = {n: names[n] for n in captured(node) if n in names}
        for inner in graph.node:
            _rename_inside(inner, inside)
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
