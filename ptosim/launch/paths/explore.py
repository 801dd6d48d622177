"""Follows an entry along its paths: each decision is turned once, as far as values are found."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ptosim.engine.core.records import Inst
from ptosim.engine.paths.forms import INDEX, Assignment, Symbol
from ptosim.engine.paths.records import Decision, Limit, Noted
from ptosim.engine.paths.watch import ROUNDS, Paths, Void
from ptosim.ground.errors import PtosimError
from ptosim.ground.isa.profiles import Profile
from ptosim.ground.records import dataclass, field
from ptosim.language.frontend import Front
from ptosim.launch.dry_run import BUDGET, PLACES, Followed, followed
from ptosim.launch.launch import Launch
from ptosim.launch.options import RunOptions
from ptosim.launch.paths.solve import (
    consistent,
    facts_of_symbols,
    flipped,
    is_forced,
    meeting,
)
from ptosim.launch.paths.symbols import BLOCK, BLOCKS, argument_symbols, seeds_of
from ptosim.launch.prepared import Prepared, prepare

RUNS = 32
"""Followings of an entry, at most."""
INSTRUCTIONS = 100_000
"""Instructions of all followings of an entry."""
_REPAIRS = 3
_ATTEMPTS = 3
"""Runs from which the other side of one decision is looked for."""

Key = tuple[int, int, Any]


@dataclass(frozen=True, slots=True, eq=False)
class PathRun:
    """One following: its assignment, what it noted, and what it brought out; `outcome` is None for
    one that broke a bound, of which nothing counts but the bounds."""

    assignment: Assignment
    noted: Noted
    outcome: Followed | None
    executed: int


@dataclass(slots=True, eq=False)
class Explored:
    """The followings of an entry. `open` are decisions of which one side was not reached, `left`
    says which limit ended the search, '' if none did; `unsolved` are bounds that no value tried
    meets."""

    runs: list[PathRun] = field(default_factory=list)
    open: list[Decision] = field(default_factory=list)
    left: str = ""
    unsolved: list[Limit] = field(default_factory=list)
    limits: dict[int, list[tuple[Limit, PathRun]]] = field(default_factory=dict)
    again: Callable[[Assignment], PathRun] | None = None
    """Follows the entry under one more assignment."""

    @property
    def valid(self) -> list[PathRun]:
        """The runs that count."""
        return [run for run in self.runs if run.outcome is not None]

    @property
    def has_symbols(self) -> bool:
        """True if something depends on what is not known."""
        return any(run.noted.decisions or run.noted.limits or run.noted.broken for run in self.runs)

    @property
    def is_whole(self) -> bool:
        """True if every path that was looked for was followed to its end."""
        ends = all(r.outcome is None or not r.outcome.is_open for r in self.runs)
        return bool(self.valid) and not (self.open or self.left or self.unsolved) and ends


def explore(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any],
    most: int = RUNS,
    budget: int | None = BUDGET,
) -> Explored:
    """Follow an entry under several assignments of what is not given. Raises what `prepare` and a
    launch raise."""
    prepared = prepare(front, profile, entry, args)
    search = _Search(prepared, dict(args), most, budget)
    search.found.again = search.follow
    return search.run()


class _Search:
    """The runs of an entry: what was tried, and what is next."""

    def __init__(
        self, prepared: Prepared, args: dict[str, Any], most: int, budget: int | None
    ) -> None:
        self.prepared, self.args, self.most, self.budget = prepared, args, most, budget
        self.symbols = argument_symbols(prepared, args)
        self.found = Explored()
        self.queue: deque[tuple[Assignment, int]] = deque()
        self.tried: set[Any] = set()
        self.reached: dict[Key, bool] = {}
        self.wanted: dict[Key, int] = {}
        self.executed = 0

    def run(self) -> Explored:
        first = {symbol: symbol.default for symbol in self.symbols.values()}
        self._push(first)
        while self.queue:
            if len(self.found.runs) >= self.most:
                self.found.left = f"{self.most} runs were made"
                break
            if self.executed >= INSTRUCTIONS:
                self.found.left = f"{self.executed:,} instructions were followed"
                break
            assignment, repairs = self.queue.popleft()
            self._one(assignment, repairs)
        self._note_open()
        return self.found

    def _push(self, assignment: Assignment, repairs: int = 0, *, first: bool = False) -> bool:
        made = consistent(assignment) or assignment
        key = frozenset((s, v) for s, v in made.items() if v != s.default)
        if key in self.tried:
            return False
        self.tried.add(key)
        (self.queue.appendleft if first else self.queue.append)((made, repairs))
        return True

    def _one(self, assignment: Assignment, repairs: int) -> None:
        run = self.follow(assignment)
        self.found.runs.append(run)
        self.executed += run.executed
        for limit in run.noted.limits.values():
            self.found.limits.setdefault(limit.inst.pc, []).append((limit, run))
        for decision in run.noted.decisions:
            if run.outcome is not None:
                self.reached[decision.key] = True
        base = {**assignment, **run.noted.symbols}
        if run.noted.broken is not None:
            self._repair(run, base, repairs)
        if run.outcome is not None:
            self._turn(run, base)
            self._other_indices(run, base)

    def follow(self, assignment: Assignment) -> PathRun:
        """Follow the entry once under an assignment."""
        given = {n: assignment.get(s, s.default) for n, s in self.symbols.items()}
        launch = Launch(self.prepared, RunOptions(1, timing=False), {**self.args, **given}, PLACES)
        domain = Paths(assignment)
        launch.begin([domain], domain=domain)
        domain.begin(launch.engine, seeds_of(launch, self.symbols))
        outcome: Followed | None
        try:
            outcome = followed(launch, domain, self.budget)
        except Void:
            outcome = None
        return PathRun(assignment, domain.noted, outcome, launch.engine.executed)

    def _repair(self, run: PathRun, base: Assignment, repairs: int) -> None:
        """After a run that broke a bound: the nearest values that meet it."""
        limit = run.noted.broken
        assert limit is not None
        self.found.limits.setdefault(limit.inst.pc, []).append((limit, run))
        if repairs >= _REPAIRS:
            self.found.unsolved.append(limit)
            return
        for tried in meeting(limit, run.noted.decisions, base):
            if self._push(tried, repairs + 1, first=True):
                return
        if not any(r.outcome is not None for r in self.found.runs):
            self.found.unsolved.append(limit)

    def _turn(self, run: PathRun, base: Assignment) -> None:
        limits = list(run.noted.limits.values())
        known = facts_of_symbols(base)
        for at, decision in enumerate(run.noted.decisions):
            if decision.visit >= ROUNDS or self._is_turned(decision):
                continue
            earlier = run.noted.decisions[:at]
            if self.wanted.get(decision.key, 0) >= _ATTEMPTS or is_forced(decision, earlier, known):
                continue
            self.wanted[decision.key] = self.wanted.get(decision.key, 0) + 1
            tried = flipped(decision, earlier, limits, base)
            if tried is not None:
                self._push(tried)

    def _is_turned(self, decision: Decision) -> bool:
        pc, visit, outcome = decision.key
        return any((p, v) == (pc, visit) and o != outcome for p, v, o in self.reached)

    def _other_indices(self, run: PathRun, base: Assignment) -> None:
        """Of each index the second value, too."""
        used = set(run.noted.decided_by)
        for limit in run.noted.limits.values():
            used |= limit.symbols
        for symbol in sorted(used, key=lambda s: s.name):
            if symbol.kind == INDEX and base.get(symbol, 0) == 0:
                self._push({**base, **self._counted(symbol), symbol: 1})

    def _counted(self, symbol: Symbol) -> dict[Symbol, int]:
        if symbol == BLOCK:
            return {BLOCKS: 2}
        count = self.symbols.get(symbol.below)
        return {count: 2} if count is not None else {}

    def _note_open(self) -> None:
        told: set[tuple[int, Any]] = set()
        for run in self.found.valid:
            known = facts_of_symbols(run.noted.symbols)
            for at, decision in enumerate(run.noted.decisions):
                place = decision.inst.pc, decision.outcome
                if decision.visit >= ROUNDS or place in told or self._is_turned(decision):
                    continue
                if not is_forced(decision, run.noted.decisions[:at], known):
                    told.add(place)
                    self.found.open.append(decision)


def line_of(front: Front, inst: Inst) -> int:
    """Return the line of an instruction."""
    return front.source.line_column(inst.operation.start)[0] if inst.op is not None else 0


__all__ = ["Explored", "PathRun", "PtosimError", "explore", "line_of"]
