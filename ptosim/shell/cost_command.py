"""`ptosim cost FILE`"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

from ptosim.ground.errors import ProgramError, UsageError
from ptosim.ground.records import NamedTuple
from ptosim.launch.choices import Choices
from ptosim.launch.program import LoadedProgram
from ptosim.shell import launching
from ptosim.shell import options as shared
from ptosim.shell.formats import Formats, data, text
from ptosim.shell.terminal import Terminal, trace_text, write_file
from ptosim.time.report.totals import CostReport
from ptosim.views import cost_data, cost_tables
from ptosim.views.cost_tables import BY, VIEWS

Timed = tuple[LoadedProgram, CostReport]

_EPILOG = """No values are needed: only scalar arguments on which a trip count, a path or a shape
depends (`--arg n=4096`). --what-if changes a figure: clock (MHz), bandwidth (GiB/s of all cores),
launch (us), buffers (more buffers for every hand-back flag), out-of-order (0: vector regions in
order), or any figure of the target by name, as `instruction.vadd.slope`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = _EPILOG
    shared.add_program(parser)
    group = parser.add_argument_group("cost")
    launching.add_inputs(group, "time")
    group.add_argument("--block-num", type=int, metavar="N", help="blocks to launch")
    group.add_argument(
        "--every-round", action="store_true", help="execute loops that repeat in full, too"
    )
    group.add_argument(
        "--each-block", action="store_true", help="time every block, also those that do the same"
    )
    group.add_argument("--ranks", type=int, metavar="N", help="devices to launch, in one memory")
    group.add_argument(
        "--view",
        choices=VIEWS,
        action="append",
        help="parts of the report (default: most)",
    )
    group.add_argument("--by", choices=BY, help="one table only: what the costs are joined by")
    group.add_argument("--what-if", action="append", default=[], metavar="KEY=VALUE")
    group.add_argument(
        "--costs", metavar="FILE", help="figures of your own board (`ptosim calibrate -o FILE`)"
    )
    launching.add_trace(group)
    shared.add_fail_on(parser)
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Time the program on every target asked for, side by side."""
    _check_trace(options.trace)
    asked = launching.each_target(options, every=True)
    what_if = _what_if(options.what_if)
    timed: list[Timed] = []
    rejected: dict[str, ProgramError] = {}
    for choices in asked:
        try:
            timed.append(_time(choices, what_if, options, terminal))
        except ProgramError as problem:
            if len(asked) == 1:
                raise
            if terminal.format != "json":  # there they are in the report
                terminal.findings(problem.diagnostics)
            rejected[str(choices.target)] = problem
    if terminal.wants_report:
        terminal.report(_Report(timed, rejected, what_if, options))
    if options.trace:
        _write_trace(options.trace, timed, options.trace_unit)
    return max((problem.exit_code for problem in rejected.values()), default=0)


def _time(
    choices: Choices, what_if: dict[str, float], options: argparse.Namespace, terminal: Terminal
) -> Timed:
    program = choices.program()
    with terminal.busy(f"timing {program.entry(choices.entry)} on {program.target}"):
        report = program.cost(
            entry=choices.entry,
            args=choices.arguments(),
            what_if=what_if,
            costs=options.costs,
            each_block=options.each_block,
            steady=not options.every_round,
            **choices.run_options("block_num", "ranks", "max_instructions"),
        )
    return program, report


def _what_if(pairs: list[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        try:
            number = float(text)
        except ValueError as problem:
            raise UsageError(f"--what-if takes KEY=NUMBER, not `{pair}`") from problem
        if not math.isfinite(number):
            raise UsageError(f"--what-if takes KEY=NUMBER, and `{text}` is no finite number")
        found[key.strip()] = number
    return found


class _Report(NamedTuple):
    """What was timed, the targets that reject the program, changed figures."""

    timed: list[Timed]
    rejected: dict[str, ProgramError]
    what_if: dict[str, float]
    options: argparse.Namespace


def _text(report: _Report, terminal: Terminal) -> str:
    if not report.timed:
        return ""
    by = report.options.by
    views = report.options.view or ([] if by else list(cost_tables.DEFAULT_VIEWS))
    width = terminal.width()
    codes = _codes(report)
    parts = cost_tables.renderables(report.timed, views, by, report.what_if, width, codes)
    return terminal.render(parts)


def _codes(report: _Report) -> dict[str, str]:
    """The code of the first finding of each target that rejects the program."""
    return {target: found.diagnostics[0].code for target, found in report.rejected.items()}


def _page(report: _Report) -> str:
    from ptosim.shell.paging import cost_page
    from ptosim.time.report.chains import chains
    from ptosim.views.cast_chains import page_section

    asked = launching.each_target(report.options, every=True)
    args = [c.arguments() for c in asked if str(c.target) not in report.rejected]
    cast = page_section(chains([r for _, r in report.timed]), _codes(report))
    return cost_page(report.options, report.timed, report.rejected, args, [cast])


FORMATS: Formats[_Report] = {
    "text": _text,
    "json": data(lambda r: cost_data.to_json(r.timed, r.rejected, r.what_if)),
    "csv": text(lambda r: cost_data.to_csv([report for _, report in r.timed])),
    "html": text(_page),
}


def _check_trace(path: str | None) -> None:
    """Raise UsageError for a trace that would go into no file: before the timing, and before the
    target goes into a name that there is none of."""
    if path and (not Path(path).name or os.path.isdir(path)):
        raise UsageError(f"--trace takes a file, and `{path}` is none")


def _write_trace(path: str, timed: list[Timed], unit: str) -> None:
    """One file for each target; the target goes into the name if there are several."""
    for _, report in timed:
        file = Path(path)
        if len(timed) > 1:
            file = file.with_stem(f"{file.stem}.{report.label}")
        write_file(file, trace_text(report.trace(unit)))
