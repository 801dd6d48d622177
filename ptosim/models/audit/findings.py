"""Faults of a quantised ONNX model: of its parameters, of values on samples, their costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ptosim.ground.records import replace
from ptosim.models.audit.data import GAINS
from ptosim.models.audit.faults import Fault, find
from ptosim.models.audit.quantised import PRODUCTS, Model
from ptosim.models.audit.repair import float_values, measure
from ptosim.models.audit.seen import find_in_values
from ptosim.models.front import runtime_operators
from ptosim.models.onnx_model import Graph

_MOST_RUNS = 4
"""Samples that costs are measured on."""


def faults_of(
    graph: Graph, runs: Sequence[Mapping[str, np.ndarray]], *, is_sampled: bool
) -> list[Fault]:
    """Return the faults of a model. `runs` are inputs that costs are measured on; with `is_sampled`
    they are samples of what the model is for, and ranges are judged on them too."""
    graph, names = runtime_operators.in_pairs(graph)
    model = Model(graph)
    found = find(model)
    exact = [float_values(model, found, feeds) for feeds in runs]
    guessed = any(_is_guess(model, f) for f in found)  # of what follows nothing is sure
    if is_sampled and exact and not guessed:
        # A place whose parameters are known to be wrong is not judged a second time.
        named = {f.repair.place.node.name for f in found if f.repair is not None}
        seen = find_in_values(model, _together(exact))
        seen = [replace(f, of_range=f.kind != "codes unused") for f in seen]
        found += [f for f in seen if f.where.split(":")[0].split()[-1] not in named]
    for fault in found:
        if fault.product is not None:
            _sums_seen(model, fault, exact)
    if runs:
        measure(model, found, runs[:_MOST_RUNS], exact[:_MOST_RUNS])
    for fault in found:  # of a node that was written out the name in the file
        node, _, rest = fault.where.partition(": ")
        fault.where = ": ".join(filter(None, (names.get(node, node), rest)))
    return [f for f in found if not (f.of_range and f.cost is not None and f.cost < GAINS)]


def _is_guess(model: Model, fault: Fault) -> bool:
    """True if the weights of a product are not known: their scale is taken from other channels."""
    if fault.repair is None or fault.repair.how != "rescale":
        return False
    node = fault.repair.place.node
    return node.op == "DequantizeLinear" and model.constant(node, 0) is not None


def _sums_seen(model: Model, fault: Fault, runs: Sequence[Mapping[str, np.ndarray]]) -> None:
    """Say how large the sums of a product are in runs; what they never reach costs nothing."""
    assert fault.product is not None
    node, weights = fault.product
    x = model.dequantised(node.inputs[0])
    scale = None if x is None else model.parameters(x).scale
    values = [r[node.outputs[0]] for r in runs if node.outputs[0] in r]
    if scale is None or scale.size != 1 or not values or node.op not in PRODUCTS:
        return
    if weights.scale is None or weights.node.op != "DequantizeLinear":
        return
    unit = np.abs(weights.scale.astype(np.float64) * float(scale.reshape(-1)[0]))
    along = [1] * values[0].ndim
    along[1 if node.op.startswith("Conv") else -1] = -1
    with np.errstate(all="ignore"):
        sums = [np.abs(v / unit.reshape(along if unit.size > 1 else [1])) for v in values]
    seen = max(float(s.max(initial=0)) for s in sums)
    if not np.isfinite(seen):
        return
    fault.what += f"; in this data they reach {seen:,.0f}"
    if seen <= np.iinfo(np.int32).max:
        fault.cost, fault.why_not = 0.0, ""


def _together(runs: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    names = set(runs[0]).intersection(*runs[1:])
    return {n: np.concatenate([np.asarray(r[n]).reshape(-1) for r in runs]) for n in sorted(names)}
