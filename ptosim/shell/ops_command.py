"""`ptosim ops [NAME]`"""

from __future__ import annotations

import argparse
import difflib

from ptosim.ground.errors import PtosimError, UsageError
from ptosim.ground.isa.dates import DATES
from ptosim.ground.isa.examples import example_of
from ptosim.ground.isa.rows import TARGETS, isa
from ptosim.ground.isa.schema import EXECUTED, OpDef
from ptosim.shell.command import command
from ptosim.shell.options import option, switch
from ptosim.shell.terminal import Terminal
from ptosim.views.operations import (
    ExampleCost,
    costs_report,
    example_report,
    operation_report,
    operations_report,
)
from ptosim.views.report import Report


@command(
    "ops",
    option("name", nargs="?", metavar="NAME", help="one operation, in detail"),
    switch("--example", help="a program that shows the operation NAME, as small as it can be"),
    switch("--cost", help="what the operation takes in its example, on each target"),
    option("--family", metavar="F", help="only one family"),
    option("--status", metavar="S", help="only operations with this status on a target"),
    option("--compat", choices=DATES, help="only operations of this date"),
    option("--since", choices=DATES, help="only operations that are new in this date"),
    forms=("text", "json", "markdown"),
)
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """One operation in detail, or the table of all."""
    if options.name:
        return _of_one(_one(options.name, options.compat), options)
    if options.example or options.cost:
        raise UsageError(
            "--example and --cost are for one operation", help="`ptosim ops tadd --example`"
        )
    date = options.compat or options.since
    rows = [
        d for d in map(isa(date).get, isa(date).names()) if d is not None and _is_chosen(d, options)
    ]
    if not rows:
        families = sorted({d.family for d in map(isa().get, isa().names()) if d is not None})
        raise UsageError("no operation fits", help=f"families: {', '.join(families)}")
    return operations_report(rows, date)


def _of_one(definition: OpDef, options: argparse.Namespace) -> Report:
    if options.example:
        return example_report(definition)
    if options.cost:
        return costs_report(definition, [_cost(definition, target) for target in TARGETS])
    return operation_report(definition, options.compat)


def _cost(definition: OpDef, target: str) -> ExampleCost:
    """What the example takes on a target: the operation where it is one of a pipe, and the whole
    program."""
    example = example_of(definition)
    if example is None or definition.status[target] not in EXECUTED:
        return ExampleCost(target, None, None, "", "the target does not execute it")
    if example.not_run:
        return ExampleCost(target, None, None, "", f"not executed alone: {example.not_run}")
    from ptosim.tools.api import load  # a list or a card does without programs

    try:
        program = load(example.program, target=target, compat=example.compat)
        told = program.cost(entry=example.entry).to_dict()
    except PtosimError as problem:
        return ExampleCost(target, None, None, "", str(problem).partition("\n")[0])
    own = next((op for op in told["ops"] if op["name"] == definition.mnemonic), None)
    if own is None:
        return ExampleCost(target, None, told["cycles"], told["confidence"], "")
    return ExampleCost(target, own["cycles"], told["cycles"], own["confidence"], "")


def _is_chosen(definition: OpDef, options: argparse.Namespace) -> bool:
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
