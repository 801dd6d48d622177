"""Sizes of a model's inputs: as it says, as `--dim` says, and else those of the samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ptosim.ground.diagnostics.model import finding
from ptosim.ground.errors import ProgramError, UsageError

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto


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
    sizes = dict(dims)
    inputs = [i for i in graph.input if i.name not in constants]
    had_open = False
    for value in inputs:
        if not value.type.HasField("tensor_type"):
            continue
        had_open |= _fixed(value, sizes, samples.get(value.name))
    if had_open:
        _forget(proto)


def _fixed(value: ValueInfoProto, sizes: dict[str, int], sample: np.ndarray | None) -> bool:
    """Fix one input; return True if anything was open."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        if sample is None:
            raise _unknown("?", value.name)
        for size in sample.shape:
            tensor.shape.dim.add().dim_value = size
        return True
    rank = len(tensor.shape.dim)
    shape = None
    if sample is not None and sample.ndim in (rank, rank + 1):
        shape = sample.shape[sample.ndim - rank :]
    was_open = False
    for at, dim in enumerate(tensor.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value != -1:
            continue
        name = dim.dim_param if dim.HasField("dim_param") else ""
        if name in sizes:
            size = sizes[name]
        elif shape is not None:
            size = shape[at]
        else:
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
    from onnx.reference import ReferenceEvaluator

    own = {n: v for n, v in feeds.items() if n in {i.name for i in proto.graph.input}}
    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(proto).run(None, own, intermediate=True)
    except Exception:  # operators of other domains, and what its operators raise
        return own
    assert isinstance(found, dict)
    return {**own, **{n: np.asarray(v) for n, v in found.items() if n and v is not None}}
