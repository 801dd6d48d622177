"""`ptosim map FILE`"""

from __future__ import annotations

import argparse

from ptosim.ground.errors import ProgramError, rejected
from ptosim.ground.isa.profiles import make_profile
from ptosim.ground.records import NamedTuple
from ptosim.launch.analysis.memory_map import MemoryMap, memory_map
from ptosim.launch.program import LoadedProgram
from ptosim.shell import launching
from ptosim.shell import options as shared
from ptosim.shell.formats import Formats, data, text
from ptosim.shell.terminal import Terminal
from ptosim.views.header import header, header_line
from ptosim.views.map_html import map_page
from ptosim.views.map_text import renderables
from ptosim.views.text import Text

_BUDGET = ("PTO4001", "PTO4352", "PTO4353")
"""Faults that a map is there to explain."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = (
        "`-o map.html` writes a self-contained page. A program over its budget is drawn, too, and "
        "exits with 3."
    )
    shared.add_program(parser)
    group = parser.add_argument_group("map")
    launching.add_inputs(group, "draw")
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Draw the map of a program."""
    choices = launching.each_target(options)[0]
    front = choices.front()
    if any(d.is_rejection and d.code not in _BUDGET for d in front.sink):
        raise rejected(list(front.sink))
    profile = make_profile(choices.profile or "hw", front.target, choices.switches)
    program = LoadedProgram(front, profile)
    entry = program.entry(choices.entry)
    with terminal.busy(f"following {entry}"):
        found = memory_map(front, profile, entry, choices.arguments())
    terminal.report(_Report(found, header(program, entry)))
    if front.sink.is_rejected and terminal.format == "text":
        terminal.findings([d for d in front.sink if d.code in _BUDGET])
    return ProgramError.exit_code if front.sink.is_rejected else 0


class _Report(NamedTuple):
    """A map, and the choices that it holds for."""

    found: MemoryMap
    fields: dict[str, object]


def _text(report: _Report, terminal: Terminal) -> str:
    head = Text(header_line(report.fields), style="bold")
    return terminal.render([head, *renderables(report.found, terminal.width())])


FORMATS: Formats[_Report] = {
    "text": _text,
    "json": data(lambda report: {**report.fields, **report.found.to_dict()}),
    "html": text(lambda report: map_page(report.found, header_line(report.fields))),
}
