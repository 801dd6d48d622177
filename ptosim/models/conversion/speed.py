"""Layers that are no faster quantised than in float: they stay in float, or a line says so.

What a layer costs quantised is its fast form, and its part of the nodes that quantise its operands:
a value that several layers take is paid by each with the same share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ptosim.ground.isa.targets import machine
from ptosim.ground.records import dataclass
from ptosim.machine.quant.parameters import of_array
from ptosim.models.conversion.convert import Conversion, Measures, Quantised, Trial, in_float
from ptosim.models.fusion.groups import Group, Pointwise
from ptosim.models.fusion.mx import MxStep
from ptosim.models.onnx_model import Graph, GraphNode
from ptosim.models.onnx_run import Step, made_by

_ROUNDS = 3
_FEW = 4
"""Layers that are tried in float one by one."""
WHY = "quantised it is slower"
_POSITIONS = np.dtype(np.int64), np.dtype(np.bool_)
"""Element types of constants that are no weights: what is gathered, shapes, masks."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of a layer on one target."""

    layer: str
    target: str
    quantised: float
    real: int

    @property
    def is_slower(self) -> bool:
        """True if the layer is slower than in float."""
        return self.quantised > self.real


def costs(
    quantised: Quantised,
    cycles: Mapping[str, Sequence[int | None]],
    real: Mapping[str, Mapping[str, int | None]],
) -> list[Cost]:
    """Return what each quantised layer costs on each target where its float program is known:
    `cycles` are those of the steps in the fast form, `real` those of the float model's nodes."""
    steps = list(quantised.fusion.steps(quantised.graph))
    layers = [
        (at, step)
        for at, step in enumerate(steps)
        if isinstance(step, Group) or (isinstance(step, MxStep) and step.kind == "product")
    ]
    users: dict[str, int] = {}
    for _, step in layers:
        for name in _sources(step):
            users[name] = users.get(name, 0) + 1
    found = []
    for target, own in cycles.items():
        shares: dict[str, float] = {}
        for step, count in zip(steps, own, strict=True):
            name = _quantises(step)
            if name and name in users:
                shares[name] = _more(step, count, real[target]) / users[name]
        for at, step in layers:
            fast, float_ = own[at], in_float(step, real[target])
            if fast is None or float_ is None:
                continue
            before = sum(shares.get(name, 0) for name in _sources(step))
            found.append(Cost(step.core.name, target, fast + before, float_))
    return found


def costs_of(made: Conversion) -> list[Cost]:
    """Return the same of a conversion that was run."""
    targets = list(dict.fromkeys(target for target, _ in made.outcome.results))
    cycles = {t: [row.line.cycles.get((t, "fast")) for row in made.rows] for t in targets}
    real = {t: made.measures.real[t] for t in targets}
    return costs(made.quantised, cycles, real)


def _more(step: Step, count: int | None, real: Mapping[str, int | None]) -> int:
    """The cycles that a step takes to quantise: those beyond what it takes in float."""
    if not isinstance(step, Pointwise):
        return count or 0
    return max((count or 0) - (real.get(step.core.name) or 0), 0)


def _sources(step: Group | MxStep) -> set[str]:
    """The codes that a layer takes, by name."""
    return set(step.inputs_of_codes)


def _quantises(step: Step) -> str:
    """The name of the codes that a step makes of a value; empty for other steps."""
    if isinstance(step, Pointwise):
        return step.output if step.out is not None else ""
    if isinstance(step, GraphNode):
        return step.outputs[0] if step.op == "QuantizeLinear" else ""
    return step.output if isinstance(step, MxStep) and step.kind == "quantise" else ""


def slower_everywhere(found: Sequence[Cost]) -> list[str]:
    """Return the layers that are slower than in float on every target."""
    by_layer: dict[str, list[bool]] = {}
    for cost in found:
        by_layer.setdefault(cost.layer, []).append(cost.is_slower)
    return [name for name, slow in by_layer.items() if all(slow)]


def never_slower(made: Trial, run: Callable[[Sequence[str]], Trial], measures: Measures) -> Trial:
    """Return a trial whose layers that are slower on every target stay in float, or on all targets
    together, as long as the whole does not become slower by that: what hands codes on may pay more
    than it gains. `run` tries with some left out. What stays slower has a line; where no layer
    would be left, they stay quantised."""
    seen: dict[str, list[Cost]] = {}
    for _ in range(_ROUNDS):
        found = costs(made.quantised, made.cycles, measures.real)
        for cost in found:
            seen.setdefault(cost.layer, []).append(cost)
        slow = [n for n in slower_everywhere(found) if n not in made.left]
        if not slow or {c.layer for c in found} <= set(slow):
            break
        tried = run([*made.left, *slow])
        if total_of(tried) > total_of(made):
            break
        made = tried
    made = _one_by_one(made, _dearest(costs(made.quantised, made.cycles, measures.real)), run)
    made.slow = [c for n in made.left for c in {c.target: c for c in seen.get(n, ())}.values()]
    return made


def _one_by_one(made: Trial, names: Sequence[str], run: Callable[[Sequence[str]], Trial]) -> Trial:
    for name in names:
        if {layer.name for layer in made.quantised.plan.layers} <= {name}:
            break
        tried = run([*made.left, name])
        if total_of(tried) < total_of(made):
            made = tried
    return made


def _dearest(found: Sequence[Cost]) -> list[str]:
    """The layers that are slower than in float on all targets together, those that lose most."""
    lost: dict[str, float] = {}
    for cost in found:
        lost[cost.layer] = lost.get(cost.layer, 0) + cost.quantised - cost.real
    slow = sorted((name for name in lost if lost[name] > 0), key=lambda name: -lost[name])
    return slow[:_FEW] if len(slow) < len(lost) else []


