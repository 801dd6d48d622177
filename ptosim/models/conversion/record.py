"""A conversion as data: what the JSON report and `convert.json` hold."""

from __future__ import annotations

import math
from dataclasses import asdict, is_dataclass

from ptosim.models.conversion import steps
from ptosim.models.conversion.convert import Conversion, Error, Row


def fields(name: str, made: Conversion, after: str, unmet: list[str]) -> dict[str, object]:
    """Return everything about a conversion; `after` names the step that is asked for."""
    assert is_dataclass(made.settings)
    found = [s for s in steps.steps(made) if not after or s.name == after]
    return {
        "model": name,
        "calibration": {
            "file": made.data.name, "sha256": made.data.digest, "samples": len(made.data.feeds),
        },
        "seed": made.seed,
        "settings": asdict(made.settings),
        "output": _error(made.output),
        "identical": {form: made.outcome.identical(form) for form in ("exact", "fast")},
        "compared_with": made.outcome.source,
        "totals": totals(made),
        "layers": [_row(row) for row in made.rows],
        "sensitivity": [{"layer": n, "sqnr_db": _finite(v)} for n, v in made.order],
        "left_in_float": {**dict.fromkeys(made.left, "budget"), **made.quantised.plan.left},
        "not_fused": made.quantised.fusion.why_not,
        "budget_not_met": unmet,
        "notes": made.outcome.notes,
        "steps": [
            {"step": s.name, "summary": s.summary,
             "rows": [dict(zip(s.words, row, strict=True)) for row in s.rows]}
            for s in found
        ],
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
