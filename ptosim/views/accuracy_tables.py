"""Tables of predicted against published times."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median
from typing import Any

from rich.text import Text

from ptosim.ground.isa.costs import Accuracy, KernelAccuracy
from ptosim.views.cost_tables import table


def renderables(operations: Sequence[Accuracy], kernels: Sequence[KernelAccuracy]) -> list[Any]:
    """Return the errors of operations by class, and of whole kernels."""
    columns = (
        ("target", "left"), ("class of operations", "left"), ("points", "right"),
        ("mean", "right"), ("median", "right"), ("worst", "right"),
    )  # fmt: skip
    first = table("single operations: error against profiled cycles", columns)
    for row in operations:
        errors = (f"{row.mean:.1%}", f"{row.median:.1%}", f"{row.worst:.1%}")
        first.add_row(row.target, row.class_name, str(row.points), *errors)
    columns = (
        ("target", "left"), ("kernel", "left"), ("published us", "right"),
        ("predicted us", "right"), ("error", "right"),
    )  # fmt: skip
    second = table("whole kernels: wall time with the launch", columns)
    for kernel in kernels:
        second.add_row(
            kernel.target, kernel.name, f"{kernel.published:,.1f}", f"{kernel.predicted:,.1f}",
            f"{kernel.error:+.1%}",
        )  # fmt: skip
    for target in dict.fromkeys(k.target for k in kernels):
        wrong = [abs(k.error) for k in kernels if k.target == target]
        second.add_row(
            target, f"all {len(wrong)}: mean {mean(wrong):.1%}, median {median(wrong):.1%}, "
            f"worst {max(wrong):.1%}", "", "", "",
        )  # fmt: skip
    note = (
        "Classes without a line have no published points; their figures say where they come from. "
        "The fit saw the points of classes; `left out`: each family with figures fitted without it."
    )
    return [first, second, Text(note)]