def total_of(made: Trial) -> int:
    """Return the cycles of all targets together."""
    return sum(c or 0 for own in made.cycles.values() for c in own)


def reasons(made: Conversion) -> dict[str, str]:
    """Return why layers are in float, by name."""
    slow = (c.layer for c in made.slow)
    why = dict.fromkeys(made.left, "the budget asks for it") | dict.fromkeys(slow, WHY)
    return made.quantised.plan.left | why


def lines(made: Conversion) -> list[str]:
    """Return a line for each layer that is in float, with what it would take quantised, and for
    each layer and target that is slower than in float."""
    tried: dict[str, list[str]] = {}
    for c in made.slow:
        tried.setdefault(c.layer, []).append(f"{c.quantised:,.0f} of {c.real:,} on {c.target}")
    why = {
        name: f"{why} ({', '.join(tried[name])})" if name in tried else why
        for name, why in reasons(made).items()
    }
    return [f"left in float: {name}: {text}" for name, text in why.items()] + [
        f"slower than float on {c.target}: {c.layer}: {c.quantised:,.0f} cycles with what "
        f"quantises its operands, {c.real:,} in float"
        for c in costs_of(made)
        if c.is_slower
    ]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a model's constants, and the most that its values take at one time."""

    weights: int
    values: int


def sizes(made: Conversion) -> tuple[Sizes, Sizes]:
    """Return the sizes of the float model and of the quantised one, step by step."""
    found = made.quantised
    env = {name: runs[0] for name, runs in made.values.items()}
    codes = {name: runs[0] for name, runs in found.values.items()}
    return (
        _sizes(made.model.graph, made.model.graph.nodes, env),
        _sizes(found.graph, list(found.fusion.steps(found.graph)), codes),
    )


def _sizes(graph: Graph, steps: Sequence[Step], env: Mapping[str, np.ndarray]) -> Sizes:
    taken = [
        set(s.inputs) | set(s.captured) if isinstance(s, GraphNode) else set(s.inputs_of_codes)
        for s in steps
    ]
    last = {name: at for at, names in enumerate(taken) for name in names}
    last |= dict.fromkeys(graph.outputs, len(steps))
    alive = {name: _bytes(env[name]) for name in graph.inputs if name in env}
    most = sum(alive.values())
    for at, step in enumerate(steps):
        alive |= {n: _bytes(env[n]) for n in made_by(step) if n in env}
        most = max(most, sum(alive.values()))
        alive = {n: size for n, size in alive.items() if last.get(n, 0) > at}
    used = set().union(*taken) if taken else set()
    biases = {n for s in steps if not isinstance(s, GraphNode) for n in s.core.inputs[2:]}
    constants = [
        v for n, v in graph.constants.items() if n in used | biases and v.dtype not in _POSITIONS
    ]
    return Sizes(sum(map(_bytes, constants)), most)


def _bytes(array: np.ndarray) -> int:
    held = of_array(array)
    return array.nbytes if held is None else -(-array.size * held.bits // 8)


def size_text(made: Conversion) -> str:
    """Return how large weights and values are, of the float model and now."""
    before, after = sizes(made)
    return (
        f"weights {_amount(after.weights)} of {_amount(before.weights)}, "
        f"memory {_amount(after.values)} of {_amount(before.values)}"
    )


def _amount(size: int) -> str:
    return f"{size / 1e6:.3g} MB" if size >= 1e5 else f"{size / 1e3:.3g} kB"


def chip_of(target: str) -> str:
    """Return a target's usual chip and how many cores it has."""
    chip = machine(target)
    return f"{chip.name} (chip, {chip.cores[0]} cores)"


def headline(made: Conversion, decibels: str) -> str:
    """Return the first line of the report: how fast, how exact, how large, what stays in float."""
    said = []
    for target, total in made.float_totals.items():
        fast = [row.line.cycles.get((target, "fast")) for row in made.rows]
        if None not in fast and sum(c or 0 for c in fast):
            ratio = total / sum(c or 0 for c in fast)
            times = f"{ratio:.1f}" if 0.995 <= ratio < 9.95 else f"{ratio:.2g}"
            word = "" if said else " times as fast as float"
            said.append(f"{times}{word} on {chip_of(target)}")
    speed = ", ".join(said) or "cycles are not known"
    parts = [f"{made.settings.format}: {speed}, {decibels} dB, {size_text(made)}"]
    why = reasons(made)
    if why:
        kinds = dict.fromkeys(why.values())
        count = "1 layer stays" if len(why) == 1 else f"{len(why)} layers stay"
        one = f"because: {next(iter(kinds))}"
        several = "because of what the notes say of each"
        parts.append(f"{count} in float {one if len(kinds) == 1 else several}")
    found = costs_of(made)
    slow = [c for c in found if c.is_slower]
    if slow:
        parts.append(_slower(slow, {c.layer for c in found} == set(slower_everywhere(found))))
    return "; ".join(parts)


def _slower(slow: Sequence[Cost], is_all: bool) -> str:
    """How many layers are slower than in float, on each target; `is_all`: quantising gains in none
    of them, so that without them nothing would be quantised."""
    counts: dict[str, int] = {}
    for cost in slow:
        counts[cost.target] = counts.get(cost.target, 0) + 1
    where = ", ".join(f"{count} on {target}" for target, count in counts.items())
    if is_all:
        return f"no quantised layer is faster than in float, each has a line: {where}"
    return f"slower than in float, each with a line: {where}"
