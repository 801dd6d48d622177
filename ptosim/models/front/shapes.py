"""Sizes of a model's inputs: as it says, as `--dim` says, and else those of the samples; the type
of its real numbers: f32, whatever the file holds them in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ptosim.ground.diagnostics.model import ProgramError, finding
from ptosim.ground.errors import UsageError
from ptosim.models import onnx_model
from ptosim.models.reference_node import every_name

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, ValueInfoProto


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
