"""One node computed by onnx.reference: constants that are folded, and what the host does between
kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx import NodeProto


def computed(
    node: NodeProto, values: Mapping[str, np.ndarray], opset: int
) -> dict[str, np.ndarray]:
    """Return the outputs of a node by name; `values` has its operands, and what graphs inside it
    take from outside. Raises whatever the package's operators raise."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    wires = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in values.items()
    ]
    names = [n for n in node.output if n]
    outputs = [helper.make_empty_tensor_value_info(n) for n in names]
    graph = helper.make_graph([node], "node", wires, outputs)
    versions = {"": opset}
    if node.domain not in ("", "ai.onnx"):
        versions[node.domain] = 1
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=imports))
    with np.errstate(all="ignore"):  # what is divided by 0 is infinity, and said by nobody
        found = evaluator.run(None, dict(values))
    assert isinstance(found, list)
    return {n: np.asarray(v) for n, v in zip(names, found, strict=True)}


def node_proto(
    op: str, inputs: list[str], outputs: list[str], domain: str, attrs: Mapping[str, Any]
) -> NodeProto:
    """Return a node with attributes given as values."""
    from onnx import helper, numpy_helper

    held: dict[str, Any] = {
        k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in attrs.items()
    }
    return helper.make_node(op, inputs, outputs, domain=domain or None, **held)


def of_arrays(
    op: str,
    inputs: list[np.ndarray | None],
    attrs: Mapping[str, Any],
    opset: int,
    outputs: int = 1,
) -> list[np.ndarray]:
    """Return the outputs of a standard operator on arrays."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(inputs)]
    made = [f"y{i}" for i in range(outputs)]
    values = {n: a for n, a in zip(names, inputs, strict=True) if a is not None}
    found = computed(node_proto(op, names, made, "", attrs), values, opset)
    return [found[n] for n in made]
