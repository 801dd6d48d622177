"""`python -m tests.accuracy [--families] [--quick] [--harder] [--regions] [--tquant] [--write]`: predicted
against published.

Without options: single operations (in sample, and with families and shapes left out of the fit),
monotone costs, whole kernels; some minutes. --families adds a line for every family, --quick leaves
the cross-validation and flash attention out, --harder leaves families out in pairs and random halves (two
minutes more), --regions prints only the vector regions of A5 (both models against what is published, and
the law of every operation beside the region that it becomes), --tquant prints the stage table of the
manual, --write keeps the summary for `ptosim targets --accuracy` in isa/costs/accuracy.toml, and the
tables of the manual and the README that come from it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table

from ptosim.ground.isa.costs import accuracy, cost_table
from tests.accuracy import (
    cross,
    fit_rows,
    kernels,
    launches,
    monotone,
    pages,
    regions,
    statistics,
    stored,
    window,
)  # fmt: skip
from tests.accuracy.kernels import Kernel
from tests.accuracy.statistics import Errors
from tests.accuracy.tquant import markdown

TARGETS = ("a2a3", "a5")


def table(title: str, *columns: str) -> Table:
    made = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for number, name in enumerate(columns):
        words = ("worst point", "busy shares, published/predicted %", "why")
        side: JustifyMethod = "right" if number and name not in words else "left"
        made.add_column(name, justify=side, no_wrap=not number)
    return made


def add(made: Table, row: Errors) -> None:
    numbers = (f"{row.mean:.1%}", f"{row.median:.1%}", f"{row.worst:.1%}")
    made.add_row(row.name, str(row.count), *numbers, row.where)


def singles(by_family: bool) -> Table:
    """Return the errors of single operations whose points the fit saw."""
    made = table("single operations, in sample", "points", "count", "mean", "median", "worst",
                 "worst point")  # fmt: skip
    for target in TARGETS:
        add(made, statistics.errors(f"{target}, all", statistics.of_target(target)))
        groups = statistics.families(target) if by_family else statistics.classes(target)
        for name, chosen in groups.items():
            add(made, statistics.errors(f"  {target} {name}", chosen))
    for row in fit_rows.scores()[: None if by_family else 1]:
        add(made, row)
    add(
        made, statistics.errors("a5, conversions to and from 8 and 4 bits", statistics.narrow("a5"))
    )
    return made


def left_out(by_family: bool) -> Table:
    """Return the errors of families and shapes that the fit did not see."""
    made = table("single operations, out of sample: figures fitted without them", "points", "count",
                 "mean", "median", "worst", "worst point")  # fmt: skip
    for target in TARGETS:
        found = cross.families_left_out(target)
        add(made, cross.pooled(f"{target},", found))
        if target == "a5":
            narrow = {n: e for n, e in found.items() if any(w in n for w in statistics.NARROW)}
            add(made, cross.pooled("a5, conversions to and from 8 and 4 bits:", narrow))
        for name, row in found.items():
            if isinstance(row, str):
                made.add_row(f"  {name}", "", "", "", "", f"only it tells {row}")
            elif by_family:
                add(made, row)
        add(made, cross.shapes_left_out(target))
    lines = cross.families_left_out("a2a3", on_line=True)
    add(made, cross.pooled("a2a3, fitted table:", lines))
    for row in lines.values():
        if by_family and not isinstance(row, str):
            add(made, row)
    return made


def harder(by_family: bool) -> Table:
    """Return the errors of random halves, and of pairs of families that share fitted numbers. (On
    A2/A3 no number has more than two families, and most points are a family of their own.)"""
    made = table("single operations, harder: halves and pairs of families out of the fit", "points",
                 "count", "mean", "median", "worst", "worst point")  # fmt: skip
    for target in TARGETS:
        add(made, cross.halves_left_out(target))
    found = cross.pairs_left_out("a5")
    add(made, cross.pooled("a5, pairs of", found))
    for name, row in found.items():
        if isinstance(row, str):
            made.add_row(f"  {name}", "", "", "", "", f"only they tell {row}")
        elif by_family:
            add(made, row)
    return made


def numbers() -> Table:
    """Return how many numbers were fitted, and whether costs grow with the size."""
    made = table("the laws", "target", "numbers", "fitted", "comparisons of neighbours", "falling")
    for target in TARGETS:
        rows = cost_table(target)
        every = sum(len(row.own) for row in rows.rows.values())
        places = [p for kind in monotone.TILE_CLASSES for p in monotone.falling(target, kind)]
        wrong = sum(p is not None for p in places)
        made.add_row(target, str(every), str(len(cross.fitted_keys(rows))), f"{len(places):,}",
                     str(wrong))  # fmt: skip
    return made


def whole(chosen: Sequence[Kernel]) -> Table:
    """Return the errors of whole kernels, family by family, each also with figures fitted without
    its family."""
    last = "busy shares, published/predicted %"
    made = table("whole kernels at their number of blocks, with the launch", "kernel", "blocks",
                 "published us", "predicted us", "error bar us", "error", "family left out",
                 last)  # fmt: skip
    for family in dict.fromkeys(k.family for k in chosen):
        mine = [k for k in chosen if k.family == family]
        for k in mine:
            shares = ", ".join(f"{pipe} {a:.0f}/{b:.0f}" for pipe, a, b in k.shares)
            made.add_row(f"  {k.name}", str(k.blocks), f"{k.published:.1f}", f"{k.predicted:.1f}",
                         f"{k.low:.0f} to {k.high:.0f}" + " out" * (not k.is_inside),
                         f"{k.error:+.1%}", f"{k.apart_error:+.1%}", shares)  # fmt: skip
        _mean(made, family, mine)
    seen = [k for k in chosen if k.family != kernels.ASIDE]
    _mean(made, "all that a fit saw", seen)
    _mean(made, "all of these but few-core attention", [k for k in seen if k.family != kernels.FEW])
    return made


def _mean(made: Table, name: str, chosen: Sequence[Kernel]) -> None:
    both = [[abs(k.error) for k in chosen], [abs(k.apart_error) for k in chosen]]
    cells = (f"{sum(e) / len(e):.1%}, worst {max(e):.1%}" for e in both)
    inside = f"{sum(k.is_inside for k in chosen)} inside"
    made.add_row(f"{name}: mean of {len(chosen)}", "", "", "", inside, *cells, "")


def without() -> Table:
    """Return the published kernels that are beside no program of ours."""
    made = table("published kernels that are not compared", "kernel", "rows", "why")
    for name, count, reason in kernels.not_compared():
        made.add_row(name, str(count), reason)
    return made


def main(options: list[str]) -> None:
    """Print what is asked for."""
    if "--tquant" in options:
        print(markdown())
        return
    if "--regions" in options:
        window.main()
        regions.main()
        return
    console = Console(width=170)
    by_family = "--families" in options
    console.print(singles(by_family))
    if "--quick" not in options:
        console.print(left_out(by_family))
        console.print(numbers())
    if "--harder" in options:
        console.print(harder(by_family))
    apart = "--quick" not in options
    console.print(whole(kernels.kernels(apart=apart)))
    found = kernels.kernels(apart=apart)
    inside = sum(k.is_inside for k in found)
    console.print(f"{inside} of {len(found)} published kernels are inside their error bar")
    for line in kernels.missed(found):
        console.print(line)
    if apart:
        console.print(without())
        print("\n\n".join(make() for make in launches.TABLES))
    if "--write" in options:
        path = Path("isa/costs/accuracy.toml")
        path.write_text(stored.content(), encoding="utf-8")
        accuracy.cache_clear()
        pages.write()
        launches.write()
        console.print(f"written: {path}, {', '.join(pages.PAGES)}")


main(sys.argv[1:])
