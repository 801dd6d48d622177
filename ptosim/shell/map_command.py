"""`ptosim map FILE`"""

from __future__ import annotations

import argparse

from ptosim.ground.diagnostics.model import ProgramError, rejected
from ptosim.ground.isa.dates import make_profile
from ptosim.launch.analysis.memory_map import memory_map
from ptosim.launch.program import LoadedProgram
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.options import group, inputs, program
from ptosim.shell.terminal import Terminal
from ptosim.views.header import header, header_line
from ptosim.views.memory_map import map_report
from ptosim.views.report import Report

_BUDGET = ("PTO4001", "PTO4352", "PTO4353")
"""Faults that a map is there to explain."""
_EPILOG = (
    "`-o map.html` writes a self-contained page. A program over its budget is drawn, too, and exits"
    " with 3."
)


@command("map", program(), group("map", inputs("draw")), forms=("text", "json", "html"),
         epilog=_EPILOG)  # fmt: skip
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Draw the map of a program."""
    choices = launching.each_target(options)[0]
    front = choices.front()
    if any(d.is_rejection and d.code not in _BUDGET for d in front.sink):
        raise rejected(list(front.sink))
    profile = make_profile(
        choices.profile or "hw", front.target, choices.switches, library=front.source.is_cpp
    )
    program = LoadedProgram(front, profile)
    entry = program.entry(choices.entry)
    args = choices.arguments()
    with terminal.busy(f"following {entry}"):
        found = memory_map(front, profile, entry, args)
    fields = header(program, entry)
    broken = []
    if not front.sink.is_rejected:
        broken = launching.broken_by(program, entry, args, choices.block_num)
    report = map_report(found, fields, header_line(fields), broken)
    report.because = front.settings.reasons
    if front.sink.is_rejected:
        report.aside = [d for d in front.sink if d.code in _BUDGET]
        report.before, report.exit_code = False, ProgramError.exit_code
    return report
