"""`ptosim report FILE -o report.html`: everything that is known of a program as one page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.errors import ProgramError, Trap, UsageError
from ptosim.language.frontend import Front
from ptosim.launch.choices import Choices
from ptosim.launch.compare import Comparison, compare
from ptosim.launch.parallel.wanted import available_cores
from ptosim.launch.program import LoadedProgram
from ptosim.launch.results import Result
from ptosim.launch.sources import open_source
from ptosim.shell import launching, paging
from ptosim.shell import options as shared
from ptosim.shell.formats import Formats, data, text
from ptosim.shell.jobs import add_jobs
from ptosim.shell.terminal import Terminal
from ptosim.time.report.chains import chains
from ptosim.tools.api import check_source
from ptosim.views import cost_data, run_report
from ptosim.views.cast_chains import page_section
from ptosim.views.header import header, header_line
from ptosim.views.report.contents import Contents, Ran
from ptosim.views.report.page import report_page

_EPILOG = """The program is checked, run on the first target (on its own arguments, else on
generated data), and timed on every target that accepts it; the page has verdict, findings,
values, timeline, stages, roofline, memory over cycles, hints and accuracy. It is one file that
needs nothing else. Exit code: as of `run`; 3 if every target rejects the program."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = _EPILOG
    shared.add_program(parser)
    group = parser.add_argument_group("run")
    launching.add_arguments(group)
    add_jobs(group, "blocks without dependences are executed in")
    shared.add_fail_on(parser)
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Check, run and time the program, and write the page."""
    if terminal.is_screen() and terminal.format == "html":
        raise UsageError("a page is no text for a terminal", help="give a file: -o report.html")
    contents = _Gathering(options, terminal)
    contents.gather()
    terminal.report(contents)
    return contents.exit_code()


class _Gathering:
    """What is found out, target by target."""

    def __init__(self, options: argparse.Namespace, terminal: Terminal) -> None:
        self.options, self.terminal = options, terminal
        self.contents = Contents("", paging.command_line(options))
        self.result: Result | None = None
        self.entry = ""

    def gather(self) -> None:
        """Check, time on every target, run on the first one that accepts the program."""
        asked = launching.each_target(self.options, every=True)
        if asked[0].target is None:  # nothing says for which: both are of interest
            asked = launching.each_target(_with_targets(self.options), every=True)
        checked = self._check(asked[0])
        for choices in asked:
            try:
                self._target(choices, checked if choices is asked[0] else None)
            except Trap as trap:
                self.contents.stopped = trap
                self._add(trap.diagnostics)
            except ProgramError as problem:
                self.contents.rejected[str(choices.target or "the target")] = problem
                self._add(problem.diagnostics)
        reports = [t.cost for t in self.contents.timed]
        codes = {name: p.diagnostics[0].code for name, p in self.contents.rejected.items()}
        self.contents.sections.append(page_section(chains(reports), codes))
        targets = ", ".join([*(t.cost.label for t in self.contents.timed), *self.contents.rejected])
        self.contents.title = f"{self.entry or self.options.file} on {targets}"

    def _check(self, choices: Choices) -> Front | None:
        """Check the program; return it, where it need not be checked again for its entry alone."""
        checked = check_source(
            open_source(choices.file), choices.target, choices.level, choices.sync,
            compat=choices.compat, legacy=choices.legacy, profile=choices.profile or "hw",
            switches=choices.switches, planner=choices.planner, entry=choices.entry,
            args=choices.arguments(),
        )  # fmt: skip
        self._add(checked.findings)
        return checked.front if choices.entry is None else None

    def _target(self, choices: Choices, checked: Front | None) -> None:
        program = choices.program(checked)
        entry = self.entry = program.entry(choices.entry)
        args = choices.arguments()
        self.contents.heads.append(header_line(header(program, entry)))
        if self.result is None and self.contents.stopped is None:
            self._run(choices, program, entry, args)
        with self.terminal.busy(f"timing {entry} on {program.target}"):
            cost = program.cost(
                entry=entry, args=args,
                **choices.run_options("block_num", "ranks", "max_instructions"),
            )  # fmt: skip
            self.contents.timed.append(paging.timed(program, cost, args))

    def _run(
        self, choices: Choices, program: LoadedProgram, entry: str, args: dict[str, Any]
    ) -> None:
        try:
            with self.terminal.busy(f"running {entry}"):
                wanted = {"jobs": available_cores(), **choices.run_options()}
                result = program.run(args, entry=entry, **wanted)
                if self.options.jobs is None:  # nobody asked for processes
                    result.in_order = ""
        except Trap as trap:
            self.contents.stopped = trap
            self._add(trap.diagnostics)
            return
        self.result = result
        compared = [
            _compared(result, name, expected, tolerance)
            for name, (expected, tolerance) in choices.expected().items()
            if name in result.outputs
        ]
        self.contents.ran = Ran(run_report.values(result, compared), result, compared)
        self._add(result.findings)

    def _add(self, findings: Sequence[Diagnostic]) -> None:
        known = {(d.code, d.message, str(d.span)) for d in self.contents.findings}
        self.contents.findings += [
            d for d in findings if (d.code, d.message, str(d.span)) not in known
        ]

    def exit_code(self) -> int:
        """Return the exit code: as of `run`, 3 if no target accepts the program."""
        contents = self.contents
        if contents.stopped is not None:
            return contents.stopped.exit_code
        if not contents.timed and contents.rejected:
            return next(iter(contents.rejected.values())).exit_code
        wrong = contents.ran is not None and any(not c.passed for c in contents.ran.comparisons)
        threshold = "warning" if self.options.strict else self.options.fail_on
        return 1 if wrong or shared.fails(contents.findings, threshold) else 0

    def to_json(self) -> dict[str, object]:
        """Return what the page says as data."""
        contents = self.contents
        pairs = [(t.program, t.cost) for t in contents.timed]
        ran = contents.ran
        run_ = None
        if ran is not None and contents.timed:
            program = contents.timed[0].program
            run_ = run_report.to_json(program, self.entry, ran.result, ran.comparisons)
        return {
            "title": contents.title,
            "command": contents.command,
            "findings": contents.findings,
            "run": run_,
            "cost": cost_data.to_json(pairs, contents.rejected, {}),
            "memory": {t.cost.label: t.memory for t in contents.timed if t.memory is not None},
        }


def _compared(result: Result, name: str, expected: Any, tolerance: Any) -> Comparison:
    return compare(name, result.outputs[name], np.asarray(expected), tolerance)


def _with_targets(options: argparse.Namespace) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(options), "target": "a2a3,a5"})


FORMATS: Formats[_Gathering] = {
    "html": text(lambda found: report_page(found.contents)),
    "json": data(lambda found: found.to_json()),
}
