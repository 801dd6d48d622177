"""`ptosim ops [NAME]`"""

from __future__ import annotations

import argparse
import difflib
from collections import Counter

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.dates import DATES
from ptosim.ground.isa.rows import TARGETS, isa
from ptosim.ground.isa.schema import OpDef
from ptosim.language.bind.bind import describe
from ptosim.shell import options as shared
from ptosim.shell.formats import Formats
from ptosim.shell.terminal import Terminal
from ptosim.views.json_text import document
from ptosim.views.op_card import card
from ptosim.views.op_reference import reference, section
from ptosim.views.table import Part, table
from ptosim.views.text import Text

_WIDE = 400
"""Columns of the list in a pipe or a file: more than the longest line."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="one operation, in detail")
    parser.add_argument("--family", metavar="F", help="only one family")
    parser.add_argument(
        "--status", metavar="S", help="only operations with this status on a target"
    )
    parser.add_argument("--compat", choices=DATES, help="only operations of this date")
    parser.add_argument("--since", choices=DATES, help="only operations that are new in this date")
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print one operation in detail, or the table of all."""
    if options.name:
        terminal.report(_one(options.name, options.compat))
        return 0
    date = options.compat or options.since
    rows = [
        d for d in map(isa(date).get, isa(date).names()) if d is not None and _wanted(d, options)
    ]
    if not rows:
        families = sorted({d.family for d in map(isa().get, isa().names()) if d is not None})
        raise UsageError("no operation fits", help=f"families: {', '.join(families)}")
    terminal.report(rows)
    return 0


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


def _facts(definition: OpDef) -> dict[str, object]:
    return {
        "name": definition.name,
        "family": definition.family,
        "summary": definition.summary,
        **definition.dates,
        **({"means": definition.means} if definition.means else {}),
        "status": {t: str(definition.status[t]) for t in TARGETS},
        "basis": definition.basis,
        "forms": [describe(v, definition) for v in definition.variants],
        "attributes": {
            a.name: {"type": a.type, "required": a.required, "default": a.default}
            for a in definition.attrs.values()
        },
        "elements": [
            {
                "operands": list(e.operands),
                **{t: [" ".join(x) for x in e.allowed.get(t, ())] for t in TARGETS},
            }
            for v in definition.variants
            for e in v.elements
        ],
        "pipe": [{"pipe": p.pipe, "when": p.when} for p in definition.pipes],
        "switches": list(definition.switches),
        "notes": list(definition.notes),
        "source": definition.source,
    }


def _table(rows: list[OpDef]) -> list[Part]:
    cells = [
        (d.mnemonic, d.family, *(d.status[t] for t in TARGETS), d.basis or "",
         "/".join(dict.fromkeys(p.pipe for p in d.pipes)), d.summary)
        for d in rows
    ]  # fmt: skip
    status = [f"status {t}" for t in TARGETS]
    counts = []
    for target in TARGETS:
        number = Counter(str(d.status[target]) for d in rows)
        counts.append(f"{target}: " + ", ".join(f"{n} {s}" for s, n in sorted(number.items())))
    columns = ("operation", "family", *status, "basis", "pipe", "what")
    essential, drop = ["operation", *status], ["pipe", "basis", "family"]
    made = table("", columns, cells, essential=essential, drop=drop, cut=True)
    return [made, Text("; ".join(counts))]


def _text(found: OpDef | list[OpDef], terminal: Terminal) -> str:
    if isinstance(found, OpDef):
        return card(found, terminal.width())
    # One line for each operation, for grep; a screen cuts what it is to what fits.
    return terminal.render(_table(found), None if terminal.is_screen() else _WIDE)


def _json(found: OpDef | list[OpDef], terminal: Terminal) -> str:
    return document(_facts(found) if isinstance(found, OpDef) else [_facts(d) for d in found])


def _markdown(found: OpDef | list[OpDef], terminal: Terminal) -> str:
    return "\n".join(section(found)) + "\n" if isinstance(found, OpDef) else reference(found)


FORMATS: Formats[OpDef | list[OpDef]] = {"text": _text, "json": _json, "markdown": _markdown}
