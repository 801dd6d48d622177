"""What a page may say. Whoever makes one fills in what is known; the rest is left out."""

from __future__ import annotations

from collections.abc import Sequence

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.errors import ProgramError
from ptosim.ground.records import dataclass, field
from ptosim.launch.analysis.memory_map import MemoryMap
from ptosim.launch.compare import Comparison
from ptosim.launch.program import LoadedProgram
from ptosim.launch.results import Result
from ptosim.time.report.totals import CostReport
from ptosim.views.table import Part


@dataclass(slots=True)
class Ran:
    """A run on values: its parts as tables, its result, and what was expected of it."""

    tables: Sequence[Part]
    result: Result
    comparisons: Sequence[Comparison]


@dataclass(slots=True)
class Timed:
    """A program on a target: its cost and, if it was drawn, its memory over cycles."""

    program: LoadedProgram
    cost: CostReport
    memory: MemoryMap | None = None


@dataclass(slots=True)
class Contents:
    """A page: what it is about, the command that made it, lines on the choices it holds for.
    `sections` are further parts, as HTML."""

    title: str
    command: str
    heads: list[str] = field(default_factory=list)
    findings: list[Diagnostic] = field(default_factory=list)
    ran: Ran | None = None
    timed: list[Timed] = field(default_factory=list)
    rejected: dict[str, ProgramError] = field(default_factory=dict)
    stopped: ProgramError | None = None
    sections: list[str] = field(default_factory=list)
