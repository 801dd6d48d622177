"""Published times of whole kernels against what `cost` says.

    python -m tests.accuracy.launches [FAMILY]
    python -m tests.accuracy.launches --left-out
    python -m tests.accuracy.launches --write

`tests/data/public_kernels/rows.json` has the rows: kernel, shape, chip, time, its meaning and
source, the program and its scalars. With `--left-out` the figures of memory and launch that no
source gives (`FITTED`) are fitted once for each family, to the rows of all others, and tell its
rows: on all chips by common factors, Huber's loss of the logarithms, and half a factor of two
around the figures in the tree as a prior. A figure that only this family tells stays. `--write` puts
every row and the table of bars by limit into the manual; `python -m tests.accuracy` prints both."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import lru_cache
from math import ceil, exp, log
from typing import Any, NamedTuple

import numpy as np

import ptosim
from ptosim.ground.isa.costs import CostTable, limit_spreads
from ptosim.launch.analysis.calibrate.boards import HUBER, LaunchRow, value_of
from ptosim.time.report.launch_times import Between
from tests.accuracy.pages import replaced
from tests.support.paths import DATA, TREE

FOLDER = DATA / "public_kernels"
FITTED = (
    "machine.hbm.reads", "machine.hbm.turns", "machine.l2.beyond", "machine.task.us",
    "machine.task.us_per_block", "machine.task.cube_us", "machine.task.cube_us_full",
    "machine.next.us", "machine.next.floor_us", "machine.mix.power",
)  # fmt: skip
STEP, PRIOR, SCALE, ROUNDS = 0.02, log(2) / 2, 0.1, 8


PAGE = TREE / "ptosim/manual/accuracy.md"


def rows(family: str = "", *, every: bool = False) -> list[dict[str, Any]]:
    """The rows that count, of a family or of all; `every`: the others, too."""
    points = json.loads((FOLDER / "rows.json").read_text())["points"]
    return [p for p in points if (p["scored"] or every) and family in ("", p["family"])]


def report_of(row: dict[str, Any]) -> ptosim.CostReport:
    """What `cost` says of a row."""
    return ptosim.load(str(FOLDER / row["file"])).cost(
        target=row["target"], args=row["args"], block_num=row["block_num"], what_if=row["what_if"]
    )


def _changed(table: CostTable, factors: np.ndarray) -> CostTable:
    """The figures of a chip, grown by these factors (logarithms)."""
    for key, factor in zip(FITTED, factors, strict=True):
        if factor and key.rpartition(".")[0] in table.rows:
            table = table.changed(key, value_of(table, key) * exp(factor))
    return table


def _residuals(launches: Sequence[LaunchRow], factors: np.ndarray) -> np.ndarray:
    """Logarithms of predicted by measured."""
    tables: dict[str, CostTable] = {}
    found = []
    for launch in launches:
        start = launch.report.table
        if start.chip not in tables:
            tables[start.chip] = _changed(start, factors)
        found.append(log(launch.with_cycles(tables[start.chip], 1.0) / launch.measured))
    return np.array(found)


def fitted(launches: Sequence[LaunchRow]) -> np.ndarray:
    """Return the factors (logarithms) of `FITTED` that rows say."""
    x = np.zeros(len(FITTED))
    for _ in range(ROUNDS):
        rest = _residuals(launches, x)
        moved = [_residuals(launches, x + STEP * unit) - rest for unit in np.eye(len(x))]
        slopes = np.stack(moved, axis=1) / STEP
        weights = np.minimum(1.0, HUBER * SCALE / np.maximum(np.abs(rest), 1e-12))
        matrix = slopes.T @ (slopes * weights[:, None]) + np.eye(len(x)) * (SCALE / PRIOR) ** 2
        right = -slopes.T @ (weights * rest) - x * (SCALE / PRIOR) ** 2
        step = np.clip(np.linalg.solve(matrix, right), -0.3, 0.3)
        x = x + step
        if np.max(np.abs(step)) < 1e-3:
            break
    return x


class Told(NamedTuple):
    """A row: what `cost` says of it, its limit, and how far off it is (relative) if the figures are
    fitted to the rows of all other families; None for rows that do not count."""

    row: dict[str, Any]
    time: Between
    limit: str
    apart: float | None

    @property
    def error(self) -> float:
        return self.time.us / self.row["us"] - 1

    @property
    def is_inside(self) -> bool:
        return self.time.low <= self.row["us"] <= self.time.high


@lru_cache(maxsize=1)
def told() -> tuple[Told, ...]:
    """Every row, those of a family together."""
    launches: dict[str, LaunchRow] = {}
    every = sorted(rows(every=True), key=lambda row: row["family"])
    for row in every:
        report = report_of(row)
        launches[row["id"]] = LaunchRow(
            "", row["family"], row["meaning"], row["us"], lambda _, r=report: r, report
        )
    seen = {row["id"]: launches[row["id"]] for row in every if row["scored"]}
    apart: dict[str, float] = {}
    for family in dict.fromkeys(launch.label for launch in seen.values()):
        own = {name: launch for name, launch in seen.items() if launch.label == family}
        factors = fitted([launch for name, launch in seen.items() if name not in own])
        off = np.exp(_residuals(list(own.values()), factors)) - 1
        apart.update(zip(own, off.tolist(), strict=True))
    found = []
    for row in every:
        times = launches[row["id"]].report.times
        time = getattr(times, row["meaning"])
        found.append(Told(row, time, times.limit, apart.get(row["id"])))
    return tuple(found)


def table() -> str:
    """Return every row in Markdown, by family."""
    lines = [
        "| published launches, by family | chip | time | measured us | predicted us (bar) | error | limit | source |",
        "|---|---|---|---:|---:|---:|---|---|",
    ]
    for one in told():
        row, time = one.row, one.time
        shape = row["shape"]
        if not isinstance(shape, str):
            shape = "x".join(map(str, shape))
        elif "]x" not in shape:  # of one array
            shape = shape.strip("[]").replace(",", "x")
        name = f"{row['kernel']} {row['dtype']} {shape}"
        aside = "" if row["scored"] else " (not counted)"
        lines.append(
            f"| {row['family']}: {name}{aside} | {row['target']} | {row['meaning']} "
            f"| {row['us']:,.2f} | {time.us:,.2f} ({time.low:,.1f} to {time.high:,.1f}) "
            f"| {100 * one.error:+.1f} % | {one.limit} | {row['source']} |"
        )
    return "\n".join(lines)


def families() -> str:
    """Return how far off families are, in Markdown, each also with figures fitted without it."""
    lines = [
        "| families of launches | rows | in their bars | mean | worst | left out: mean | worst |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    counted = [one for one in told() if one.apart is not None]
    names = dict.fromkeys(one.row["family"] for one in counted)
    groups = {name: [o for o in counted if o.row["family"] == name] for name in names}
    for name, group in {**groups, "all of these": counted}.items():
        own, apart = [abs(o.error) for o in group], [abs(o.apart or 0) for o in group]
        cells = [f"{100 * f:.1f} %" for e in (own, apart) for f in (sum(e) / len(e), max(e))]
        inside = sum(o.is_inside for o in group)
        lines.append(f"| {name} | {len(group)} | {inside} | {' | '.join(cells)} |")
    return "\n".join(lines)


def bars() -> str:
    """Return the bars by limit in Markdown: how wide they are (`isa/costs/spread.toml`), and how
    many of the rows are inside whose family the fit did not see."""
    lines = [
        "| limit | rows | half width (logarithm) | nine of ten, family left out | inside, family left out |",
        "|---|---:|---:|---:|---:|",
    ]
    widths, every = limit_spreads(), []
    for limit, width in widths.items():
        off = [abs(log(1 + o.apart)) for o in told() if o.apart is not None and o.limit == limit]
        every += [o <= width for o in off]
        inside = sum(o <= width for o in off)
        lines.append(
            f"| {limit} | {len(off)} | {width:.2f} | {_nine_of_ten(off):.2f} | {inside} of {len(off)} |"
        )
    share = 100 * sum(every) / max(len(every), 1)
    lines.append(f"| all | {len(every)} | | | {sum(every)} of {len(every)} ({share:.0f} %) |")
    return "\n".join(lines)


def _nine_of_ten(off: list[float]) -> float:
    """The quantile at 0.9 (n + 1) / n; of less than ten the greatest."""
    at = ceil(0.9 * (len(off) + 1))
    return sorted(off)[min(at, len(off)) - 1] if off else 0.0


TABLES = (table, families, bars)


def write() -> None:
    """Put the tables into the manual, in the place of those with the same first column."""
    text = PAGE.read_text(encoding="utf-8")
    for make in TABLES:
        text = replaced(text, make())
    PAGE.write_text(text, encoding="utf-8")


def main() -> None:
    """Print every row, and how far they are off together."""
    if sys.argv[1:] == ["--left-out"]:
        print("\n\n".join((families(), bars())))
        return
    if sys.argv[1:] == ["--write"]:
        write()
        return
    errors, inside = [], 0
    for row in rows(*sys.argv[1:2]):
        times = report_of(row).times
        found = getattr(times, row["meaning"])
        errors.append(found.us / row["us"] - 1)
        inside += found.low <= row["us"] <= found.high
        print(
            f"{row['family']:16} {row['shape']!s:26.26} {row['target']:6} {row['meaning']:12} "
            f"measured {row['us']:9.2f} predicted {found.us:9.2f} {errors[-1]:+7.1%} "
            f"({found.low:.2f} to {found.high:.2f}) {times.limit:6} {row['source']}",
            flush=True,
        )
    if errors:
        mean, worst = sum(map(abs, errors)) / len(errors), max(errors, key=abs)
        part = inside / len(errors)
        print(f"{len(errors)} rows: mean {mean:.1%}, worst {worst:+.1%}, in their bars {part:.0%}")


if __name__ == "__main__":
    main()
