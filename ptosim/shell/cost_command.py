"""`ptosim cost FILE`"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

from ptosim.ground.diagnostics.model import Diagnostic, ProgramError
from ptosim.ground.errors import PtosimError, UsageError
from ptosim.launch.compare import Choices
from ptosim.launch.cost import BUFFERS, SHORT_KEYS
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.options import (
    BLOCKS,
    FAIL_ON,
    RANKS,
    TRACE,
    group,
    inputs,
    option,
    program,
    several,
    switch,
)
from ptosim.shell.terminal import Terminal, trace_text, write_file
from ptosim.time.report.totals import CostReport
from ptosim.views.cost_report import cost_report, trust_report
from ptosim.views.cost_tables import BY, VIEWS
from ptosim.views.program_page import Known, Timed
from ptosim.views.report import Report

_EPILOG = """No values are needed: only scalar arguments on which a trip count, a path or a shape
depends (`--arg n=4096`); for those left out values are chosen that the kernel allows.
--what-if changes a figure: clock (MHz), bandwidth (GiB/s of all cores), launch (us), buffers (more
buffers for every hand-back flag), out-of-order (0: vector regions in order), or any figure of the
target by name, as `instruction.vadd.slope`. With `--view trust` FILE may be a folder: the laws that
carry the time of all programs in it."""


@command(
    "cost",
    program(),
    group(
        "cost",
        inputs("time"),
        BLOCKS,
        switch("--every-round", help="execute loops that repeat in full, too"),
        switch("--each-block", help="time every block, also those that do the same"),
        RANKS,
        option(
            "--start", choices=("warm", "cold"), default="warm",
            help="what L2 holds at the start: what fits of the launch before (default), or nothing",
        ),
        option(
            "--view", choices=VIEWS, action="append", metavar="VIEW",
            help=f"parts of the report (default: what matters, on one screen): {', '.join(VIEWS)}",
        ),
        option("--by", choices=BY, help="one table only: what the costs are joined by"),
        several(
            "--what-if", "KEY=VALUE",
            "change a figure, and show base, new and difference; several combine",
        ),
        option(
            "--costs", metavar="FILE",
            help="figures of your own board (`ptosim calibrate -o FILE`)",
        ),
        TRACE,
    ),
    FAIL_ON,
    forms=("text", "json", "csv", "html"),
    epilog=_EPILOG,
)  # fmt: skip
def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Time the program on every target asked for, side by side."""
    _check_trace(options.trace)
    if os.path.isdir(options.file):
        return terminal.tell(_folder(options, terminal))
    asked = launching.each_target(options, every=True)
    what_if = _what_if(options.what_if)
    known, base = Known(), list[CostReport]()
    for choices in asked:
        try:
            known.timed.append(_time(choices, what_if, options, terminal))
            if what_if:
                base.append(_time(choices, {}, options, terminal).cost)
        except ProgramError as problem:
            if len(asked) == 1:
                raise
            if terminal.format != "json":  # there they are in the report
                terminal.findings(problem.diagnostics)
            known.rejected[str(choices.target)] = problem
    known.findings = [d for p in known.rejected.values() for d in p.diagnostics]
    broken = _broken(options, asked[0]) if known.timed else []
    said = (options.view or (), options.by, str(options.file), launching.command_line(options))
    report = cost_report(known, what_if, *said, base, broken)
    report.exit_code = max((p.exit_code for p in known.rejected.values()), default=0)
    code = terminal.tell(report)
    if options.trace:
        _write_trace(options.trace, known.reports, options.trace_unit)
    return code


def _broken(options: argparse.Namespace, choices: Choices) -> list[Diagnostic]:
    """What the kernel requires that the scalars break, if its sidecar does not say all of them."""
    if not (options.arg or options.block_num):
        return []
    program, blocks = choices.program(), choices.run_options("block_num").get("block_num")
    entry = program.entry(choices.entry)
    return launching.broken_by(program, entry, choices.arguments(), blocks)


def _folder(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Which laws carry the time of the programs in a folder, each as its sidecar launches it; those
    that cannot be timed are named."""
    if options.view != ["trust"]:
        raise UsageError(
            f"cannot read {options.file}: Is a directory",
            help="the programs of a folder are timed for `--view trust` alone",
        )
    files = sorted(Path(options.file).rglob("*.pto"))
    if not files:
        raise UsageError(f"there is no program (*.pto) in {options.file}")
    what_if = _what_if(options.what_if)
    reports = dict[str, list[CostReport]]()
    left_out = dict[str, str]()
    for file in files:
        try:
            for choices in launching.each_target(options, str(file), every=True):
                cost = _time(choices, what_if, options, terminal).cost
                reports.setdefault(cost.label, []).append(cost)
        except PtosimError as problem:
            left_out[str(file)] = str(problem).partition("\n")[0].removeprefix(f"{file}:")
    return trust_report(options.file, len(files) - len(left_out), reports, left_out)


def _time(
    choices: Choices, what_if: dict[str, float], options: argparse.Namespace, terminal: Terminal
) -> Timed:
    program, args = choices.program(), choices.arguments()

    def timed() -> CostReport:
        return program.cost(
            entry=choices.entry,
            args=args,
            what_if=what_if,
            costs=options.costs,
            each_block=options.each_block,
            steady=not options.every_round,
            start=options.start,
            **choices.run_options("block_num", "ranks", "max_instructions"),
        )

    with terminal.busy(f"timing {program.entry(choices.entry)} on {program.target}"):
        try:
            return Timed(program, timed(), args)
        except UsageError as problem:
            left_out = launching.left_out(choices, args) if _NEEDED in str(problem) else {}
            if not left_out:
                raise
        args |= left_out
        report = timed()
    terminal.remark(launching.told(left_out))
    return Timed(program, report, args, left_out)


_NEEDED = "PTO6501"


def _what_if(pairs: list[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        try:
            number = float(text)
        except ValueError as problem:
            raise UsageError(
                f"--what-if takes KEY=NUMBER, not `{pair}`",
                help=f"KEY is {', '.join(SHORT_KEYS)}, {BUFFERS} or a figure of the target",
            ) from problem
        if not math.isfinite(number):
            raise UsageError(f"--what-if takes KEY=NUMBER, and `{text}` is no finite number")
        if key.strip() in found:
            raise UsageError(f"--what-if: `{key.strip()}` is changed twice", help="give it once")
        found[key.strip()] = number
    return found


def _check_trace(path: str | None) -> None:
    """Raise UsageError for a trace that would go into no file: before the timing, and before the
    target goes into a name that there is none of."""
    if path and (not Path(path).name or os.path.isdir(path)):
        raise UsageError(f"--trace takes a file, and `{path}` is none")


def _write_trace(path: str, reports: list[CostReport], unit: str) -> None:
    """One file for each target; the target goes into the name if there are several."""
    for report in reports:
        file = Path(path)
        if len(reports) > 1:
            file = file.with_stem(f"{file.stem}.{report.label}")
        write_file(file, trace_text(report.trace(unit)))
