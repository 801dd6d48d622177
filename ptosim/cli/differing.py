"""What `diff` and `port` share: options, one side, the report."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import NamedTuple

from ptosim.analysis.differences import Difference, Side, look_at
from ptosim.cli import launching
from ptosim.cli import options as shared
from ptosim.cli.formats import Formats, data, tables
from ptosim.cli.terminal import Terminal
from ptosim.ground.progress import each
from ptosim.views.difference_report import renderables


class _Report(NamedTuple):
    """What changes, what of it is worse, how the sides are called."""

    found: Difference
    worse: list[str]
    names: tuple[str, str]


FORMATS: Formats[_Report] = {
    "text": tables(lambda report: renderables(*report)),
    "json": data(lambda report: {**report.found.to_dict(), "worse": report.worse}),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of both commands."""
    group = parser.add_argument_group("comparison")
    launching.add_inputs(group, "run")
    group.add_argument("--seed", type=shared.from_zero, help="seed of generated data")
    launching.add_tolerance(group, "values")
    group.add_argument(
        "--slower", type=float, default=5.0, metavar="PERCENT",
        help="more cycles that count as worse (default: 5)",
    )  # fmt: skip
    shared.add_fail_on(parser)
    shared.add_output(parser, FORMATS)


def side(options: argparse.Namespace, file: str, target: str | None) -> Side:
    """Return what a file gives on a target, with the arguments of its sidecar and those given."""
    return look_at(replace(launching.choices(options, file), target=target))


def sides(
    options: argparse.Namespace, terminal: Terminal, *wanted: tuple[str, str | None]
) -> list[Side]:
    """Return what files give on targets; meanwhile a terminal shows how far that is."""
    with terminal.busy("running both", len(wanted), "sides") as progress:
        return [side(options, file, target) for file, target in each(progress, wanted)]


def report(
    found: Difference, names: tuple[str, str], options: argparse.Namespace, terminal: Terminal
) -> int:
    """Write the report and return the exit code: 3 if a side is rejected, 5 if its target does not
    execute it, 1 if something is worse; of what gave no values to compare, what kept it from it."""
    threshold = "warning" if options.strict else options.fail_on
    worse = found.regressions(options.slower, shared.THRESHOLDS[threshold])
    terminal.report(_Report(found, worse, names))
    if terminal.format == "text" and found.second.is_rejected:
        terminal.findings(found.new)
    return found.exit_code or (1 if worse else 0)
