"""Follows an entry along its paths: each decision is turned once, as far as values are found."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ptosim.engine.core.bound import Inst
from ptosim.engine.core.runners import form_of
from ptosim.engine.paths.flow import Flow
from ptosim.engine.paths.forms import ARGUMENT, COUNT, INDEX, Assignment, Env, Symbol, range_of
from ptosim.engine.paths.noted import Decision, Limit, Noted
from ptosim.engine.paths.scalars import ROUNDS, GoesOn
from ptosim.engine.paths.watch import Paths, Void
from ptosim.ground.errors import BudgetError, LimitError, PtosimError
from ptosim.ground.ir.types import ScalarType
from ptosim.ground.isa.dates import Profile
from ptosim.ground.records import dataclass, field
from ptosim.language import toolchains
from ptosim.language.frontend import Front
from ptosim.language.toolchains import most_blocks, promises_of
from ptosim.launch.dry_run import BUDGET, PLACES, Followed, followed
from ptosim.launch.generated import only_read
from ptosim.launch.launch import Kept, Launch
from ptosim.launch.paths.solve import (
    Linear,
    Space,
    facts_of_symbols,
    flipped,
    is_forced,
    linear_of,
    meeting,
    range_of_sum,
)
from ptosim.launch.prepared import Prepared, RunOptions, prepare
from ptosim.machine.core import SLOT_BLOCK, SLOT_BLOCK_NUM

if TYPE_CHECKING:
    from ptosim.engine.paths.rounds import Shown
    from ptosim.launch.paths.facts import Facts

RUNS = 32
"""Followings of an entry, at most."""
INSTRUCTIONS = 100_000
"""Instructions of all followings of an entry, at most."""
_PRICE, _OF_TEXT, _LEAST = 8, 4, 8_000
"""Times what a check takes anyway: the instructions of the first following that counts, and for
reading an operation of the text as long as for so many of them; and the least number."""
_REPAIRS = 3
_ATTEMPTS = 3
"""Runs from which the other side of one decision is looked for."""

_TOO_LARGE = "with many rounds its buffers would be too large"
_OUTCOMES = 16
"""Numbers of a flag, a slot or a place that are tried."""

_NUMBERS = (-1, *range(2 * _OUTCOMES), *(32 << n for n in range(16)))
"""Numbers of which some are right for every place, slot or flag."""

Key = tuple[int, int, Any]


@dataclass(frozen=True, slots=True, eq=False)
class PathRun:
    """One following: its assignment, what it noted, and what it brought out; `outcome` is None for
    one that broke a bound, of which nothing counts but the bounds."""

    assignment: Assignment
    noted: Noted
    outcome: Followed | None
    executed: int

    @property
    def assumed(self) -> Assignment:
        """What was assumed of all that is not known, what it met on its way too."""
        return {**self.assignment, **self.noted.symbols}


@dataclass(slots=True, eq=False)
class Explored:
    """The followings of an entry. `open` are decisions of which one side was not reached, `left`
    says which limit ended the search, '' if none did; `unsolved` are bounds that no value tried
    meets."""

    given: tuple[str, ...] = ()
    """The scalars that were given, as words of a command."""
    runs: list[PathRun] = field(default_factory=list)
    open: list[Decision] = field(default_factory=list)
    left: str = ""
    unsolved: list[Limit] = field(default_factory=list)
    limits: dict[int, list[tuple[Limit, PathRun]]] = field(default_factory=dict)
    again: Callable[..., PathRun] | None = None
    """Follows the entry under one more assignment."""
    shown: Callable[[Assignment, Mapping[int, int]], Shown] | None = None
    """Follows it once more, to show that loops with certain heads repeat from some round on."""
    space: Space = field(default_factory=Space)
    """Which assignments occur."""
    kept: list[Kept] = field(default_factory=list)
    """What the runs were executed with."""
    executed: int = 0
    """Instructions of all followings, also of those that show that loops repeat."""
    unsaid: dict[int, frozenset[Symbol]] = field(default_factory=dict)
    """Lines with a check that asks something of symbols which no sum says."""

    apart: tuple[tuple[int, int, tuple[str, ...]], ...] = ()
    """Lines of two windows that met in no run, and do with other values of some symbols."""
    beyond: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Lines that read of a tile what nothing shows to be written, with what says how large it
    is."""

    def release(self) -> None:
        """Let go of what its runs can be asked again with: it refers to itself."""
        self.again = self.shown = None
        self.limits.clear()
        for run in self.runs:
            run.noted.release()
        for kept in self.kept:
            for core in kept.cores:
                core.release()
            kept.engine.release()

    @property
    def valid(self) -> list[PathRun]:
        """The runs that count."""
        return [run for run in self.runs if run.outcome is not None]

    @property
    def first(self) -> int:
        """The instructions of the first run that counts, 0 if none does."""
        return next((run.executed for run in self.runs if run.outcome is not None), 0)

    @property
    def has_symbols(self) -> bool:
        """True if something depends on what is not known."""
        return any(run.noted.decisions or run.noted.limits or run.noted.broken for run in self.runs)

    @property
    def uses_twice(self) -> bool:
        """True if two instructions use one buffer, and one of them writes."""
        windows = [window for run in self.runs for window in run.noted.windows.values()]
        users: dict[Any, set[int]] = {}
        for window in windows:
            users.setdefault(window.memory, set()).add(window.inst.pc)
        return any(w.is_write and len(users[w.memory]) > 1 for w in windows)

    @property
    def is_whole(self) -> bool:
        """True if every path that was looked for was followed to its end."""
        ends = all(r.outcome is None or not r.outcome.is_open for r in self.runs)
        return bool(self.valid) and not (self.open or self.left or self.unsolved) and ends


