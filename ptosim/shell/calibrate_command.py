"""`ptosim calibrate --from TABLE… -o board.toml`"""

from __future__ import annotations

import argparse
from pathlib import Path

from ptosim.ground.errors import UsageError
from ptosim.ground.files import write_file
from ptosim.ground.isa.costs import CostTable
from ptosim.ground.isa.overlay import overlay_text
from ptosim.ground.isa.targets import DEFAULT_TARGET
from ptosim.ground.records import replace
from ptosim.language.targets import check_target_word
from ptosim.launch.analysis.calibrate.calibration import calibrate
from ptosim.launch.analysis.calibrate.kernels import Kernel
from ptosim.launch.cost import chosen_table
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.options import READING, group, inputs, option, several, switch
from ptosim.shell.terminal import Terminal
from ptosim.views.calibration import calibration_report, notes
from ptosim.views.report import Report

_EPILOG = """TABLE is op_summary_*.csv (msprof), PipeUtilization.csv or trace.json (msopprof). Rows
of tile operations (OP Type TADD, …, with shapes and types) are compared by the time of their
pipe, rows of kernels through the programs they were made of: --program FILE.pto (--arg,
--block-num). Every third point of an operation is held out of the fit; figures that the points do
not determine keep their values. `ptosim cost FILE --costs board.toml` takes what -o writes."""


@command(
    "calibrate",
    group(
        "calibration",
        option(
            "--from", dest="tables", nargs="+", action="extend", required=True, metavar="TABLE",
            help="what a profiler wrote",
        ),
        switch("--check", help="compare only: no figure is changed, nothing written"),
        several("--program", "FILE", "the program of a kernel in the tables"),
        option("--costs", metavar="FILE", help="start from the figures of a board"),
        inputs("time"),
        option("--block-num", type=int, metavar="N", help="blocks (default: the table's)"),
    ),
    READING,
    forms=("text", "json"),
    file=option("-o", dest="overlay", metavar="FILE", help="write the figures to FILE (TOML)"),
    epilog=_EPILOG,
)  # fmt: skip
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Compare, refit, and write the overlay."""
    if options.check and options.overlay:
        raise UsageError("--check compares only: it writes no -o")
    kernels, table = _prepared(options)
    with terminal.busy("comparing"):
        found = calibrate(options.tables, table, kernels, check=options.check)
    if options.overlay:
        path = Path(options.overlay)
        write_file(path, overlay_text(found.overlay(path.name), table, notes(found)))
    return calibration_report(found)


def _prepared(options: argparse.Namespace) -> tuple[list[Kernel], CostTable]:
    """The kernels, and the figures of the chip that they are for."""
    target = launching.targets(options.target)
    if len(target) > 1:
        raise UsageError("--target takes one chip here: a table is of one board")
    kernels = [
        Kernel.of(replace(launching.choices(options, file), target=target[0]))
        for file in options.program
    ]
    chips = {k.program.front.chip for k in kernels}
    if len(chips) > 1:
        raise UsageError(f"the programs are for {' and '.join(sorted(chips))}; give one --target")
    named = check_target_word(target[0] or DEFAULT_TARGET)
    chip = chips.pop() if chips else named.chip or named.architecture
    return kernels, chosen_table(chip, options.costs)
