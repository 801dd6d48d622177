"""A float model to programs: calibrate, plan, choose types, rewrite, fuse, run, compare."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.ground.diagnostics.model import ProgramError, UnsupportedError, finding
from ptosim.ground.records import dataclass, field
from ptosim.machine.quant.parameters import scheme, storage
from ptosim.models import onnx_run
from ptosim.models.conversion import plan as plans
from ptosim.models.conversion.plan import Plan
from ptosim.models.conversion.source import Data, Model
from ptosim.models.conversion.types import (
    FORMAT,
    Settings,
    Types,
    blocks_rewritten,
    choose,
    choose_blocks,
    rewritten,
)
from ptosim.models.front.blocks import BIASED
from ptosim.models.fusion.groups import Fusion, Group, Pointwise, fuse
from ptosim.models.fusion.mx import MxStep
from ptosim.models.fusion.programs import is_depthwise
from ptosim.models.kernel_runner import KernelRunner
from ptosim.models.onnx_model import Graph, GraphNode, graph_of
from ptosim.models.onnx_nodes import Lowering, matrices_of
from ptosim.models.onnx_run import Line, Outcome, Step, every_value
from ptosim.models.quant import diff
from ptosim.models.quant.causes import Verdict, clipped_share, judge
from ptosim.models.quant.diff import Setting

if TYPE_CHECKING:
    from onnx import ModelProto


# Why the fast form differs from the exact one: the audit's verdict on each group's
# requantisation, on the sums that the reference gives.

FAST, EXACT = "fixpipe", "ort-qlinear"
"""The formulas of both forms: 11 bits of the factor against f32; the zero point of both is added
after rounding."""


def explained(group: Group, env: Mapping[str, np.ndarray]) -> Verdict | None:
    """Return where and why the fixpipe's formula leaves the exact one; None for a group that does
    not leave through it. `env` holds the reference's values."""
    if group.out is None or group.residual is not None or group.core.op == "Add":
        return None
    if is_depthwise(group, env[group.b.name]):
        return None  # on the vector unit
    value = env[_before_relu(group)].astype(np.float64)
    unit = group.a.scale.reshape(-1).astype(np.float64) * group.b.scale.reshape(-1)
    axis = 1 if group.core.op == "Conv" else value.ndim - 1
    along = [1] * value.ndim
    along[axis] = -1
    sums = np.rint(value / unit.reshape(along if unit.size > 1 else [1] * value.ndim))
    if group.relu:
        sums = np.maximum(sums, 0)
    factor = (unit.astype(np.float32) / group.out.scale).astype(np.float32).reshape(-1)
    zero = np.broadcast_to(group.out.zero.astype(np.int32), factor.shape)
    kind = storage(group.out.zero.dtype)
    ones = np.ones(factor.shape, np.float32)
    where = axis if factor.size > 1 else None
    setting = Setting(sums + 0.0, ones, zero, kind, where, None, factor)  # -0 as 0
    return judge(setting, scheme(FAST), scheme(EXACT))


