"""Loops that repeat in a dry run: of each period that is proven to repeat one is followed.

At the head of a loop all that decides what is found later, in the machine and in what the
sanitizers know (`watch/rounds.py`), is compared with what it was some rounds before. Where all of
it has moved by the same amount twice, one more period is followed on affine numbers
(`machine.affine`): each comparison of scalars then says for how many periods it turns out the
same. If that period is like the ones before, and the windows of global memory that move meet
nothing in the periods to come, these are left out. The last ones of a loop are always followed: a
window that leaves its buffer does so there at the latest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Inst, Kind
from ptosim.engine.core.engine import Engine
from ptosim.engine.core.symbolic import Undecided, Unknowns
from ptosim.engine.period.state import (
    MOST_ROUNDS,
    NEVER,
    SOON,
    START,
    Head,
    affine_values,
    agrees,
    bounds_of,
    control_of,
    fifo_gains,
    fifos_of,
    heads_of,
    move_fifos,
    opaque_results,
)
from ptosim.engine.watch.marks import Noted
from ptosim.engine.watch.monitor import Monitor
from ptosim.engine.watch.rounds import (
    Moving,
    Reading,
    Sweep,
    Writing,
    is_plain,
    lag_of,
    moved_windows,
    spot,
    waits,
)
from ptosim.engine.watch.shadow import Footprint
from ptosim.ground.records import dataclass, replace
from ptosim.machine.affine import (
    NO_LINE,
    Finder,
    Horizon,
    NeedsValue,
    Opaque,
    Unknown,
    later,
    moves,
    now,
)
from ptosim.machine.core import Core

LEAST_PERIODS = 2
"""Periods that have to be left out for it to pay."""
LONG = 200
"""Instructions in the rounds of a loop of few rounds that make it worth while."""
LEAST_LAST = 2
"""Periods at the end of a stretch that are followed at least."""
_NO_LINE = (TypeError, AttributeError, ValueError, OverflowError)
"""What operations raise that cannot take numbers that move."""
MOST_LAST = 64
"""The same at most: who learns later than that of what was done is not waited for."""


@dataclass(slots=True, eq=False)
class State:
    """A dry run at the head of a loop: what is no count, the counts of the sanitizers and their
    owners, values of the cores, counters of FIFOs, how much was noted, instructions executed."""

    shape: tuple[Any, ...]
    numbers: np.ndarray
    owners: np.ndarray
    slots: dict[int, list[Any]]
    fifos: dict[Any, tuple[int, ...]]
    noted: int
    executed: int


class Windows:
    """Windows of global memory that the rounds of a loop reach: those that came in an earlier round
    too are `fixed`."""

    def __init__(self) -> None:
        self.fixed: dict[Any, Footprint] = {}
        self._seen: set[Any] = set()
        self._looked = -1

    def clear(self) -> None:
        """Forget all."""
        self.__init__()

    def look(self, journal: Sequence[Noted]) -> None:
        """Another round was noted."""
        coming: set[Any] = set()
        for noted in journal[self._looked :] if self._looked >= 0 else ():
            for print_ in noted.prints:
                if print_.shadow.is_global:
                    key = spot(print_)
                    if key in self._seen:
                        self.fixed.setdefault(key, print_)
                    coming.add(key)
        self._seen |= coming
        self._looked = len(journal)


@dataclass(slots=True, eq=False)
class Trial:
    """A period that is followed on affine numbers of a level: the core and the number of the head
    that it begins at, its rounds, the states before it, the values of the cores, visits of the
    heads until they are looked at."""

    level: int
    core: int
    number: int
    rounds: int
    states: list[State]
    values: dict[int, list[Any]]
    left: list[int]
    visits: int = 0


class FollowedLoops:
    """Watches the loops of a dry run. `first` is the number of findings when rounds were left out
    first, None if none were; `left_out` how often some were."""

    def __init__(self, engine: Engine, domain: Unknowns, monitor: Monitor) -> None:
        self.engine = engine
        self.domain = domain
        self.monitor = monitor
        self._compared = Windows()
        self.first: int | None = None
        self.left_out = 0
        self.found = 0
        self._is_lost = False
        self.trials: list[Trial] = []
        Horizon.levels.clear()
        heads = heads_of(engine.insts)
        self._heads = heads
        self.numbers = {inst.pc: number for number, inst in enumerate(heads)}
        cores = engine.machine.cores
        self._visits = [[START] * len(heads) for _ in cores]
        self._known = [[Head(Finder(self._is_even), long=LONG) for _ in heads] for _ in cores]
        self._windows = [[Windows() for _ in heads] for _ in cores]
        self._bound: list[Inst] = []
        domain.loops = self

    def step(self, core: Core) -> None:
        """Execute one instruction of a core. Raises Undecided where a trial cannot be ended."""
        number = self.numbers.get(core.pc) if core.stalled is None else None
        if number is not None:
            try:
                self._visit(core, number)
            except (*_NO_LINE, LookupError, NeedsValue) as problem:  # values that do not compare
                raise self._lost(self.engine.insts[core.pc]) from problem
        try:
            inst = self._execute_one(core)
        except _NO_LINE as problem:
            if not self.trials:
                raise
            raise self._lost(self.engine.insts[core.pc]) from problem
        if number is not None and inst is not None and core.pc != inst.pc + 1:
            self._left_by(core, number)

    def _execute_one(self, core: Core) -> Inst | None:
        return self.engine.step(core)

    def _pays(self, core: Core, number: int) -> bool:
        """True if a loop has enough rounds left for a period of it to be looked for."""
        bounds = bounds_of(self.engine, self._heads[number], core)
        head = self._known[core.index][number]
        return bounds is None or head.pays(bounds.left, self.engine.executed)

    def stop(self) -> None:
        """The run has ended."""
        self.found = len(self.engine.sink)
        self.domain.loops = self.monitor.journal = None
        Horizon.levels.clear()

    @property
    def is_sure(self) -> bool:
        """True if nothing was found after rounds were left out (what was found before is what
        following every round finds first), and every trial could be ended."""
        return not self._is_lost and (self.first is None or self.found == self.first)

    def _left_by(self, core: Core, number: int) -> None:
        """A loop has ended."""
        trial = self._trial_on(core)
        if trial is not None and trial.number == number:
            self.give_up()
        self._counted(core)[number] = START
        self._forget(core, number)

    def _trial_on(self, core: Core) -> Trial | None:
        """The innermost trial if it is one of a core's loops."""
        return self.trials[-1] if self.trials and self.trials[-1].core == core.index else None

    def _counted(self, core: Core) -> list[int]:
        """The visits of the heads of a core until they are looked at."""
        return self.trials[-1].left if self.trials else self._visits[core.index]

    def _visit(self, core: Core, number: int) -> None:
        trial = self._trial_on(core)
        if self.trials and trial is None:
            return
        if trial is not None and trial.number == number:
            trial.visits += 1
            if trial.visits >= trial.rounds:
                self._finish(trial)
            return
        left = self._counted(core)
        left[number] -= 1
        if left[number] <= 0:
            self._look(core, number)

    def _look(self, core: Core, number: int) -> None:
        """Keep what the run is now, and begin a trial if it moves by the same amounts."""
        head, left = self._known[core.index][number], self._counted(core)
        if not self._pays(core, number):
            self._forget(core, number)
            left[number] = NEVER
            return
        if not self._is_comparable():
            self._wait(core, number)
            return
        if self.monitor.journal is None:
            self.monitor.journal = []
        left[number] = SOON - 1
        self._compared = self._windows[core.index][number]
        rounds = head.finder.look(core.pc, self._state())
        if rounds:
            self._begin(core, number, head.finder.apart(rounds, 3), rounds)
        elif head.is_over:
            self._wait(core, number)

    def _wait(self, core: Core, number: int) -> None:
        """Let a loop go on for a while."""
        head = self._known[core.index][number]
        self._forget(core, number)
        self._counted(core)[number] = head.gap
        head.gap *= 2

    def _forget(self, core: Core, number: int) -> None:
        """Compare rounds from now on."""
        self._known[core.index][number].finder.clear()
        self._windows[core.index][number].clear()

    # -- states ------------------------------------------------------------------------------------

    def _is_comparable(self) -> bool:
        """True while nothing is under way that no state has: queues, and transfers that wait."""
        for core in self.engine.machine.cores:
            is_transfer = core.stalled is not None and core.stalled[1].binding.sync is None
            if core.queues or is_transfer:
                return False
        return is_plain(self.monitor) and not waits(self.monitor)

    def _state(self) -> State:
        engine = self.engine
        self._compared.look(self._journal)
        fixed = self._compared.fixed
        reading = Reading()
        reading.monitor(self.monitor, list(fixed.values()))
        cores = [c for c in engine.machine.cores if not c.halted]
        open_ = len(self.domain.unplaced), len(self.domain.unchecked), len(engine.sink)
        shape = *control_of(engine, cores), *reading.shape, open_, len(fixed)
        return State(
            shape, np.array(reading.numbers, np.int64), np.array(reading.owners, np.int64),
            {core.index: list(core.slots) for core in cores}, fifos_of(engine),
            len(self._journal), engine.executed,
        )  # fmt: skip

    @property
    def _journal(self) -> list[Any]:
        return self.monitor.journal or []

    def _is_even(self, old: State, before: State, last: State) -> bool:
        """True if everything has moved by the same amount from each state to the next."""
        if not (old.shape == before.shape == last.shape):
            return False
        first, gain = before.numbers - old.numbers, last.numbers - before.numbers
        if not np.array_equal(first, gain):
            return False
        if fifo_gains(self.engine, (old, before, last)) is None:
            return False
        return self._moving(old, before, last) is not None

    def _moving(self, old: State, before: State, last: State) -> list[Moving] | None:
        """The windows of the last period, if they move as in the one before."""
        journal, known = self._journal, set(self._compared.fixed)
        one, two = journal[old.noted : before.noted], journal[before.noted : last.noted]
        return moved_windows(one, two, known)

    # -- a period ----------------------------------------------------------------------------------

    def _begin(self, core: Core, number: int, states: list[State], rounds: int) -> None:
        """Follow the next period on affine numbers."""
        level = Horizon.begin()
        left = [START] * len(self._heads)
        for trial in self.trials:
            left[trial.number] = NEVER
        cores = [c for c in self.engine.machine.cores if c.index in states[-1].slots]
        values = {c.index: affine_values(states, c.index, level) for c in cores}
        self.trials.append(Trial(level, core.index, number, rounds, states, values, left))
        for each in cores:
            each.slots[:] = values[each.index]
        if level == 1:
            self._bound = [inst for inst in self.engine.insts if inst.kind is Kind.EXEC]
            self._execute([replace(inst, getter=_plain(inst)) for inst in self._bound])

    def _execute(self, insts: Sequence[Inst]) -> None:
        for inst in insts:
            self.engine.insts[inst.pc] = inst

    def _settle(self, periods: int) -> Trial:
        """Take out what moves in the innermost trial, so many periods later."""
        trial = self.trials.pop()
        for core in self.engine.machine.cores:
            core.slots[:] = [_after(value, trial.level, periods) for value in core.slots]
        Horizon.end()
        if not self.trials:
            self._execute(self._bound)
        return trial

    def give_up(self) -> None:
        """Go on as usual."""
        trial = self._settle(0)
        self._wait(self.engine.machine.cores[trial.core], trial.number)

    def pass_by(self, core: Core, inst: Inst) -> int:
        """An instruction needs a number that moves: its results are such that nobody knows how they
        move. What is more than a computation ends the trial. Returns the next pc."""
        levels = [trial.level for trial in self.trials]
        if inst.kind is Kind.SCALAR and opaque_results(self.engine, core, inst, levels):
            return inst.pc + 1
        if self.trials:
            self.give_up()
            return inst.pc
        raise self._lost(inst)

    def _lost(self, inst: Inst) -> Undecided:
        """An operation cannot take what moves, half of it is done: the run has to begin anew."""
        self._is_lost = True
        return Undecided(inst.operation, NO_LINE, self.engine.resolved.module.source)

    def _repeated(self, trial: Trial) -> tuple[np.ndarray, int, list[Moving]] | None:
        """Return what the counts of the sanitizers gain in the period of a trial, for how many
        periods somebody may not know what was done, and the windows that move; None if the period
        is not like the ones before."""
        self._compared = self._windows[trial.core][trial.number]
        end = self._state() if self._is_comparable() else None
        _, before, last = trial.states
        cores = [c for c in self.engine.machine.cores if c.index in trial.values]
        if end is None or not self._is_even(before, last, end) or not all(
            self._agrees(value, slot, trial.level)
            for core in cores
            for value, slot in zip(trial.values[core.index], core.slots, strict=True)
        ):  # fmt: skip
            return None
        gains = end.numbers - last.numbers
        behind = lag_of(end.numbers, gains, end.owners)
        moving = self._moving_twice(before, last, end)
        return None if behind is None or moving is None else (gains, behind, moving)

    def _agrees(self, start: Any, end: Any, level: int) -> bool:
        return (_is_fraction(start) and _is_fraction(end)) or agrees(start, end, level)

    def _finish(self, trial: Trial) -> None:
        """The period is over: leave out those that are proven to repeat it."""
        repeated = self._repeated(trial)
        if repeated is None:
            self.give_up()
            return
        gains, behind, moving = repeated
        last_ones = max(LEAST_LAST, behind + 1)
        periods = Horizon.levels[-1] - 1 - last_ones
        if periods < LEAST_PERIODS or last_ones > MOST_LAST:
            self.give_up()
            return
        sweep = Sweep(moving, periods)
        if not sweep.is_free() or sweep.meets(self.monitor.watched_lines):
            self.give_up()
            return
        self._leave_out(trial, periods, gains, sweep)

    def _moving_twice(self, before: State, last: State, end: State) -> list[Moving] | None:
        """The windows of the trial, if each has moved twice by the same distance."""
        journal, known = self._journal, set(self._compared.fixed)
        length = last.noted - before.noted
        first = journal[before.noted - length : before.noted]
        then = moved_windows(first, journal[before.noted : last.noted], known)
        now_ = self._moving(before, last, end)
        if then is None or now_ is None or [w.step for w in then] != [w.step for w in now_]:
            return None
        return now_

    def _leave_out(self, trial: Trial, periods: int, gains: np.ndarray, sweep: Sweep) -> None:
        """Move the run by so many periods."""
        self.left_out += 1
        if self.first is None:
            self.first = len(self.engine.sink)
        fifos = fifo_gains(self.engine, trial.states) or {}
        fixed = list(self._compared.fixed.values())
        Writing(iter((gains * periods).tolist())).monitor(self.monitor, fixed)
        sweep.pass_over(self.monitor.watched_lines)
        for noted in sweep.mark():
            self._journal.append(noted)
        move_fifos(self.engine, fifos, periods)
        self._settle(periods)
        core = self.engine.machine.cores[trial.core]
        head = self._known[core.index][trial.number]
        self._forget(core, trial.number)
        head.gap = 4 * MOST_ROUNDS
        self._counted(core)[trial.number] = head.gap


def _is_fraction(value: Any) -> bool:
    """Is it a number with a fraction of which nobody knows how it moves? It is neither a place nor
    a size: what a period does with it is the same whatever it is."""
    return value.__class__ is Opaque and now(value).__class__ is float


def _after(value: Any, level: int, periods: int) -> Any:
    if periods and _is_fraction(value) and value.level == level:
        return Unknown(NO_LINE.origin)
    return later(value, level, periods)


def _plain(inst: Inst) -> Any:
    """The getter of an instruction that hands out what its operands are now. What is known now and
    moves in a way that nobody knows ends the trial; a number with a fraction is no place and no
    size, and is unknown instead."""
    getter = inst.getter

    def present(value: Any) -> Any:
        found = now(value)
        if value.__class__ is not Opaque or isinstance(found, Unknown):
            return found
        if not _is_fraction(value):
            raise NeedsValue(NO_LINE)
        return Unknown(NO_LINE.origin)

    def get(slots: list[Any]) -> Any:
        values = getter(slots)
        if not moves(values):
            return values
        return tuple(map(present, values)) if values.__class__ is tuple else present(values)

    return get
