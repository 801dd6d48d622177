"""The rows of a sweep as tables, CSV and Parquet: the fastest points, the Pareto front, and what
was refused."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from ptosim.views.table import Part, table
from ptosim.views.text import Text

Row = Mapping[str, Any]
FIGURES = ("cycles", "us", "ub_bytes", "gm_bytes")
_HEADS = (">cycles", ">us", ">UB bytes", ">GM bytes")
_REASON = 90
"""Characters of a reason in the table of reasons; the rows have all of it."""


def varying(rows: Sequence[Row]) -> list[str]:
    """Return the parameters that have several values among the rows, in their order."""
    names = dict.fromkeys(name for row in rows for name in row["params"])
    return [n for n in names if len({str(row["params"].get(n)) for row in rows}) > 1]


def fixed(rows: Sequence[Row]) -> str:
    """Return the parameters that have one value, as text."""
    kept = varying(rows)
    given = {n: v for row in rows[:1] for n, v in row["params"].items() if n not in kept}
    return " ".join(f"{name}={value}" for name, value in given.items())


def of_target(
    target: str, rows: Sequence[Row], front: Sequence[Row], names: Sequence[str], count: int
) -> Part:
    """Return the fastest `count` rows of a target (rows come in that order) and, after them, those
    of the Pareto front that are not among them."""
    best = {id(row) for row in front}
    shown = [*rows[:count], *(row for row in rows[count:] if id(row) in best)]
    with_values = any(row["values"] is not None for row in rows)
    cells = [
        (
            *(str(row["params"].get(name, "")) for name in names),
            *_figures(row),
            *(["equal" if row["values"] else ""] if with_values else []),
            "◆" if id(row) in best else "",
        )
        for row in shown
    ]
    title = f"{target}: {len(shown):,} of {len(rows):,} points, the fastest first"
    heads = [
        *(f">{name}" for name in names),
        *_HEADS,
        *(["values"] if with_values else []),
        "front",
    ]
    return table(title, tuple(heads), cells, drop=("UB bytes", "us"))


def _figures(row: Row) -> tuple[str, ...]:
    return (
        f"{row['cycles']:,}",
        f"{row['us']:,.2f}",
        f"{row['ub_bytes']:,}",
        f"{row['gm_bytes']:,}",
    )


def refusals(rows: Sequence[Row], *, whole: bool = False) -> list[Part]:
    """Return why rows were refused: by target, stage and kind of reason, how many, and the first
    reason; `whole` has a line for each."""
    refused = [row for row in rows if not row["ok"]]
    if not refused:
        return []
    groups: dict[tuple[str, ...], list[Row]] = {}
    for number, row in enumerate(refused):
        key = (row["target"], row["stage"], str(number) if whole else _kind(row))
        groups.setdefault(key, []).append(row)
    title = f"refused: {len(refused):,} of {len(rows):,} rows"
    if whole:
        cells = [(_params(r), r["target"], r["stage"], str(r["reason"])) for r in refused]
        return [table(title, ("point", "target", "stage", "reason"), cells)]
    cells = [
        (key[0], key[1], f"{len(group):,}", _cut(str(group[0]["reason"])))
        for key, group in groups.items()
    ]
    return [table(title, ("target", "stage", ">rows", "reason (of the first)"), cells)]


def _kind(row: Row) -> str:
    """What reasons of one kind have in common: the code and the words before the numbers."""
    words = str(row["reason"]).split()
    start = 3 if "line" in words[1:2] else 0
    kept = []
    for word in words[start:]:
        if any(c.isdigit() for c in word):
            break
        kept.append(word)
    return " ".join([*words[:1], *kept[:6]])


def _cut(text: str) -> str:
    return text if len(text) <= _REASON else f"{text[: _REASON - 1]}…"


def _params(row: Row) -> str:
    return " ".join(f"{n}={v}" for n, v in row["params"].items())


def compared(found: Sequence[tuple[str, str, str, bool]], slack: float) -> list[Part]:
    """Return what is different from an earlier sweep: (point, target, text, whether worse)."""
    if not found:
        return [Text("nothing changed against the baseline")]
    worse = sum(is_worse for *_, is_worse in found)
    title = f"against the baseline: {len(found):,} rows differ, {worse:,} are worse"
    title += f" (more than {slack:.1%})" if slack else ""
    cells = [("✗ worse" if bad else "", point, target, text) for point, target, text, bad in found]
    return [table(title, ("", "point", "target", "change"), cells)]


def to_csv(rows: Sequence[Row]) -> str:
    """Return the rows as CSV, a column for each parameter."""
    out = io.StringIO()
    names, lines = _flat(rows)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(["" if v is None else v for v in line] for line in lines)
    return out.getvalue()


def _flat(rows: Sequence[Row]) -> tuple[list[str], list[list[Any]]]:
    params = list(dict.fromkeys(name for row in rows for name in row["params"]))
    rest = ["target", "ok", "stage", "reason", *FIGURES, "values"]
    names = [f"param_{n}" if n in rest else n for n in params] + rest
    return names, [[row["params"].get(n) for n in params] + [row[n] for n in rest] for row in rows]


def to_parquet(rows: Sequence[Row]) -> bytes:
    """Return the rows as a Parquet file. Raises ImportError without pyarrow."""
    import pyarrow as arrow  # type: ignore[import-not-found]
    import pyarrow.parquet as parquet  # type: ignore[import-not-found]

    names, lines = _flat(rows)
    columns = [_one_type(list(column)) for column in zip(*lines, strict=True)]
    out = io.BytesIO()
    parquet.write_table(arrow.table(dict(zip(names, columns, strict=True))), out)
    return out.getvalue()


def _one_type(column: list[Any]) -> list[Any]:
    """A column of Parquet has one type; parameters of several kinds become texts."""
    kinds = {type(v) for v in column if v is not None}
    return column if len(kinds) < 2 or kinds == {int, float} else [str(v) for v in column]
