"""What a launch costs: its figures, and what can be said of them."""

from __future__ import annotations

from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ptosim.time.report.error_bar import ErrorBar, error_bar, launch_range
from ptosim.time.report.figures import Figures
from ptosim.time.report.launch_times import LaunchTimes, launch_times

if TYPE_CHECKING:
    from ptosim.time.report.hints import Hint, Roof


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
        return max(self.microseconds, self.times.bound_us)

    @cached_property
    def times(self) -> LaunchTimes:
        """How long the launch takes, as a profiler, a loop of launches and the host see it."""
        return launch_times(self)

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
    def error_bar(self) -> ErrorBar:
        """Between which cycles the total is expected, and why."""
        return error_bar(self)

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