def given_words(args: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words of a command that give it the same scalars."""
    scalars = {n: v for n, v in args.items() if isinstance(v, (int, float))}
    return tuple(f"--arg {name}={str(value).lower()}" for name, value in scalars.items())


def explore(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any],
    most: int = RUNS,
    budget: int | None = BUDGET,
    facts: Facts | None = None,
    blocks: int | None = None,
) -> Explored:
    """Follow an entry under several assignments of what is not given, those that meet `facts`, in
    `blocks` blocks, if that is known. Raises what `prepare` and a launch raise, UsageError for
    facts that no values meet."""
    prepared = prepare(front, profile, entry, args)
    search = Search(prepared, dict(args), most, budget, Space(facts), blocks)
    search.found.again, search.found.shown = search.follow, search.shown
    return search.run()


class Search:
    """The runs of an entry: what was tried, and what is next."""

    def __init__(
        self,
        prepared: Prepared,
        args: dict[str, Any],
        most: int,
        budget: int | None,
        space: Space,
        blocks: int | None,
    ) -> None:
        self.prepared, self.args, self.most, self.budget = prepared, args, most, budget
        self.space = space
        found = argument_symbols(prepared, args, blocks)
        self.symbols = {name: space.known(symbol) for name, symbol in found.items()}
        self.block, self.blocks = map(space.known, block_symbols(blocks))
        self.found = Explored(given_words(args), space=space)
        self.queue: deque[tuple[Assignment, int]] = deque()
        self.tried: set[Any] = set()
        self.reached: dict[Key, bool] = {}
        self.wanted: dict[Key, int] = {}
        self.elsewhere: dict[str, set[tuple[int, Any]]] = {}
        self.launch: Launch | None = None
        self.flows: dict[frozenset[int], Flow] = {}

    def run(self) -> Explored:
        every = [*self.symbols.values(), self.block, self.blocks]
        first = self.space.start(every)
        self._push({s: v for s, v in first.items() if v != s.default or s.name in self.symbols})
        while self.queue:
            if len(self.found.runs) >= self.most:
                self.found.left = f"{self.most} runs were made"
                break
            if self.found.executed >= self._budget():
                self.found.left = f"{self.found.executed:,} instructions were followed"
                break
            assignment, repairs = self.queue.popleft()
            self._one(assignment, repairs)
        self._note_open()
        return self.found

    def _budget(self) -> int:
        """How many instructions may be followed; for more runs than usual more."""
        text = _OF_TEXT * len(self.prepared.resolved.ops)
        least = max(_LEAST, _PRICE * (self.found.first + text))
        return min(INSTRUCTIONS, least * max(self.most // RUNS, 1))

    def _push(self, assignment: Assignment, repairs: int = 0, *, first: bool = False) -> bool:
        made = self.space.fits(assignment)
        if made is None:
            return False
        key = frozenset((s, v) for s, v in made.items() if v != s.default)
        if key in self.tried:
            return False
        self.tried.add(key)
        (self.queue.appendleft if first else self.queue.append)((made, repairs))
        return True

    def _one(self, assignment: Assignment, repairs: int) -> None:
        run = self.follow(assignment)
        self.found.runs.append(run)
        for limit in run.noted.limits.values():
            self.found.limits.setdefault(limit.inst.pc, []).append((limit, run))
        for decision in run.noted.decisions:
            if run.outcome is not None:
                self.reached[decision.key] = True
        base = {**assignment, **run.noted.symbols}
        if run.noted.ends:
            self._push({**base, **run.noted.ends}, repairs, first=True)
        if run.noted.broken is not None:
            self._repair(run, base, repairs)
        if run.outcome is not None:
            self._turn(run, base)
            self._other_indices(run, base)

    def _begin(self, assignment: Assignment, domain: Paths) -> Launch:
        given = {n: assignment.get(s, s.default) for n, s in self.symbols.items()}
        args = {**self.args, **given}
        if self.launch is None:
            self.launch = Launch(self.prepared, RunOptions(1, timing=False), args, PLACES)
        else:
            self.launch.again(args)
        self.launch.begin([domain], domain=domain)
        self.found.kept.append(self.launch.kept())
        domain.begin(self.launch, self._seeds(self.launch), self.flows)
        return self.launch

    def shown(self, assignment: Assignment, heads: Mapping[int, int]) -> Shown:
        """Follow the entry once more; return what that shows of the loops with these heads, each
        from some round on."""
        # Only programs with loops that a symbol ends need what proves them.
        from ptosim.engine.paths.rounds import Assumed, ProvenLoops, Shown

        domain = Assumed(assignment, self.space.known)
        try:
            launch = self._begin(assignment, domain)
        except BudgetError:
            raise
        except LimitError:
            return Shown(seen={*heads}, open=dict.fromkeys(heads, _TOO_LARGE))
        monitor = launch.sanitizers()
        if monitor is None:
            return Shown()
        names = only_read(launch.prepared.launched)
        read = frozenset(b.number for b in launch.machine.buffers if b.name in names)
        loops = ProvenLoops(launch.engine, domain, monitor, heads, read)
        outcome = followed(launch, domain, self.budget, loops)
        loops.shown.executed = launch.engine.executed
        self.found.executed += launch.engine.executed
        loops.shown.has_findings = bool(outcome.findings)
        launch.forget()
        if outcome.ended and not outcome.stopped:
            loops.shown.rounds.clear()
        return loops.shown

    def follow(self, assignment: Assignment, asked: Iterable[int] = ()) -> PathRun:
        """Follow the entry once under an assignment; forms that instructions with the places
        `asked` make are noted."""
        domain = Paths(assignment, self.space.known, asked)
        try:
            launch = self._begin(assignment, domain)
        except BudgetError:
            raise
        except LimitError:  # no argument is as large
            return PathRun(assignment, domain.noted, None, 0)
        outcome: Followed | None
        try:
            outcome = followed(launch, domain, self.budget)
            if self.space.fits(domain.noted.symbols) is None:
                outcome = None  # data that it met later does not occur like that
        except Void:
            outcome = None
        except GoesOn as loop:
            outcome, domain.noted.ends = None, loop.ends
        launch.forget()
        domain.forget()
        self.found.executed += launch.engine.executed
        return PathRun(assignment, domain.noted, outcome, launch.engine.executed)

    def _seeds(self, launch: Launch) -> dict[int, Symbol]:
        """The slots of a launch that hold symbols."""
        found = {SLOT_BLOCK: self.block, SLOT_BLOCK_NUM: self.blocks}
        for function in launch.prepared.launched:
            for value in function.args:
                slot = launch.program.slots.get(value)
                if value.name in self.symbols and slot is not None:
                    found[slot] = self.symbols[value.name]
        return found

    def _repair(self, run: PathRun, base: Assignment, repairs: int) -> None:
        """After a run that broke a bound: the nearest values that meet it."""
        limit = run.noted.broken
        assert limit is not None
        self.found.limits.setdefault(limit.inst.pc, []).append((limit, run))
        if repairs >= _REPAIRS:
            self.found.unsolved.append(limit)
            return
        for tried in meeting(limit, run.noted.decisions, base, self.space):
            if self._push(tried, repairs + 1, first=True):
                return
        if not any(r.outcome is not None for r in self.found.runs):
            self.found.unsolved.append(limit)

    def _turn(self, run: PathRun, base: Assignment) -> None:
        limits = list(run.noted.limits.values())
        known = facts_of_symbols(base)
        for at, decision in enumerate(run.noted.decisions):
            if decision.visit >= ROUNDS or self._is_turned(decision, run):
                continue
            earlier = run.noted.decisions[:at]
            is_tried = self.wanted.get(decision.key, 0) >= _ATTEMPTS
            if is_tried or is_forced(decision, staying(earlier), known):
                continue
            self.wanted[decision.key] = self.wanted.get(decision.key, 0) + 1
            outcomes = self._outcomes(decision) | {decision.outcome}
            for _ in range(len(outcomes_of(decision, run) or (1, 2)) - 1):
                tried = flipped(decision, outcomes, earlier, limits, base, self.space)
                if tried is None:
                    break
                self._push(tried)
                outcomes.add(decision.form.value(Env(tried)))

    def _outcomes(self, decision: Decision) -> set[Any]:
        """How a decision turned out in the runs that count."""
        return {o for p, v, o in self.reached if (p, v) == (decision.inst.pc, decision.visit)}

    def _is_turned(self, decision: Decision, run: PathRun) -> bool:
        outcomes = self._outcomes(decision) | {decision.outcome}
        possible = outcomes_of(decision, run)
        return len(outcomes) > 1 if possible is None else possible <= outcomes

    def _other_indices(self, run: PathRun, base: Assignment) -> None:
        """Of each index the second and, where it is known, the last value, too: on a way that no
        other index went so far."""
        used = set(run.noted.decided_by)
        sides = {(d.inst.pc, d.outcome) for d in run.noted.decisions}
        for limit in run.noted.limits.values():
            used |= limit.symbols
        for symbol in sorted(used, key=lambda s: s.name):
            went = self.elsewhere.setdefault(symbol.name, set())
            if symbol.kind == INDEX and base.get(symbol, 0) == 0 and not (sides and sides <= went):
                went |= sides
                count = self.blocks if symbol == self.block else self.symbols.get(symbol.below)
                of_count = {count: max(2, count.low)} if count is not None else {}
                self._push({**base, **of_count, symbol: 1})
                if count is not None and count.low == count.high > 2:
                    self._push({**base, **of_count, symbol: count.low - 1})

    def _note_open(self) -> None:
        told: set[tuple[int, Any]] = set()
        for run in self.found.valid:
            known = facts_of_symbols(run.noted.symbols)
            for at, decision in enumerate(run.noted.decisions):
                place = decision.inst.pc, decision.outcome
                if decision.visit >= ROUNDS or place in told or self._is_turned(decision, run):
                    continue
                if not is_forced(decision, staying(run.noted.decisions[:at]), known):
                    told.add(place)
                    self.found.open.append(decision)


_KINDS = {toolchains.INDEX: INDEX, toolchains.COUNT: COUNT}
_RANKS = ("rank", "rank_id")
"""Names of the number of a device: 0 always occurs."""


def block_symbols(blocks: int | None) -> tuple[Symbol, Symbol]:
    """Return which block of a launch something runs in, and of how many."""
    least, most = (1, most_blocks()) if blocks is None else (blocks, blocks)
    count = Symbol("blocks", COUNT, least, most, least)
    return Symbol("block", INDEX, 0, most - 1, 0, "blocks"), count


def argument_symbols(
    prepared: Prepared, given: Collection[str], blocks: int | None = None
) -> dict[str, Symbol]:
    """Return the symbols of the whole numbers among the arguments that are not given, by name."""
    found: dict[str, Symbol] = {}
    for function in prepared.launched:
        promised = promises_of(function)
        for value in function.args:
            type_, promise = value.type, promised.get(value.name)
            if promise is None or not isinstance(type_, ScalarType) or value.name in given:
                continue
            kind = INDEX if value.name in _RANKS else _KINDS.get(promise.kind, ARGUMENT)
            low, high = range_of(type_.dtype)
            low = 0 if kind == INDEX else low if promise.low is None else promise.low
            high = min(high, high if promise.high is None else promise.high)
            if blocks is not None and promise.tells in (toolchains.BLOCK, toolchains.BLOCKS):
                high = blocks - (promise.tells == toolchains.BLOCK)
                low = high if promise.tells == toolchains.BLOCKS else low
            default = 0 if kind == INDEX else max(low, 1)
            found[value.name] = Symbol(value.name, kind, low, high, default, promise.below)
    return found


def is_forced_in(run: PathRun, at: int) -> bool:
    """True if a decision of a run cannot turn out another way after those before it."""
    decisions = run.noted.decisions
    return is_forced(decisions[at], staying(decisions[:at]), facts_of_symbols(run.noted.symbols))


def outcomes_of(decision: Decision, run: PathRun) -> set[Any] | None:
    """Return how a decision can turn out, None for too many ways: of a number that is said by the
    range of its form, or by what its instruction asks of it."""
    if isinstance(decision.outcome, bool):
        return {True, False}
    switch = form_of(decision.inst.run)
    if switch is not None and switch[0] == "switch":
        return {*switch[2].values(), switch[3]}
    made = linear_of(decision.form)
    if len(made.terms) == 1:
        ((atom, factor),) = made.terms.items()
        low, high = range_of_sum(Linear({atom: 1}, 0))
        if high - low < _OUTCOMES:
            return {made.constant + factor * value for value in range(low, high + 1)}
    limits = [v for v in run.noted.limits.values() if v.inst is decision.inst]
    asked = next((v for v in limits if len(v.operands) == 1), None)
    if asked is None:
        return None
    ((slot, form),) = asked.operands.items()
    if not isinstance(form.now, int):  # a tile at an address that nobody knows, say
        return None
    found = {value for value in _NUMBERS if not asked.breaks({slot: value})}
    return found if len(found) <= _OUTCOMES and max(found, default=0) < _OUTCOMES else None


def staying(decisions: Iterable[Decision]) -> list[Decision]:
    """Return decisions but for those that left a loop: after another number of rounds something
    else may be decided that depends on what ends it."""
    return [d for d in decisions if d.outcome is not False or not is_loop(d)]


def is_loop(decision: Decision) -> bool:
    """True for one that says if a loop makes another round."""
    inst = decision.inst
    is_for = (form_of(inst.run) or ("",))[0] == "for"
    return is_for or (inst.op is not None and inst.op.has("loop"))


def line_of(front: Front, inst: Inst) -> int:
    """Return the line of an instruction."""
    return front.source.line_column(inst.operation.start)[0] if inst.op is not None else 0


__all__ = ["Explored", "PathRun", "PtosimError", "explore", "is_loop", "line_of"]
