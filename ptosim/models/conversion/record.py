"""A conversion as data: what the JSON report and `convert.json` hold."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from pathlib import Path

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.files import write_file
from ptosim.ground.records import dataclass
from ptosim.machine.quant.mlir.types import float_text
from ptosim.machine.quant.parameters import storage
from ptosim.models.conversion.convert import Conversion, Error, Row
from ptosim.models.conversion.speed import Cost, costs_of, headline, reasons, sizes
from ptosim.models.emit import write_layers
from ptosim.models.fusion.groups import Group, Pointwise
from ptosim.models.fusion.mx import MxStep
from ptosim.models.quant.statistics import statistics

# -- the figures of each step ----------------------------------------------------------------------


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
        if isinstance(step, Pointwise):
            yield row.line.node, f"{_ends(step)} -> {row.line.dtype}", claim
            continue
        if not isinstance(step, Group):
            yield row.line.node, f"{step.op} {row.line.dtype}", claim
            continue
        types = [found.values[n][0].dtype for n in step.inputs_of_codes]
        taken = " x ".join(str(t) for t in types)
        yield row.line.node, f"{step.title}: {taken} -> int32 -> {row.line.dtype}", claim


def _ends(step: Pointwise) -> str:
    """What a kernel does between codes."""
    return "+".join(n.op for n in sorted(step.nodes, key=lambda n: _ORDER.get(n.op, 1)))


_ORDER = {"DequantizeLinear": 0, "QuantizeLinear": 2}


# --------------------------------------------------------------------------------------------------


def fields(name: str, made: Conversion, after: str, unmet: list[str]) -> dict[str, object]:
    """Return everything about a conversion; `after` names the step that is asked for."""
    assert is_dataclass(made.settings)
    found = [s for s in steps(made) if not after or s.name == after]
    return {
        "model": name,
        "calibration": {
            "file": made.data.name, "sha256": made.data.digest, "samples": len(made.data.feeds),
        },
        "seed": made.seed,
        "settings": asdict(made.settings),
        "output": _error(made.output),
        "identical": {form: made.outcome.identical(form) for form in ("exact", "fast")},
        "rounding_only": {form: made.outcome.explained(form) for form in ("exact", "fast")},
        "compared_with": made.outcome.source,
        "totals": totals(made),
        "layers": [_row(row) for row in made.rows],
        "sensitivity": [{"layer": n, "sqnr_db": _finite(v)} for n, v in made.order],
        "left_in_float": reasons(made),
        "headline": headline(made, f"{made.output.sqnr:.1f}"),
        "plans": [asdict(p) for p in made.line],
        "sizes": {
            word: {"weights": size.weights, "values": size.values}
            for word, size in zip(("float", "quantised"), sizes(made), strict=True)
        },
        "slower_than_float": [_cost(c) for c in costs_of(made) if c.is_slower],
        "quantised_would_take": [_cost(c) for c in made.slow],
        "not_fused": made.quantised.fusion.why_not,
        "budget_not_met": unmet,
        "notes": made.outcome.notes,
        "steps": [
            {"step": s.name, "summary": s.summary,
             "rows": [dict(zip(s.words, row, strict=True)) for row in s.rows]}
            for s in found
        ],
    }  # fmt: skip


def _cost(cost: Cost) -> dict[str, object]:
    return {
        "layer": cost.layer, "target": cost.target, "cycles": cost.quantised,
        "f32_cycles": cost.real,
    }  # fmt: skip


def totals(made: Conversion) -> list[dict[str, object]]:
    """Return for each target and form whether it gives the reference's outputs, and its cycles
    beside those of the float model's programs."""
    found: list[dict[str, object]] = []
    for key in made.outcome.results:
        cycles = [row.line.cycles.get(key) for row in made.rows]
        same = made.outcome.identical_for(key)
        found.append({
            "target": key[0], "form": key[1],
            "verdict": "the same bits as the reference" if same else _difference(made, key),
            "cycles": None if None in cycles else sum(c or 0 for c in cycles),
            "f32_cycles": made.float_totals.get(key[0]),
        })  # fmt: skip
    return found


def _difference(made: Conversion, key: tuple[str, str]) -> str:
    gaps = [row.line.gaps[key] for row in made.rows if key in row.line.gaps]
    own = [g for g in gaps if g.mismatches and not g.inherited]
    first = sum(g.mismatches for g in own)
    ties = sum(g.ties for g in own)
    where = f"{len(own)} layer{'s' if len(own) != 1 else ''}"
    if key[1] == "exact" and made.outcome.explained():
        return f"the same as the reference but for the last places of floats: {first} in {where}"
    return f"differs from the reference: {first} values in {where} ({ties} ties), and what follows"


def _row(row: Row) -> dict[str, object]:
    line = row.line
    return {
        "layer": line.node, "operator": line.op, "output": line.output, "format": row.format,
        "dtype": line.dtype, "shape": list(line.shape), **_error(row.error),
        "bit_for_bit": None if line.statement is None else line.statement[0],
        "why": None if line.statement is None else line.statement[1],
        "f32_cycles": row.float_cycles,
        "fixpipe": None if row.why is None else {
            "differ": row.why.differ, "causes": row.why.causes, "change": list(row.why.change),
        },
        "forms": [
            {"target": t, "form": f, "cycles": line.cycles[t, f], "mismatches": g.mismatches,
             "ties": g.ties, "max_difference": g.worst, "inherited": g.inherited}
            for (t, f), g in line.gaps.items()
        ],
    }  # fmt: skip


def _error(error: Error) -> dict[str, object]:
    return {
        "sqnr_db": _finite(error.sqnr), "max_difference": _finite(error.worst),
        "clipped": error.clipped,
    }  # fmt: skip


def _finite(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else str(value)


# -- the folder ------------------------------------------------------------------------------------


def write(folder: Path, made: Conversion, record: dict[str, object]) -> int:
    """Write `model.onnx`, `convert.json` and the programs of every layer; return how many programs.
    Raises UsageError where that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(f"cannot write to {folder}: {problem.strerror}") from problem
    write_file(folder / "model.onnx", made.quantised.proto.SerializeToString())
    write_file(folder / "convert.json", json.dumps(record, indent=1) + "\n")
    write_layers(folder, made.outcome.programs)
    return sum(map(len, made.outcome.programs.values()))
