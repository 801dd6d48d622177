"""`ptosim targets`"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.console import JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from ptosim.cli import options as shared
from ptosim.cli.terminal import Terminal
from ptosim.ground.isa.costs import cost_table
from ptosim.ground.isa.targets import MachineDef, architecture, architectures, chips, machine


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--accuracy",
        action="store_true",
        help="how far predicted cycles are from published measurements",
    )
    shared.add_output(parser, ("text", "json"))


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print every architecture and chip with units and sources, or the accuracy of cost laws."""
    if options.accuracy:
        _accuracy(terminal)
        return 0
    if terminal.format == "json":
        terminal.json({name: _fields(name) for name in architectures()})
        return 0
    terminal.print_renderables(_tables())
    return 0


def _fields(name: str) -> dict[str, object]:
    named = architecture(name)
    return {
        **asdict(machine(name)),
        "name": name,
        "title": named.title,
        "chip": machine(name).name,
        "names": asdict(named),
        "chips": {chip: asdict(machine(chip)) for chip in chips(name)},
    }


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


def _tables() -> list[RenderableType]:
    return [part for name in architectures() for part in _architecture(name)]


def _architecture(name: str) -> Iterator[RenderableType]:
    """What an architecture is called, the machine of its usual chip, and what its chips have of
    their own."""
    usual, named = machine(name), architecture(name)
    yield Text(
        f"{name} ({named.title}): words {', '.join(named.words)}; devices "
        f"{', '.join(d + '…' for d in named.devices)}; a cluster has {usual.cube_cores} cube and "
        f"{usual.vector_cores} vector cores; the chip is {usual.name} unless one is named",
        style="bold",
    )
    yield _spaces(usual)
    yield _figures(
        [usual], "figure", lambda _, path: not path.startswith(("space.", "cost.", "cores"))
    )
    yield Text(f"chips of {name}: `--target {usual.words[0]}`, or pto.device-spec", style="bold")
    every = [machine(chip) for chip in chips(name)]
    yield _figures(every, "chip and figure", lambda chip, path: path in chip.own)
    yield Text()


def _table(columns: Sequence[tuple[str, JustifyMethod]]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, justify in columns:
        table.add_column(name, justify=justify, overflow="fold")
    return table


def _spaces(chip: MachineDef) -> Table:
    table = _table((
        ("space", "left"), ("alias", "left"), ("bytes", "right"), ("planner bytes", "right"),
        ("safe bytes", "right"), ("align", "right"), ("confidence", "left"), ("source", "left"),
    ))  # fmt: skip
    for space in chip.spaces.values():
        table.add_row(
            space.name, space.alias, str(space.bytes), str(space.planner), str(space.safe),
            str(space.align), space.confidence, space.source,
        )  # fmt: skip
    return table


def _figures(
    machines: Sequence[MachineDef], title: str, takes: Callable[[MachineDef, str], bool]
) -> Table:
    """Figures of machines with unit, confidence and source; rows without an own name are those of
    the machine above."""
    table = _table(((title, "left"), ("value", "left"), ("confidence", "left"), ("source", "left")))
    for chip in machines:
        of_costs = cost_table(chip.name).units
        for path, row in chip.figures.items():
            if takes(chip, path):
                name = path.removeprefix("cost.")
                units = of_costs if name != path else chip.units
                numbers = [(k, v) for k, v in row.items() if not isinstance(v, str)]
                names = [f"{k} " if len(numbers) > 1 else "" for k, _ in numbers]
                values = (f"{n}{v:,} {units[k]}" for n, (k, v) in zip(names, numbers, strict=True))
                named = f"{chip.name} {name}" if len(machines) > 1 else name
                table.add_row(named, ", ".join(values), row["confidence"], row["source"])
    return table