def _before_relu(group: Group) -> str:
    """The value after the product and its bias."""
    following = [group.core.outputs[0]]
    for node in group.nodes:
        if node.op == "Add" and following[-1] in node.inputs:
            following.append(node.outputs[0])
    return following[-1]


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
class Measures:
    """What conversions of one model share: the float model's cycles of each node by target, and
    those of kernels by their text."""

    real: dict[str, dict[str, int | None]] = field(default_factory=dict)
    known: dict[str, int | None] = field(default_factory=dict)


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
    measures: Measures
    float_totals: dict[str, int] = field(default_factory=dict)
    """Cycles of the float model's programs on each target, where every node has one."""
    order: list[tuple[str, float]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    slow: list[Any] = field(default_factory=list)
    """What layers that stay in float, because they are no faster quantised, take on each target."""
    line: list[Any] = field(default_factory=list)
    """Plans that no other one beats in error and cycles, where several types were tried."""


def quantise(
    model: Model,
    data: Data,
    settings: Settings,
    values: Values,
    leave: Collection[str] = (),
    *,
    is_quick: bool = False,
) -> Quantised:
    """Return a model quantised, without running programs; `is_quick`: with values of convolutions
    that may differ from the reference's in the last place.

    Raises ProgramError (PTO7646) if nothing of it can be."""
    plan, types, graph = _written(model.graph, settings, values, leave)
    if not plan.layers:
        why = "; ".join(f"{n}: {w}" for n, w in plan.left.items()) or "it has no product"
        raise ProgramError([finding("PTO7646", f"nothing of the model is quantised: {why}")])
    found = every_value(graph, data.feeds, is_quick=is_quick)
    return Quantised(plan, types, graph.proto, graph, fuse(graph, model.on_host), found)


def _written(
    graph: Graph, settings: Settings, values: Values, leave: Collection[str]
) -> tuple[Plan, Types, Graph]:
    """The plan, the types and the graph with what quantises; of several formats one after the
    other, each for its layers."""
    kinds = dict(settings.layers)
    names = [n.name for n in plans.candidates(graph)]
    plan, types = Plan([], {}, {}, []), Types({}, {}, {})
    for kind in sorted(set(kinds.values())) or [settings.format]:  # integers first
        form = FORMAT.get(kind)
        others = [n for n in names if n in kinds and kinds[n] != kind]
        own = plans.make(
            graph, [*leave, *others], None if form is None else depths_of(graph, values)
        )
        for name in others:
            own.left.pop(name, None)
        if not own.layers:
            plan.left |= own.left
            continue
        if form is not None:
            found = choose_blocks(graph, own, values, form)
            suffix = f"_{kind}" if kinds else ""
            proto = blocks_rewritten(graph, own, found, values, form, suffix)
        else:
            found = choose(graph, own, values, settings)
            proto = rewritten(graph, own, found)
        graph = graph_of(proto)
        plan, types = plan.joined(own), types.joined(found)
    return plan, types, graph


def depths_of(graph: Graph, values: Values) -> dict[str, int]:
    """Return how many terms the sums have of each product of values of the float model."""
    return {
        n.name: values[n.inputs[0]][0].shape[-1]
        for n in plans.candidates(graph)
        if n.inputs[0] in values
    }


@dataclass(slots=True)
class Trial:
    """A quantised model that is measured without being run: cycles of each step in the fast form by
    target, and the outputs' error."""

    quantised: Quantised
    cycles: dict[str, list[int | None]]
    output: Error
    left: list[str]
    slow: list[Any] = field(default_factory=list)
    """Costs of layers that went to float because they are slower quantised."""


def attempt(
    model: Model,
    data: Data,
    settings: Settings,
    targets: Sequence[str],
    values: Values,
    leave: Sequence[str],
    measures: Measures,
) -> Trial:
    """Return what a conversion with some layers in float costs and loses."""
    made = quantise(model, data, settings, values, leave)
    env = {name: runs[0] for name, runs in made.values.items()}
    cycles = {}
    for target in targets:
        if target not in measures.real:
            measures.real[target] = float_cycles(model, values, target, measures.known)
        cycles[target] = onnx_run.fast_cycles(
            made.graph, made.fusion, env, target, model.on_host, measures.known,
            measures.real[target],
        )  # fmt: skip
    error = output_error(model.graph, values, made.values)
    return Trial(made, cycles, error, list(leave))


def convert(
    model: Model,
    data: Data,
    settings: Settings,
    targets: Sequence[str],
    seed: int = 0,
    leave: Collection[str] = (),
    values: Values | None = None,
    measures: Measures | None = None,
) -> Conversion:
    """Quantise a model and run it on targets with the first sample of the data; `values` are those
    of the float model, if they are known, and `measures` what was counted before."""
    if values is None:
        values = every_value(model.graph, data.feeds)
    quantised = quantise(model, data, settings, values, leave)
    return of_quantised(model, data, settings, targets, seed, values, quantised, measures)


def of_quantised(
    model: Model,
    data: Data,
    settings: Settings,
    targets: Sequence[str],
    seed: int,
    values: Values,
    quantised: Quantised,
    measures: Measures | None = None,
    *,
    keeps: bool = True,
) -> Conversion:
    """The same of a model that is quantised already; `keeps`: what programs take and give."""
    outcome = onnx_run.run(
        quantised.graph, data.feeds[0], targets, on_host=model.on_host, is_partial=model.partial,
        keeps=keeps,
    )  # fmt: skip
    outcome.notes[:0] = model.notes
    steps = list(quantised.fusion.steps(quantised.graph))
    rows = [
        Row(line, *_described(step, line, model, quantised, values))
        for step, line in zip(steps, outcome.lines, strict=True)
    ]
    first = {name: runs[0] for name, runs in quantised.values.items()}
    for step, row in zip(steps, rows, strict=True):
        row.why = explained(step, first) if isinstance(step, Group) else None
    measures = Measures() if measures is None else measures
    totals = {}
    for target in targets:
        if target not in measures.real:
            measures.real[target] = float_cycles(model, values, target, measures.known)
        cycles = measures.real[target]
        if None not in cycles.values():
            totals[target] = sum(c or 0 for c in cycles.values())
        for step, row in zip(steps, rows, strict=True):
            row.float_cycles[target] = in_float(step, cycles)
    output = output_error(model.graph, values, quantised.values)
    return Conversion(
        model, data, seed, settings, values, quantised, outcome, rows, output, measures, totals
    )  # fmt: skip


def output_error(graph: Graph, values: Values, others: Values) -> Error:
    """Return the error of all outputs of a model together."""
    want = np.concatenate([v.reshape(-1) for n in graph.outputs for v in values[n]])
    have = np.concatenate([v.reshape(-1) for n in graph.outputs for v in others[n]])
    return Error(diff.sqnr(want, have), _worst(want, have), 0.0)


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
    if isinstance(step, Pointwise):
        back = made.values[step.real]
        return "float", _error(values.get(step.real, []), back, 0.0)
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
    return Error(diff.sqnr(one, other), _worst(one, other), clipped)


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


def float_cycles(
    model: Model, values: Values, target: str, known: dict[str, int | None]
) -> dict[str, int | None]:
    """Return the cycles of each node of the float model as an f32 program, by name: 0 for those
    that the host computes, None for those without a kernel. A product that microscaling takes apart
    has its bias in float, whose Add takes none."""
    found: dict[str, int | None] = {}
    biases = _biases(model.graph)
    apart = {add for add, _ in biases.values()}
    for node in model.graph.nodes:
        if node.name in model.on_host or node.name in apart:  # of the host on both sides
            found[node.name] = 0
            continue
        runner = KernelRunner(target, wanted="cycles", known=known)
        inputs = [values[n][0] if n else None for n in node.inputs]
        try:
            if node.name in biases:
                matrices = matrices_of(node, *(a for a in inputs if a is not None))
                runner.product(*matrices, biases[node.name][1].reshape(-1))
                found[node.name] = runner.cycles
                continue
            Lowering(runner, "fast", "reference").node(
                onnx_run.checked_node(node, inputs, model.graph.opset), inputs
            )
        except UnsupportedError:
            found[node.name] = None
            continue
        found[node.name] = runner.cycles
    return found


def _biases(graph: Graph) -> dict[str, tuple[str, np.ndarray]]:
    """The node that adds the bias of a product that was taken apart, and the bias, by the name of
    the product."""
    found = {}
    for node in graph.nodes:
        name = node.name.removesuffix(BIASED)
        held = graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
        if node.op == "Add" and name != node.name and held is not None:
            found[name] = node.name, held
    return found


def in_float(step: Step, cycles: Mapping[str, int | None]) -> int | None:
    names = [step.name] if isinstance(step, GraphNode) else [n.name for n in step.nodes]
    known = [cycles[n] for n in names if n in cycles]
    return None if None in known or not known else sum(c or 0 for c in known)
