"""Cores that do the same at the same time: told once, with all their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from ptosim.ground.records import dataclass
from ptosim.time.pipes.timers import CoreTimer
from ptosim.time.report.figures import Figures

T = TypeVar("T")
_NAME = re.compile(r"(?P<of>(?:rank \d+ )?)block (?P<block>\d+) (?P<unit>\w+)")
_SUB = re.compile(r"(AIV)(\d+)")


@dataclass(frozen=True, slots=True)
class Alike(Generic[T]):
    """What several cores have in common: their names joined, and the one of the first."""

    name: str
    count: int
    of: T


def alike_cores(report: Figures) -> list[Alike[CoreTimer]]:
    """Return the cores that execute something; those that execute the same operations in the same
    cycles are one. Where one block was timed for all its cores have the names of all."""
    working = [core for core in report.model.cores if core.steps]
    found = joined([(core.name, core.conduct(), core) for core in working])
    blocks = report.blocks.count if report.blocks.is_one_for_all else 1
    return [Alike(of_all(report, each.name), each.count * blocks, each.of) for each in found]


def of_all(report: Figures, name: str) -> str:
    """Return the name of cores of the block that was timed as that of all blocks it stands for."""
    if not report.blocks.is_one_for_all or report.blocks.count < 2:
        return name
    return name.replace("block 0", f"blocks 0-{report.blocks.count - 1}", 1)


def joined(found: Sequence[tuple[str, Hashable, T]]) -> list[Alike[T]]:
    """Return (name of a core, what it has, the thing) joined by what the cores have, in the order
    of the first of each."""
    groups: dict[Hashable, list[tuple[str, T]]] = {}
    for name, key, thing in found:
        groups.setdefault(key, []).append((name, thing))
    return [
        Alike(joined_names([name for name, _ in group]), len(group), group[0][1])
        for group in groups.values()
    ]


def joined_names(names: Sequence[str]) -> str:
    """Return the names of cores as one: `blocks 0-23 AIC`, `block 0 AIV0-1`."""
    parts = [_NAME.fullmatch(name) for name in names]
    if len(names) == 1 or not all(parts):
        return ", ".join(names)
    blocks: dict[tuple[str, str], list[int]] = {}  # by rank and unit
    for part in parts:
        assert part is not None
        blocks.setdefault((part["of"], part["unit"]), []).append(int(part["block"]))
    units: dict[tuple[str, tuple[int, ...]], list[str]] = {}  # units of the same blocks together
    for (of, unit), numbers in blocks.items():
        units.setdefault((of, tuple(sorted(numbers))), []).append(unit)
    return ", ".join(
        f"{of}block{'s' if len(numbers) > 1 else ''} {_ranges(numbers)} {_units(known)}"
        for (of, numbers), known in units.items()
    )


def _units(units: Sequence[str]) -> str:
    parts = [_SUB.fullmatch(unit) for unit in units]
    if len(units) == 1 or not all(parts):
        return "/".join(units)
    return f"AIV{_ranges([int(part[2]) for part in parts if part is not None])}"


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers with runs joined: `0-3, 6`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def by_core(rows: Iterable[T], name: Callable[[T], str], key: Callable[[T], Hashable]
) -> list[tuple[str, T]]:  # fmt: skip
    """Return rows of cores with the names of the cores; cores whose rows are all equal are one."""
    of_core: dict[str, list[T]] = {}
    for row in rows:
        of_core.setdefault(name(row), []).append(row)
    groups = joined([(n, tuple(map(key, own)), own) for n, own in of_core.items()])
    return [(group.name, row) for group in groups for row in group.of]
