"""A model on the simulator: every node in both forms on each target, against the reference."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ptosim.ground.diagnostics.model import Diagnostic, ProgramError, UnsupportedError, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass, field
from ptosim.models.chains import unsupported
from ptosim.models.fusion import mx, pointwise
from ptosim.models.fusion import programs as fused
from ptosim.models.fusion.groups import AnyGroup, Fusion, Group, Pointwise, fuse
from ptosim.models.fusion.mx import MxStep
from ptosim.models.fusion.programs import statement_in
from ptosim.models.kernel_runner import KernelRunner, Ran, Shared
from ptosim.models.onnx_model import Graph, GraphNode
from ptosim.models.onnx_nodes import MOVES, OPERATORS, Lowering, move
from ptosim.models.quant import diff
from ptosim.models.quant.onnx.ops import evaluate, node_of, positions
from ptosim.models.quant.onnx.rules import Input, Node, check_node, operators, refuse_errors
from ptosim.models.reference_node import by_reference, computed, every_name, node_proto

Step = GraphNode | AnyGroup
"""What one line is about: a node, or nodes that one kernel computes."""
FORMS = ("exact", "fast")
ORACLES = {"reference": "runtime", "runtime": "reference", "onnx": "reference"}
"""Oracle of the exact form to the other one it is compared with."""


@dataclass(frozen=True, slots=True)
class Gap:
    """How one form's output differs. `ties`: off by one where the reference is within two ulp of a
    tie; `inherited`: an input differed already."""

    mismatches: int = 0
    ties: int = 0
    worst: float = 0.0
    inherited: bool = False
    rounding: bool = False
    """Floats whose last places differ, or codes of such floats: sums in another order, the vector
    unit's own exp and roots."""

    @property
    def is_explained(self) -> bool:
        """True if nothing differs, or for a reason that is not this node's formula."""
        return not self.mismatches or self.inherited or self.rounding

    @property
    def errors(self) -> int:
        """Mismatches that are no ties."""
        return self.mismatches - self.ties


@dataclass(slots=True)
class Line:
    """One node: its output, and for each (target, form) how it differs and what it costs."""

    node: str
    op: str
    output: str
    dtype: str
    shape: tuple[int, ...]
    other: int
    gaps: dict[tuple[str, str], Gap] = field(default_factory=dict)
    cycles: dict[tuple[str, str], int | None] = field(default_factory=dict)
    statement: tuple[bool, str] | None = None
    """Of nodes that are fused: whether the exact form must give the reference's bits, and why."""


@dataclass(slots=True)
class Outcome:
    """Everything about a run of a model."""

    oracle: str
    source: str  # what computed the reference values
    lines: list[Line]
    outputs: dict[str, np.ndarray]
    results: dict[tuple[str, str], dict[str, np.ndarray]]
    programs: dict[tuple[str, str], list[tuple[str, Ran]]]
    notes: list[str]
    findings: list[Diagnostic]
    refused: dict[tuple[str, str], list[Diagnostic]] = field(default_factory=dict)
    """Why a target and form do not run the model."""
    why_not: dict[str, str] = field(default_factory=dict)
    """Why products and sums are not fused with the nodes that quantise, by the node's name."""

    def identical(self, form: str = "exact") -> bool:
        """True if a form gives the reference's outputs on every target that runs the model."""
        return all(self.identical_for(key) for key in self.results if key[1] == form)

    def explained(self, form: str = "exact") -> bool:
        """True if a form differs on every target by the rounding of floats only, or not at all."""
        keys = [key for key in self.results if key[1] == form]
        return all(line.gaps[key].is_explained for key in keys for line in self.lines)

    def identical_for(self, key: tuple[str, str]) -> bool:
        """The same for one target and form."""
        return all(same(self.outputs[n], self.results[key][n]) for n in self.outputs)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """True if arrays hold the same values; NaN equals NaN."""
    return a.shape == b.shape and not np.any(diff.differs(a, b))


