"""The quantising steps of an ONNX model, on the values that the reference gives them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ptosim.machine.quant.schemes import scheme
from ptosim.machine.quant.storage import as_bytes, of_array
from ptosim.models.audit.steps import REAL, SUMS, Step
from ptosim.models.onnx_model import Graph, GraphNode
from ptosim.models.onnx_run import check_rules, checked_node, inputs_of, reference_values
from ptosim.models.quant.diff import Setting
from ptosim.models.quant.onnx.ops import granularity, sums_and_factor

_REAL = ("QuantizeLinear", "DynamicQuantizeLinear")


def audit_model(graph: Graph, feeds: Mapping[str, np.ndarray]) -> list[Step]:
    """Return the quantising steps of a model in its order, each judged on its own inputs.

    Raises ProgramError for nodes that break the operators' rules."""
    values, _ = reference_values(graph, feeds, "reference")
    check_rules(graph, values)
    found = (_step(node, graph, values) for node in graph.nodes)
    return [step for step in found if step is not None]


def _step(node: GraphNode, graph: Graph, values: Mapping[str, np.ndarray]) -> Step | None:
    if not node.is_standard:
        return None
    is_real = node.op in _REAL
    sums = None
    if not is_real:
        sums = _sums(node, graph, values)
        if sums is None:
            return None
    step = Step(f"{node.op} {node.name}", REAL if is_real else SUMS, None)
    stored = values[node.outputs[0]]
    kind = of_array(stored)
    if kind is None or not kind.is_integer:
        step.executions, step.elements = 1, stored.size
        step.note = f"to {stored.dtype}, a float: the systems' integer formulas do not apply"
        return step
    step.own = scheme("onnx" if is_real else "onnx-ref-qlinear")
    step.take(sums or _real(node, values), as_bytes(stored))
    return step


def _real(node: GraphNode, values: Mapping[str, np.ndarray]) -> Setting:
    stored = of_array(values[node.outputs[0]])
    assert stored is not None
    given = [values[name] if name else None for name in node.inputs]
    x = given[0]
    assert x is not None
    if node.op == "DynamicQuantizeLinear":
        scale, zero = (values[name] for name in node.outputs[1:3])
        return Setting(x, scale.reshape(1), zero.reshape(1), stored)
    scale = given[1]
    assert scale is not None
    zero = given[2] if len(given) > 2 else None
    shift = np.zeros(scale.shape, np.int32) if zero is None else as_bytes(zero)
    axis, block = granularity(scale, node.attrs)
    one = scale.size == 1
    parameters = (scale.reshape(1), shift.reshape(1)) if one else (scale, shift)
    return Setting(x, *parameters, stored, axis, block)


def _sums(node: GraphNode, graph: Graph, values: Mapping[str, np.ndarray]) -> Setting | None:
    inputs = inputs_of(node, values)
    if not node.op.startswith("QLinear"):
        return None
    found = sums_and_factor(checked_node(node, inputs, graph.opset), inputs)
    stored = of_array(values[node.outputs[0]])
    if found is None or stored is None:
        return None
    sums, factor = found
    zero = inputs[7]
    assert zero is not None
    factor = np.asarray(factor, np.float32)
    factor = factor.reshape(1) if factor.size == 1 else factor
    shift = as_bytes(zero).reshape(1) if zero.size == 1 else as_bytes(zero)
    ones = np.ones(factor.shape, np.float32)
    return Setting(sums, ones, np.broadcast_to(shift, factor.shape), stored, multiplier=factor)
