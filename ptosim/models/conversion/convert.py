"""A float model to programs: calibrate, plan, choose types, rewrite, fuse, run, compare."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ptosim.ground.diagnostics.model import finding
from ptosim.ground.errors import ProgramError, UnsupportedError
from ptosim.ground.records import dataclass, field
from ptosim.models import onnx_run
from ptosim.models.conversion import microscaled
from ptosim.models.conversion import plan as plans
from ptosim.models.conversion.data import Data
from ptosim.models.conversion.explain import explained
from ptosim.models.conversion.plan import Plan
from ptosim.models.conversion.rewrite import rewritten
from ptosim.models.conversion.source import Model
from ptosim.models.conversion.types import Settings, Types, choose
from ptosim.models.fusion.groups import Fusion, Group, fuse
from ptosim.models.fusion.mx import MxStep
from ptosim.models.kernel_runner import KernelRunner
from ptosim.models.onnx_model import Graph, graph_of
from ptosim.models.onnx_nodes import Lowering
from ptosim.models.onnx_run import Line, Outcome, Step, every_value
from ptosim.models.quant import metrics
from ptosim.models.quant.causes import Verdict
from ptosim.models.quant.convert.scales import clipped_share

if TYPE_CHECKING:
    from onnx import ModelProto

Values = dict[str, list[np.ndarray]]


@dataclass(slots=True)
class Quantised:
    """A quantised model before it runs: plan, types, model with Q/DQ nodes, groups, and the values
    of all its names on the calibration data."""

    plan: Plan
    types: Types
    proto: ModelProto
    graph: Graph
    fusion: Fusion
    values: Values


@dataclass(slots=True)
class Error:
    """How far a layer's results are from the float model's: SQNR in dB, largest difference, and the
    share of its quantised inputs that their range leaves out."""

    sqnr: float
    worst: float
    clipped: float


@dataclass(slots=True)
class Row:
    """One layer of the result."""

    line: Line
    format: str
    error: Error
    float_cycles: dict[str, int | None] = field(default_factory=dict)
    why: Verdict | None = None
    """Where the fixpipe's formula leaves the exact one on the reference's sums, and why."""


@dataclass(slots=True)
class Conversion:
    """Everything that `quant convert` reports."""

    model: Model
    data: Data
    seed: int
    settings: Settings
    values: Values
    quantised: Quantised
    outcome: Outcome
    rows: list[Row]
    output: Error
    float_totals: dict[str, int] = field(default_factory=dict)
    """Cycles of the float model's programs on each target, where every node has one."""
    order: list[tuple[str, float]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def quantise(
    model: Model, data: Data, settings: Settings, values: Values, leave: Collection[str] = ()
) -> Quantised:
    """Return a model quantised, without running programs.

    Raises ProgramError (PTO7646) if nothing of it can be."""
    form = microscaled.FORMAT.get(settings.format)
    depths = None if form is None else depths_of(model.graph, values)
    plan = plans.make(model.graph, leave, depths)
    if not plan.layers:
        why = "; ".join(f"{n}: {w}" for n, w in plan.left.items()) or "it has no product"
        raise ProgramError([finding("PTO7646", f"nothing of the model is quantised: {why}")])
    if form is not None:
        types = microscaled.choose(model.graph, plan, values, form)
        proto = microscaled.rewritten(model.graph, plan, types, values, form)
    else:
        types = choose(model.graph, plan, values, settings)
        proto = rewritten(model.graph, plan, types)
    graph = graph_of(proto)
    return Quantised(plan, types, proto, graph, fuse(graph), every_value(graph, data.feeds))


def depths_of(graph: Graph, values: Values) -> dict[str, int]:
    """Return how many terms the sums of each product have."""
    return {n.name: values[n.inputs[0]][0].shape[-1] for n in plans.candidates(graph)}


def convert(
    model: Model,
    data: Data,
    settings: Settings,
    targets: Sequence[str],
    seed: int = 0,
    leave: Collection[str] = (),
    values: Values | None = None,
) -> Conversion:
    """Quantise a model and run it on targets with the first sample of the data; `values` are those
    of the float model, if they are known."""
    if values is None:
        values = every_value(model.graph, data.feeds)
    quantised = quantise(model, data, settings, values, leave)
    outcome = onnx_run.run(quantised.graph, data.feeds[0], targets, on_host=model.on_host)
    rows = [
        Row(line, *_described(step, line, model, quantised, values))
        for step, line in zip(quantised.fusion.steps(quantised.graph), outcome.lines, strict=True)
    ]
    first = {name: runs[0] for name, runs in quantised.values.items()}
    for step, row in zip(quantised.fusion.steps(quantised.graph), rows, strict=True):
        row.why = explained(step, first) if isinstance(step, Group) else None
    totals = {}
    for target in targets:
        cycles = float_cycles(model, values, target)
        if None not in cycles.values():
            totals[target] = sum(c or 0 for c in cycles.values())
        for step, row in zip(quantised.fusion.steps(quantised.graph), rows, strict=True):
            row.float_cycles[target] = _in_float(step, cycles)
    output = output_error(model.graph, values, quantised.values)
    return Conversion(model, data, seed, settings, values, quantised, outcome, rows, output, totals)


def output_error(graph: Graph, values: Values, others: Values) -> Error:
    """Return the error of all outputs of a model together."""
    want = np.concatenate([v.reshape(-1) for n in graph.outputs for v in values[n]])
    have = np.concatenate([v.reshape(-1) for n in graph.outputs for v in others[n]])
    return Error(metrics.sqnr(want, have), _worst(want, have), 0.0)


def _worst(want: np.ndarray, have: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        gaps = np.abs(want.astype(np.float64) - have.astype(np.float64))
    return float(np.nanmax(gaps, initial=0.0))


# -- errors by layer -------------------------------------------------------------------------------


def _described(
    step: Step, line: Line, model: Model, made: Quantised, values: Values
) -> tuple[str, Error]:
    if isinstance(step, MxStep):
        if step.kind == "quantise":
            return "q", Error(np.nan, np.nan, 0.0)
        return "mx", _error(values.get(step.output, []), made.values[step.output], 0.0)
    if isinstance(step, Group):
        name = step.nodes[-1].inputs[0] if step.out is not None else step.output
        back = made.values[step.output]
        if step.out is not None:
            zero = np.float32(step.out.zero)
            back = [(q.astype(np.float32) - zero) * step.out.scale for q in back]
        return "int8", _error(values.get(name, []), back, _clipped(step, made, values))
    if step.op in ("QuantizeLinear", "DequantizeLinear"):
        return "q" if step.op == "QuantizeLinear" else "dq", Error(np.nan, np.nan, 0.0)
    return "float", _error(values.get(line.output, []), made.values[line.output], 0.0)


def _error(want: list[np.ndarray], have: list[np.ndarray], clipped: float) -> Error:
    if not want:
        return Error(np.nan, np.nan, clipped)
    one, other = (np.concatenate([v.reshape(-1) for v in side]) for side in (want, have))
    return Error(metrics.sqnr(one, other), _worst(one, other), clipped)


def _clipped(group: Group, made: Quantised, values: Values) -> float:
    """The largest share among the quantised values that a group takes."""
    shares = [0.0]
    for name in group.inputs_of_codes:
        source = name.removesuffix("_quantized")
        found = made.types.points.get(source)
        if found is not None and source in values:
            whole = np.concatenate([v.reshape(-1) for v in values[source]])
            shares.append(clipped_share(whole, found.scale, found.zero, found.storage))
    return max(shares)


# -- the float model's cycles ----------------------------------------------------------------------


def float_cycles(model: Model, values: Values, target: str) -> dict[str, int | None]:
    """Return the cycles of each node of the float model as an f32 program, by name; None for those
    that the host computes."""
    found: dict[str, int | None] = {}
    for node in model.graph.nodes:
        if node.name in model.on_host:
            found[node.name] = None
            continue
        runner = KernelRunner(target, wanted="cycles")
        inputs = [values[n][0] if n else None for n in node.inputs]
        try:
            Lowering(runner, "fast", "reference").node(
                onnx_run.checked_node(node, inputs, model.graph.opset), inputs
            )
        except UnsupportedError:
            found[node.name] = None
            continue
        found[node.name] = runner.cycles
    return found


def _in_float(step: Step, cycles: dict[str, int | None]) -> int | None:
    names = [n.name for n in step.nodes] if isinstance(step, (Group, MxStep)) else [step.name]
    known = [cycles[n] for n in names if n in cycles]
    return None if None in known or not known else sum(c or 0 for c in known)
