"""Faults of a quantised ONNX model: of its parameters, of values on samples, their costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from ptosim.ground.diagnostics.model import UnsupportedError
from ptosim.ground.records import replace
from ptosim.machine.quant.parameters import Scheme, Storage, as_bytes, of_array, scheme, storage
from ptosim.models import chains, kernels
from ptosim.models.audit.data import GAINS
from ptosim.models.audit.faults import find
from ptosim.models.audit.quantised import PRODUCTS, Model, Parameters
from ptosim.models.audit.repair import Fault, Repair, float_values, measure
from ptosim.models.audit.steps import REAL, SUMS, Line, Step
from ptosim.models.chains import Affine
from ptosim.models.front import runtime_operators
from ptosim.models.kernel_builder import KernelBuilder, TileValue, module
from ptosim.models.kernel_runner import Argument, timed
from ptosim.models.onnx_model import Graph, GraphNode
from ptosim.models.onnx_run import check_rules, checked_node, inputs_of, reference_values
from ptosim.models.quant.causes import exchanged
from ptosim.models.quant.diff import Setting
from ptosim.models.quant.onnx.ops import granularity, sums_and_factor

# Faults of a quantised model that its values on samples show: what is out of range, what uses few
# codes, errors that no rounding makes.

_SATURATED, _UNUSED, _NOT_ROUNDING = 0.02, 1 / 8, 16.0
_MATTERS = 4.0
"""What is cut off is a fault from so many times the error of rounding on."""
_RELU6 = 6.0
_FINITE = -float(np.finfo(np.float32).max), float(np.finfo(np.float32).max)


def find_in_values(model: Model, values: Mapping[str, np.ndarray]) -> list[Fault]:
    """Return the faults of the quantised activations on values without rounding."""
    found: list[Fault] = []
    told: set[tuple[str, str]] = set()
    for node in model.graph.nodes:
        p = model.parameters(node)
        x = values.get(node.inputs[0]) if node.op == "QuantizeLinear" else None
        if x is None or p.scale is None or p.scale.size != 1 or p.zero is None or x.size < 16:
            continue
        if p.zero.dtype.kind in "iu" and 0 < float(p.scale.reshape(-1)[0]) < np.inf:
            for fault in _of_place(p, np.clip(x.astype(np.float64), *_FINITE)):
                if (fault.kind, p.scale_name) not in told:  # places that share it are mended as one
                    found.append(fault)
                told.add((fault.kind, p.scale_name))
    return found


def _of_place(p: Parameters, x: np.ndarray) -> Iterator[Fault]:
    assert p.scale is not None
    assert p.zero is not None
    info = np.iinfo(p.zero.dtype)
    scale, zero = float(p.scale.reshape(-1)[0]), int(p.shift.reshape(-1)[0])
    low, high = (info.min - zero) * scale, (info.max - zero) * scale
    # A zero point at the lowest code is a Relu, a range that ends at 6 one that is limited.
    below = 0.0 if zero == info.min else float(np.mean(x < low - scale))
    above = 0.0 if abs(high - _RELU6) < 0.07 else float(np.mean(x > high + scale))
    where = f"{p.node}: `{p.node.inputs[0]}`"
    fix = Repair("rescale", p)
    inside = x if zero != info.min else np.maximum(x, 0)
    lost = inside - np.clip(inside, low, high if above or high < inside.max() else np.inf)
    error = float(np.mean(lost**2)) / (scale * scale / 12)
    if below + above > _SATURATED and error > _MATTERS:
        yield Fault(
            "values saturated", where,
            f"{100 * (below + above):.1f} % of the values are outside {low:.4g} .. {high:.4g} "
            f"(seen: {x.min():.4g} .. {x.max():.4g})", "calibrate the range again", fix,
        )  # fmt: skip
        return
    span = (float(inside.max()) - float(inside.min())) / (high - low)
    if 0 < span < _UNUSED:
        yield Fault(
            "codes unused", where, f"the values use {100 * span:.1f} % of the codes",
            f"a scale of about {scale * span:.4g}", fix,
        )  # fmt: skip
        return
    if error > _NOT_ROUNDING and abs(high - _RELU6) >= 0.07:
        yield Fault(
            "error not from rounding", where,
            f"what is cut off is {error:.0f} times the error of rounding", "widen the range", fix,
        )  # fmt: skip


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


# The quantising steps of an ONNX model, on the values that the reference gives them.

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


# What a change of formula costs: cycles of a generated kernel with the new formula, less those of
# the step's own.

_ROUNDINGS = {"rne": "RINT", "away": "ROUND", "trunc": "TRUNC"}


def prices(step: Step, line: Line, targets: Sequence[str]) -> dict[str, int | None]:
    """Return the cycles that the smallest change adds to all executions of a step, by target; None
    where no kernel computes the changed formula."""
    own, name = step.own, line.system.formula(step.form)
    if own is None or not line.verdict.change or not name:
        return {}
    made = exchanged(own, scheme(name), line.verdict.change)
    return {t: None if made is None else _price(step, own, made, t) for t in targets}


def _price(step: Step, own: Scheme, made: Scheme, target: str) -> int | None:
    try:
        after = _cycles(step, made, target)
        # The cube's output path converts on the way: what is added is the whole vector kernel.
        before = 0 if step.form == SUMS else _cycles(step, own, target)
    except UnsupportedError:
        return None
    return None if after is None or before is None else (after - before) * step.executions


def _cycles(step: Step, formula: Scheme, target: str) -> int | None:
    rows, cols = prod(step.shape[:-1]), step.shape[-1] if step.shape else 1
    grid = kernels.grid(rows, cols, cores=1)
    height, width = grid.padded
    out, element = storage(step.out), _element(step)
    f = function_of(step, formula, target, grid)
    count = {"tensor": 1, "row": height, "column": width}[step.along]
    args: dict[str, Argument] = {
        "x": np.zeros((height, width), kernels.ARRAYS[element]),
        "y": np.zeros((height, width), kernels.ARRAYS[kernels.memory_type(out)]),
    }
    zero = np.int32 if formula.zero == "after" else np.float32
    for name, kind in (("scale", np.float32), ("zero", zero)):
        if name in f.args:
            args[name] = kind(1).item() if step.along == "tensor" else np.ones(count, kind)
    return timed(module(f), args).cycles


def _element(step: Step) -> str:
    return "i32" if step.form == SUMS else "f32"


def function_of(step: Step, formula: Scheme, target: str, grid: kernels.Grid) -> KernelBuilder:
    """Return a function x -> y that computes a formula on a step's matrix, with `scale` and `zero`
    arguments as the step has them (i32 zeros where they come after the rounding). Raises
    UnsupportedError for a formula without instructions."""
    out, element = storage(step.out), _element(step)
    if formula == scheme("pto-hw"):
        return kernels.quantize(
            "quantize", target, grid, step.along, out, "fast", zero=step.has_zero
        )

    def body(f: KernelBuilder, frame: kernels.Frame) -> None:
        source = frame.load("x", element)
        real = source if element == "f32" else chains.real(f, source)
        shift = None
        scale = frame.parameter("scale", step.along)
        if step.has_zero:
            kind = "i32" if formula.zero == "after" else "f32"
            shift = frame.parameter("zero", step.along, kind)
        made = _formula(f, real, Affine(step.along, scale, shift), formula, out)
        frame.store(made, "y")

    return kernels.function("quantize", target, grid, body)


def _formula(
    f: KernelBuilder, x: TileValue, affine: Affine, formula: Scheme, out: Storage
) -> TileValue:
    """Add the operations of a formula. Raises UnsupportedError for one without instructions: a
    product and a sum in one rounding, arithmetic wider than f32, a result that wraps."""
    if formula.scale == "fused" or formula.precision in ("exact", "f64"):
        raise chains.unsupported("no instruction rounds a product and a sum once")
    if formula.overflow == "wrap":
        raise chains.unsupported("the formula's results wrap")
    value = f.tile("scaled", "f32", x.rows, x.cols)
    chains.apply(f, "div" if formula.scale == "divide" else "mul", x, affine.scale, value)
    if formula.through == ("f16",):
        value = chains.real(f, chains.half(f, value))
    if affine.zero is not None and formula.zero == "before":
        chains.apply(f, "add", value, affine.zero, value)
    if formula.nan != "zero":
        chains.numbers(f, value, x)  # what is no number gives a limit
    mode = {"rmode": f"#pto<round_mode {_ROUNDINGS[formula.rounding]}>"} | chains.ON
    whole = chains.converted(f, value, "whole", "i32", mode)
    if affine.zero is not None and formula.zero == "after":
        return chains.offset(f, whole, affine, out, x)
    return chains.narrow(f, whole, x, out)
