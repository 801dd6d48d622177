"""`ptosim expand FILE`"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ptosim.launch.sources import open_source
from ptosim.ops.lower.program import Expanded, expand
from ptosim.shell import options as shared
from ptosim.shell.formats import Formats, data, text
from ptosim.shell.terminal import Terminal

_EPILOG = """The program that is written runs to the same bytes (profile hw, default switches).
Operations without an expansion stay, and comments at the end say why."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="path, `-`, or `@name`; `#part`")
    parser.add_argument("--target", metavar="T", help="a5 (950); default: the module's")
    shared.add_compat(parser)
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Write the program; below it, as comments, what stayed as it is."""
    terminal.report(expand(open_source(options.file), options.target, options.compat))
    return 0


def _text(result: Expanded) -> str:
    notes = [f"// line {k.line}: {k.name} stays: {k.reason}\n" for k in result.kept]
    if not result.names_target:
        notes.append("// vector regions run on a5: `--target a5`, the program names no target\n")
    end = "" if result.text.endswith("\n") else "\n"
    return result.text + end + "".join(notes)


FORMATS: Formats[Expanded] = {"text": text(_text), "json": data(asdict)}