def run(
    graph: Graph,
    feeds: Mapping[str, np.ndarray],
    targets: Sequence[str],
    oracle: str = "reference",
    *,
    is_fused: bool = True,
    on_host: Collection[str] = (),
    is_partial: bool = False,
    keeps: bool = True,
) -> Outcome:
    """Run a model on targets and compare with an oracle; `is_fused`: products and sums of
    dequantised operands as integer kernels; `keeps`: what programs take and give, to be written;
    `on_host`: nodes that onnx.reference computes, with
    `is_partial` those too that have no kernel, or one that refuses their operands.

    Raises ProgramError for nodes that break the operators' rules, UnsupportedError for nodes
    without a kernel (every one of them is named) and for a model that no target runs."""
    fusion = fuse(graph, on_host) if is_fused else Fusion({}, set(), {})
    if not is_partial:
        _check_operators([s for s in fusion.steps(graph) if isinstance(s, GraphNode)], on_host)
    expected, source = reference_values(graph, feeds, oracle)
    other, _ = _evaluated(graph, feeds, ORACLES[oracle])
    findings = check_rules(graph, expected)
    lines = [_line(step, graph, expected, other) for step in fusion.steps(graph)]
    outcome = Outcome(
        oracle, source, lines, {n: expected[n] for n in graph.outputs}, {}, {}, [], findings,
        why_not=fusion.why_not,
    )  # fmt: skip
    shared = Shared(keeps)
    for key in [(target, form) for target in targets for form in FORMS]:
        host = _Host(on_host, is_partial, shared)
        try:
            _run_form(graph, fusion, feeds, expected, outcome, key, host)
        except UnsupportedError as problem:
            outcome.refused[key] = list(problem.diagnostics)
    if outcome.refused and not outcome.results:
        raise UnsupportedError(next(iter(outcome.refused.values())))
    return outcome


def _check_operators(nodes: Sequence[GraphNode], on_host: Collection[str]) -> None:
    wrong = [
        n for n in nodes if n.name not in on_host and (n.op not in OPERATORS or not n.is_standard)
    ]
    if wrong:
        text = "cannot be lowered to PTO: node {}: no kernel is generated for {}"
        cure = "--partial: the host computes it"
        raise UnsupportedError(
            [finding("PTO8204", text.format(n, n.op), help=cure) for n in wrong]
        )  # fmt: skip


def inputs_of(node: GraphNode, env: Mapping[str, np.ndarray]) -> list[np.ndarray | None]:
    return [env[name] if name else None for name in node.inputs]


def checked_node(node: GraphNode, inputs: list[np.ndarray | None], opset: int) -> Node:
    """Return a node with what its inputs are, as the rules and the kernels take it."""
    if node.op in operators():
        made = node_of(node.op, inputs, node.attrs, opset)
    else:
        made = Node(node.op, opset, [None if a is None else Input("?", a.shape) for a in inputs],
                    node.attrs)  # fmt: skip
    return Node(made.op, made.opset, made.inputs, made.attrs, None, node.name, len(node.outputs))


def check_rules(graph: Graph, env: Mapping[str, np.ndarray]) -> list[Diagnostic]:
    """Return what is odd about the nodes that quantise, on the values of a run. Raises
    ProgramError for nodes that break the operators' rules."""
    findings: list[Diagnostic] = []
    for node in graph.nodes:
        if node.op in operators() and node.is_standard:
            findings += check_node(checked_node(node, inputs_of(node, env), graph.opset))
    refuse_errors(findings)
    return findings


# -- reference values ------------------------------------------------------------------------------


def every_value(
    graph: Graph, runs: Sequence[Mapping[str, np.ndarray]], *, is_quick: bool = False
) -> dict[str, list[np.ndarray]]:
    """Return the values of every name in several runs, by onnx.reference; `is_quick`: convolutions
    in another order of sums. Raises ProgramError for a model that it cannot compute."""
    found: dict[str, list[np.ndarray]] = {}
    for feeds in runs:
        try:
            made = every_name(graph.proto, feeds, is_quick=is_quick)
        except Exception as problem:  # operators of other domains, shapes that do not fit, …
            raise _not_computed(problem) from problem
        for name, value in {**graph.constants, **feeds, **made}.items():
            found.setdefault(name, []).append(np.asarray(value))
    return found


def _not_computed(problem: Exception) -> ProgramError:
    text = f"onnx.reference does not compute the model: {problem}".partition("\n")[0]
    return ProgramError([finding("PTO0201", text)])


def reference_values(
    graph: Graph, feeds: Mapping[str, np.ndarray], oracle: str
) -> tuple[dict[str, np.ndarray], str]:
    """Values of every name: by onnx.reference itself where it can, else by the operators here."""
    if oracle == "reference":
        try:
            found = by_reference(graph.proto, feeds)
            return {**graph.constants, **feeds, **found}, "onnx.reference"
        except Exception:  # its own gaps: DequantizeLinear before opset 19, missing types, …
            return _evaluated(graph, feeds, oracle)
    return _evaluated(graph, feeds, oracle)


