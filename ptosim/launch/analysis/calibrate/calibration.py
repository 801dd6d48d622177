"""Profiler files against the cost laws: what they say, how wrong the laws are, and better
figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.costs import Accuracy, CostTable
from ptosim.ground.isa.overlay import Overlay
from ptosim.ground.records import dataclass, replace
from ptosim.launch.analysis.calibrate.fit import Refit, refit, split
from ptosim.launch.analysis.calibrate.kernels import Kernel
from ptosim.launch.analysis.calibrate.matching import Unmatched, match
from ptosim.launch.analysis.calibrate.points import Point
from ptosim.launch.analysis.calibrate.profiler import ProfilerFile, read_profile


@dataclass(frozen=True, slots=True)
class FamilyError:
    """Relative errors of a family of points: before, and (None without a fit) after it, of those
    that the fit saw and of those that it did not."""

    family: str
    points: int
    before: float
    worst: float
    after: float | None = None
    aside: int = 0
    aside_before: float | None = None
    aside_after: float | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the files told. `refits` is empty if they were only compared."""

    files: tuple[ProfilerFile, ...]
    table: CostTable
    fitted: CostTable
    points: tuple[Point, ...]
    aside: tuple[Point, ...]
    unmatched: tuple[Unmatched, ...]
    refits: tuple[Refit, ...]
    is_check: bool

    @property
    def changed(self) -> list[Refit]:
        """The figures that have a new value."""
        return [r for r in self.refits if not r.reason]

    @property
    def source(self) -> str:
        """Where the figures come from, for the overlay and the reports that use it."""
        listed = ", ".join(f"{f.name} ({len(f.readings)} rows)" for f in self.files)
        return f"{listed}: {len(self.points) + len(self.aside)} points"

    def families(self) -> list[FamilyError]:
        """Return the errors by family."""
        every = (*self.points, *self.aside)
        names = sorted({p.family for p in every})
        return [self._family(name, every) for name in names] + [self._family("all", every)]

    def _family(self, name: str, every: Sequence[Point]) -> FamilyError:
        chosen = [p for p in every if name in ("all", p.family)]
        aside = [p for p in self.aside if name in ("all", p.family)]
        before = [abs(p.error(self.table)) for p in chosen]
        found = FamilyError(name, len(chosen), mean(before), max(before))
        if self.is_check:
            return found
        found = replace(found, after=_mean(chosen, self.fitted), aside=len(aside))
        if not aside:
            return found
        return replace(
            found,
            aside_before=_mean(aside, self.table),
            aside_after=_mean(aside, self.fitted),
        )

    def overlay(self, name: str) -> Overlay:
        """Return the figures that changed as an overlay."""
        figures = {r.key: r.now for r in self.changed}
        sources = {r.key.rpartition(".")[0]: self.source for r in self.changed}
        errors = []
        for class_name in sorted({p.class_name for p in self.aside}):
            left = sorted(
                abs(p.error(self.fitted)) for p in self.aside if p.class_name == class_name
            )
            errors.append(
                Accuracy(self.table.chip, class_name, len(left), mean(left), median(left), left[-1])
            )
        return Overlay(name, self.table.chip, self.source, figures, sources, tuple(errors))


def _mean(points: Sequence[Point], table: CostTable) -> float:
    return mean(abs(p.error(table)) for p in points)


def calibrate(
    paths: Sequence[str | Path],
    table: CostTable,
    kernels: Sequence[Kernel] = (),
    *,
    check: bool = False,
) -> Calibration:
    """Return what profiler files say of the figures of a table. With `check` nothing is refitted.
    Raises UsageError for files that cannot be read (PTO7522), or of which nothing can be compared
    (PTO7523)."""
    files = [read_profile(path, table.mhz) for path in paths]
    readings = [r for file in files for r in file.readings]
    points, unmatched = match(readings, kernels, table)
    if not points:
        reasons = "; ".join(f"{u.what}: {u.reason}" for u in unmatched[:3]) or "it has no rows"
        raise UsageError(
            f"PTO7523: nothing in {', '.join(f.name for f in files)} can be compared: {reasons}",
            help="rows of tile operations need an OP Type such as TADD with shapes and types; rows "
            "of kernels need --program FILE.pto",
        )
    learned, aside = (points, []) if check else split(points)
    fitted, refits = (table, []) if check else refit(table, learned, aside)
    return Calibration(
        tuple(files), table, fitted, tuple(learned), tuple(aside), tuple(unmatched),
        tuple(refits), check,
    )  # fmt: skip
