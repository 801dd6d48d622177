"""`ptosim targets`"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from ptosim.cli import options as shared
from ptosim.cli.formats import Formats, data, tables
from ptosim.cli.terminal import Terminal
from ptosim.ground.isa.costs import Accuracy, KernelAccuracy, accuracy
from ptosim.ground.isa.data import read_toml
from ptosim.ground.isa.rows import TARGETS
from ptosim.ground.isa.targets import machine
from ptosim.views.accuracy_tables import renderables
from ptosim.views.table import Part, table


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--accuracy",
        action="store_true",
        help="how far predicted cycles are from published measurements",
    )
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print every target's memory spaces with sources, or the accuracy of its cost laws."""
    terminal.report(accuracy() if options.accuracy else None)
    return 0


Accuracies = tuple[Sequence[Accuracy], Sequence[KernelAccuracy]]


def _renderables(errors: Accuracies | None) -> list[Part]:
    return _spaces() if errors is None else renderables(*errors)


def _fields(errors: Accuracies | None) -> dict[str, Any]:
    if errors is None:
        names = read_toml("targets/devices.toml")["target"]
        return {t: {**asdict(machine(t)), "names": names[t]} for t in TARGETS}
    operations, kernels = errors
    return {
        "operations": [asdict(row) for row in operations],
        "kernels": [{**asdict(row), "error": round(row.error, 4)} for row in kernels],
    }


FORMATS: Formats[Accuracies | None] = {"text": tables(_renderables), "json": data(_fields)}


def _spaces() -> list[Part]:
    parts: list[Part] = []
    names = read_toml("targets/devices.toml")["target"]
    for target in TARGETS:
        chip, words = machine(target), names[target]
        devices = ", ".join(f"{d}…" for d in words["devices"])
        parts.append(
            Text(
                f"{target} ({chip.title}): words {', '.join(words['words'])}; devices {devices}; "
                f"a cluster has {chip.cube_cores} cube and {chip.vector_cores} vector cores",
                style="bold",
            )
        )
        columns = ("space", "alias", ">bytes", ">planner bytes", ">safe bytes", ">align",
                   "confidence", "source")  # fmt: skip
        rows = [
            (s.name, s.alias, s.bytes, s.planner, s.safe, s.align, s.confidence, s.source)
            for s in chip.spaces.values()
        ]
        parts.append(table("", columns, rows))
        for scratch in chip.scratch:
            place = f"[{scratch.start}, {scratch.start + scratch.bytes})"
            parts.append(Text(f"hidden scratch in {scratch.space}: {place} ({scratch.source})"))
        parts.append(Text())
    return parts
