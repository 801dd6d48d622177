"""`ptosim triage FILE --golden G.npz [--board B.npz]`: whose fault is a wrong value?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptosim.ground.errors import UsageError
from ptosim.launch import array_files
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.options import LAUNCH, group, option, program, tolerance
from ptosim.shell.terminal import Terminal
from ptosim.views.report import Ending, Part, Report, Section
from ptosim.views.table import Text

if TYPE_CHECKING:
    from ptosim.launch.compare import Choices
    from ptosim.tools.triage import Group, Triage

_EPILOG = """A file has outputs by the names of the arguments; arrays of arguments that the program
only reads are what it is run on. For one output NAME=FILE does as well (SPECs of `ptosim run
--help`). Exit code 0 if all that differs is the order of sums, else 1."""


@command(
    "triage",
    program(),
    group(
        "whose fault",
        option("--golden", action="append", default=[], metavar="FILE.npz",
               help="what the outputs should be, or NAME=FILE"),
        option("--board", action="append", default=[], metavar="FILE.npz",
               help="what a board gave, or NAME=FILE"),
        tolerance("the outputs"),
    ),
    group("run", LAUNCH),
    forms=("text", "json", "html"),
    epilog=_EPILOG,
)  # fmt: skip
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Run, and hold the golden and the board against every order and against f64."""
    from ptosim.tools.triage import triage

    if not options.golden and not options.board:
        raise UsageError("nothing to compare with", help="`--golden FILE.npz`, `--board FILE.npz`")
    choices = launching.each_target(options)[0]
    golden, board = _arrays(options.golden), _arrays(options.board)
    with terminal.busy(f"running {options.file}"):
        found = triage(choices, golden, board, launching.tolerance(options))
    return _report(options, choices, found)


def _arrays(given: Sequence[str]) -> dict[str, Any]:
    """The arrays of files, by name."""
    from ptosim.launch.array_files import load_arrays

    found: dict[str, Any] = {}
    for word in given:
        name, equals, spec = word.partition("=")
        if equals:
            found[name.strip().lstrip("%")] = array_files.parse_expectation(spec)
        elif word.endswith(".npz"):
            found.update(load_arrays(Path(word)))
        else:
            raise UsageError(f"`{word}` is no FILE.npz", help="or NAME=FILE for one output")
    return found


def _report(options: argparse.Namespace, choices: Choices, found: Triage) -> Report:
    return Report(
        [Section("", lambda _: _parts(found))],
        lambda: {
            "groups": [g.to_dict() for g in found.groups],
            "equal": dict(found.equal),
            "findings": [d.to_dict() for d in found.findings],
        },
        title=f"Triage of {options.file}",
        heads=[f"triage of {options.file}"],
        ending=_ending(options, found),
        exit_code=found.exit_code,
    )


def _parts(found: Triage) -> list[Part]:
    from ptosim.views.table import table

    rows = [
        (_word(g), g.output, f"{g.count:,}", g.element, "" if g.line is None else str(g.line),
         g.op or "", g.why)
        for g in found.groups
    ]  # fmt: skip
    columns = ("verdict", "output", ">elements", "first", ">line", "operation", "why")
    equal = [Text(f"{name}: {count:,} elements are equal") for name, count in found.equal.items()]
    if not rows:
        return [*equal]
    return [table("what differs", columns, rows, essential=("verdict", "output", "why")), *equal]


def _word(group: Group) -> str:
    words = {"golden": "golden wrong", "kernel": "kernel wrong", "board": "board or compiler",
             "order": "order of sums"}  # fmt: skip
    return words[group.verdict]


def _ending(options: argparse.Namespace, found: Triage) -> Ending:
    bad = next((g for g in found.groups if g.verdict != "order"), None)
    if bad is None:
        told = "only the order of sums differs" if found.groups else "everything is equal"
        return Ending(True, told)
    where = f" in line {bad.line}" if bad.line is not None else ""
    told = f"{_word(bad)}: {bad.count:,} of {bad.output}{where}"
    return Ending(False, told, launching.again(options, "why", bad.element))