def _evaluated(
    graph: Graph, feeds: Mapping[str, np.ndarray], oracle: str
) -> tuple[dict[str, np.ndarray], str]:
    env: dict[str, np.ndarray] = {**graph.constants, **feeds}
    for node in graph.nodes:
        inputs = inputs_of(node, env)
        if node.op in operators() and node.is_standard:
            refuse_errors(check_node(checked_node(node, inputs, graph.opset)))
            made = evaluate(node.op, inputs, node.attrs, opset=graph.opset, oracle=oracle)
        else:
            made = _plain(node, env, graph.opset)
        env |= dict(zip(node.outputs, made, strict=False))
    return env, f"ptosim's operators, oracle {oracle}"


def moved(node: GraphNode, inputs: list[np.ndarray | None], opset: int) -> np.ndarray:
    """Return the result of a node that only moves data."""
    return move(checked_node(node, inputs, opset), inputs)[0]


def _plain(node: GraphNode, env: Mapping[str, np.ndarray], opset: int) -> list[np.ndarray]:
    """A node that is none of the quantisation's: by onnx.reference, node by node."""
    inputs = inputs_of(node, env)
    if node.op in MOVES and node.is_standard:
        return [moved(node, inputs, opset)]
    made = node_proto(node.op, node.inputs, node.outputs, node.domain, node.attrs)
    feeds = {n: a for n, a in zip(node.inputs, inputs, strict=True) if n and a is not None}
    feeds |= {n: env[n] for n in node.captured}
    try:
        found = computed(made, feeds, opset)
    except Exception as problem:  # whatever its operators raise for operands that do not fit
        raise UsageError(f"node {node}: onnx.reference cannot compute it: {problem}") from problem
    return [found.get(n, np.zeros(0)) for n in node.outputs]


# -- one form --------------------------------------------------------------------------------------


def _line(
    step: Step,
    graph: Graph,
    expected: Mapping[str, np.ndarray],
    other: Mapping[str, np.ndarray],
) -> Line:
    is_group = not isinstance(step, GraphNode)
    name = step.output if is_group else step.outputs[0]
    value = expected[name]
    return Line(
        step.core.name if is_group else step.name, step.title if is_group else step.op,
        name, value.dtype.name, value.shape,
        int(np.count_nonzero(diff.differs(value, other[name]))),
        statement=_statement(step, graph, expected),
    )  # fmt: skip


def _statement(step: Step, graph: Graph, env: Mapping[str, np.ndarray]) -> tuple[bool, str] | None:
    if isinstance(step, MxStep):
        return (False, mx.STATEMENT) if step.kind == "product" else (True, "the same exponents")
    if not isinstance(step, Group):
        return None
    return statement_in(step, env, graph.constants, graph.opset)


@dataclass(frozen=True, slots=True)
class _Host:
    """Nodes that the host computes, whether those without a kernel are its too, and runs that
    targets and forms have in common."""

    nodes: Collection[str]
    is_partial: bool
    shared: Shared


def _run_form(
    graph: Graph,
    fusion: Fusion,
    feeds: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    outcome: Outcome,
    key: tuple[str, str],
    host: _Host,
) -> None:
    env: dict[str, np.ndarray] = {**graph.constants, **feeds}
    programs: list[tuple[str, Ran]] = []
    for step, line in zip(fusion.steps(graph), outcome.lines, strict=True):
        lowering = _stepped(graph, step, env, outcome, key, host)
        programs += [(f"{line.op}_{line.node}_{i}", r) for i, r in enumerate(lowering.runner.ran)]
        line.cycles[key] = lowering.runner.cycles
        is_bound = key[1] != "exact" or line.statement is None or line.statement[0]
        line.gaps[key] = _gap(step, graph.opset, expected, env, is_bound=is_bound)
        outcome.notes += [n for n in sorted(lowering.notes) if n not in outcome.notes]
    outcome.results[key] = {name: env[name] for name in graph.outputs}
    outcome.programs[key] = programs


