"""Shows that the rounds of a loop repeat, however many there are.

An entry is followed once more, on the numbers of an assignment and without forms, with the finder
of periods of a dry run (`engine.period.followed`). It finds that all which decides how the loop
goes on, in the machine and in what the sanitizers know, is at a head what it was a period before,
and follows one more period on affine numbers. There the loop's own test says nothing, since it is
taken to go on; every other comparison says for how many periods it turns out the same. Those that
do not do so for ever are told by the instructions that compare: whether they are about the last
rounds, or about a certain one, only their forms can say (`launch.paths.trips`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from ptosim.engine.core.bound import DecodedProgram, Inst, Kind
from ptosim.engine.core.engine import Engine
from ptosim.engine.core.runners import form_of
from ptosim.engine.paths.flow import (
    ADDRESSES,
    ADDS_UP,
    CURVED,
    DECIDES,
    NO_REPEAT,
    Flow,
    added_up,
    counted,
    is_inside,
    reached_from,
    sources_of,
)
from ptosim.engine.paths.forms import Symbol
from ptosim.engine.paths.watch import Paths
from ptosim.engine.period.followed import FollowedLoops, State, Trial
from ptosim.engine.period.state import (
    NEVER,
    START,
    Bounds,
    bounds_of,
    on_present_values,
    opaque_results,
    window_of,
)
from ptosim.engine.watch.monitor import Monitor
from ptosim.engine.watch.rounds import Journal, Lasting, Moving, Sweep, is_plain
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.machine.affine import ENDLESS, NO_LINE, Horizon, NeedsValue, Opaque, Unknown, moves, now
from ptosim.machine.core import Core
from ptosim.machine.values import GmView, Pointer

_LONGEST = 8
"""Rounds of a period beyond which no longer one is looked for."""
_ENDLESS = 1 << 48
"""More periods are those until a number leaves its type."""
_FEW = 8
"""Rounds after which a loop is taken not to repeat."""
_GAP = 4
"""Rounds that a loop goes on for after a trial that failed."""


class Assumed(Paths):
    """The numbers of an assignment without their forms: what is not known is still given a number,
    once for each place."""

    def begin(
        self, launch: Any, seeds: Mapping[int, Symbol], flows: dict[frozenset[int], Flow]
    ) -> None:
        """Give the slots of `seeds` the numbers of symbols."""
        super().begin(launch, seeds, flows)
        for core in launch.machine.cores:
            for slot in seeds:
                core.slots[self._half + slot] = None

    def _watched(
        self,
        program: DecodedProgram,
        inst: Inst,
        sources: tuple[int, ...],
        targets: tuple[int, ...],
    ) -> Callable[[Any], Any] | None:
        form = form_of(inst.run)
        word = form[0] if form is not None else ""
        reads = inst.op is not None and inst.op.has("reads_memory")
        if inst.kind is Kind.ACTION and reads:
            return self._reading(inst, sources, targets)
        return self._deciding(inst, form, word) if word in ("start", "if", "switch") else None

    def _reading(
        self, inst: Inst, sources: tuple[int, ...], targets: tuple[int, ...]
    ) -> Callable[[Any], Any]:
        act = self._action(inst, sources, targets)

        def read(core: Core) -> None:
            act(core)
            for value in inst.operation.results:
                core.slots[self._half + self._engine.program.slots[value]] = None

        return read

    def _deciding(self, inst: Inst, form: Any, word: str) -> Callable[[Any], Any]:
        run = inst.run
        asked = sources_of(self._engine.program, inst) if word == "start" else (form[1],)

        def decide(slots: list[Any]) -> Any:
            for slot in asked:
                if slots[slot].__class__ is Unknown:
                    if self.loops is not None and self.loops.trials:
                        raise NeedsValue(NO_LINE)
                    self._settle(slots, inst, slot)
                    slots[self._half + slot] = None
            return run(slots)

        return decide


class Rounds(NamedTuple):
    """How an execution of a loop repeats: from round `first` on (counted from 0) each `period` of
    rounds is like the one before it; the one that begins with round `at` was tried. `limits` are
    the instructions with a comparison that does not hold for ever, and the round until which it
    does; `beside` are those of loops of other cores that went on in the period, with the core."""

    pc: int
    first: int
    period: int
    at: int
    limits: dict[int, int]
    beside: frozenset[tuple[int, int]] = frozenset()


@dataclass(slots=True, eq=False)
class Shown:
    """What following an entry showed of its loops: by the place of the head how they repeat, for
    each execution in one or several ways, and of others why not; those that were `seen`;
    instructions that use memory which others write."""

    rounds: dict[int, list[list[Rounds]]] = field(default_factory=dict)
    open: dict[int, str] = field(default_factory=dict)
    unproven: list[tuple[int, int]] = field(default_factory=list)
    """Of each execution that is not shown to repeat the core and the head."""
    seen: set[int] = field(default_factory=set)
    shared: set[int] = field(default_factory=set)
    executed: int = 0
    has_findings: bool = False

    def settle(self) -> dict[int, int]:
        """A loop on another core that goes on beside one which repeats, once each, repeats with it:
        take it out of those that are open. Return by its head that of the other."""
        found: dict[int, int] = {}
        for pc, executions in self.rounds.items():
            beside = executions[0][0].beside if len(executions) == 1 else frozenset()
            for other in {head for _, head in beside} & self.open.keys() - self.rounds.keys():
                if self.open[other].startswith(ADDRESSES):
                    continue
                cores = [core for core, head in self.unproven if head == other]
                if len(set(cores)) == len(cores) and all((c, other) in beside for c in cores):
                    found[other] = pc
        for head in found:
            del self.open[head]
        return found


class ProvenLoops(FollowedLoops):
    """Watches the loops whose heads are `asked`, each from some round on; leaves out none. Of
    buffers that are only `read`, by number, it does not matter which bytes a window is of."""

    def __init__(
        self,
        engine: Engine,
        domain: Assumed,
        monitor: Monitor,
        asked: Mapping[int, int],
        read: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__(engine, domain, monitor)
        self._read = read
        self._reads = [
            i for i in engine.insts if i.kind is Kind.ACTION and i.operation.has("reads_memory")
        ]
        for inst in self._reads:
            engine.insts[inst.pc] = inst.running(self._reading(inst))
        self._of_data: dict[int, frozenset[int]] = {}
        self.shown = Shown()
        self._asked = {n: asked[pc] for pc, n in self.numbers.items() if pc in asked}
        self._limits: list[dict[int, int]] = []
        self._found: dict[tuple[int, int], list[Rounds]] = {}
        self._visited: dict[int, int] = {}
        self._kept: list[State] = []
        self._is_refused = 0
        self._beside: set[tuple[int, int]] = set()
        self._why: dict[tuple[int, int], str] = {}
        self._at: list[int] = []
        monitor.journal = Journal()
        self._lasting: list[Lasting] = []
        for heads in self._known:
            for head in heads:
                head.gap = _GAP
        self._counting = [counted(inst.op) for inst in self._heads]
        """Loops with a condition that count their rounds."""
        tests = {id(loop.test): n for n, loop in enumerate(self._counting) if loop is not None}
        compares = {i.pc: tests[id(i.op)] for i in engine.program.insts if id(i.op) in tests}
        self._own = {**self.numbers, **compares}
        """Of what says if a loop goes on the number of the loop."""

    def _pays(self, core: Core, number: int) -> bool:
        return number in self._asked and self._bounds(core, number) is not None

    def _bounds(self, core: Core, number: int) -> Bounds | None:
        """Where a loop is that counts its rounds."""
        head = self._heads[number]
        loop = self._counting[number]
        if loop is None:
            return bounds_of(self.engine, head, core)
        slots = self.engine.program.slots
        lower, upper, step = (
            operand.const if operand.value is None else now(core.slots[slots[operand.value]])
            for operand in (loop.lower, loop.upper, loop.step)
        )
        at = now(core.slots[slots[loop.variable]])
        are_numbers = all(v.__class__ is int for v in (lower, upper, step, at))
        return Bounds(lower, upper, step, at) if are_numbers else None

    def _look(self, core: Core, number: int) -> None:
        bounds = self._bounds(core, number)
        if bounds is not None and bounds.round <= self._asked.get(number, 0):
            self._counted(core)[number] = 1
            return
        found = self._found.get((core.index, number), ())
        self._is_refused = max([0, *(each.period for each in found)])
        super()._look(core, number)
        self._is_refused = 0

    def _is_comparable(self) -> bool:
        """Cores that wait for one another are where they were a period before, too."""
        cores = self.engine.machine.cores
        stalled = [core.stalled[1] for core in cores if core.stalled is not None]
        is_transfer = any(bound.binding.sync is None for bound in stalled)
        return is_plain(self.monitor) and not (is_transfer or any(core.queues for core in cores))

    def _state(self) -> State:
        made = super()._state()
        self._visited[id(made)] = len(self._visited)
        self._kept.append(made)
        return made

    def _is_even(self, old: State, before: State, last: State) -> bool:
        """A period that only holds for some rounds may be part of a longer one that goes on."""
        if self._is_refused:
            rounds = self._visited[id(last)] - self._visited[id(before)]
            if rounds <= self._is_refused:
                return False
        return super()._is_even(old, before, last)

    def _execute_one(self, core: Core) -> Inst | None:
        if not self.trials:
            return super()._execute_one(core)
        pc, known, trial = core.pc, list(Horizon.levels), self.trials[-1]
        is_own = core.stalled is None and self._own.get(pc) == trial.number
        is_own = is_own and core.index == trial.core
        Horizon.levels[:] = [ENDLESS] * len(known)
        try:
            return super()._execute_one(core)
        finally:
            if pc in self.numbers and core.index != trial.core:
                self._beside.add((core.index, pc))
            for level, periods in enumerate(Horizon.levels):
                if periods < _ENDLESS and not (is_own and level == len(known) - 1):
                    limits = self._limits[level]
                    limits[pc] = min(limits.get(pc, ENDLESS), periods)
            Horizon.levels[:] = known[: len(Horizon.levels)]

    def _reading(self, inst: Inst) -> Callable[[Core], Any]:
        """What is read at a place that moves is a number of which nobody knows how it moves."""
        sources = sources_of(self.engine.program, inst)

        def read(core: Core) -> None:
            held = [core.slots[slot] for slot in sources]
            if not self.trials or not any(map(moves, held)):
                inst.run(core)
                return
            is_anywhere = any(value.__class__ is Opaque for value in held)
            if is_anywhere and not all(v.memory in self._read for v in held if _is_place(v)):
                raise NeedsValue(NO_LINE)
            if not opaque_results(self.engine, core, inst, [t.level for t in self.trials]):
                raise NeedsValue(NO_LINE)

        return read

    def pass_by(self, core: Core, inst: Inst) -> int:
        """A window of what is only read, at a place that data give, may be anywhere."""
        results = window_of(self.engine, core, inst) if self.trials else None
        if results is not None:
            made = on_present_values(core, inst, results)
            if all(isinstance(view, GmView) and view.memory in self._read for view in made):
                for slot, view in zip(results, made, strict=True):
                    core.slots[slot] = view
                return inst.pc + 1
        if self.trials and inst.kind is Kind.BRANCH:
            trial = self.trials[-1]
            line, _ = self._place(inst)
            is_read = not self._read_in(trial.number).isdisjoint(
                sources_of(self.engine.program, inst)
            )
            self._why[trial.core, trial.number] = f"{DECIDES if is_read else CURVED} {line}"
        return super().pass_by(core, inst)

    def _begin(self, core: Core, number: int, states: Any, rounds: int) -> None:
        bounds = self._bounds(core, number)
        super()._begin(core, number, states, rounds)
        trial = self.trials[-1]
        for each in self.engine.machine.cores:
            held = trial.values.get(each.index)
            if held is None:
                continue
            for slot in self._read_in(number):
                held[slot] = each.slots[slot] = Opaque(now(each.slots[slot]), trial.level)
        self._limits.append({})
        self._beside = set()
        self._at.append(bounds.round - 1 if bounds is not None else 0)

    def _read_in(self, number: int) -> frozenset[int]:
        """Slots with what the rounds of a loop read, or make of it: any number in any round."""
        if number not in self._of_data:
            body = self._heads[number].op
            reads = [inst for inst in self._reads if is_inside(inst.op, (body,))]
            self._of_data[number] = reached_from(self.engine.program, reads)
        return self._of_data[number]

    def _agrees(self, start: Any, end: Any, level: int) -> bool:
        """What may be anything at the start of a round may be anything at its end."""
        return start.__class__ is Opaque or super()._agrees(start, end, level)

    def _settle(self, periods: int) -> Trial:
        self._limits.pop()
        self._at.pop()
        return super()._settle(periods)

    def _wait(self, core: Core, number: int) -> None:
        super()._wait(core, number)
        self._why.setdefault((core.index, number), NO_REPEAT)

    def _finish(self, trial: Trial) -> None:
        core = self.engine.machine.cores[trial.core]
        key = trial.core, trial.number
        repeated = self._repeated(trial)
        if repeated is None:
            self.give_up()
            return
        *_, moving = repeated
        values = trial.values[trial.core]
        user = added_up(
            self.engine.program, self._heads[trial.number], lambda slot: moves(values[slot])
        )
        if user is not None:
            self._why[key] = f"{ADDS_UP} {self._place(user)[0]}"
            self.give_up()
            return
        pair = self._meeting(moving)
        if pair is not None:
            self._why[key] = _addresses({self._line(window) for window in pair})
            self.give_up()
            return
        at, pc = self._at[-1], self._heads[trial.number].pc
        first = max(at - 2 * trial.rounds, 0)
        limits = {p: at + trial.rounds * (n + 1) for p, n in self._limits[-1].items()}
        made = Rounds(pc, first, trial.rounds, at, limits, frozenset(self._beside))
        self._found.setdefault(key, []).append(made)
        noted = trial.states[0].noted, len(self._journal)
        self._lasting.append(Lasting(pc, core.index, *noted, moving))
        self._settle(0)
        self._forget(core, trial.number)
        is_done = not limits or trial.rounds >= _LONGEST
        self._counted(core)[trial.number] = NEVER if is_done else 1

    def _left_by(self, core: Core, number: int) -> None:
        key = core.index, number
        for lasting in self._lasting:
            if lasting.pc == self._heads[number].pc and lasting.core == core.index:
                lasting.end = min(lasting.end, len(self._journal))
        is_long = len(self._known[core.index][number].finder.states) > _FEW
        super()._left_by(core, number)
        self.shown.seen.add(self._heads[number].pc)
        pc, found, why = self._heads[number].pc, self._found.pop(key, None), self._why.pop(key, "")
        if found:
            self.shown.rounds.setdefault(pc, []).append(found)
        elif number in self._asked:
            self.shown.unproven.append((core.index, pc))
            self.shown.open.setdefault(
                pc, why or (NO_REPEAT if is_long else "it has too few rounds to tell")
            )
        self._counted(core)[number] = START

    def stop(self) -> None:
        """The run has ended: what moves on for ever may come to what was done outside of the loop,
        or in a round of another kind."""
        journal = self.monitor.journal
        if isinstance(journal, Journal) and self._are_used_twice(journal):
            # Few programs use one buffer twice.
            from ptosim.engine.paths.lasting import LastingRounds

            every = LastingRounds(self.monitor.inserted, journal, self._lasting)
            for lasting in self._lasting:
                clashing, pcs = every.clashing(lasting)
                self.shown.shared |= pcs
                if clashing and self.shown.rounds.pop(lasting.pc, None) is not None:
                    self.shown.open[lasting.pc] = _addresses({self._place(i)[0] for i in clashing})
        super().stop()

    def _are_used_twice(self, journal: Journal) -> bool:
        """True if two instructions use a buffer in which windows move, and one of them writes."""
        moving = {id(w.print_.shadow) for each in self._lasting for w in each.windows if w.step}
        users: dict[int, set[int]] = {}
        written: set[int] = set()
        for noted in journal if moving else ():
            for print_ in noted.prints:
                users.setdefault(id(print_.shadow), set()).add(noted.entry[2].inst.pc)
            written |= {id(print_.shadow) for print_, _ in noted.writes}
        return any(len(users.get(shadow, ())) > 1 for shadow in moving & written)

    def _line(self, window: Moving) -> int:
        return self._place(window.noted.entry[2].inst)[0]

    def _place(self, inst: Inst) -> tuple[int, int]:
        return self.engine.resolved.module.source.line_column(inst.operation.start)

    def _meeting(self, windows: Sequence[Moving]) -> tuple[Moving, Moving] | None:
        """The first windows of global memory that may meet in different periods, of which nothing
        says in which order."""
        found = None
        for write, other in product([w for w in windows if w.is_write], windows):
            if write.print_.shadow is not other.print_.shadow or _are_ordered(write, other):
                continue
            if not write.print_.shadow.is_global:
                continue
            self.shown.shared |= {write.noted.entry[2].inst.pc, other.noted.entry[2].inst.pc}
            if found is None and not _is_apart_for_ever(write, other):
                found = write, other
        return found


def _addresses(lines: set[int]) -> str:
    """Why a loop is not shown to repeat whose windows may meet others."""
    return f"{ADDRESSES}{'s' * (len(lines) > 1)} {' and '.join(map(str, sorted(lines)))}"


def _is_place(value: Any) -> bool:
    return isinstance(value, (GmView, Pointer))


def _are_ordered(write: Moving, other: Moving) -> bool:
    """True for accesses of one pipe that does them in their order."""
    one, two = write.noted.agent, other.noted.agent
    return one is two and one.in_order and not (one.swaps and other.is_write)


def _is_apart_for_ever(write: Moving, other: Moving) -> bool:
    """True if no period writes what another one touches, however many there are."""
    if not write.step and not other.step:
        return True  # where it is stays the same: compared with each head
    if write.step == other.step:
        return Sweep((write, other), 1).are_apart()
    (low, high), (first, last) = write.print_.span, other.print_.span
    if high <= first:
        return write.step <= 0 <= other.step
    return last <= low and other.step <= 0 <= write.step
