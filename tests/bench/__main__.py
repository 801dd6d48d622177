"""`python -m tests.bench [NAME…]`: every figure as a ratio to something measured in the same run."""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ptosim.launch import in_parts
from tests.bench import compare, measures
from tests.bench.compare import Line
from tests.bench.neighbour import busy
from tests.bench.timing import Figure


def main() -> None:
    """Measure what is named, or everything; print a table and, if asked, keep it or compare it."""
    options = _options()
    in_parts.MOST_KNOWN = 0  # every run is one of a program that is new, unless a line says so
    chosen = {
        name: function for name, function in measures.ALL.items() if _is_wanted(name, options)
    }
    lines, times = _measured(chosen, options.rounds)
    base = compare.read(options.compare) if options.compare else None
    beside = None
    if options.busy:
        with busy():
            beside = _measured(chosen, options.rounds)[0]
    _print(lines, base, beside)
    if options.times:
        for name, (wall, processor) in times.items():
            print(f"{name:20} {wall:7.1f} s  processor {processor:7.1f} s")
    if failed := [what for what, line in lines.items() if line.best.measured == FAILED]:
        raise SystemExit(f"failed: {', '.join(failed)}")
    if options.json:
        content = {"figures": [line.to_dict() for line in lines.values()]}
        Path(options.json).write_text(json.dumps(content, indent=1) + "\n")


FAILED = "failed"

QUICK = ("parsing", "dispatch", "vector", "logical", "sanitizers", "timing_on_top", "steady_loops")
"""Measures of half a minute in all, whose ratios hardly depend on the machine."""


def _is_wanted(name: str, options: argparse.Namespace) -> bool:
    if options.quick:
        return name in QUICK
    return not options.names or any(part in name for part in options.names)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names of measures; all by default")
    parser.add_argument("--rounds", type=int, default=1, help="rounds over all that is measured")
    parser.add_argument("--json", metavar="FILE", help="keep the figures for a later --compare")
    parser.add_argument("--compare", metavar="BASE", help="say what became slower since then")
    parser.add_argument("--quick", action="store_true", help="what CI compares: half a minute")
    parser.add_argument("--busy", action="store_true", help="and again with a busy neighbour")
    parser.add_argument("--times", action="store_true", help="seconds that each measure took")
    return parser.parse_args()


def _measured(
    chosen: dict[str, Callable[[], list[Figure]]], rounds: int
) -> tuple[dict[str, Line], dict[str, tuple[float, float]]]:
    """Round by round, so that a busy minute of the machine does not hit one measure only."""
    lines: dict[str, Line] = {}
    times: dict[str, tuple[float, float]] = {}
    for _ in range(rounds):
        for name, function in chosen.items():
            wall, processor = time.perf_counter(), _processor()
            for figure in _figures(name, function):
                lines.setdefault(figure.what, Line(figure)).add(figure)
            before = times.get(name, (0.0, 0.0))
            spent = (time.perf_counter() - wall, _processor() - processor)
            times[name] = (before[0] + spent[0], before[1] + spent[1])
    return lines, times


def _figures(name: str, function: Callable[[], list[Figure]]) -> list[Figure]:
    """What a measure found; one that fails says so in its line, and the others go on."""
    try:
        return function()
    except Exception as problem:
        return [Figure(name, FAILED, repr(problem))]


def _processor() -> float:
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def _print(
    lines: dict[str, Line],
    base: dict[str, dict[str, object]] | None,
    beside: dict[str, Line] | None,
) -> None:
    table = Table(box=SIMPLE_HEAD, title="ptosim speed", title_justify="left")
    columns = ("what", "measured", "compared with", "ratio", "budget")
    for column in columns if base is None else (*columns[:4], "change of the ratio"):
        table.add_column(column, justify="right" if column in ("measured", "ratio") else "left")
    for column in ("with a busy neighbour", "ratio") if beside is not None else ():
        table.add_column(column, justify="right")
    for line in lines.values():
        last = line.best.budget if base is None else compare.verdict(line, base.get(line.best.what))
        best = line.best
        also = [beside[best.what].best] if beside is not None and best.what in beside else []
        more = (text for figure in also for text in (figure.measured, figure.ratio))
        table.add_row(best.what, best.measured, best.reference, best.ratio, last, *more)
    Console(width=140 if beside is None else 190).print(table)


main()
