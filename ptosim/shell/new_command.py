"""`ptosim new KIND NAME` and `ptosim programs`"""

from __future__ import annotations

import argparse

from ptosim.ground.errors import UsageError
from ptosim.launch.sources import Shipped, kinds, shipped_programs, write_first
from ptosim.shell.command import command
from ptosim.shell.options import option
from ptosim.shell.terminal import Terminal
from ptosim.views.report import Line, Part, Report, one_section
from ptosim.views.table import table


@command(
    "new",
    option(
        "kind", nargs="?", metavar="KIND", choices=kinds(), help=f"what it is: {', '.join(kinds())}"
    ),
    option(
        "name",
        nargs="?",
        metavar="NAME",
        help="the name of the kernel; a folder may be in front of it",
    ),
    forms=("text", "json"),
)
def new(options: argparse.Namespace, terminal: Terminal) -> Report:
    """A first program with its sidecar and a test that passes."""
    if options.kind is None or options.name is None:
        kind = options.kind or "vector"
        raise UsageError(
            "a kind and a name are needed" if options.kind is None else "a name is needed",
            help=f"`ptosim new {kind} my_kernel`; kinds are {', '.join(kinds())}",
        )
    if options.output is not None:  # it would write what is said here over the program
        raise UsageError(
            "new names its files itself: it takes no -o",
            help=f"`ptosim new {options.kind} FOLDER/{options.name}` writes them into a folder",
        )
    written = [str(path) for path in write_first(options.kind, options.name)]
    program, _, test, _ = written
    lines = [f"wrote {', '.join(written)}", f"run it:  ptosim run {program}",
             f"test it: pytest {test}"]  # fmt: skip
    return one_section([Line(line) for line in lines], lambda: {"written": written})


@command(
    "programs",
    option("folder", nargs="?", metavar="FOLDER", help="only those of one folder (`basics`)"),
    forms=("text", "json"),
)
def programs(options: argparse.Namespace, terminal: Terminal) -> Report:
    """The programs that come with ptosim; every name goes wherever a file does."""
    folder = (options.folder or "").strip("@/")
    found = [s for s in shipped_programs() if not folder or s.name.startswith(f"@{folder}/")]
    return one_section(lambda _: _listed(found), lambda: [s._asdict() for s in found])


def _listed(found: list[Shipped]) -> list[Part]:
    rows = [(s.name, s.kind, " ".join(s.targets), s.summary) for s in found]
    made = table("", ("program", "kind", "targets", "shows"), rows, essential=["program"],
                 drop=["kind", "targets"])  # fmt: skip
    return [made, Line(f"{len(found)} files; `ptosim run @basics/vadd`, or any other command")]
