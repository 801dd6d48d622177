"""The six steps of MLIR's page on quantisation, as tables of what each of them did."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ptosim.ground.records import dataclass
from ptosim.machine.quant.mlir.cursor import float_text
from ptosim.machine.quant.storage import storage
from ptosim.models.conversion.convert import Conversion
from ptosim.models.fusion.groups import Group
from ptosim.models.fusion.mx import MxStep
from ptosim.models.quant.statistics import statistics


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its name, what it is, and a table."""

    name: str
    summary: str
    columns: tuple[str, ...]
    rows: list[tuple[object, ...]]

    @property
    def words(self) -> list[str]:
        """The columns without the sign for flush right."""
        return [c.lstrip(">") for c in self.columns]


NAMES = ("collect", "couple", "choose", "rewrite", "fold", "strip")


def steps(made: Conversion) -> list[Step]:
    """Return all steps in order."""
    return [
        Step("collect", "statistics of the values that will be quantised",
             ("value", "shape", ">lowest", ">highest", ">rms", "quant.stats"),
             list(_collected(made))),
        Step("couple", "who takes a value, and values of one scale",
             ("value", "taken by", "one scale with"), list(_coupled(made))),
        Step("choose", "types; scales of few bits keep sums exact",
             ("value", "covered", "type"), list(_chosen(made))),
        Step("rewrite", "the model with QuantizeLinear and DequantizeLinear",
             ("node", "operator", "inputs", "outputs"), list(_rewritten(made))),
        Step("fold", "constants as codes, and nodes that become one integer kernel",
             ("kernel", "nodes", "why not one"), list(_folded(made))),
        Step("strip", "what is left: integers, and the programs on them",
             ("step", "computes", "bit for bit"), list(_stripped(made))),
    ]  # fmt: skip


def _number(value: float) -> str:
    return f"{value:.4g}"


def _collected(made: Conversion) -> Iterator[tuple[object, ...]]:
    for name in made.quantised.plan.users:
        whole = np.concatenate([v.reshape(-1) for v in made.values[name]])
        found = statistics(whole)
        shape = "x".join(map(str, made.values[name][0].shape))
        rms = float(np.sqrt(np.mean(whole.astype(np.float64) ** 2)))
        low, high = (float(v) for v in found.layer)
        yield name, shape, _number(low), _number(high), _number(rms), found.attributes()


def _coupled(made: Conversion) -> Iterator[tuple[object, ...]]:
    plan = made.quantised.plan
    for name, users in plan.users.items():
        together = next((g for g in plan.coupled if name in g), [])
        yield name, ", ".join(str(n) for n, _ in users), ", ".join(n for n in together if n != name)


def _uniform(dtype: np.dtype, scale: np.ndarray, zero: np.ndarray | int, axis: int | None) -> str:
    kind = storage(dtype)
    word = ("i" if kind.signed else "u") + str(kind.bits)
    if scale.size == 1:
        shift = f":{int(np.asarray(zero).reshape(-1)[0])}" if np.any(zero) else ""
        return f"!quant.uniform<{word}:f32, {float_text(float(scale.reshape(-1)[0]))}{shift}>"
    first, last = (float_text(float(v)) for v in (scale.min(), scale.max()))
    return f"!quant.uniform<{word}:f32:{axis}, {{{scale.size} scales {first} .. {last}}}>"


def _chosen(made: Conversion) -> Iterator[tuple[object, ...]]:
    types, plan = made.quantised.types, made.quantised.plan
    for name, found in types.points.items():
        covered = f"{_number(found.covered[0])} .. {_number(found.covered[1])}"
        yield (
            name,
            covered,
            found.described or _uniform(found.zero.dtype, found.scale, found.zero, None),
        )
    for layer in plan.layers:
        weights = types.weights.get(layer.name)
        if weights is None:
            continue
        text = weights.described or _uniform(weights.codes.dtype, weights.scale, 0, weights.axis)
        yield layer.weights, "all", text
        bias = types.biases.get(layer.name)
        if bias is not None and layer.bias is not None:
            node, place = layer.bias
            yield node.inputs[place], "all", _uniform(bias[0].dtype, bias[1], 0, bias[0].ndim - 1)
    for name, why in plan.left.items():
        yield name, "", f"float: {why}"


def _rewritten(made: Conversion) -> Iterator[tuple[object, ...]]:
    for node in made.quantised.graph.nodes:
        yield node.name, node.op, ", ".join(node.inputs), ", ".join(node.outputs)


def _folded(made: Conversion) -> Iterator[tuple[object, ...]]:
    fusion = made.quantised.fusion
    for group in fusion.groups.values():
        yield group.title, ", ".join(n.name for n in group.nodes), ""
    for name, why in fusion.why_not.items():
        yield name, "", why


def _stripped(made: Conversion) -> Iterator[tuple[object, ...]]:
    found = made.quantised
    for step, row in zip(found.fusion.steps(found.graph), made.rows, strict=True):
        said = row.line.statement
        claim = "" if said is None else f"{'yes' if said[0] else 'no'}: {said[1]}"
        if isinstance(step, MxStep):
            yield row.line.node, f"{step.title} -> {row.line.dtype}", claim
            continue
        if not isinstance(step, Group):
            yield row.line.node, f"{step.op} {row.line.dtype}", claim
            continue
        types = [found.values[n][0].dtype for n in step.inputs_of_codes]
        taken = " x ".join(str(t) for t in types)
        yield row.line.node, f"{step.title}: {taken} -> int32 -> {row.line.dtype}", claim
