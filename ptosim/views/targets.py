"""The machines as a report, and how far predicted times are from published ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from statistics import mean, median

from ptosim.ground.isa.costs import Accuracy, KernelAccuracy, cost_table
from ptosim.ground.isa.targets import (
    MachineDef,
    TargetName,
    architecture,
    architectures,
    chips,
    machine,
)
from ptosim.views.report import Report, one_section
from ptosim.views.table import Column, Part, Text, number, table


def targets_report(asked: TargetName | None = None) -> Report:
    """Return every architecture and chip with units and sources, or those of one."""
    names = architectures() if asked is None else [asked.architecture]
    return one_section(
        lambda _: _machines(names, asked.chip if asked is not None else None),
        lambda: {name: _architecture_fields(name) for name in names},
    )


def _machines(names: Sequence[str], chip: str | None) -> list[Part]:
    sources = _Sources()
    parts = [part for name in names for part in _architecture(name, sources)]
    named = table("sources", (">", "source"), [(n, s) for s, n in sources.items()])
    chosen = [c for c in chips() if machine(c).architecture in names and chip in (None, c)]
    return [_chips(chosen), *parts, named]


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


def _chips(names: Sequence[str]) -> Part:
    """Chips with the figures that tell them apart."""
    sizes = (number(n, "") for n in ("cube cores", "vector cores", "MHz", "UB KiB"))
    columns = ("chip", "words", "target", *sizes, "clock is")
    rows = []
    for chip in map(machine, names):
        clock, size = chip.figures["cost.machine.clock"], chip.spaces["vec"].bytes // 1024
        words, numbers = ", ".join(chip.words), (*chip.cores, clock["mhz"], size)
        rows.append((chip.name, words, chip.architecture, *numbers, clock["confidence"]))
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
    sizes = (number("bytes"), number("planner bytes"), number("safe bytes"))
    columns = ("space", "alias", *sizes, ">align", "confidence", ">source")
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
    numbers = [(k, v) for k, v in row.items() if not isinstance(v, str) and k in units]
    keys = [f"{k} " if len(numbers) > 1 else "" for k, _ in numbers]
    values = (f"{key}{_number(v)} {units[k]}" for key, (k, v) in zip(keys, numbers, strict=True))
    return name, ", ".join(values), row["confidence"], sources[row["source"]]


def _number(value: object) -> str:
    """A number, or several with a comma between them."""
    if isinstance(value, (list, tuple)):
        return " / ".join(map(_number, value))
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)


# -- accuracy --------------------------------------------------------------------------------------

_ERRORS = ("mean", "median", "worst")


def accuracy_report(operations: Sequence[Accuracy], kernels: Sequence[KernelAccuracy]) -> Report:
    """Return the errors of operations by class, and of whole kernels."""
    return one_section(
        lambda _: _accuracy(operations, kernels),
        lambda: {
            "operations": [asdict(row) for row in operations],
            "kernels": [{**asdict(row), "error": round(row.error, 4)} for row in kernels],
        },
    )


def _percent(name: str) -> Column:
    return number(name, ".1%")


def _accuracy(operations: Sequence[Accuracy], kernels: Sequence[KernelAccuracy]) -> list[Part]:
    first = table(
        "single operations: error against profiled cycles",
        ("target", "class of operations", number("points", "d"), *map(_percent, _ERRORS)),
        [(r.target, r.class_name, r.points, r.mean, r.median, r.worst) for r in operations],
    )
    rows: list[tuple[object, ...]] = [
        (k.target, k.name, k.published, k.predicted, k.error) for k in kernels
    ]
    for target in dict.fromkeys(k.target for k in kernels):
        wrong = [abs(k.error) for k in kernels if k.target == target]
        total = f"all {len(wrong)}: mean {mean(wrong):.1%}, median {median(wrong):.1%}, worst"
        rows.append((target, f"{total} {max(wrong):.1%}"))
    times = (number("published us", ",.1f"), number("predicted us", ",.1f"))
    second = table(
        "whole kernels: wall time with the launch",
        ("target", "kernel", *times, number("error", "+.1%")),
        rows,
    )
    note = (
        "Classes without a line have no published points; their figures say where they come from. "
        "The fit saw the points of classes; `left out`: each family with figures fitted without it."
    )
    return [first, second, Text(note)]
