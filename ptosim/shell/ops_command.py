"""`ptosim ops [NAME]`"""

from __future__ import annotations

import argparse
import difflib

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.dates import DATES
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OpDef
from ptosim.shell.command import command
from ptosim.shell.options import option, switch
from ptosim.shell.terminal import Terminal
from ptosim.views.operations import example_report, operation_report, operations_report
from ptosim.views.report import Report


@command(
    "ops",
    option("name", nargs="?", metavar="NAME", help="one operation, in detail"),
    switch("--example", help="a program that shows the operation NAME, as small as it can be"),
    option("--family", metavar="F", help="only one family"),
    option("--status", metavar="S", help="only operations with this status on a target"),
    option("--compat", choices=DATES, help="only operations of this date"),
    option("--since", choices=DATES, help="only operations that are new in this date"),
    forms=("text", "json", "markdown"),
)
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """One operation in detail, or the table of all."""
    if options.example and not options.name:
        raise UsageError("--example shows one operation", help="`ptosim ops tadd --example`")
    if options.name:
        show = example_report if options.example else operation_report
        return show(_one(options.name, options.compat))
    date = options.compat or options.since
    rows = [
        d for d in map(isa(date).get, isa(date).names()) if d is not None and _wanted(d, options)
    ]
    if not rows:
        families = sorted({d.family for d in map(isa().get, isa().names()) if d is not None})
        raise UsageError("no operation fits", help=f"families: {', '.join(families)}")
    return operations_report(rows)


def _wanted(definition: OpDef, options: argparse.Namespace) -> bool:
    if options.since and definition.since != options.since:
        return False
    if options.family and definition.family != options.family:
        return False
    return not options.status or options.status in definition.status.values()


def definition_of(name: str, date: str | None = None) -> OpDef | None:
    """Return the row of an operation (of a date), named with or without its dialect; None if there
    is none."""
    rows = isa(date)
    return rows.get(name) or rows.get(f"pto.{name}") or rows.get(f"pto.{name.lower()}")


def _one(name: str, date: str | None) -> OpDef:
    definition = definition_of(name, date)
    if definition is None:
        close = difflib.get_close_matches(f"pto.{name}", isa(date).names(), n=1)
        raise UsageError(
            f"unknown operation `{name}`{f' of {date}' if date else ''}",
            help=f"did you mean `{close[0].removeprefix('pto.')}`?" if close else None,
        )
    return definition
