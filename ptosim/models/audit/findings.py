"""Faults of a quantised ONNX model: of its parameters, of values on samples, their costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ptosim.models.audit.faults import Fault, find
from ptosim.models.audit.quantised import Model
from ptosim.models.audit.repair import float_values, measure
from ptosim.models.audit.seen import find_in_values
from ptosim.models.onnx_model import Graph


def faults_of(
    graph: Graph, runs: Sequence[Mapping[str, np.ndarray]], *, is_sampled: bool
) -> list[Fault]:
    """Return the faults of a model. `runs` are inputs that costs are measured on; with `is_sampled`
    they are samples of what the model is for, and ranges are judged on them too."""
    model = Model(graph)
    found = find(model)
    exact = [float_values(model, found, feeds) for feeds in runs]
    if is_sampled and exact:
        # A place whose parameters are known to be wrong is not judged a second time.
        named = {f.repair.place.node.name for f in found if f.repair is not None}
        seen = find_in_values(model, _together(exact))
        found += [f for f in seen if f.where.split(":")[0].split()[-1] not in named]
    if runs:
        measure(model, found, runs[0], exact[0])
    return found


def _together(runs: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    names = set(runs[0]).intersection(*runs[1:])
    return {n: np.concatenate([np.asarray(r[n]).reshape(-1) for r in runs]) for n in sorted(names)}
