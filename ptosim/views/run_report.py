"""The report of a run: what it ran on, arguments, outputs, comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rich.text import Text

from ptosim.engine.core.dump import Dump
from ptosim.run.compare import Comparison
from ptosim.run.program import LoadedProgram
from ptosim.run.results import Result
from ptosim.views import cost_tables
from ptosim.views.header import header, heading
from ptosim.views.signs import verdict
from ptosim.views.table import Part, Table, table

SHOWN_VALUES = 6
_MOST_ULP = 10_000
"""Farther apart than this, values have nothing to do with each other."""
_CHUNK = 1 << 20
"""Elements of an output that are looked at together."""


def renderables(
    program: LoadedProgram,
    entry: str,
    result: Result,
    comparisons: Sequence[Comparison],
    dumps: Sequence[Dump] = (),
) -> list[Part]:
    """Return the report as rich renderables."""
    parts: list[Part] = [heading(program, entry)]
    if program.sidecar is not None:
        parts.append(Text(f"arguments and expectations: {program.sidecar.path.name}"))
    if result.generated:
        parts += [Text(), Text("left out, data generated:")]
        parts += [Text(f"  {name}: {what}") for name, what in result.generated.items()]
    if result.prints:
        parts += [
            Text(),
            Text("printed by the program:", style="bold"),
            Text("".join(result.prints)),
        ]
    parts.append(_arrays("outputs", result.outputs))
    if dumps:
        parts.append(_arrays("dumps", {_dump_name(d): d.array for d in dumps}))
    if comparisons:
        parts.append(_comparisons(comparisons))
    parts.append(Text(f"{result.executed} instructions executed"))
    if result.cost is not None:
        parts += [Text(), *cost_tables.brief(result.cost)]
    return parts


def _dump_name(dump: Dump) -> str:
    return dump.title if dump.count == 1 else f"{dump.title} (last of {dump.count})"


def _arrays(title: str, arrays: Mapping[str, np.ndarray]) -> Table:
    rows = []
    for name, array in arrays.items():
        shape = "x".join(map(str, array.shape)) or "scalar"
        rows.append((name, array.dtype, shape, *extremes(array), _first(array)))
    columns = ("name", "type", "shape", ">min", ">max", ">NaN", "first values")
    essential, drop = ("name", "type", "shape"), ("first values", "min", "max")
    return table(title, columns, rows, essential=essential, drop=drop)


def extremes(array: np.ndarray) -> tuple[str, str, int]:
    """Return the least and the largest number of an array as text, and how many NaN it has."""
    if array.size == 0:
        return "", "", 0
    low, high, nans = np.inf, -np.inf, 0
    flat = array.reshape(-1)
    for at in range(0, flat.size, _CHUNK):
        wide = flat[at : at + _CHUNK].astype(np.float64)
        kept = wide[~np.isnan(wide)]
        nans += wide.size - kept.size
        low, high = min(low, kept.min(initial=np.inf)), max(high, kept.max(initial=-np.inf))
    if nans == flat.size:
        return "nan", "nan", nans
    return f"{low:g}", f"{high:g}", nans


def _first(array: np.ndarray) -> str:
    flat = array.reshape(-1)[:SHOWN_VALUES]
    text = " ".join(f"{float(v):g}" for v in flat)
    return text + (" …" if array.size > SHOWN_VALUES else "")


def _comparisons(comparisons: Sequence[Comparison]) -> Table:
    floats = any(c.max_ulp is not None for c in comparisons)
    rows = []
    for c in comparisons:
        where = ""
        if c.first is not None:
            place = ",".join(map(str, c.first))
            where = f"[{place}]: {c.got} instead of {c.expected}"
        said = verdict(c.passed, "ok" if c.passed else "DIFFERS")
        far = (f"{c.max_difference:.3g}", *((_ulp(c),) if floats else ()))
        rows.append((c.name, said, c.count, c.mismatches, *far, c.tolerance, where))
    columns = ("name", "verdict", ">elements", ">differ", ">by at most", *((">ulp",) * floats),
               "tolerance", "at")  # fmt: skip
    drop = ("elements", "ulp", "by at most")
    return table("expected values", columns, rows, essential=("name", "verdict"), drop=drop)


def _ulp(comparison: Comparison) -> str:
    if comparison.max_ulp is None:
        return ""
    return str(comparison.max_ulp) if comparison.max_ulp < _MOST_ULP else "far"


def to_json(
    program: LoadedProgram,
    entry: str,
    result: Result,
    comparisons: Sequence[Comparison],
    dumps: Sequence[Dump] = (),
) -> dict[str, object]:
    """Return the report as JSON data."""
    return {
        **header(program, entry),
        "generated": result.generated,
        "made_up": result.generated,  # its earlier name
        "prints": result.prints,
        "outputs": {name: summary_of(array) for name, array in result.outputs.items()},
        "dumps": {d.title: {**summary_of(d.array), "count": d.count} for d in dumps},
        "expected": [c.to_dict() for c in comparisons],
        "executed": result.executed,
        "cycles": result.cycles,
        "cost": result.cost.to_dict() if result.cost is not None else None,
        "findings": [d.to_dict() for d in result.findings],
    }


def summary_of(array: np.ndarray) -> dict[str, object]:
    """Return an array in short, as JSON data."""
    low, high, nans = extremes(array)
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "min": low,
        "max": high,
        "nan": nans,
        "first": [float(v) for v in array.reshape(-1)[:SHOWN_VALUES]],
    }
