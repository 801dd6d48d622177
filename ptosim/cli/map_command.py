"""`ptosim map FILE`"""

from __future__ import annotations

import argparse

from ptosim.analysis.memory_map import MemoryMap, memory_map
from ptosim.cli import launching
from ptosim.cli import options as shared
from ptosim.cli.sources import open_source
from ptosim.cli.terminal import Terminal
from ptosim.debug.program import Program
from ptosim.ground.diagnostics.model import Severity
from ptosim.ground.errors import ProgramError
from ptosim.ground.isa.profiles import make_profile
from ptosim.passes.frontend import FrontOptions, run_frontend

_BUDGET = ("PTO4001", "PTO4352", "PTO4353")
"""Faults that a map is there to explain."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = (
        "`-o map.html` writes a self-contained page. A program over its budget is drawn, too, and "
        "exits with 3."
    )
    parser.add_argument("file", metavar="FILE", help="path, `-`, or `@name`")
    shared.add_program(parser)
    group = parser.add_argument_group("map")
    group.add_argument("--entry", metavar="F", help="the function to draw")
    group.add_argument("--arg", action="append", default=[], metavar="NAME=SPEC",
                       help="an argument, as for `run`")  # fmt: skip
    shared.add_output(parser, ("text", "json", "html"))


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Draw the map of a program."""
    beside = launching.sidecar(options)
    defaults = beside.options if beside is not None else {}
    source = open_source(options.file)
    target = launching.targets(options, beside)[0]
    level = options.level or defaults.get("level")
    front = run_frontend(source, FrontOptions(target, level, options.sync or defaults.get("sync")))
    if any(d.severity is Severity.ERROR and d.code not in _BUDGET for d in front.sink):
        raise ProgramError(list(front.sink))
    profile = make_profile(options.profile, front.target, shared.switches(options.set))
    program = Program(front, profile)
    entry = program.entry(options.entry or defaults.get("entry"))
    found = memory_map(front, profile, entry, launching.arguments(options, beside))
    _write(found, program, entry, options, terminal)
    if front.sink.has_errors and options.format == "text":
        terminal.findings([d for d in front.sink if d.code in _BUDGET])
    return ProgramError.exit_code if front.sink.has_errors else 0


def _is_html(options: argparse.Namespace) -> bool:
    named = options.output is not None and options.output.endswith((".html", ".htm"))
    return options.format == "html" or (options.format == "text" and named)


def _write(
    found: MemoryMap, program: Program, entry: str, options: argparse.Namespace, terminal: Terminal
) -> None:
    from ptosim.views.run_report import header, header_line

    fields = header(program, entry)
    if options.format == "json":
        terminal.json({**fields, **found.to_dict()})
    elif _is_html(options):
        from ptosim.views.map_html import page

        terminal.write(page(found, header_line(fields)))
    else:
        from rich.text import Text

        from ptosim.views.map_text import renderables

        head = Text(header_line(fields), style="bold")
        terminal.print_renderables([head, *renderables(found)])
