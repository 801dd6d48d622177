"""Tables of predicted against published times."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median

from ptosim.ground.isa.costs import Accuracy, KernelAccuracy
from ptosim.views.table import Part, table
from ptosim.views.text import Text


def renderables(operations: Sequence[Accuracy], kernels: Sequence[KernelAccuracy]) -> list[Part]:
    """Return the errors of operations by class, and of whole kernels."""
    first = table(
        "single operations: error against profiled cycles",
        ("target", "class of operations", ">points", ">mean", ">median", ">worst"),
        [
            (r.target, r.class_name, r.points, f"{r.mean:.1%}", f"{r.median:.1%}", f"{r.worst:.1%}")
            for r in operations
        ],
    )
    rows = [
        (k.target, k.name, f"{k.published:,.1f}", f"{k.predicted:,.1f}", f"{k.error:+.1%}")
        for k in kernels
    ]
    for target in dict.fromkeys(k.target for k in kernels):
        wrong = [abs(k.error) for k in kernels if k.target == target]
        total = f"all {len(wrong)}: mean {mean(wrong):.1%}, median {median(wrong):.1%}, worst"
        rows.append((target, f"{total} {max(wrong):.1%}", "", "", ""))
    second = table(
        "whole kernels: wall time with the launch",
        ("target", "kernel", ">published us", ">predicted us", ">error"),
        rows,
    )
    note = (
        "Classes without a line have no published points; their figures say where they come from. "
        "The fit saw the points of classes; `left out`: each family with figures fitted without it."
    )
    return [first, second, Text(note)]
