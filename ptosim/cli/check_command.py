"""`ptosim check FILE…`"""

from __future__ import annotations

import argparse
from dataclasses import replace

from ptosim.cli import options as shared
from ptosim.cli.sources import open_source
from ptosim.cli.terminal import Terminal
from ptosim.diagnostics.model import Diagnostic, Severity
from ptosim.diagnostics.render import count_line
from ptosim.errors import ProgramError, UsageError
from ptosim.passes.frontend import FrontOptions, run_frontend


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="path, `-`, or `@name`")
    shared.add_program(parser)
    shared.add_fail_on(parser)
    shared.add_output(parser)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Check every file on every target asked for."""
    shared.switches(options.set)
    findings: list[Diagnostic] = []
    headers: list[str] = []
    unreadable = 0
    for name in options.files:
        try:
            source = open_source(name)
        except UsageError as problem:
            if len(options.files) == 1:
                raise
            terminal.error(str(problem), problem.help)
            unreadable += 1
            continue
        for target in shared.targets(options.target):
            front = run_frontend(source, FrontOptions(target, options.level, options.sync))
            found = _strict(list(front.sink)) if options.strict else list(front.sink)
            findings.extend(d for d in found if d not in findings)
            headers.append(
                f"{source.name}: {front.target}, level {front.level}: {count_line(found)}"
            )
    terminal.findings(findings)
    if terminal.format == "text" and not options.quiet:
        terminal.write("\n".join(headers) + "\n")
    if unreadable:
        return UsageError.exit_code
    if any(d.severity is Severity.ERROR for d in findings):
        return ProgramError.exit_code
    return 1 if shared.fails(findings, options.fail_on) else 0


def _strict(findings: list[Diagnostic]) -> list[Diagnostic]:
    return [
        replace(d, severity=Severity.ERROR) if d.severity is Severity.WARNING else d
        for d in findings
    ]
