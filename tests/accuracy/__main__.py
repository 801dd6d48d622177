"""`python -m tests.accuracy [--families] [--cross] [--tquant] [--write]`: predicted against published.

Without options: the summary for both targets and for whole kernels. --families adds every family,
--cross families left out of the fit (a minute), --tquant prints the stage table of the README,
--write keeps the summary for `ptosim targets --accuracy` in isa/costs/accuracy.toml."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tests.accuracy import kernels, statistics, stored
from tests.accuracy.statistics import Errors
from tests.accuracy.tquant import markdown

TARGETS = ("a2a3", "a5")


def table(title: str, *columns: str) -> Table:
    made = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for number, name in enumerate(columns):
        made.add_column(name, justify="right" if number and name != "worst point" else "left")
    return made


def add(made: Table, row: Errors) -> None:
    numbers = (f"{row.mean:.1%}", f"{row.median:.1%}", f"{row.worst:.1%}")
    made.add_row(row.name, str(row.count), *numbers, row.where)


def singles(by_family: bool) -> Table:
    """Return the errors of single operations."""
    made = table("single operations", "points", "count", "mean", "median", "worst", "worst point")
    for target in TARGETS:
        add(made, statistics.errors(f"{target}, all", statistics.of_target(target)))
        groups = statistics.families(target) if by_family else statistics.classes(target)
        for name, chosen in groups.items():
            add(made, statistics.errors(f"  {target} {name}", chosen))
    add(
        made, statistics.errors("a5, conversions to and from 8 and 4 bits", statistics.narrow("a5"))
    )
    return made


def cross() -> Table:
    """Return the errors of families that the fit did not see."""
    made = table("A5, fitted without the family", "family", "count", "mean", "median", "worst",
                 "worst point")  # fmt: skip
    for name, chosen in statistics.families("a5").items():
        row = statistics.left_out(name, chosen)
        if row is None:
            made.add_row(name, str(len(chosen)), "has figures of its own", "", "", "")
        else:
            add(made, row)
    return made


def whole() -> Table:
    """Return the errors of whole kernels."""
    made = table("whole kernels", "kernel", "published us", "predicted us", "error",
                 "busy shares, published/predicted %")  # fmt: skip
    for kernel in kernels.gemms():
        shares = ", ".join(f"{pipe} {a:.0f}/{b:.0f}" for pipe, a, b in kernel.shares)
        numbers = (f"{kernel.published:.1f}", f"{kernel.predicted:.1f}", f"{kernel.error:+.1%}")
        made.add_row(kernel.name, *numbers, shares)
    return made


def main(options: list[str]) -> None:
    """Print what is asked for."""
    if "--tquant" in options:
        print(markdown())
        return
    console = Console(width=130)
    console.print(singles("--families" in options))
    console.print(whole())
    if "--cross" in options:
        console.print(cross())
    if "--write" in options:
        path = Path("isa/costs/accuracy.toml")
        path.write_text(stored.content(), encoding="utf-8")
        console.print(f"written: {path}")


main(sys.argv[1:])
