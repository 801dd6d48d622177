"""Models as the conversion takes them: ONNX, static shapes, an operator set with per-axis and
blocked quantisation, constants folded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.errors import ProgramError, UnsupportedError, UsageError
from ptosim.ground.records import dataclass
from ptosim.models import host_ops, onnx_model, onnx_run
from ptosim.models.conversion import mlir_source, pto_source
from ptosim.models.conversion.opset import OPSET
from ptosim.models.onnx_model import Graph
from ptosim.models.onnx_nodes import OPERATORS

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(slots=True)
class Model:
    """A float model with its graph, and the nodes that no kernel computes (`--partial`)."""

    proto: ModelProto
    graph: Graph
    on_host: list[str]


def load(
    path: str | Path,
    dims: Mapping[str, int],
    samples: Mapping[str, np.ndarray],
    *,
    partial: bool = False,
) -> Model:
    """Return a model (.onnx, .mlir, or a .pto program) with static shapes; `dims` are sizes of
    named dimensions, `samples` the calibration data, by which a program is recognised; `partial`:
    operators without a kernel are computed by the host.

    Raises UsageError for files and dimensions, ProgramError for models that are wrong,
    UnsupportedError for operators without a kernel."""
    if str(path).endswith(".pto") or str(path).startswith("@"):
        return prepared(pto_source.load(path, samples), dims, partial=partial)
    if str(path).endswith(".mlir"):
        return prepared(mlir_source.load(path), dims, partial=partial)
    return prepared(onnx_model.load(path).proto, dims, partial=partial)


def prepared(proto: ModelProto, dims: Mapping[str, int], *, partial: bool = False) -> Model:
    """The same for a model in memory."""
    onnx = onnx_model.package()
    proto = _upgraded(onnx, proto)
    _fix_dims(proto, dims)
    _name_nodes(proto)
    _fold(proto)
    graph = onnx_model.graph_of(proto)
    quantising = [n for n in graph.nodes if n.op in _QUANTISING]
    if quantising:
        raise ProgramError([finding("PTO7644", f"the model is quantised already: {quantising[0]}")])
    _check_shapes(graph)
    _check_weights(graph)
    unknown = [n for n in graph.nodes if n.op not in OPERATORS or n.domain not in ("", "ai.onnx")]
    if unknown and not partial:
        raise UnsupportedError([_unknown(n) for n in unknown])
    return Model(proto, graph, [n.name for n in unknown])


_QUANTISING = (
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearMatMul",
    "QLinearConv", "MatMulInteger", "ConvInteger",
)  # fmt: skip


def is_quantised(graph: Graph) -> bool:
    """Return True if any node of a model quantises."""
    return any(n.op in _QUANTISING for n in graph.nodes)


def _unknown(node: onnx_model.GraphNode) -> Diagnostic:
    where = f"{node.domain}.{node.op}" if node.domain not in ("", "ai.onnx") else node.op
    return finding("PTO7640", f"node {node}: no kernel is made for {where}")


def _upgraded(onnx, proto: ModelProto) -> ModelProto:
    version = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)
    if version >= OPSET:
        copy = onnx.ModelProto()
        copy.CopyFrom(proto)
        return copy
    from onnx import version_converter

    try:
        return version_converter.convert_version(proto, OPSET)
    except Exception as problem:  # whatever its C++ code raises
        first = str(problem).strip().splitlines()[0]
        raise UnsupportedError(
            [finding("PTO7640", f"operator set {version} cannot be brought to {OPSET}: {first}")]
        ) from problem


def _name_nodes(proto: ModelProto) -> None:
    """Give every node a name of its own: layers are spoken of by it."""
    known: set[str] = set()
    for index, node in enumerate(proto.graph.node):
        if not node.name or node.name in known:
            node.name = f"{node.op_type}_{index}"
        known.add(node.name)


def _fold(proto: ModelProto) -> None:
    """Compute what constants alone decide through nodes that move data: weights that are
    transposed, constants given as nodes."""
    onnx = onnx_model.package()
    graph = onnx_model.graph_of(proto)
    known, kept = dict(graph.constants), []
    for node, written in zip(graph.nodes, list(proto.graph.node), strict=True):
        inputs = [n for n in node.inputs if n]
        if node.op not in host_ops.MOVES or any(n not in known for n in inputs):
            kept.append(written)
            continue
        name = node.outputs[0]
        known[name] = onnx_run.moved(node, [known.get(n) for n in node.inputs], graph.opset)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(known[name], name))
    if len(kept) == len(proto.graph.node):
        return
    copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in kept]
    del proto.graph.node[:]
    proto.graph.node.extend(copies)


def _fix_dims(proto: ModelProto, dims: Mapping[str, int]) -> None:
    known = set()
    for value in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_param"):
                known.add(dim.dim_param)
                if dim.dim_param in dims:
                    dim.dim_value = dims[dim.dim_param]
    for name in dims:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise UsageError(f"the model has no dimension `{name}`", help=f"named: {listed}")
    if dims:
        del proto.graph.value_info[:]


def _check_shapes(graph: Graph) -> None:
    names = {
        v.name: [d.dim_param or "?" for d in v.type.tensor_type.shape.dim]
        for v in graph.proto.graph.input
    }
    for name, (_, dims) in graph.inputs.items():
        if None in dims:
            which = names[name][dims.index(None)]
            raise ProgramError(
                [finding("PTO7641", f"dimension `{which}` of input `{name}` is not known")]
            )


def _check_weights(graph: Graph) -> None:
    for name, value in graph.constants.items():
        if value.dtype.kind == "f" and not np.all(np.isfinite(value)):
            count = int(np.count_nonzero(~np.isfinite(value)))
            text = f"weights `{name}`: {count} of {value.size} are NaN or infinite"
            raise ProgramError([finding("PTO7643", text)])
