"""What is known of a program: whoever makes a page fills it in; what is missing is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.errors import ProgramError
from ptosim.ground.records import dataclass, field
from ptosim.launch.compare import Comparison
from ptosim.launch.program import LoadedProgram
from ptosim.time.report.totals import CostReport
from ptosim.views.report import Part

if TYPE_CHECKING:
    from ptosim.launch.analysis.memory_map import MemoryMap


@dataclass(slots=True)
class Timed:
    """A program that was timed on a target, and its arguments."""

    program: LoadedProgram
    cost: CostReport
    args: Mapping[str, Any] = field(default_factory=dict)
    _memory: list[MemoryMap | None] = field(default_factory=list)

    @property
    def memory(self) -> MemoryMap | None:
        """Its memory over cycles; None without tiles. It is followed for that once."""
        if not self._memory:
            from ptosim.launch.analysis.memory_map import in_cycles, memory_map

            steps = memory_map(self.program.front, self.program.profile, self.cost.entry, self.args)
            self._memory.append(in_cycles(steps, self.cost) if steps.spaces else None)
        return self._memory[0]


@dataclass(slots=True)
class Known:
    """What is known of a program: findings, values of a run and how they compare, its times, who
    rejects it, and what stopped it."""

    findings: list[Diagnostic] = field(default_factory=list)
    values: Sequence[Part] = ()
    compared: Sequence[Comparison] | None = None
    timed: list[Timed] = field(default_factory=list)
    rejected: dict[str, ProgramError] = field(default_factory=dict)
    stopped: ProgramError | None = None

    @property
    def reports(self) -> list[CostReport]:
        """What it costs on each target."""
        return [t.cost for t in self.timed]

    @property
    def codes(self) -> dict[str, str]:
        """The code of the first finding of each target that rejects the program."""
        return {target: found.diagnostics[0].code for target, found in self.rejected.items()}
