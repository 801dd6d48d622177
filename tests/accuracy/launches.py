"""Published times of whole kernels against what `cost` says.

    python -m tests.accuracy.launches [FAMILY]

`tests/data/public_kernels/rows.json` has the rows: kernel, shape, chip, time, its meaning and
source, the program and its scalars."""

from __future__ import annotations

import json
import sys
from typing import Any

import ptosim
from tests.support.paths import DATA

FOLDER = DATA / "public_kernels"


def rows(family: str = "") -> list[dict[str, Any]]:
    """The rows that count, of a family or of all."""
    points = json.loads((FOLDER / "rows.json").read_text())["points"]
    return [p for p in points if p["scored"] and family in ("", p["family"])]


def report_of(row: dict[str, Any]) -> ptosim.CostReport:
    """What `cost` says of a row."""
    return ptosim.load(str(FOLDER / row["file"])).cost(
        target=row["target"], args=row["args"], block_num=row["block_num"], what_if=row["what_if"]
    )


def main() -> None:
    """Print every row, and how far they are off together."""
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
