"""Published times of whole kernels against what `cost` says.

    python -m tests.accuracy.launches [FAMILY]
    python -m tests.accuracy.launches --left-out

`tests/data/public_kernels/rows.json` has the rows: kernel, shape, chip, time, its meaning and
source, the program and its scalars. With `--left-out` the figures of memory and launch that no
source gives (`FITTED`) are fitted once for each family, to the rows of all others, and tell its
rows: on all chips by common factors, Huber's loss of the logarithms, and half a factor of two
around the figures in the tree as a prior. A figure that only this family tells stays."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from math import exp, log
from typing import Any

import numpy as np

import ptosim
from ptosim.ground.isa.costs import CostTable
from ptosim.launch.analysis.calibrate.boards import HUBER, LaunchRow, value_of
from tests.support.paths import DATA

FOLDER = DATA / "public_kernels"
FITTED = (
    "machine.hbm.reads", "machine.hbm.turns", "machine.l2.beyond", "machine.task.us",
    "machine.task.us_per_block", "machine.task.cube_us", "machine.task.cube_us_full",
    "machine.next.us", "machine.next.floor_us", "machine.mix.power",
)  # fmt: skip
STEP, PRIOR, SCALE, ROUNDS = 0.02, log(2) / 2, 0.1, 8


def rows(family: str = "") -> list[dict[str, Any]]:
    """The rows that count, of a family or of all."""
    points = json.loads((FOLDER / "rows.json").read_text())["points"]
    return [p for p in points if p["scored"] and family in ("", p["family"])]


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


def left_out() -> dict[str, np.ndarray]:
    """Return for each family how far its rows are off (relative) if the others tell the figures."""
    families: dict[str, list[LaunchRow]] = defaultdict(list)
    for row in rows():
        report = report_of(row)
        families[row["family"]].append(
            LaunchRow("", row["family"], row["meaning"], row["us"], lambda _, r=report: r, report)
        )
    return {
        family: np.exp(_residuals(own, fitted([
            launch for other, of in families.items() if other != family for launch in of
        ]))) - 1
        for family, own in families.items()
    }  # fmt: skip


def _print_left_out() -> None:
    every: list[float] = []
    for family, off in left_out().items():
        every += off.tolist()
        worst = off[np.abs(off).argmax()]
        print(f"{family:18} {len(off):3} mean {np.abs(off).mean():6.1%} worst {worst:+7.1%}")
    worst = max(every, key=abs)
    print(f"{len(every)} rows, each family left out: "
          f"mean {sum(map(abs, every)) / len(every):.1%}, worst {worst:+.1%}")  # fmt: skip


def main() -> None:
    """Print every row, and how far they are off together."""
    if sys.argv[1:] == ["--left-out"]:
        _print_left_out()
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
