"""Loops that repeat: of each period that is proven to repeat one is executed.

At the head of a loop the launch is compared with what it was some rounds before (`state`). Where
every time, record and value of it has moved by the same amount twice, one more period is executed
on affine numbers (`machine.affine`): each comparison of times or values then says for how many
periods it turns out the same. If the period ends where it began, one step farther on, everything in
it repeats that often: the launch is moved there, and the records of the pipes say so (`Repeat`).
A loop in a period that is tried is looked at in the same way: it leaves out periods of its own, on
numbers that move in both, and what is left of it is a step of the outer one.
Nothing is assumed: what does not stay a straight line ends the trial, and the loop goes on as
usual."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from ptosim.engine.core.bound import Inst, Kind
from ptosim.engine.core.runners import Host
from ptosim.engine.period.state import (
    MOST_ROUNDS,
    NEVER,
    SOON,
    START,
    Head,
    State,
    affine_values,
    agrees,
    bounds_of,
    distances_of,
    fifo_gains,
    heads_of,
    held_back,
    is_even,
    live_timers,
    move_fifos,
    opaque_results,
    same_records,
    state_of,
    times_after,
    total_after,
)
from ptosim.engine.timed.events import is_micro
from ptosim.engine.timed.timing_bridge import bridge_of
from ptosim.ground.errors import LimitError
from ptosim.ground.ir.core import Operation
from ptosim.ground.records import dataclass, replace
from ptosim.machine.affine import (
    Finder,
    Horizon,
    later,
    line,
    moves,
    now,
    settled,
    step_of,
)
from ptosim.machine.core import Core
from ptosim.ops.base.functions import EVENTS
from ptosim.time.period.probe import ProbedOrder
from ptosim.time.pipes.records import Repeat
from ptosim.time.pipes.state import Walk, Writing
from ptosim.time.pipes.steps import MOST_TIME
from ptosim.time.pipes.timers import CoreTimer

FEW_PERIODS = 4
"""Periods that a quotient has to stay for it to be followed: else it is a place or nothing."""
LEAST_PERIODS = 2
"""Periods that have to be left out for a jump to pay."""

MOST_HELD = 256
"""Operations that may wait in the queues of the pipes: more are no state that repeats."""


class Pause(Exception):
    """A head of a loop wants to be looked at before its test is executed."""


class NotFollowed(Exception):
    """The rounds of a loop have to be executed one by one: the run begins anew."""


@dataclass(slots=True, eq=False)
class Trial:
    """A period that is executed on affine numbers of a level: the core and the number of the head
    that it begins at, its rounds, what the launch was then, by how much times and codes are to
    move, what FIFOs gain, the values of the cores. Of the cores: where their columns were, the
    cycles that pipes had waited, the starts of their records, what issues on them. `left` are the
    visits of the heads until they are looked at, `counted` the instructions up to then
    with those of rounds that were left out, `visits` those of its own."""

    level: int
    core: int
    number: int
    rounds: int
    start: State
    time_steps: list[int]
    code_steps: list[int]
    fifos: dict[Any, tuple[int, ...]]
    values: dict[int, list[Any]]
    stalled: list[dict[str, list[Any]]]
    starts: list[array[int]]
    probes: list[ProbedOrder]
    left: list[int]
    counted: int
    visits: int = 0


class Loops:
    """Watches the loops of an engine. Why one is executed in full is put into `in_full`, by
    line."""

    def __init__(self, engine: Host, in_full: dict[int, str]) -> None:
        self.engine = engine
        self.in_full = in_full
        self.bridge = bridge_of(engine)
        self.trials: list[Trial] = []
        """Periods that are being tried, each one inside of the one before."""
        Horizon.levels.clear()
        self._core = 0
        self._has_left = False
        self._jumps = 0
        insts = engine.insts
        self.heads = heads_of(insts)
        cores = engine.machine.cores
        self._inside = [self._slots_inside(inst.operation) for inst in self.heads]
        self._visits = [[START] * len(self.heads) for _ in cores]
        self._left = self._visits[0]
        self._tried = -1  # the head of the innermost trial, on its core
        self._known = [[Head(Finder(self._is_even)) for _ in self.heads] for _ in cores]
        for number, inst in enumerate(self.heads):
            self.heads[number] = insts[inst.pc] = replace(inst, run=self._watched(number, inst))
        self._bound = [inst for inst in insts if inst.kind is Kind.EXEC]
        self._stripped = [replace(inst, getter=self._getter(inst)) for inst in self._bound]

    def _slots_inside(self, loop: Operation) -> frozenset[int]:
        """The slots of what a round of a loop makes for itself: the next one makes its own."""
        slots = self.engine.program.slots
        made = (value for op in loop.walk()[1:] for value in op.results)
        return frozenset(slots[value] for value in made if value in slots)

    @property
    def is_trying(self) -> bool:
        """True while a period is executed on affine numbers."""
        return bool(self.trials)

    # -- heads of loops ----------------------------------------------------------------------------

    def _watched(self, number: int, inst: Inst) -> Callable[[list[Any]], int]:
        """The test of a loop that counts its visits."""
        test, inside = inst.run, inst.pc + 1
        known = [heads[number] for heads in self._known]

        def run(slots: list[Any]) -> int:
            target = test(slots)
            left = self._left
            if target != inside:
                if number == self._tried:
                    self._has_left = True
                    raise Pause
                left[number] = START
                known[self._core].finder.clear()
                return target
            left[number] -= 1
            if left[number]:
                return target
            raise Pause

        return run

    def enter(self, core: Core) -> None:
        """A core goes on."""
        self._core = core.index
        self._left = self._visits[core.index]
        self._tried = -1
        if self.trials:
            trial = self.trials[-1]
            on_core = core.index == trial.core
            self._left = trial.left if on_core else [NEVER] * len(self.heads)
            self._tried = trial.number if on_core else -1

    def visit(self, core: Core) -> None:
        """Look at the head of a loop that a core has come to."""
        inst = self.engine.insts[core.pc]
        number = next(n for n, head in enumerate(self.heads) if head is inst)
        if number == self._tried:
            self._visit_tried(core)
        else:
            self._look(core, number)

    def _visit_tried(self, core: Core) -> None:
        trial = self.trials[-1]
        if self._has_left:
            self._has_left = False
            self.give_up("the loop ended")
            return
        trial.left[trial.number] = SOON
        trial.visits += 1
        if trial.visits >= trial.rounds:
            self._finish(trial)

    def _look(self, core: Core, number: int) -> None:
        """Keep what the launch is now, and begin a trial if it moves by the same amounts."""
        head, left = self._known[core.index][number], self._left
        bounds = bounds_of(self.engine, self.heads[number], core)
        if bounds is not None and not head.pays(bounds.left, self.engine.executed):
            head.finder.clear()
            left[number] = NEVER
            return
        if held_back(self.engine) > MOST_HELD:
            self._wait(core.index, number, "many operations wait in front of the pipes")
            return
        head.round = head.round + 1 if bounds is None else bounds.round
        cores = [c for c in self.engine.machine.cores if not c.halted]
        rounds = head.finder.look(core.pc, state_of(self.engine, cores))
        left[number] = SOON
        if rounds:
            self._begin(core, number, rounds, cores)
        elif head.is_over:
            self._wait(core.index, number, "its rounds do not repeat")

    def _wait(self, core: int, number: int, why: str) -> None:
        """Let a loop go on for a while."""
        head = self._known[core][number]
        head.finder.clear()
        left = self.trials[-1].left if self.trials else self._visits[core]
        left[number] = head.gap
        head.gap *= 2
        if head.gap > 16 * MOST_ROUNDS:
            self.in_full[self._line(number)] = why

    def _line(self, number: int) -> int:
        """The line of a loop."""
        source = self.engine.resolved.module.source
        return source.line_column(self.heads[number].operation.start)[0]

    # -- a period ----------------------------------------------------------------------------------

    def _is_even(self, old: State, before: State, last: State) -> bool:
        return is_even(old, before, last) and (
            fifo_gains(self.engine, (old, before, last)) is not None
        )

    def _begin(self, core: Core, number: int, rounds: int, cores: list[Core]) -> None:
        """Execute the next period on affine numbers."""
        states = self._known[core.index][number].finder.apart(rounds, 3)
        _, before, last = states
        engine, timers = self.engine, self.bridge.model.cores
        if not same_records(timers, before, last):
            self._wait(core.index, number, "its rounds differ")
            return
        level = Horizon.begin(FEW_PERIODS)
        fifos = fifo_gains(engine, states)
        assert fifos is not None
        outer = self.trials[-1].probes if self.trials else [None] * len(self.bridge.orders)
        left = [START] * len(self.heads)
        for trial in self.trials:
            left[trial.number] = NEVER
        left[number] = SOON
        self.trials.append(Trial(
            level, core.index, number, rounds, last,
            [b - a for a, b in zip(before.times, last.times, strict=True)],
            [b - a for a, b in zip(before.codes, last.codes, strict=True)],
            fifos,
            {c.index: affine_values(states, c.index, level) for c in cores},
            [{why: list(each) for why, each in t.stalled.items()} for t in timers],
            [timer.starts for timer in timers],
            [
                ProbedOrder(order, level, self.give_up, probe)
                for order, probe in zip(self.bridge.orders, outer, strict=True)
            ],
            left, engine.executed + engine.left_out,
        ))  # fmt: skip
        self._load(cores)

    def _load(self, cores: list[Core]) -> None:
        """Let times, values and the issue of instructions move."""
        trial, engine = self.trials[-1], self.engine
        level = trial.level
        times = [
            line(t, s, level) for t, s in zip(trial.start.times, trial.time_steps, strict=True)
        ]
        self._write(times, list(trial.start.codes))
        for core in cores:
            core.slots[:] = trial.values[core.index]
        for timer in self.bridge.model.cores:
            timer.starts = []  # type: ignore[assignment]
        if level == 1:
            self._execute(self._stripped)
        self._issue_by_trial()
        self.enter(engine.machine.cores[trial.core])

    def _issue_by_trial(self) -> None:
        """Issue on the numbers of the innermost trial, or as usual."""
        if not self.trials:
            self.engine.issue_by(None)
            return
        probes = [probe.issue for probe in self.trials[-1].probes]
        self.engine.issue_by(probes or [timer.issue for timer in self.bridge.model.cores])

    def _write(self, times: list[Any], codes: list[int]) -> None:
        engine = self.engine
        model, orders = self.bridge.model, self.bridge.orders
        Writing(times, codes).model(model, orders, live_timers(engine))

    def _execute(self, insts: list[Inst]) -> None:
        """Have the engine execute these copies of what is bound."""
        for inst in insts:
            self.engine.insts[inst.pc] = inst

    def _getter(self, inst: Inst) -> Callable[[list[Any]], Any]:
        """The getter of an instruction that hands out plain values, where what moves decides
        nothing."""
        getter = inst.getter
        op = inst.operation
        free = op.name not in EVENTS and not inst.launches
        numbers = free and not is_micro(op.name)

        def get(slots: list[Any]) -> Any:
            values = getter(slots)
            if not moves(values):
                return values
            levels = range(1, len(self.trials) + 1)
            moved = [0 for _ in levels]
            for value in values if values.__class__ is tuple else (values,):
                if moves(value):
                    distances = distances_of(value, numbers, free, levels)
                    moved = [a + b for a, b in zip(moved, distances, strict=True)]
            if self.trials and self.trials[-1].probes:
                self.trials[-1].probes[self._core].moved = tuple(moved)
            return tuple(map(now, values)) if values.__class__ is tuple else now(values)

        return get

    # -- after it ----------------------------------------------------------------------------------

    def pass_by(self, core: Core) -> int | None:
        """An instruction needs a number that moves: let its results be such that nobody knows how
        they move, and return the next pc; None where it is no instruction that computes numbers, so
        that the trial is over."""
        levels = [trial.level for trial in self.trials]
        inst, by_place = self.engine.insts[core.pc], self.bridge.is_ordered  # who waits for whom
        is_number = opaque_results(self.engine, core, inst, levels, windows=not by_place)
        return core.pc + 1 if is_number else None

    def give_up(self, why: str) -> None:
        """Go on from where the launch is with the numbers of the trial around, or plain ones."""
        trial = self.trials[-1]
        self._unload(0)
        self.enter(self.engine.machine.cores[self._core])
        self._wait(trial.core, trial.number, why)

    def _unload(self, periods: int) -> list[list[int]]:
        """Take out what moves in the innermost trial; return by how much the starts of records
        move."""
        trial, engine = self.trials.pop(), self.engine
        level = trial.level
        model = self.bridge.model
        steps = []
        for timer, starts in zip(model.cores, trial.starts, strict=True):
            probed, timer.starts = timer.starts, starts
            starts.extend(settled(start, level) for start in probed)
            steps.append([step_of(start, level) for start in probed])
        for timer, probe in zip(model.cores, trial.probes, strict=bool(trial.probes)):
            probe.settle(periods, timer.count - trial.start.records[timer.index])
        plain = lambda value: settled(value, level)  # noqa: E731
        Walk(plain, lambda core, code: code).model(model, self.bridge.orders, model.cores)
        for timer in model.cores:
            for each in timer.stalled.values():
                each[:] = map(plain, each)
        for core in engine.machine.cores:
            core.slots[:] = map(plain, core.slots)
        Horizon.end()
        if not self.trials:
            self._execute(self._bound)
        self._issue_by_trial()
        return steps

    def _finish(self, trial: Trial) -> None:
        """The period is over: jump as far as it is proven to repeat."""
        cores = [c for c in self.engine.machine.cores if c.index in trial.values]
        end = state_of(self.engine, [c for c in cores if not c.halted])
        why = self._difference(trial, end, cores)
        periods = Horizon.levels[-1] - 1
        if not why and periods < LEAST_PERIODS:
            why = "its rounds change again and again"
        if why:
            self.give_up(why)
            return
        room = MOST_TIME - max(map(now, end.times), default=0)
        within = room // max(1, *trial.time_steps)
        if within < LEAST_PERIODS:
            raise LimitError(
                f"the run takes more than {MOST_TIME:,} cycles",
                help="look for a loop whose bounds are not the ones meant",
            )
        self._jump(trial, end, min(periods, within))

    def _difference(self, trial: Trial, end: State, cores: list[Core]) -> str:
        """Return what is not as it was one period before; empty if everything is."""
        start, level = trial.start, trial.level
        if start.shape != end.shape or len(start.times) != len(end.times):
            return "its rounds do not repeat"
        times = zip(start.times, trial.time_steps, end.times, strict=True)
        if not all(agrees(line(time, step, level), last, level) for time, step, last in times):
            return "its rounds do not take the same time"
        codes = zip(start.codes, end.codes, trial.code_steps, strict=True)
        if any(b - a != step for a, b, step in codes):
            return "its rounds do not wait for the same"
        for key, gain in trial.fifos.items():
            pairs = zip(start.fifos[key], end.fifos[key], gain, strict=True)
            if any(b - a != step for a, b, step in pairs):
                return "its FIFOs do not move evenly"
        for core in cores:
            dead = self._inside[trial.number] if core.index == trial.core else ()
            values = enumerate(zip(trial.values[core.index], core.slots, strict=True))
            if not all(agrees(value, last, level) or at in dead for at, (value, last) in values):
                return "its values do not move evenly"
        if not same_records(self.bridge.model.cores, start, end):
            return "its rounds differ"
        if not all(probe.is_apart() for probe in trial.probes):
            return "a buffer of global memory is written by one pipe and used by another"
        return ""

    def _jump(self, trial: Trial, end: State, periods: int) -> None:
        """Move the launch by so many periods."""
        engine, model, level = self.engine, self.bridge.model, trial.level
        stalls = [{why: list(each) for why, each in t.stalled.items()} for t in model.cores]
        slots = {
            c.index: [later(value, level, periods) for value in c.slots]
            for c in engine.machine.cores
        }
        times = times_after(end, level, periods)
        codes = [c + s * periods for c, s in zip(end.codes, trial.code_steps, strict=True)]
        starts = self._unload(periods)
        self._write(times, codes)
        for core in engine.machine.cores:
            core.slots[:] = slots[core.index]
        move_fifos(engine, trial.fifos, periods)
        for timer in model.cores:
            self._add_stalls(timer, trial, stalls[timer.index], periods)
            if starts[timer.index]:
                self._repeat(timer, starts[timer.index], trial, periods)
        engine.left_out += (engine.executed + engine.left_out - trial.counted) * periods
        self._jumps += 1
        head = self._known[trial.core][trial.number]
        head.finder.clear()
        head.gap = 4 * MOST_ROUNDS
        self.enter(engine.machine.cores[trial.core])
        self._left[trial.number] = SOON

    @staticmethod
    def _add_stalls(
        timer: CoreTimer, trial: Trial, stalls: dict[str, list[Any]], periods: int
    ) -> None:
        """Let pipes have waited as often as the period repeats."""
        for why, each in timer.stalled.items():
            before = trial.stalled[timer.index].get(why) or [0] * len(each)
            pairs = zip(before, stalls[why], strict=True)
            each[:] = [total_after(a, b, trial.level, periods) for a, b in pairs]

    def _repeat(self, timer: CoreTimer, starts: list[int], trial: Trial, periods: int) -> None:
        """Say that the last records of a core repeat, with starts that move by so much; what
        repeats in them is inside of that."""
        index = timer.index
        first, place = trial.start.records[index], trial.start.kept[index]
        kept, length = len(starts), timer.count - first
        causes = timer.causes
        moved = [causes[at] - causes[at - kept] for at in range(place, place + kept)]
        inner = tuple(timer.repeats_from(place))
        end = len(timer.repeats) - len(inner)
        del timer.repeats[end:], timer.firsts[end:]
        timer.skipped += length * periods
        timer.repeats.append(
            Repeat(
                first, place, length, periods, array("q", starts), array("q", moved),
                timer.skipped, self._line(trial.number), trial.rounds,
                self._known[trial.core][trial.number].round, self._jumps, inner,
            )
        )  # fmt: skip
        timer.firsts.append(first)
