"""Loops in the steady state: a period that is proven to repeat is executed once.

At the head of a loop the launch is compared with what it was some rounds before (`periods`). Where
every time, record and value of it has moved by the same amount twice, one more period is executed
on moving numbers (`machine.moving`): each comparison of times or values then says for how many
periods it turns out the same. If the period ends where it began, one step farther on, everything in
it repeats that often: the launch is moved there, and the records of the pipes say so (`Repeat`).
Nothing is assumed: what does not stay a straight line ends the attempt, and the loop goes on as
usual."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from ptosim.engine.core.host import Host
from ptosim.engine.core.records import Inst, Kind
from ptosim.engine.core.symbolic import numbers_of
from ptosim.engine.simt.launch import Launch
from ptosim.engine.timed.evenness import advanced, is_even, same_steps, total_after
from ptosim.engine.timed.heads import bounds_of, is_head, line_of, round_of, rounds_left
from ptosim.engine.timed.operand_shapes import is_micro
from ptosim.engine.timed.periods import (
    Moment,
    agrees,
    fifo_steps,
    held_back,
    live_timers,
    moment_of,
    move_fifos,
    moved_values,
)
from ptosim.engine.timed.timing_bridge import bridge_of
from ptosim.ground.errors import LimitError
from ptosim.ground.records import dataclass, field, replace
from ptosim.machine.core import Core
from ptosim.machine.moving import NO_LINE, Blurred, Moving, Regime, line, moves, now, step_of
from ptosim.machine.unknown import NeedsValue
from ptosim.machine.values import GmView, Pointer
from ptosim.ops.base.functions import EVENTS
from ptosim.time.pipes.probe import ProbedOrder
from ptosim.time.pipes.records import Repeat
from ptosim.time.pipes.state import Walk, Writing
from ptosim.time.pipes.steps import MOST_TIME
from ptosim.time.pipes.timers import CoreTimer

# A period of a loop that is executed on moving numbers, to see whether it repeats.


@dataclass(slots=True, eq=False)
class Attempt:
    """A period that is executed on moving numbers."""

    core: int
    number: int
    rounds: int
    start: Moment
    time_steps: list[int]
    code_steps: list[int]
    fifos: dict[Any, tuple[int, ...]]
    values: dict[int, list[Any]]
    places: list[int]  # where the columns of each core were
    stalled: list[dict[str, list[int]]]
    starts: list[array[int]]
    probes: list[ProbedOrder]
    visits: int = 0


MOST_ROUNDS = 24
"""Rounds of the longest period that is looked for."""

LEAST_LEFT = 64
"""Rounds that a loop has to have left for an attempt to pay."""

LEAST_PERIODS = 2
"""Periods that have to be left out for a jump to pay."""

MOST_EXECUTED = 40_000
"""Instructions of the longest period that is looked for."""

MOST_HELD = 256
"""Operations that may wait in the queues of the pipes: more are no state that repeats."""

START, NEVER = 2, 1 << 62
SOON = 2
"""Visits of a head until it is looked at next; a visit that looks counts again."""


class Pause(Exception):
    """A head of a loop wants to be looked at before its test is executed."""


class Unsteady(Exception):
    """The rounds of a loop have to be executed one by one: the run begins anew."""


@dataclass(slots=True, eq=False)
class Head:
    """The head of a loop on one core: what the launch was at its last rounds, the round that it is
    at, and the visits until the next attempt if this one fails."""

    moments: list[Moment] = field(default_factory=list)
    round: int = 0
    gap: int = 4 * MOST_ROUNDS


class Steady:
    """Watches the loops of an engine. Why one is executed in full is put into `in_full`, by
    line."""

    def __init__(self, engine: Host, in_full: dict[int, str]) -> None:
        self.engine = engine
        self.in_full = in_full
        self.bridge = bridge_of(engine)
        self.attempt: Attempt | None = None
        self._core = 0
        self._has_left = False
        insts = engine.insts
        inside = {pc for i in insts if i.kind is Kind.REGION for pc in range(i.pc, i.end)}
        tests = {id(i.op): i for i in reversed(insts) if is_head(i) and i.pc not in inside}
        self.heads = [tests[key] for key in sorted(tests, key=lambda k: tests[k].pc)]
        cores = engine.machine.cores
        self._visits = [[START] * len(self.heads) for _ in cores]
        self._left = self._visits[0]
        self._known = [[Head() for _ in self.heads] for _ in cores]
        for number, inst in enumerate(self.heads):
            self.heads[number] = insts[inst.pc] = replace(inst, run=self._watched(number, inst))
        self._bound = [inst for inst in insts if inst.kind is Kind.EXEC]
        self._stripped = [replace(inst, getter=self._getter(inst)) for inst in self._bound]

    # -- heads of loops ----------------------------------------------------------------------------

    def _watched(self, number: int, inst: Inst) -> Callable[[list[Any]], int]:
        """The test of a loop that counts its visits."""
        test, inside = inst.run, inst.pc + 1

        def run(slots: list[Any]) -> int:
            target = test(slots)
            left = self._left
            if target != inside:
                if self.attempt is None:
                    left[number] = START
                elif left[number] < NEVER - MOST_EXECUTED and not self._has_left:
                    self._has_left = True
                    raise Pause
                return target
            left[number] -= 1
            if left[number]:
                return target
            raise Pause

        return run

    def enter(self, core: Core) -> None:
        """A core goes on."""
        self._core = core.index
        attempt = self.attempt
        if attempt is None:
            self._left = self._visits[core.index]
            return
        self._left = [NEVER] * len(self.heads)
        if core.index == attempt.core:
            self._left[attempt.number] = 1

    def visit(self, core: Core) -> None:
        """Look at the head of a loop that a core has come to."""
        inst = self.engine.insts[core.pc]
        number = next(n for n, head in enumerate(self.heads) if head is inst)
        if self.attempt is not None:
            self._visit_attempt(core)
        else:
            self._look(core, number)
        if self.attempt is not None and core.index == self.attempt.core:
            self._left[self.attempt.number] = SOON

    def _visit_attempt(self, core: Core) -> None:
        attempt = self.attempt
        assert attempt is not None
        if self._has_left:
            self.give_up("the loop ended")
            return
        attempt.visits += 1
        if attempt.visits >= attempt.rounds:
            self._finish(core)

    def _look(self, core: Core, number: int) -> None:
        """Keep what the launch is now, and begin an attempt if it moves by the same amounts."""
        head, left = self._known[core.index][number], self._left
        bounds = bounds_of(self.engine, self.heads[number], core)
        if bounds is not None and rounds_left(bounds) < LEAST_LEFT:
            head.moments.clear()
            left[number] = NEVER
            return
        cores = [c for c in self.engine.machine.cores if not c.halted]
        moments = head.moments
        if held_back(self.engine) > MOST_HELD:
            self._wait(core.index, number, "many operations wait in front of the pipes")
            return
        moments.append(moment_of(self.engine, cores))
        left[number] = SOON
        head.round = head.round + 1 if bounds is None else round_of(bounds)
        rounds = self._period(moments)
        if rounds:
            self._begin(core, number, rounds, cores)
        elif len(moments) > 2 * MOST_ROUNDS or self._is_long(moments):
            self._wait(core.index, number, "its rounds do not repeat")

    def _wait(self, core: int, number: int, why: str) -> None:
        """Let a loop go on for a while."""
        head = self._known[core][number]
        head.moments.clear()
        self._visits[core][number] = head.gap
        head.gap *= 2
        if head.gap > 16 * MOST_ROUNDS:
            self.in_full[line_of(self.engine, self.heads[number])] = why

    @staticmethod
    def _is_long(moments: list[Moment]) -> bool:
        if len(moments) < 2:
            return False
        return moments[-1].executed - moments[-2].executed > MOST_EXECUTED

    # -- a period ----------------------------------------------------------------------------------

    def _period(self, moments: list[Moment]) -> int:
        """Return the fewest rounds after which everything has moved twice by the same amount."""
        last = moments[-1]
        for rounds in range(1, (len(moments) - 1) // 2 + 1):
            old, before = moments[-1 - 2 * rounds], moments[-1 - rounds]
            even = old.shape == before.shape == last.shape and is_even(old, before, last)
            if even and fifo_steps(self.engine, (old, before, last)) is not None:
                return rounds
        return 0

    def _begin(self, core: Core, number: int, rounds: int, cores: list[Core]) -> None:
        """Execute the next period on moving numbers."""
        moments = self._known[core.index][number].moments
        old, before, last = moments[-1 - 2 * rounds], moments[-1 - rounds], moments[-1]
        engine, model = self.engine, self.bridge.model
        if not same_steps(model.cores, before, last):
            self._wait(core.index, number, "its rounds differ")
            return
        values = {
            c.index: moved_values(old.slots[c.index], before.slots[c.index], last.slots[c.index])
            for c in cores if c.index in old.slots
        }  # fmt: skip
        fifos = fifo_steps(engine, (old, before, last))
        assert fifos is not None
        self.attempt = Attempt(
            core.index, number, rounds, last,
            [b - a for a, b in zip(before.times, last.times, strict=True)],
            [b - a for a, b in zip(before.codes, last.codes, strict=True)],
            fifos, values,
            [len(timer.steps) for timer in model.cores],
            [{why: list(each) for why, each in t.stalled.items()} for t in model.cores],
            [timer.starts for timer in model.cores],
            [ProbedOrder(order, self.give_up) for order in self.bridge.orders],
        )  # fmt: skip
        self._load(cores)

    def _load(self, cores: list[Core]) -> None:
        """Let times, values and the issue of instructions move."""
        attempt, engine = self.attempt, self.engine
        assert attempt is not None
        model = self.bridge.model
        self._has_left = False
        Regime.begin()
        lines = map(line, attempt.start.times, attempt.time_steps)
        self._write(list(lines), list(attempt.start.codes))
        for core in cores:
            core.slots[:] = attempt.values[core.index]
        for timer in model.cores:
            timer.starts = []  # type: ignore[assignment]
        engine.issue_by([p.issue for p in attempt.probes] or [t.issue for t in model.cores])
        self._execute(self._stripped)
        self.enter(engine.machine.cores[attempt.core])

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
        free = op.name not in EVENTS and not isinstance(inst.semantics, Launch)
        numbers = free and not is_micro(op.name)

        def get(slots: list[Any]) -> Any:
            values = getter(slots)
            if not moves(values):
                return values
            moved = 0
            for value in values if values.__class__ is tuple else (values,):
                if moves(value):
                    moved += _distance(value, numbers, free)
            attempt = self.attempt
            if attempt is not None and attempt.probes:
                attempt.probes[self._core].moved = moved
            return tuple(map(now, values)) if values.__class__ is tuple else now(values)

        return get

    # -- after it ----------------------------------------------------------------------------------

    def blurred(self, core: Core) -> int | None:
        """An instruction needs a number that moves: let its results be such that nobody knows how
        they move, and return the next pc; None where it is no instruction that computes numbers, so
        that the attempt is over."""
        engine = self.engine
        inst = engine.insts[core.pc]
        results = numbers_of(engine.program, inst)
        if self.attempt is None or results is None:
            return None
        kept = list(core.slots)
        core.slots[:] = map(now, kept)
        try:
            inst.run(core.slots if inst.kind is Kind.SCALAR else core)
            made = [core.slots[slot] for slot in results]
        finally:
            core.slots[:] = kept
        for slot, value in zip(results, made, strict=True):
            core.slots[slot] = Blurred(value)
        return core.pc + 1

    def give_up(self, why: str) -> None:
        """Go on with plain numbers from where the launch is."""
        attempt = self.attempt
        assert attempt is not None
        self._unload(0)
        self._left = self._visits[self._core]
        self._wait(attempt.core, attempt.number, why)

    def _unload(self, periods: int) -> list[list[int]]:
        """Make everything plain again; return by how much the starts of records move."""
        attempt, engine = self.attempt, self.engine
        assert attempt is not None
        self.attempt = None
        model = self.bridge.model
        steps = []
        for timer, starts in zip(model.cores, attempt.starts, strict=True):
            probed, timer.starts = timer.starts, starts
            starts.extend(map(now, probed))
            steps.append(list(map(step_of, probed)))
        for timer, probe in zip(model.cores, attempt.probes, strict=bool(attempt.probes)):
            probe.settle(periods, len(timer.steps) - attempt.places[timer.index])
        Walk(now, lambda core, code: code).model(model, self.bridge.orders, model.cores)
        for timer in model.cores:
            for each in timer.stalled.values():
                each[:] = map(now, each)
        for core in engine.machine.cores:
            core.slots[:] = map(now, core.slots)
        self._execute(self._bound)
        engine.issue_by(None)
        return steps

    def _finish(self, core: Core) -> None:
        """The period is over: jump as far as it is proven to repeat."""
        attempt, engine = self.attempt, self.engine
        assert attempt is not None
        cores = [c for c in engine.machine.cores if c.index in attempt.values]
        end = moment_of(engine, [c for c in cores if not c.halted])
        why = self._difference(attempt, end, cores)
        periods = Regime.periods - 1
        if not why and periods < LEAST_PERIODS:
            why = "its rounds change again and again"
        if why:
            self.give_up(why)
            return
        room = MOST_TIME - max(map(now, end.times), default=0)
        within = room // max(1, *attempt.time_steps)
        if within < LEAST_PERIODS:
            raise LimitError(
                f"the run takes more than {MOST_TIME:,} cycles",
                help="look for a loop whose bounds are not the ones meant",
            )
        self._jump(attempt, end, min(periods, within))

    def _difference(self, attempt: Attempt, end: Moment, cores: list[Core]) -> str:
        """Return what is not as it was one period before; empty if everything is."""
        start = attempt.start
        if start.shape != end.shape or len(start.times) != len(end.times):
            return "its rounds do not repeat"
        lines = map(line, start.times, attempt.time_steps)
        if not all(map(agrees, lines, end.times)):
            return "its rounds do not take the same time"
        codes = zip(start.codes, end.codes, attempt.code_steps, strict=True)
        if any(b - a != step for a, b, step in codes):
            return "its rounds do not wait for the same"
        for key, gain in attempt.fifos.items():
            pairs = zip(start.fifos[key], end.fifos[key], gain, strict=True)
            if any(b - a != step for a, b, step in pairs):
                return "its FIFOs do not move evenly"
        for core in cores:
            if not all(map(agrees, attempt.values[core.index], core.slots)):
                return "its values do not move evenly"
        if not same_steps(self.bridge.model.cores, start, end):
            return "its rounds differ"
        return ""

    def _jump(self, attempt: Attempt, end: Moment, periods: int) -> None:
        """Move the launch by so many periods."""
        engine, model = self.engine, self.bridge.model
        stalls = [{why: list(each) for why, each in t.stalled.items()} for t in model.cores]
        places = [len(timer.steps) for timer in model.cores]
        slots = {c.index: list(c.slots) for c in engine.machine.cores}
        times = [now(t) + step_of(t) * periods for t in end.times]
        codes = [c + s * periods for c, s in zip(end.codes, attempt.code_steps, strict=True)]
        starts = self._unload(periods)
        self._write(times, codes)
        for index, values in slots.items():
            core = engine.machine.cores[index]
            core.slots[:] = [advanced(value, periods) for value in values]
        move_fifos(engine, attempt.fifos, periods)
        head = self._known[attempt.core][attempt.number]
        jump = sum(len(timer.repeats) for timer in model.cores)
        for timer in model.cores:
            index = timer.index
            for why, each in timer.stalled.items():
                before = attempt.stalled[index].get(why) or [0] * len(each)
                each[:] = map(total_after, before, stalls[index][why], [periods] * len(each))
            length = places[index] - attempt.places[index]
            if length:
                self._repeat(timer, starts[index], attempt, periods, jump)
        head.moments.clear()
        head.gap = 4 * MOST_ROUNDS
        self._left = self._visits[attempt.core]
        self._left[attempt.number] = SOON

    def _repeat(
        self, timer: CoreTimer, starts: list[int], attempt: Attempt, periods: int, jump: int
    ) -> None:
        """Say that the last records of a core repeat, with starts that move by so much."""
        place, length = attempt.places[timer.index], len(starts)
        causes, number = timer.causes, attempt.number
        moved = [causes[at] - causes[at - length] for at in range(place, place + length)]
        first = place + timer.skipped
        timer.skipped += length * periods
        head = self._known[attempt.core][number]
        timer.repeats.append(
            Repeat(
                first, place, length, periods, array("q", starts), array("q", moved),
                timer.skipped, line_of(self.engine, self.heads[number]), attempt.rounds,
                head.round, jump,
            )
        )  # fmt: skip
        timer.firsts.append(first)


def _distance(value: Any, numbers: bool, free: bool) -> int:
    """Return by how many bytes a window of global memory moves. Raises NeedsValue for an operand
    that decides what an operation takes."""
    kind = value.__class__
    if free and kind in (GmView, Pointer) and value.memory.__class__ is int:
        bits = value.spec.dtype.bits if kind is GmView else 8
        gain = step_of(value[-1]) * bits
        if gain and not gain % 8:
            return gain // 8
    elif numbers and kind in (Moving, Blurred):
        return 0
    raise NeedsValue(NO_LINE)
