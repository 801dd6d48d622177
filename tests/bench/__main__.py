"""`python -m tests.bench [NAME…]`: every figure as a ratio to something measured in the same run."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tests.bench import measures
from tests.bench.timing import Figure


def main(names: list[str]) -> None:
    """Measure what is named, or everything."""
    table = Table(box=SIMPLE_HEAD, title="ptosim speed", title_justify="left")
    for column, justify in (
        ("what", "left"), ("measured", "right"), ("compared with", "left"), ("ratio", "right"),
        ("budget", "left"),
    ):  # fmt: skip
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    chosen: dict[str, Callable[[], list[Figure]]] = {
        name: function
        for name, function in measures.ALL.items()
        if not names or any(part in name for part in names)
    }
    for function in chosen.values():
        for figure in function():
            table.add_row(
                figure.what, figure.measured, figure.reference, figure.ratio, figure.budget
            )
    Console(width=120).print(table)


main(sys.argv[1:])
