"""One try of a search: a program with its launch, what it costs, and the least that it could cost
if nothing waited."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ptosim.ground.errors import BudgetError, PtosimError
from ptosim.ground.progress import part_done
from ptosim.ground.records import dataclass, field
from ptosim.launch.program import LoadedProgram
from ptosim.time.report.totals import CostReport
from ptosim.tools.search.rewrite import REWRITES, Launch, applied

DEEPEST = 2
"""Rewrites that are applied one after the other."""
FIRST_ONLY = frozenset(["redundant synchronisation out"])
"""Rewrites of the program as it was written; others leave nothing for them."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program that was priced. `how` are the rewrites that made it, `params` the point of the
    space; `bound` is what the busiest pipe needs."""

    program: LoadedProgram
    launch: Launch
    cycles: int
    bound: int
    how: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The program."""
        return self.program.front.source.text

    @property
    def name(self) -> str:
        """What it is, in words."""
        point = " ".join(f"{name}={value}" for name, value in self.params.items())
        return ", ".join((*([point] if point else []), *self.how)) or "as it was"


class Budget:
    """How long a search goes on: a number of trials, seconds of wall-clock time, or both."""

    def __init__(self, trials: int, seconds: float | None) -> None:
        self.trials = trials
        self.done = 0
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """True if nothing more is to be tried."""
        late = self._end is not None and time.monotonic() >= self._end
        return late or self.done >= self.trials


class Trials:
    """Programs that were tried: the priced ones, and what became of the others."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.priced: dict[bytes, Candidate] = {}
        self.refused: Counter[str] = Counter()
        self.idle: Counter[str] = Counter()
        """Rewrites that had nothing to do, or could not be done, by the reason."""
        self.pruned = 0
        self.repeated = 0

    @property
    def best(self) -> int | None:
        """The fewest cycles so far."""
        return min((c.cycles for c in self.priced.values()), default=None)

    def offer(
        self,
        program: LoadedProgram,
        launch: Launch,
        how: tuple[str, ...] = (),
        params: Mapping[str, Any] | None = None,
    ) -> Candidate | None:
        """Price a program; None for one that was there before or cannot be priced."""
        key = _key(program, launch)
        if key in self.priced:
            self.repeated += 1
            return None
        self.budget.done += 1
        part_done()
        try:
            report = launch.report(program)
        except BudgetError:
            raise
        except PtosimError as problem:
            self.refuse(str(problem))
            return None
        found = Candidate(program, launch, report.cycles, bound_of(report), how, params or {})
        self.priced[key] = found
        return found

    def refuse(self, reason: str) -> None:
        """Count a program that could not be tried, by the reason."""
        self.refused[_line(reason)] += 1

    def rewrite(self, start: Candidate, deepest: int = DEEPEST) -> None:
        """Try the rewrites on a program, and on what they make, breadth first. What cannot get
        below the best one even if no pipe ever waited is left out."""
        level = [start]
        for _ in range(deepest):
            level = [made for one in level for made in self._rewritten(one)]

    def _rewritten(self, start: Candidate) -> list[Candidate]:
        made = []
        for name, rewrite in REWRITES.items():
            if self.budget.is_over or (start.how and name in FIRST_ONLY) or name in start.how:
                continue
            if self.best is not None and start.bound >= self.best:
                self.pruned += 1
                continue
            try:
                program = applied(start.program, rewrite, start.launch)
            except BudgetError:
                raise
            except PtosimError as problem:
                self.idle[_line(f"{name}: {problem}")] += 1
                continue
            found = self.offer(program, start.launch, (*start.how, name), start.params)
            made += [found] if found is not None else []
        return made


def bound_of(report: CostReport) -> int:
    """Return what the busiest pipe of any core works, as a part of the whole launch: no order of
    the same operations is faster."""
    busy = max((p.busy for p in report.pipes if p.pipe != "S"), default=0)
    return round(busy * report.cycles / max(report.span, 1))


def _line(text: str) -> str:
    return " ".join(text.split())


def _key(program: LoadedProgram, launch: Launch) -> bytes:
    text = program.front.source.text
    return hashlib.blake2b(f"{launch.block_num}\n{text}".encode(), digest_size=16).digest()