def _stepped(
    graph: Graph,
    step: Step,
    env: dict[str, np.ndarray],
    outcome: Outcome,
    key: tuple[str, str],
    host: _Host,
) -> Lowering:
    """One step by its kernels, or by the host."""
    lowering = Lowering(KernelRunner(key[0], shared=host.shared), key[1], outcome.oracle)
    why = ""
    if isinstance(step, Pointwise):
        try:
            compute(lowering, step, env, graph.opset)
        except UnsupportedError:  # rows that are too long, operands of other types: node by node
            for node in apart(graph, step):
                made = _stepped(graph, node, env, outcome, key, host)
                lowering.runner.ran += made.runner.ran
                lowering.notes |= made.notes
        return lowering
    if not isinstance(step, GraphNode) or step.name not in host.nodes:
        try:
            compute(lowering, step, env, graph.opset)
            return lowering
        except UnsupportedError as problem:
            if not host.is_partial or not isinstance(step, GraphNode):
                raise
            why = f": {problem.diagnostics[0].message}"
    lowering = Lowering(KernelRunner(key[0]), key[1], outcome.oracle)
    made = _plain(step, env, graph.opset)
    env |= dict(zip(step.outputs, made, strict=False))
    lowering.notes.add(f"node {step} is computed by the host, with onnx.reference{why}")
    return lowering


def fast_cycles(
    graph: Graph,
    fusion: Fusion,
    env: Mapping[str, np.ndarray],
    target: str,
    on_host: Collection[str],
    known: dict[str, int | None],
    real: Mapping[str, int | None],
) -> list[int | None]:
    """Return the cycles of each step of a model in its fast form, counted without values: None for
    what has no kernel, 0 for what the host computes. `env` holds the reference's values, `known`
    keeps cycles of kernels by their text, `real` those of the float model's nodes."""
    held = dict(env)
    found: list[int | None] = []
    for step in fusion.steps(graph):
        if isinstance(step, GraphNode) and step.name in on_host:
            found.append(0)
            continue
        if isinstance(step, GraphNode) and step.name in real:
            found.append(real[step.name])
            continue
        found.append(_counted(graph, step, held, target, known))
        for name in made_by(step):
            if name in env:  # in the type that the kernels hand on, halves too
                made = held.get(name)
                as_held = made is not None and made.dtype == np.float16
                held[name] = env[name].astype(np.float16) if as_held else env[name]
    return found


def _counted(
    graph: Graph,
    step: Step,
    held: dict[str, np.ndarray],
    target: str,
    known: dict[str, int | None],
) -> int | None:
    runner = KernelRunner(target, wanted="cycles", known=known)
    try:
        compute(Lowering(runner, "fast", "reference"), step, held, graph.opset)
        return runner.cycles
    except UnsupportedError:
        if not isinstance(step, Pointwise):
            return None
    each = [_counted(graph, node, held, target, known) for node in apart(graph, step)]
    return None if None in each else sum(c or 0 for c in each)


def apart(graph: Graph, step: Pointwise) -> list[GraphNode]:
    """Return the nodes of a step in the order of the graph: what is computed one by one where one
    kernel does not do it."""
    inside = {id(n) for n in step.nodes}
    return [n for n in graph.nodes if id(n) in inside]


def made_by(step: Step) -> list[str]:
    """The names that a step gives values."""
    if isinstance(step, MxStep):
        return [step.output, step.scales]
    if isinstance(step, Pointwise):
        return [n for n in (step.output, step.kept) if n]
    return [step.output] if isinstance(step, Group) else step.outputs


def compute(lowering: Lowering, step: Step, env: dict[str, np.ndarray], opset: int) -> None:
    """Execute a node or a group and put its outputs into `env`. Raises UnsupportedError for what
    has no kernel."""
    try:
        _compute(lowering, step, env, opset)
    except (ValueError, IndexError) as problem:  # of NumPy, for shapes that the reference can have
        name = step if isinstance(step, GraphNode) else step.core
        known = [env[n] for n in name.inputs if n in env]
        shapes = ", ".join(str(list(a.shape)) for a in known)
        raise unsupported(f"node {name}: operands of shapes {shapes}: {problem}") from problem


