"""What `diff` and `port` share: options, one side, the report."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ptosim.ground.progress import each
from ptosim.ground.records import NamedTuple, replace
from ptosim.launch.analysis.differences import Difference, Side, look_at
from ptosim.shell import launching
from ptosim.shell import options as shared
from ptosim.shell.formats import Formats, data, tables
from ptosim.shell.terminal import Terminal
from ptosim.tools.search.prove import Proof
from ptosim.views.difference_report import renderables


class _Report(NamedTuple):
    """What changes, what of it is worse, how the sides are called, whether they are equal for all
    inputs if that was asked for."""

    found: Difference
    worse: list[str]
    names: tuple[str, str]
    proof: Proof | None


def _parts(report: _Report) -> Iterator[object]:
    yield from renderables(report.found, report.worse, report.names)
    proof = report.proof
    if proof is not None and proof.is_equal:
        yield f"for all inputs: equal, {proof.why} ({proof.elements:,} elements)"


def _fields(report: _Report) -> dict[str, object]:
    told = {} if report.proof is None else {"proof": report.proof.to_dict()}
    return {**report.found.to_dict(), "worse": report.worse, **told}


FORMATS: Formats[_Report] = {"text": tables(_parts), "json": data(_fields)}


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
    found: Difference,
    names: tuple[str, str],
    options: argparse.Namespace,
    terminal: Terminal,
    proof: Proof | None = None,
) -> int:
    """Write the report and return the exit code: 3 if a side is rejected, 5 if its target does not
    execute it, 1 if something is worse or a proof was asked for and is none; of what gave no values
    to compare, what kept it from it."""
    threshold = "warning" if options.strict else options.fail_on
    worse = found.regressions(options.slower, shared.THRESHOLDS[threshold])
    if proof is not None and not proof.is_equal:
        worse.append(f"{proof.verdict} for all inputs: {proof.why}")
    terminal.report(_Report(found, worse, names, proof))
    if terminal.format == "text" and found.second.is_rejected:
        terminal.findings(found.new)
    return found.exit_code or (1 if worse else 0)
