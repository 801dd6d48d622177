"""Pages of `run`, `cost` and `report`: what the commands know, put together for the page."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.errors import ProgramError
from ptosim.launch.compare import Comparison
from ptosim.launch.program import LoadedProgram
from ptosim.launch.results import Result
from ptosim.time.report.totals import CostReport
from ptosim.views.header import header, header_line
from ptosim.views.report.contents import Contents, Ran, Timed


def command_line(options: argparse.Namespace) -> str:
    """Return the command line as it was typed."""
    return f"ptosim {shlex.join(getattr(options, 'argv', ()))}"


def timed(program: LoadedProgram, cost: CostReport, args: Mapping[str, Any]) -> Timed:
    """Return a program that was timed, with its memory over cycles."""
    from ptosim.launch.analysis.memory_map import memory_map
    from ptosim.launch.analysis.memory_time import in_cycles

    steps = memory_map(program.front, program.profile, cost.entry, args)
    return Timed(program, cost, in_cycles(steps, cost) if steps.spaces else None)


def run_page(
    options: argparse.Namespace,
    program: LoadedProgram,
    entry: str,
    result: Result,
    comparisons: Sequence[Comparison],
    args: Mapping[str, Any],
) -> str:
    """Return the page of a run."""
    from ptosim.views.report.page import report_page
    from ptosim.views.run_report import values

    contents = Contents(
        f"{entry} on {program.target}",
        command_line(options),
        [header_line(header(program, entry))],
        list(result.findings),
        Ran(values(result, comparisons), result, comparisons),
        [timed(program, result.cost, args)] if result.cost is not None else [],
    )
    return report_page(contents)


def cost_page(
    options: argparse.Namespace,
    found: Sequence[tuple[LoadedProgram, CostReport]],
    rejected: Mapping[str, ProgramError],
    args: Sequence[Mapping[str, Any]],
    sections: Sequence[str] = (),
) -> str:
    """Return the page of a cost report; `args` are those of each program, `sections` further parts
    of the page."""
    from ptosim.views.report.page import report_page

    findings: list[Diagnostic] = [d for p in rejected.values() for d in p.diagnostics]
    targets = ", ".join([*(r.label for _, r in found), *rejected])
    name = found[0][1].entry if found else str(options.file)
    contents = Contents(
        f"Cost of {name} on {targets}",
        command_line(options),
        [header_line(header(program, report.entry)) for program, report in found],
        findings,
        timed=[timed(*pair, given) for pair, given in zip(found, args, strict=True)],
        rejected=dict(rejected),
        sections=list(sections),
    )
    return report_page(contents)
