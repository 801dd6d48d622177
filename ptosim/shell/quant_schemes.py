"""`ptosim quant schemes`"""

from __future__ import annotations

import argparse

from ptosim.ground.records import NamedTuple
from ptosim.machine.quant.schemes import Scheme, scheme, schemes
from ptosim.shell import options as shared
from ptosim.shell.formats import Formats, data
from ptosim.shell.terminal import Terminal
from ptosim.views.table import Table, table


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="one scheme, in detail")
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print the table of schemes, or one of them."""
    chosen = [scheme(options.name)] if options.name else list(schemes().values())
    terminal.report(_Report(chosen, options.name is not None))
    return 0


class _Report(NamedTuple):
    """Schemes, and whether it is one that was asked for by name."""

    schemes: list[Scheme]
    is_named: bool


def _words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _detail(chosen: Scheme) -> str:
    fields = chosen.to_dict()
    lines = [f"{fields.pop('name')}: {fields.pop('title')}"]
    lines += [
        f"  {k.replace('_', ' ')}: {_words(v)}" for k, v in fields.items() if v not in ("", ())
    ]
    return "\n".join(lines) + "\n"


def _table(chosen: list[Scheme]) -> Table:
    rows = []
    for s in chosen:
        scaling = {"divide": "x / s", "multiply": "x * m", "fused": "fma(x, m, z)"}[s.scale]
        if s.multiplier == "fp19":
            scaling = "x * fp19(m)"
        through = f" through {', '.join(s.through)}" if s.through else ""
        limits = f"clamp to {s.range[0]}..{s.range[1]}" if s.range else s.overflow
        rows.append(
            (s.name, f"{scaling} in {s.precision}", s.zero, s.rounding + through, limits, s.nan)
        )
    columns = ("scheme", "scaling", "zero point", "rounding", "out of range", "NaN")
    return table("", columns, rows, cut=True)


def _text(report: _Report, terminal: Terminal) -> str:
    if report.is_named:
        return _detail(report.schemes[0])
    return terminal.render([_table(report.schemes)])


FORMATS: Formats[_Report] = {"text": _text, "json": data(lambda report: report.schemes)}
