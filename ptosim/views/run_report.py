"""The report of a run: what it ran on, arguments, outputs, comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ptosim.engine.core.dump import Dump
from ptosim.ground.isa.profiles import Profile
from ptosim.ground.isa.targets import machine
from ptosim.ground.version import __version__
from ptosim.run.compare import Comparison
from ptosim.run.program import Program
from ptosim.run.results import Result
from ptosim.views import cost_tables

SHOWN_VALUES = 6


def header(program: Program, entry: str) -> dict[str, Any]:
    """Return the choices that every report states first."""
    return header_fields(program, program.profile, entry)


def header_fields(chosen: Any, profile: Profile, entry: str) -> dict[str, Any]:
    """Return the choices of something with target, level and sync (a program, a checked module)."""
    return {
        "version": __version__,
        "target": chosen.target,
        "chip": chosen.chip,
        "level": chosen.level,
        "sync": chosen.sync,
        "profile": _profile(profile),
        "entry": entry,
    }


def _profile(profile: Profile) -> str:
    changed = ", ".join(f"{k}={profile[k]}" for k in profile.overridden)
    return f"{profile.name} ({changed})" if changed else profile.name


def header_line(fields: dict[str, Any]) -> str:
    """Return the first line of a report; the chip is left out where it is the usual one."""
    version, chip = fields["version"], machine(fields["chip"])
    left_out = ("version", "chip") if chip.is_usual else ("version",)
    rest = " · ".join(f"{k} {v}" for k, v in fields.items() if k not in left_out)
    return f"ptosim {version} · {rest}"


def renderables(
    program: Program,
    entry: str,
    result: Result,
    comparisons: Sequence[Comparison],
    dumps: Sequence[Dump] = (),
) -> list[Any]:
    """Return the report as rich renderables."""
    parts: list[Any] = [Text(header_line(header(program, entry)), style="bold")]
    if result.made_up:
        parts += [Text(), Text("left out and made up:")]
        parts += [Text(f"  {name}: {what}") for name, what in result.made_up.items()]
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


def _table(title: str, columns: Sequence[tuple[str, str]]) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
    for name, justify in columns:
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    return table


def _dump_name(dump: Dump) -> str:
    return dump.title if dump.count == 1 else f"{dump.title} (last of {dump.count})"


def _arrays(title: str, arrays: Mapping[str, Any]) -> Table:
    columns = (
        ("name", "left"), ("type", "left"), ("shape", "left"), ("min", "right"), ("max", "right"),
        ("NaN", "right"), ("first values", "left"),
    )  # fmt: skip
    table = _table(title, columns)
    for name, array in arrays.items():
        low, high, nans = _extremes(array)
        shape = "x".join(map(str, array.shape)) or "scalar"
        table.add_row(name, str(array.dtype), shape, low, high, str(nans), _first(array))
    return table


def _extremes(array: np.ndarray) -> tuple[str, str, int]:
    if array.size == 0:
        return "", "", 0
    wide = array.astype(np.float64)
    nan = np.isnan(wide)
    if nan.all():
        return "nan", "nan", int(nan.sum())
    kept = wide[~nan]
    return f"{kept.min():g}", f"{kept.max():g}", int(nan.sum())


def _first(array: np.ndarray) -> str:
    flat = array.reshape(-1)[:SHOWN_VALUES]
    text = " ".join(f"{float(v):g}" for v in flat)
    return text + (" …" if array.size > SHOWN_VALUES else "")


def _comparisons(comparisons: Sequence[Comparison]) -> Table:
    columns = (
        ("name", "left"), ("verdict", "left"), ("elements", "right"), ("mismatches", "right"),
        ("max |difference|", "right"), ("tolerance", "left"), ("first mismatch", "left"),
    )  # fmt: skip
    table = _table("expected values", columns)
    for c in comparisons:
        where = ""
        if c.first is not None:
            place = ",".join(map(str, c.first))
            where = f"[{place}]: {c.got} instead of {c.expected}"
        table.add_row(
            c.name,
            "ok" if c.passed else "DIFFERS",
            str(c.count),
            str(c.mismatches),
            f"{c.max_difference:g}",
            str(c.tolerance),
            where,
        )
    return table


def to_json(
    program: Program,
    entry: str,
    result: Result,
    comparisons: Sequence[Comparison],
    dumps: Sequence[Dump] = (),
) -> dict[str, Any]:
    """Return the report as JSON data."""
    return {
        **header(program, entry),
        "made_up": result.made_up,
        "prints": result.prints,
        "outputs": {name: _summary(array) for name, array in result.outputs.items()},
        "dumps": {d.title: {**_summary(d.array), "count": d.count} for d in dumps},
        "expected": [c.to_dict() for c in comparisons],
        "executed": result.executed,
        "cycles": result.cycles,
        "cost": result.cost.to_dict() if result.cost is not None else None,
        "findings": [d.to_dict() for d in result.findings],
    }


def _summary(array: np.ndarray) -> dict[str, Any]:
    low, high, nans = _extremes(array)
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "min": low,
        "max": high,
        "nan": nans,
        "first": [float(v) for v in array.reshape(-1)[:SHOWN_VALUES]],
    }
