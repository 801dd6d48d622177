"""`ptosim test [PATH…]`: programs with sidecars as tests."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.cache import programs_directory
from ptosim.ground.progress import part_done
from ptosim.ground.records import dataclass
from ptosim.language.targets import check_target_word
from ptosim.launch.sources import source_path
from ptosim.shell.command import command
from ptosim.shell.options import available_cores, jobs, option, switch
from ptosim.shell.terminal import Terminal
from ptosim.tools.testing.cases import Case, Outcome, Runner, cases_of, programs_in, without_sidecar
from ptosim.views import report
from ptosim.views.report import Ending, Part, Report, Verbatim, one_section

_NAMED = 5
"""Programs without a sidecar that are named."""


@dataclass(frozen=True, slots=True)
class Line:
    """A case and how it went."""

    case: Case
    outcome: Outcome

    @property
    def name(self) -> str:
        """The program and the case."""
        return f"{self.case.path}::{self.case.name}"


@command(
    "test",
    option(
        "paths",
        nargs="*",
        metavar="PATH",
        help="folders and programs, shipped ones as @NAME (default .)",
    ),
    option("--target", metavar="T", help="only the cases of this target"),
    switch("--update", help="write outputs as the golden arrays of the sidecars"),
    jobs("programs are tested in"),
    forms=("text", "json", "junit", "github"),
)
def run(options: argparse.Namespace, terminal: Terminal) -> Report | int:
    """Run every case; exit code 1 if one fails. Raises UsageError where there is none."""
    paths = [_path(p) for p in options.paths or ["."]]
    programs, alone = programs_in(paths), without_sidecar(paths)
    every = [case for program in programs for case in cases_of(program)]
    if not every:
        raise UsageError(
            "there is no program with a sidecar here", help="`kernel.toml` beside `kernel.pto`"
        )
    cases = _of_target(every, options.target) if options.target else every
    runner = Runner()
    if options.update:
        return _update(cases, runner, terminal)
    with terminal.busy("testing", len(cases), "cases"):
        lines = _lines(cases, options.jobs or available_cores())
    code = 0 if all(line.outcome.passed for line in lines) else 1
    ending = _ending(lines)
    return one_section(
        lambda _: _parts(lines, alone), lambda: _fields(lines), exit_code=code, ending=ending,
        own={"junit": lambda: _junit(lines), "github": lambda: _github(lines)},
    )  # fmt: skip


def _path(name: str) -> Path:
    """A file or folder; `@basics/vadd` and `@basics` are shipped ones."""
    folder = programs_directory() / name[1:]
    return folder if name.startswith("@") and folder.is_dir() else source_path(name)


def _of_target(cases: list[Case], word: str) -> list[Case]:
    """Those for a target. Raises UsageError for a word that is none, and where there are none."""
    wanted = check_target_word(word).architecture
    found = [c for c in cases if c.target and check_target_word(c.target).architecture == wanted]
    if not found:
        others = sorted({c.target for c in cases if c.target})
        raise UsageError(
            f"no sidecar here is for the target {word}",
            help=f"they are for {' and '.join(others)}" if others else "none names its targets",
        )
    return found


def _update(cases: list[Case], runner: Runner, terminal: Terminal) -> int:
    """Write the golden arrays; exit code 1 if a program does not run, which is said."""
    written = {path for case in cases if (path := runner.update(case)) is not None}
    terminal.remark(f"{len(written)} files written")
    stopped = {case.path: text for case in cases if (text := runner.stopped(case))}
    for path, text in stopped.items():
        terminal.error(f"{path} does not run:\n{text}")
    return 1 if stopped else 0


def _ending(lines: list[Line]) -> Ending:
    failed = [line for line in lines if not line.outcome.passed]
    counts = f"{len(lines) - len(failed):,} passed, {len(failed):,} failed"
    if not failed:
        return Ending(True, counts)
    return Ending(False, f"{counts}, first {failed[0].name}", failed[0].outcome.next)


def _lines(cases: list[Case], jobs: int) -> list[Line]:
    """How the cases went; those of a program share its runs."""
    from ptosim.ground.processes import each_of  # brings what makes processes

    groups = [list(group) for _, group in groupby(cases, key=lambda case: case.path)]

    def outcomes(group: list[Case]) -> list[Outcome]:
        runner = Runner()
        return [runner.outcome(case) for case in group]

    found = each_of(outcomes, groups, jobs, lambda made: part_done(len(made)))
    ordered = (case for group in groups for case in group)
    return [Line(*pair) for pair in zip(ordered, chain.from_iterable(found), strict=True)]


def _parts(lines: list[Line], alone: Sequence[Path]) -> Iterator[Part]:
    for line in lines:
        yield Verbatim(f"{'✓ pass' if line.outcome.passed else '✗ FAIL'}  {line.name}\n")
    failed = [line for line in lines if not line.outcome.passed]
    for line in failed:
        yield Verbatim(f"\n-- {line.name}\n")
        yield from (report.Line(said, 2) for said in line.outcome.text.split("\n"))
    if alone:
        names = ", ".join(map(str, alone[:_NAMED])) + (", …" if len(alone) > _NAMED else "")
        yield Verbatim("\n")
        yield report.Line(f"not tested, without a sidecar: {len(alone):,} ({names})", 2)
    yield Verbatim("\n")


def _junit(lines: list[Line]) -> str:
    """A suite for each program, a case for each of its cases."""
    from ptosim.views.finding_forms import junit_of_cases

    cases = ((str(n.case.path), n.case.name, n.outcome.text) for n in lines)
    return junit_of_cases(cases)


def _github(lines: list[Line]) -> str:
    """A workflow command for each case that failed, which GitHub shows at its program."""
    from ptosim.views.finding_forms import github_of_case

    failed = (n for n in lines if not n.outcome.passed)
    return "".join(github_of_case(str(n.case.path), n.case.name, n.outcome.text) for n in failed)


def _fields(lines: list[Line]) -> object:
    return {
        "version": 1,
        "cases": [
            {"program": str(n.case.path), "target": n.case.target, "output": n.case.output,
             "passed": n.outcome.passed, "text": n.outcome.text, "next": n.outcome.next}
            for n in lines
        ],
    }  # fmt: skip
