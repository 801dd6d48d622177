"""Layers that are no faster quantised than in float: they stay in float, or a line says so.

What a layer costs quantised is its fast form, and its part of the nodes that quantise its operands:
a value that several layers take is paid by each with the same share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptosim.ground.records import dataclass
from ptosim.models.conversion.convert import Conversion
from ptosim.models.fusion.groups import Group
from ptosim.models.fusion.mx import MxStep
from ptosim.models.onnx_model import GraphNode

_ROUNDS = 3
WHY = "quantised it is slower"


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


def costs(made: Conversion) -> list[Cost]:
    """Return what each quantised layer costs on each target where its float program is known."""
    steps = list(made.quantised.fusion.steps(made.quantised.graph))
    targets = list(dict.fromkeys(target for target, _ in made.outcome.results))
    layers = [
        (step, row)
        for step, row in zip(steps, made.rows, strict=True)
        if isinstance(step, Group) or (isinstance(step, MxStep) and step.kind == "product")
    ]
    users: dict[str, int] = {}
    for step, _ in layers:
        for name in _sources(step):
            users[name] = users.get(name, 0) + 1
    found = []
    for target in targets:
        shares: dict[str, float] = {}
        for step, row in zip(steps, made.rows, strict=True):
            name = _quantises(step)
            if name and name in users:
                shares[name] = (row.line.cycles.get((target, "fast")) or 0) / users[name]
        for step, row in layers:
            own, real = row.line.cycles.get((target, "fast")), row.float_cycles.get(target)
            if own is None or real is None:
                continue
            before = sum(shares.get(name, 0) for name in _sources(step))
            found.append(Cost(row.line.node, target, own + before, real))
    return found


def _sources(step: Group | MxStep) -> set[str]:
    """The codes that a layer takes, by name."""
    return set(step.inputs_of_codes)


def _quantises(step: GraphNode | Group | MxStep) -> str:
    """The name of the codes that a step makes of a value; empty for other steps."""
    if isinstance(step, GraphNode):
        return step.outputs[0] if step.op == "QuantizeLinear" else ""
    return step.output if isinstance(step, MxStep) and step.kind == "quantise" else ""


def slower_everywhere(made: Conversion) -> list[str]:
    """Return the layers that are slower than in float on every target."""
    by_layer: dict[str, list[bool]] = {}
    for cost in costs(made):
        by_layer.setdefault(cost.layer, []).append(cost.is_slower)
    return [name for name, slow in by_layer.items() if all(slow)]


def never_slower(made: Conversion, run: Callable[[Sequence[str]], Conversion]) -> Conversion:
    """Return a conversion whose layers that are slower on every target stay in float; `run`
    converts with some left out. Where that leaves no layer, all stay quantised, and lines say what
    they cost."""
    left: list[str] = []
    for _ in range(_ROUNDS):
        slow = [n for n in slower_everywhere(made) if n not in left]
        layers = {c.layer for c in costs(made)}
        if not slow or layers <= set(slow):
            break
        order, chosen = made.order, made.left
        left += slow
        made = run([*chosen, *left])
        made.order, made.left = order, chosen
        made.slow = list(left)
    return made


def reasons(made: Conversion) -> dict[str, str]:
    """Return why layers are in float, by name."""
    why = dict.fromkeys(made.left, "the budget asks for it") | dict.fromkeys(made.slow, WHY)
    return made.quantised.plan.left | why


def lines(made: Conversion) -> list[str]:
    """Return a line for each layer and target that is slower than in float."""
    return [
        f"slower than float on {c.target}: {c.layer}: {c.quantised:.0f} cycles with what quantises "
        f"its operands, {c.real} in float"
        for c in costs(made)
        if c.is_slower
    ]


def headline(made: Conversion, decibels: str) -> str:
    """Return the first line of the report: how fast, how exact, what stays in float."""
    said = []
    for target, total in made.float_totals.items():
        fast = [row.line.cycles.get((target, "fast")) for row in made.rows]
        if None not in fast and sum(c or 0 for c in fast):
            times = f"{total / sum(c or 0 for c in fast):.2g}"
            said.append(
                f"{times} on {target}" if said else f"{times} times as fast as float on {target}"
            )
    speed = f"{', '.join(said)} (one core)" if said else "cycles are not known"
    text = f"{made.settings.format}: {speed}, {decibels} dB"
    why = reasons(made)
    if not why:
        return text
    kinds = dict.fromkeys(why.values())
    count = "1 layer stays" if len(why) == 1 else f"{len(why)} layers stay"
    if len(kinds) > 1:
        return f"{text}; {count} in float because of what the notes say of each"
    return f"{text}; {count} in float because: {next(iter(kinds))}"
