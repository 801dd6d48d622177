"""What `diff` and `port` share: options, one side, the report."""

from __future__ import annotations

import argparse
from dataclasses import replace

from ptosim.analysis.differences import Difference, Side, look_at
from ptosim.cli import options as shared
from ptosim.cli.launching import choices
from ptosim.cli.terminal import Terminal
from ptosim.ground.diagnostics.model import Severity
from ptosim.ground.errors import ProgramError
from ptosim.run.compare import Tolerance

_THRESHOLDS = {"error": Severity.ERROR, "warning": Severity.WARNING, "never": None}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of both commands."""
    group = parser.add_argument_group("comparison")
    group.add_argument("--entry", metavar="F", help="the function to run")
    group.add_argument("--arg", action="append", default=[], metavar="NAME=SPEC")
    group.add_argument("--seed", type=int, help="seed of made-up data")
    group.add_argument("--rtol", type=float, help="relative tolerance of values")
    group.add_argument("--atol", type=float, help="absolute tolerance of values")
    group.add_argument("--ulp", type=int, help="tolerance in units in the last place")
    group.add_argument(
        "--slower", type=float, default=5.0, metavar="PERCENT",
        help="more cycles that count as worse (default: 5)",
    )  # fmt: skip
    shared.add_fail_on(parser)
    shared.add_output(parser, ("text", "json"))


def side(options: argparse.Namespace, file: str, target: str | None) -> Side:
    """Return what a file gives on a target, with the arguments of its sidecar and those given."""
    return look_at(replace(choices(options, file), target=target))


def tolerance(options: argparse.Namespace) -> Tolerance:
    """Return the tolerance that the options ask for."""
    return Tolerance(options.rtol, options.atol, options.ulp)


def report(
    found: Difference, names: tuple[str, str], options: argparse.Namespace, terminal: Terminal
) -> int:
    """Write the report and return the exit code: 3 if a side is rejected, 1 if something is
    worse."""
    threshold = "warning" if options.strict else options.fail_on
    worse = found.regressions(options.slower, _THRESHOLDS[threshold])
    if options.format == "json":
        terminal.json({**found.to_dict(), "worse": worse})
    else:
        from ptosim.views.difference_report import renderables

        terminal.print_renderables(renderables(found, worse, names))
        if found.second.is_rejected:
            terminal.findings(found.new)
    if found.first.is_rejected or found.second.is_rejected:
        return ProgramError.exit_code
    return 1 if worse else 0
