"""`ptosim calibrate TABLE… -o board.toml`, `ptosim calibrate --kit DIR`"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from ptosim.ground.errors import PtosimError, UsageError
from ptosim.ground.files import write_file
from ptosim.ground.isa.costs import CostTable
from ptosim.ground.isa.overlay import overlay_text
from ptosim.ground.isa.targets import DEFAULT_TARGET
from ptosim.ground.records import replace
from ptosim.language.targets import check_target_word
from ptosim.launch.analysis.calibrate.boards import read_launches
from ptosim.launch.analysis.calibrate.calibration import calibrate
from ptosim.launch.analysis.calibrate.fit import Kernel
from ptosim.launch.analysis.calibrate.kit import write_kit
from ptosim.launch.cost import chosen_table
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.options import READING, group, inputs, option, several, switch
from ptosim.shell.terminal import Terminal
from ptosim.time.report.totals import CostReport
from ptosim.views.calibration import calibration_report, notes
from ptosim.views.report import Report, Section
from ptosim.views.table import Text

_EPILOG = """--kit DIR writes small kernels, a table of launches and a script that fills it in: the
table with its times is a TABLE, and tells what HBM, L2, a launch and the ways of a core take. Or
TABLE is op_summary_*.csv (msprof), PipeUtilization.csv or trace.json (msopprof). Rows of tile
operations (OP Type TADD, …, with shapes and types) are compared by the time of their pipe, rows of
kernels through the programs they were made of: --program FILE.pto (--arg, --block-num). Every third
point of an operation is held out of the fit; figures that the points do not determine keep their
values. `ptosim cost FILE --costs board.toml` takes what -o writes."""


@command(
    "calibrate",
    group(
        "calibration",
        option("given", nargs="*", metavar="TABLE", help="what a profiler wrote, or a filled kit"),
        option(
            "--from", dest="tables", nargs="+", action="extend", default=[], metavar="TABLE",
            help="the same",
        ),
        option("--kit", metavar="DIR", help="write the calibration kit of the chip into DIR"),
        switch("--check", help="compare only: no figure is changed, nothing written"),
        several(
            "--program", "FILE",
            "the program of a kernel in the tables; with --kit a program, or a folder of "
            "some, that the kit is for: launches that narrow its bar most come first",
        ),
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
    tables = [*options.given, *options.tables]
    if options.kit is not None:
        if tables or options.overlay or options.check:
            raise UsageError("--kit writes the kit only: give its table, when it has times, alone")
        return _kit(options, terminal)
    if not tables:
        raise UsageError("give a TABLE of your board, or --kit DIR to write the kernels for one")
    kernels, table = _prepared(options, tables)
    with terminal.busy("comparing"):
        found = calibrate(tables, table, kernels, check=options.check)
    if options.overlay:
        if not found.changed:
            raise UsageError(
                "PTO7524: no figure is changed, so there is no overlay to write",
                help="without -o the report says why each figure stays",
            )
        path = Path(options.overlay)
        write_file(path, overlay_text(found.overlay(path.name), table, notes(found)))
    return calibration_report(found)


def _kit(options: argparse.Namespace, terminal: Terminal) -> Report:
    folder, (target, *others) = options.kit, launching.targets(options.target)
    if others:
        raise UsageError("--kit takes one --target: it is of one chip")
    named = check_target_word(target or DEFAULT_TARGET)
    table = chosen_table(named.chip or named.architecture, options.costs)
    with terminal.busy("timing the programs that the kit is for"):
        reports, left_out = _timed(options, table)
        names, untold = write_kit(folder, table, reports)
    programs = len(names) - 2
    text = (
        f"{folder}: {programs} programs for the {table.chip}, {names[0]} with the launches to "
        f"time, {names[1]} that fills it in with a launcher of yours\n"
        f"then: ptosim calibrate {Path(folder) / names[0]} -o board.toml"
    )
    parts = [Text(text)]
    if reports:
        parts.append(Text(f"first come the launches that tell most of {len(reports)} programs"))
    if untold:
        parts.append(Text(f"no launch tells: {', '.join(untold)}; a profiler's table does"))
    parts += [Text(f"not timed: {file}: {why}") for file, why in left_out.items()]
    told = {"for": len(reports), "not_told": untold, "not_timed": left_out}
    return Report(
        [Section("", parts)],
        lambda: {"folder": folder, "files": names, **(told if reports else {})},
    )


def _timed(
    options: argparse.Namespace, table: CostTable
) -> tuple[list[CostReport], dict[str, str]]:
    """The programs of `--program`, files or folders, as their sidecars launch them; of those that
    are not timed, why. Raises UsageError if none is."""
    files = []
    for word in options.program:
        inside = sorted(Path(word).rglob("*.pto")) if os.path.isdir(word) else [word]
        files += map(str, inside)
    reports, left_out = list[CostReport](), dict[str, str]()
    for file in files:
        try:
            choices = replace(launching.choices(options, file), target=table.chip.lower())
            reports.append(
                choices.program().cost(
                    entry=choices.entry,
                    args=choices.arguments(),
                    costs=table,
                    **choices.run_options("block_num", "ranks", "max_instructions"),
                )
            )
        except PtosimError as problem:
            left_out[file] = str(problem).partition("\n")[0].removeprefix(f"{file}:")
    if options.program and not reports:
        why = "; ".join(f"{file}: {why}" for file, why in left_out.items())
        raise UsageError(f"no program that the kit is for can be timed: {why or 'there is none'}")
    return reports, left_out


def _prepared(options: argparse.Namespace, tables: Sequence[str]) -> tuple[list[Kernel], CostTable]:
    """The kernels, and the figures of the chip that they are for: the one of a filled kit, if no
    other is named."""
    target = launching.targets(options.target)
    if len(target) > 1:
        raise UsageError("--target takes one chip here: a table is of one board")
    kernels = [
        Kernel.of(replace(launching.choices(options, file), target=target[0]))
        for file in options.program
    ]
    chips = {k.program.front.chip for k in kernels}
    if not target[0]:
        kits = filter(None, map(read_launches, tables))
        chips |= {check_target_word(k.chip).chip or k.chip for k in kits if k.chip}
    if len(chips) > 1:
        raise UsageError(f"the programs are for {' and '.join(sorted(chips))}; give one --target")
    named = check_target_word(target[0] or DEFAULT_TARGET)
    chip = chips.pop() if chips else named.chip or named.architecture
    return kernels, chosen_table(chip, options.costs)
