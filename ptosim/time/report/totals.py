"""What a launch costs: its figures, and what can be said of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ptosim.ground.isa.costs import GIB
from ptosim.ground.records import dataclass, replace
from ptosim.time.pipes.timers import CoreTimer
from ptosim.time.report.error_bar import ErrorBar, error_bar, launch_range
from ptosim.time.report.figures import Figures
from ptosim.time.report.launch_times import HBM, LaunchTimes, at_peak, launch_times

if TYPE_CHECKING:
    from ptosim.time.report.hints import Hint, Roof


LINE_PER_PIECE = 16
"""A line has at most so many times the bytes of the smallest piece that is moved of it (32)."""


class CostReport(Figures):
    """The figures of a launch, its times, how sure they are, and what may be better."""

    def __repr__(self) -> str:
        return (
            f"<CostReport: @{self.entry} on {self.label}, {self.cycles:,} cycles, "
            f"{self.microseconds:,.2f} us, figures at least {self.confidence}>"
        )

    @property
    def least_microseconds(self) -> float:
        """The makespan as time, but no less than the bytes and operations of the launch need of the
        chip's memory and cubes: no time that is compared with another is below that."""
        if self._moves_little(self.microseconds):
            return self.microseconds
        return max(self.microseconds, self.times.bound_us)

    def _moves_little(self, us: float) -> bool:
        """True if so many microseconds are enough for the bytes, without counting their lines."""
        hbm = self.table.rows.get("machine.hbm")
        moved = sum(self.moved().values()) * LINE_PER_PIECE
        return hbm is not None and moved <= us * hbm["gib_per_second"] * GIB / 1e6

    @cached_property
    def times(self) -> LaunchTimes:
        """How long the launch takes, as a profiler, a loop of launches and the host see it."""
        return launch_times(self, self._bar.assumed)

    @cached_property
    def roofline(self) -> list[Roof]:
        """Where every unit is between arithmetic and memory."""
        from ptosim.time.report.hints import rooflines

        return rooflines(self)

    @cached_property
    def hints(self) -> list[Hint]:
        """What may not have to take its time, dearest first."""
        from ptosim.time.report.hints import hints

        return hints(self)

    @cached_property
    def _bar(self) -> ErrorBar:
        return error_bar(self)

    @cached_property
    def error_bar(self) -> ErrorBar:
        """Between which cycles the total is expected, and why. They do not begin below what lines
        at the peak of HBM and products at that of the cube need, unless the total of the cores
        does; the rate of L2 is no such limit, on some chips it is known to be more."""
        found, least = self._bar, at_peak(self)
        if not self._moves_little(found.low / self.mhz):
            least = max(least, self.times.bounds[HBM])
        cycles = min(self.cycles, ceil(least * self.mhz))
        return replace(found, low=max(found.low, cycles))

    def trace(self, unit: str = "cycles") -> list[dict[str, Any]]:
        """Return the run as Chrome trace events, a cycle as a nanosecond; with the unit `us` in
        microseconds of the target's clock."""
        from ptosim.time.report.trace import trace_events

        return trace_events(self, unit)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON data."""
        from ptosim.time.report.chains import chains
        from ptosim.time.report.error_bar import carriers

        return {
            "target": self.target,
            "chip": self.chip,
            "entry": self.entry,
            "cycles": self.cycles,
            "error_bar": self.error_bar.to_dict(),
            "blocks": self.blocks.to_dict(),
            "on_values": self.on_values,
            "repeats": [asdict(r) for r in self.repeats],
            "in_full": [{"line": n, "why": why} for n, why in self.in_full.items()],
            "costs": self.table.overlay.to_dict() if self.table.overlay is not None else None,
            "mhz": self.mhz,
            "microseconds": round(self.microseconds, 3),
            "launch_microseconds": round(self.launch_microseconds, 3),
            "launch_range_microseconds": [
                round(us, 2) for us in launch_range(self.table, self.blocks.at_once)
            ],
            "times": self.times.times(),
            "memory": self.times.memory(),
            "limit": self.times.limit,
            "bound": self.bound,
            "confidence": self.confidence,
            "unknown": self.unknown,
            "accuracy": self.accuracy,
            "pipes": [_data(p) for p in self.pipes],
            "ops": [_data(u) for u in self.ops],
            "stages": [_data(s) for s in self.stages],
            "chains": [c.to_dict() for c in chains([self])],
            "lines": [_data(u) for u in self.lines],
            "loops": [_data(u) for u in self.loops],
            "critical_path": [_data(p) for p in self.path],
            "bytes": self.moved(),
            "regions": [asdict(r) for r in self.regions],
            "roofline": [_data(r) for r in self.roofline],
            "trust": [_data(c) for c in carriers([(self, self.error_bar)])],
            "hints": [_data(h) for h in self.hints],
        }


def _data(row: Any) -> dict[str, Any]:
    data = asdict(row)
    if "share" in data:
        data["share"] = round(data["share"], 4)
    return data


# Cores that do the same at the same time: told once, with all their names.

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
