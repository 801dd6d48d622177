"""`ptosim expand FILE`"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict

from ptosim.launch.sources import open_source
from ptosim.ops.lower.program import Expanded, expand
from ptosim.shell.command import command
from ptosim.shell.options import COMPAT, FILE, option, switch
from ptosim.shell.terminal import Terminal
from ptosim.views.report import Report, Verbatim, one_section

_EPILOG = """The program that is written runs to the same bytes (profile hw, default switches).
Operations without an expansion stay, and comments at the end say why; how many they are is said on
standard error. Exit code 1 with --strict if any stays."""


@command(
    "expand",
    option("file", metavar="FILE", help=FILE),
    option("--target", metavar="T", help="a5 (950); default: the module's"),
    COMPAT,
    option("--entry", metavar="F", help="of a kernel in C++: which of its entries"),
    switch("--strict", help="exit 1 if a vector operation of tiles stays as it is"),
    forms=("text", "json"),
    epilog=_EPILOG,
)
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """The program; below it, as comments, what stayed as it is."""
    found = expand(open_source(options.file), options.target, options.compat, options.entry)
    if found.kept:
        terminal.remark(_counted(found))
    code = 1 if found.kept and options.strict else 0
    return one_section([Verbatim(_text(found))], lambda: asdict(found), exit_code=code)


def _counted(result: Expanded) -> str:
    """How many operations stay, and which, most frequent first."""
    names = Counter(kept.name.removeprefix("pto.") for kept in result.kept)
    listed = ", ".join(f"{name} {count}" for name, count in names.most_common())
    total = len(result.kept) + len(result.stages)
    return f"{len(result.kept)} of {total} vector operations stay as they are: {listed}"


def _text(result: Expanded) -> str:
    notes = [f"// line {k.line}: {k.name} stays: {k.reason}\n" for k in result.kept]
    if not result.names_target:
        notes.append("// vector regions run on a5: `--target a5`, the program names no target\n")
    end = "" if result.text.endswith("\n") else "\n"
    return result.text + end + "".join(notes)
