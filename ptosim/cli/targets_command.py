"""`ptosim targets`"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ptosim.cli import options as shared
from ptosim.cli.terminal import Terminal
from ptosim.ground.isa.data import read_toml
from ptosim.ground.isa.rows import TARGETS
from ptosim.ground.isa.targets import machine


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--accuracy",
        action="store_true",
        help="how far predicted cycles are from published measurements",
    )
    shared.add_output(parser, ("text", "json"))


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print every target's memory spaces with sources, or the accuracy of its cost laws."""
    if options.accuracy:
        _accuracy(terminal)
        return 0
    if terminal.format == "json":
        names = read_toml("targets/devices.toml")["target"]
        terminal.json({t: {**asdict(machine(t)), "names": names[t]} for t in TARGETS})
        return 0
    terminal.print_renderables(_tables())
    return 0


def _accuracy(terminal: Terminal) -> None:
    from ptosim.ground.isa.costs import accuracy
    from ptosim.views.accuracy_tables import renderables

    operations, kernels = accuracy()
    if terminal.format == "json":
        terminal.json(
            {
                "operations": [asdict(row) for row in operations],
                "kernels": [{**asdict(row), "error": round(row.error, 4)} for row in kernels],
            }
        )
        return
    terminal.print_renderables(renderables(operations, kernels))


def _tables() -> list:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    parts: list = []
    names = read_toml("targets/devices.toml")["target"]
    for target in TARGETS:
        definition = machine(target)
        row = names[target]
        parts.append(
            Text(
                f"{target} ({definition.title}): words {', '.join(row['words'])}; devices "
                f"{', '.join(d + '…' for d in row['devices'])}; "
                f"a cluster has {definition.cube_cores} "
                f"cube and {definition.vector_cores} vector cores",
                style="bold",
            )
        )
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for name, justify in (
            ("space", "left"), ("alias", "left"), ("bytes", "right"), ("planner bytes", "right"),
            ("safe bytes", "right"), ("align", "right"), ("confidence", "left"), ("source", "left"),
        ):  # fmt: skip
            table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
        for space in definition.spaces.values():
            table.add_row(
                space.name, space.alias, str(space.bytes), str(space.planner), str(space.safe),
                str(space.align), space.confidence, space.source,
            )  # fmt: skip
        parts.append(table)
        for scratch in definition.scratch:
            end = scratch.start + scratch.bytes
            parts.append(
                Text(
                    f"hidden scratch in {scratch.space}: [{scratch.start}, {end}) "
                    f"({scratch.source})"
                )
            )
        parts.append(Text())
    return parts