def _compute(lowering: Lowering, step: Step, env: dict[str, np.ndarray], opset: int) -> None:
    if isinstance(step, MxStep):
        mx.run(lowering, step, env, opset)
        lowering.notes |= set(mx.notes(step, lowering.runner.target))
        return
    if isinstance(step, Group):
        env[step.output] = fused.run(lowering, step, env, opset)
        return
    if isinstance(step, Pointwise):
        _pointwise(lowering, step, env, opset)
        return
    inputs = inputs_of(step, env)
    made = lowering.node(checked_node(step, inputs, opset), inputs)
    missing = next((n for n in step.outputs[len(made) :] if n), None)
    if missing is not None:
        raise unsupported(f"node {step}: no kernel computes its output `{missing}`")
    env |= dict(zip(step.outputs, made, strict=False))


def _pointwise(lowering: Lowering, step: Pointwise, env: dict[str, np.ndarray], opset: int) -> None:
    node, count = step.core, len(step.operands)
    codes = [env[held.name] if held is not None else None for held in step.operands]
    rest = [env[n] if n else None for n in node.inputs[count:]]
    given = [env[n] if c is None else c for n, c in zip(node.inputs, codes, strict=False)]
    env |= pointwise.run(
        lowering, step, checked_node(node, [*given, *rest], opset), [*given, *rest]
    )


def _gap(
    step: Step,
    opset: int,
    expected: Mapping[str, np.ndarray],
    env: Mapping[str, np.ndarray],
    *,
    is_bound: bool,
) -> Gap:
    """How a result differs; `is_bound`: a kernel of several nodes has to give the reference's bits,
    else last places of floats may differ, and codes at a tie."""
    is_group = not isinstance(step, GraphNode)
    name = step.output if is_group else step.outputs[0]
    want, got = expected[name], env[name]
    wrong = diff.differs(want, got)
    if not wrong.any():
        return Gap()
    with np.errstate(all="ignore"):
        distance = np.abs(want.astype(np.float64) - got.astype(np.float64))
    inputs = step.inputs_of_codes if is_group else step.inputs
    inherited = any(n and not same(expected[n], env[n]) for n in inputs)
    if inherited:
        return Gap(int(wrong.sum()), 0, float(np.nanmax(distance[wrong], initial=0.0)), inherited)
    ties = 0
    where = _group_positions(step, expected) if is_group else _positions(step, expected, opset)
    if where is not None:
        ties = int(np.count_nonzero(wrong & (distance == 1) & diff.near_tie(where)))
    is_rounding = _is_rounding(step, expected, distance, wrong)
    if is_group and not is_bound and not isinstance(step, Pointwise):
        is_codes = where is not None
        is_rounding = ties == wrong.sum() if is_codes else np.all(distance[wrong] <= _room(want))
    worst = float(np.nanmax(distance[wrong], initial=0.0))
    return Gap(int(wrong.sum()), ties, worst, inherited, bool(is_rounding))


_PLACES = 2.0**-20
"""Difference of floats, by the largest of them, that rounding makes."""


def _is_rounding(
    step: Step, expected: Mapping[str, np.ndarray], distance: np.ndarray, wrong: np.ndarray
) -> bool:
    """True for floats that differ in their last places, and for codes of such floats."""
    if isinstance(step, GraphNode):
        value = expected[step.outputs[0]]
        is_float = value.dtype.kind == "f" and step.op not in operators()
        return is_float and bool(np.all(distance[wrong] <= _room(value)))
    if not isinstance(step, Pointwise):
        return False
    real = expected[step.real].astype(np.float64)
    if step.out is None:
        return bool(np.all(distance[wrong] <= _room(real)))
    place, scale = real / float(step.out.scale), float(step.out.scale)
    with np.errstate(all="ignore"):  # infinity and NaN are no rounding
        off = np.abs(np.abs(place - np.trunc(place)) - 0.5)
    return bool(np.all((distance[wrong] == 1) & (off[wrong] <= _room(real) / abs(scale))))


def _room(value: np.ndarray) -> float:
    finite = value[np.isfinite(value)]
    return _PLACES * float(np.abs(finite).max(initial=0))


def _positions(
    node: GraphNode, expected: Mapping[str, np.ndarray], opset: int
) -> np.ndarray | None:
    if node.op not in operators():
        return None
    return positions(node.op, inputs_of(node, expected), node.attrs, opset)


def _group_positions(group: AnyGroup, expected: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Where between integers the results of a group are that ends in QuantizeLinear."""
    if isinstance(group, MxStep) or group.out is None:
        return None
    real = expected[group.nodes[-1].inputs[0]].astype(np.float64)
    return real / float(group.out.scale)
