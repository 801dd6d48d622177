"""`ptosim report FILE -o report.html`: everything that is known of a program as one page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import Diagnostic, ProgramError, Trap
from ptosim.ground.errors import UsageError
from ptosim.language.frontend import Front
from ptosim.launch.compare import Choices, Comparison, compare
from ptosim.launch.program import LoadedProgram
from ptosim.launch.results import Result
from ptosim.launch.sources import open_source
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.options import FAIL_ON, LAUNCH, available_cores, group, jobs, program
from ptosim.shell.terminal import Terminal
from ptosim.tools.api import check_source
from ptosim.views.cost_report import to_json as cost_json
from ptosim.views.header import header, header_line
from ptosim.views.program_page import Known, Timed, sections
from ptosim.views.report import Report
from ptosim.views.run_report import Ran, values
from ptosim.views.run_report import to_json as run_json

_EPILOG = """The program is checked, run on the first target (on its own arguments, else on
generated data), and timed on every target that accepts it; the page has verdict, findings,
values, timeline, stages, roofline, memory over cycles, hints and accuracy. It is one file that
needs nothing else. Exit code: as of `run`; 3 if every target rejects the program."""


@command(
    "report",
    program(),
    group("run", LAUNCH, jobs("blocks without dependences are executed in")),
    FAIL_ON,
    forms=("html", "json"),
    epilog=_EPILOG,
)
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Check, run and time the program."""
    if terminal.is_screen() and terminal.format == "html":
        raise UsageError("a page is no text for a terminal", help="give a file: -o report.html")
    gathered = _Gathering(options, terminal)
    gathered.gather()
    return gathered.report()


class _Gathering:
    """What is found out, target by target."""

    def __init__(self, options: argparse.Namespace, terminal: Terminal) -> None:
        self.options, self.terminal = options, terminal
        self.known = Known()
        self.heads: list[str] = []
        self.ran: Ran | None = None
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
                self._stop(trap)
            except ProgramError as problem:
                self.known.rejected[str(choices.target or "the target")] = problem
                self._add(problem.diagnostics)

    def _check(self, choices: Choices) -> Front | None:
        """Check the program; return it, where it need not be checked again for its entry alone."""
        checked = check_source(
            open_source(choices.file), choices.target, choices.level, choices.sync,
            compat=choices.compat, legacy=choices.legacy, profile=choices.profile or "hw",
            switches=choices.switches, planner=choices.planner, entry=choices.entry,
            defines=choices.defines,
            args=choices.arguments(),
        )  # fmt: skip
        self._add(checked.findings)
        return checked.front if choices.entry is None else None

    def _target(self, choices: Choices, checked: Front | None) -> None:
        program = choices.program(checked)
        entry = self.entry = program.entry(choices.entry)
        args = choices.arguments()
        self.heads.append(header_line(header(program, entry)))
        if self.ran is None and self.known.stopped is None:
            self._run(choices, program, entry, args)
        with self.terminal.busy(f"timing {entry} on {program.target}"):
            cost = program.cost(
                entry=entry, args=args,
                **choices.run_options("block_num", "ranks", "max_instructions"),
            )  # fmt: skip
            self.known.timed.append(Timed(program, cost, args))

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
            self._stop(trap)
            return
        compared = [
            _compared(result, name, expected, tolerance)
            for name, (expected, tolerance) in choices.expected().items()
            if name in result.outputs
        ]
        self.ran = Ran(program, entry, result, compared)
        self.known.compared, self.known.values = compared, values(result, compared)
        self._add(result.findings)

    def _stop(self, trap: Trap) -> None:
        self.known.stopped = trap
        self._add(trap.diagnostics)

    def _add(self, findings: Sequence[Diagnostic]) -> None:
        known = {(d.code, d.message, str(d.span)) for d in self.known.findings}
        self.known.findings += [
            d for d in findings if (d.code, d.message, str(d.span)) not in known
        ]

    def report(self) -> Report:
        """Return the page, and what it says as data."""
        known, command = self.known, launching.command_line(self.options)
        targets = ", ".join([*(cost.label for cost in known.reports), *known.rejected])
        title = f"{self.entry or self.options.file} on {targets}"

        def fields() -> dict[str, object]:
            pairs = [(t.program, t.cost) for t in known.timed]
            ran = run_json(self.ran) if self.ran is not None and pairs else None
            return {
                "title": title,
                "command": command,
                "findings": known.findings,
                "run": ran,
                "cost": cost_json(pairs, known.rejected, {}),
                "memory": {t.cost.label: t.memory for t in known.timed if t.memory is not None},
            }

        return Report(
            sections(known, self.heads, command, chains=True),
            fields,
            title=title,
            heads=self.heads,
            exit_code=self._exit_code(),
        )

    def _exit_code(self) -> int:
        """As of `run`; 3 if no target accepts the program."""
        known = self.known
        if known.stopped is not None:
            return known.stopped.exit_code
        if not known.timed and known.rejected:
            return next(iter(known.rejected.values())).exit_code
        wrong = any(not c.passed for c in known.compared or ())
        bad = launching.fails(known.findings, launching.threshold(self.options))
        return 1 if wrong or bad else 0


def _compared(result: Result, name: str, expected: Any, tolerance: Any) -> Comparison:
    return compare(name, result.outputs[name], np.asarray(expected), tolerance)


def _with_targets(options: argparse.Namespace) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(options), "target": "a2a3,a5"})
