"""`ptosim quant schemes`"""

from __future__ import annotations

import argparse
from typing import Any

from ptosim.cli import options as shared
from ptosim.cli.terminal import Terminal
from ptosim.quant.schemes import Scheme, scheme, schemes


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="one scheme, in detail")
    shared.add_output(parser, ("text", "json"))


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print the table of schemes, or one of them."""
    chosen = [scheme(options.name)] if options.name else list(schemes().values())
    if terminal.format == "json":
        terminal.json([s.to_dict() for s in chosen])
        return 0
    if options.name:
        terminal.write(_detail(chosen[0]))
    else:
        terminal.print_renderables([_table(chosen)])
    return 0


def _words(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _detail(chosen: Scheme) -> str:
    fields = chosen.to_dict()
    lines = [f"{fields.pop('name')}: {fields.pop('title')}"]
    lines += [
        f"  {k.replace('_', ' ')}: {_words(v)}" for k, v in fields.items() if v not in ("", ())
    ]
    return "\n".join(lines) + "\n"


def _table(chosen: list[Scheme]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("scheme", "scaling", "zero point", "rounding", "out of range", "NaN"):
        table.add_column(name, no_wrap=True)
    for s in chosen:
        scaling = {"divide": "x / s", "multiply": "x * m", "fused": "fma(x, m, z)"}[s.scale]
        if s.multiplier == "fp19":
            scaling = "x * fp19(m)"
        through = f" through {', '.join(s.through)}" if s.through else ""
        limits = f"clamp to {s.range[0]}..{s.range[1]}" if s.range else s.overflow
        table.add_row(
            s.name, f"{scaling} in {s.precision}", s.zero, s.rounding + through, limits, s.nan
        )
    return table
