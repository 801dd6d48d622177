"""`ptosim targets`"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from ptosim.ground.isa.costs import Accuracy, KernelAccuracy, accuracy, cost_table
from ptosim.ground.isa.targets import MachineDef, architecture, architectures, chips, machine
from ptosim.shell import options as shared
from ptosim.shell.formats import Formats, data, tables
from ptosim.shell.terminal import Terminal
from ptosim.views.accuracy_tables import renderables
from ptosim.views.table import Part, table
from ptosim.views.text import Text


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--accuracy",
        action="store_true",
        help="how far predicted cycles are from published measurements",
    )
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print every architecture and chip with units and sources, or the accuracy of cost laws."""
    terminal.report(accuracy() if options.accuracy else None)
    return 0


Accuracies = tuple[Sequence[Accuracy], Sequence[KernelAccuracy]]


def _renderables(errors: Accuracies | None) -> list[Part]:
    if errors is not None:
        return renderables(*errors)
    sources = _Sources()
    parts = [part for name in architectures() for part in _architecture(name, sources)]
    named = table("sources", (">", "source"), [(n, s) for s, n in sources.items()])
    return [_chips(), *parts, named]


def _fields(errors: Accuracies | None) -> dict[str, object]:
    if errors is None:
        return {name: _architecture_fields(name) for name in architectures()}
    operations, kernels = errors
    return {
        "operations": [asdict(row) for row in operations],
        "kernels": [{**asdict(row), "error": round(row.error, 4)} for row in kernels],
    }


def _architecture_fields(name: str) -> dict[str, object]:
    named, usual = architecture(name), machine(name)
    return {
        **asdict(usual),
        "name": name,
        "title": named.title,
        "chip": usual.name,
        "names": asdict(named),
        "chips": {chip: asdict(machine(chip)) for chip in chips(name)},
    }


FORMATS: Formats[Accuracies | None] = {"text": tables(_renderables), "json": data(_fields)}


def _chips() -> Part:
    """Every chip with the figures that tell it apart."""
    columns = (
        "chip",
        "words",
        "target",
        ">cube cores",
        ">vector cores",
        ">MHz",
        ">UB KiB",
        "clock is",
    )
    rows = []
    for chip in map(machine, chips()):
        clock, size = chip.figures["cost.machine.clock"], chip.spaces["vec"].bytes // 1024
        words, numbers = ", ".join(chip.words), (*chip.cores, clock["mhz"], size)
        rows.append((chip.name, words, chip.architecture, *map(str, numbers), clock["confidence"]))
    return table("chips", columns, rows)


class _Sources(dict[str, int]):
    """The sources of the figures, numbered in the order in which they are named first."""

    def __missing__(self, source: str) -> int:
        self[source] = len(self) + 1
        return self[source]


def _architecture(name: str, sources: _Sources) -> Iterator[Part]:
    """What an architecture is called, the machine of its usual chip, and what its chips have of
    their own."""
    usual, named = machine(name), architecture(name)
    yield Text(
        f"{name} ({named.title}): words {', '.join(named.words)}; devices "
        f"{', '.join(d + '…' for d in named.devices)}; a cluster has {usual.cube_cores} cube and "
        f"{usual.vector_cores} vector cores; the chip is {usual.name} unless one is named",
        style="bold",
    )
    columns = ("space", "alias", ">bytes", ">planner bytes", ">safe bytes", ">align",
               "confidence", ">source")  # fmt: skip
    rows = [
        (s.name, s.alias, s.bytes, s.planner, s.safe, s.align, s.confidence, sources[s.source])
        for s in usual.spaces.values()
    ]
    yield table("", columns, rows, essential=("confidence",))
    shared_figures = [p for p in usual.figures if not p.startswith(("space.", "cost.", "cores"))]
    yield table(
        "", ("figure", *_COLUMNS), [_figure(usual, path, sources) for path in shared_figures]
    )
    yield Text(f"chips of {name}: `--target {usual.words[0]}`, or pto.device-spec", style="bold")
    own = [(machine(chip), path) for chip in chips(name) for path in machine(chip).own]
    rows_of_chips = [(chip.name, *_figure(chip, path, sources)) for chip, path in own]
    yield table("", ("chip", "figure", *_COLUMNS), rows_of_chips)
    yield Text()


_COLUMNS = ("value", "confidence", ">source")


def _figure(chip: MachineDef, path: str, sources: _Sources) -> tuple[str | int, ...]:
    """The cells of a figure: name, value with unit, confidence, number of its source."""
    name, row = path.removeprefix("cost."), chip.figures[path]
    units = chip.units if name == path else cost_table(chip.name).units
    numbers = [(k, v) for k, v in row.items() if not isinstance(v, str)]
    keys = [f"{k} " if len(numbers) > 1 else "" for k, _ in numbers]
    values = (f"{key}{v:,} {units[k]}" for key, (k, v) in zip(keys, numbers, strict=True))
    return name, ", ".join(values), row["confidence"], sources[row["source"]]
