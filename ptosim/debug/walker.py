"""A run as a line of positions. Position n is the state after n instructions; walking back restores
a checkpoint and executes again, which gives the same state because a run is a function of its
inputs.

Cores take turns as in a plain run: one goes on until it ends or waits, then the lowest-numbered
core that can go on has its turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ptosim.debug.checkpoints import Checkpoint, Checkpoints, make_checkpoint
from ptosim.engine.core.bound import Bound, Inst, Region
from ptosim.engine.timed.timing_bridge import bridge_of
from ptosim.ground.diagnostics.model import Diagnostic, Trap
from ptosim.ground.errors import BudgetError
from ptosim.ground.limits import current, unlimited
from ptosim.ground.records import NamedTuple
from ptosim.launch.launch import Launch
from ptosim.machine.core import Core
from ptosim.ops.base.binding import Binding
from ptosim.time.pipes.timers import CoreTimer
from ptosim.time.report.totals import CostReport

CHUNK = 2048
"""Instructions between two looks at the clock and at the interrupt flag."""
PAUSE = 20
"""A checkpoint is made when the run has taken so many times longer than making one,"""
LOOK = 0.05
"""Seconds between two looks at the limits."""
LONGEST = 0.25
"""or so many seconds, as long as making one takes less than a fifth of them."""


class Event(NamedTuple):
    """What happened to an instruction: `issue` (the scalar unit reached it), `done` (its effect is
    in memory)."""

    what: str
    core: Core
    inst: Inst
    bound: Bound | Region | None

    @property
    def binding(self) -> Binding | None:
        """Operands of the instruction; None where it has none, or is a whole vector region."""
        return getattr(self.bound, "binding", None)


class Interrupted(Exception):
    """The user asked to stop; the state is a whole one."""


class _Recorder:
    """Observer of the engine: the events of the last step."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_issue(self, core: Core, inst: Inst, bound: Bound | Region | None) -> None:
        """The scalar unit reached an instruction."""
        self.events.append(Event("issue", core, inst, bound))

    def on_commit(self, core: Core, inst: Inst, bound: Bound | Region | None) -> None:
        """An instruction took effect."""
        self.events.append(Event("done", core, inst, bound))


class Walker:
    """Moves a launch to any position of its run.

    `trap` is set where the run cannot go on from the present position, `finished` where it has
    ended. `interrupted` may be set from a signal handler."""

    def __init__(self, launch: Launch, checkpoints: Checkpoints | None = None) -> None:
        self.launch = launch
        self._recorder = _Recorder()
        launch.start((self._recorder,))
        self.engine = launch.engine
        self.monitor = launch.sanitizers()
        self.machine = launch.machine
        self.checkpoints = checkpoints if checkpoints is not None else Checkpoints()
        self.turn: Core | None = None
        self.trap: Trap | None = None
        self.finished = False
        self.interrupted = False
        self.moving = False  # true while a command executes instructions
        self._faults: dict[int, Trap] = {}
        self._fatal: dict[int, list[Diagnostic]] = {}  # the findings of those
        self._found: dict[int, list[Diagnostic]] = {}
        # Sanitizers watch a run once: they have seen it up to here.
        self._watched = 0
        self._clock = self._looked = time.perf_counter()
        self._pause = 0.0
        self._executed = 0  # by the present command, in whichever direction
        self._settle()
        self._save()

    @property
    def position(self) -> int:
        """Instructions executed so far."""
        return self.engine.issued

    @property
    def events(self) -> list[Event]:
        """What the last step did."""
        return self._recorder.events

    @property
    def stopped(self) -> bool:
        """True if the run has ended or cannot go on."""
        return self.finished or self.trap is not None

    def findings_at(self, position: int) -> list[Diagnostic]:
        """Return what was found when the run first came to a position."""
        return self._found.get(position, [])

    def findings(self) -> list[Diagnostic]:
        """Return what was found up to here; not what the run found before it went back."""
        later = {
            id(found)
            for table in (self._found, self._fatal)
            for position, several in table.items()
            if position > self.position
            for found in several
        }
        return [found for found in self.launch.sink if id(found) not in later]

    # -- time --------------------------------------------------------------------------------------

    def timer(self, core: Core) -> CoreTimer | None:
        """Return the pipes of a core in time; None if the run counts no cycles."""
        engine = self.engine
        return bridge_of(engine).model.cores[core.index] if engine.timing is not None else None

    def cycle(self, core: Core) -> int:
        """Return the cycle at which everything that a core has executed so far is done; 0 if the
        run counts no cycles."""
        engine = self.engine
        if engine.timing is None:
            return 0
        return bridge_of(engine).cycle(core, engine.scalars[core.index])

    @contextmanager
    def settled(self) -> Iterator[CostReport]:
        """Give the cost of what has been executed, transfers that compete placed; the run stays as
        it is. Only for a run with timing."""
        engine = self.engine
        bridge, before = bridge_of(engine), engine.save_time()
        bridge.model.settle()
        try:
            yield CostReport(bridge.model, bridge.table, self.launch.function.name)
        finally:
            engine.restore_time(before, forget=True)

    def upcoming(self) -> Inst | None:
        """Return the instruction that the next step executes; None at the end."""
        if self.turn is None:
            return None
        return self.launch.program.insts[self.turn.pc]

    # -- forwards ---------------------------------------------------------------------------------

    def step(self) -> None:
        """Execute one instruction. If it cannot be executed, `trap` is set, and the state is the
        one before it."""
        if self.stopped or self._faulty():
            return
        self._recorder.events.clear()
        before, known = self.position, len(self.launch.sink)
        assert self.turn is not None
        self._watch(before)
        with self._whole(before):
            try:
                self.engine.step(self.turn)
            except Trap as trap:
                self._fatal[before] = self.launch.sink.diagnostics[known:]
                self._fault(before, trap)
                return
        self._executed += 1
        self._settle()
        self._seen(known)

    @contextmanager
    def _whole(self, position: int) -> Iterator[None]:
        """If what happens inside is broken off in the middle of an instruction, go back to a
        position before it."""
        try:
            yield
        except (BudgetError, KeyboardInterrupt):
            with unlimited():
                self._restore(self.checkpoints.before(position))
                self.run_to(position)
            raise

    def run_to(self, position: int) -> None:
        """Execute without looking until a position is reached or the run stops. Raises Interrupted
        when `interrupted` is set."""
        while self.position < position and not self.stopped and not self._faulty():
            before, known = self.position, len(self.launch.sink)
            limit = min(CHUNK, position - before)
            if before < self._watched:
                limit = min(limit, self._watched - before)
            self._recorder.events.clear()
            assert self.turn is not None
            self._watch(before)
            with self._whole(before):
                try:
                    self.engine.advance(self.turn, limit)
                except Trap as trap:
                    self._fatal[self.position - 1] = self.launch.sink.diagnostics[known:]
                    self._fault(self.position - 1, trap)
                    return
            self._executed += self.position - before
            self._settle()
            self._seen(known)
            self.breathe()

    def _watch(self, position: int) -> None:
        """Let the sanitizers look on, unless they have seen this part of the run."""
        if self.monitor is not None:
            self.monitor.is_on = position >= self._watched

    def _seen(self, known: int) -> None:
        """Remember how far the run was watched, and what was found on the way."""
        position, sink = self.position, self.launch.sink
        if self.finished and position > self._watched and self.monitor is not None:
            self.monitor.finish()
        self._watched = max(self._watched, position)
        if len(sink) > known:
            self._found.setdefault(position, []).extend(sink.diagnostics[known:])

    def _fault(self, position: int, trap: Trap) -> None:
        """Stop before an instruction that cannot be executed."""
        self._watched = max(self._watched, self.position)
        self._faults[position] = trap
        self.goto(position)
        self.trap = trap

    def breathe(self) -> None:
        """Make a checkpoint if one is due, and keep once what repeats: periods in time, accesses of
        vector regions. Raises Interrupted if the user asked to stop, LimitError if the limits of
        the command are reached."""
        now = time.perf_counter()
        if self.engine.timing is not None:
            bridge_of(self.engine).fold()
        for core in self.machine.cores:
            if core.ub is not None:
                core.ub.shorten()
        if now - self._clock > self._pause:
            self._save()
        if now - self._looked > LOOK:
            self._looked = now
            current().look(self.place)
        most = current().instructions
        if most is not None and self._executed > most:
            where = self.place()
            raise BudgetError(
                f"PTO0014: not there after {most:,} instructions{where and f', at {where}'}",
                help="raise --max-instructions",
            )
        if self.interrupted:
            self.interrupted = False
            raise Interrupted

    def begin(self) -> None:
        """A new command begins: its limits count from here."""
        self._executed = 0

    def place(self) -> str:
        """Return the place of the next instruction in the program; '' at the end."""
        inst = self.upcoming()
        if inst is None or inst.op is None:
            return ""
        return str(inst.op.span(self.launch.resolved.module.source))

    def _faulty(self) -> bool:
        """True if the next instruction is known to trap."""
        self.trap = self._faults.get(self.position)
        return self.trap is not None

    def _settle(self) -> None:
        """Find the core that has the next turn."""
        core = self.turn
        try:
            while core is None or core.halted or core.stalled is not None or core.pc < 0:
                core = self.engine.next_core()
                if core is None:
                    self.finished = True
                    break
        except Trap as trap:
            core, self.trap = None, trap
        self.turn = core

    # -- backwards --------------------------------------------------------------------------------

    def goto(self, position: int) -> None:
        """Go to a position; the end of the run if that comes first."""
        if self.stopped and position >= self.position:
            return
        checkpoint = self.checkpoints.before(position)
        if not checkpoint.position <= self.position <= position or self.stopped:
            self._restore(checkpoint)
        self.run_to(position)
        if self.trap is None:
            self._faulty()

    def goto_first(self, holds: Callable[[], bool]) -> bool:
        """Go to the first position of the run where something holds that never ceases to; False,
        and the run at its end, if it never does."""
        for checkpoint in self.checkpoints.newest_first():
            self.goto(checkpoint.position)
            if not holds():
                break
        else:
            return True
        start = self.position
        while not holds() and not self.stopped:
            start = self.position
            self.run_to(start + CHUNK)
        self.goto(start)
        while not holds() and not self.stopped:
            self.step()
            self.breathe()
        return holds()

    @contextmanager
    def trial(self) -> Iterator[None]:
        """What happens inside leaves no trace but the position: memory may be changed by hand."""
        position, faults, findings = self.position, dict(self._faults), len(self.launch.sink)
        found, watched = {k: list(v) for k, v in self._found.items()}, self._watched
        self._watched = 1 << 62
        try:
            yield
        finally:
            self._faults, self._found, self._watched = faults, found, watched
            self.launch.sink.cut(findings)
            self._restore(self.checkpoints.before(position))
            self.run_to(position)

    def _restore(self, checkpoint: Checkpoint) -> None:
        engine = self.engine
        self._watch(-1)
        engine.restore(checkpoint.machine_state())
        engine.restore_time(checkpoint.time)
        engine.issued, engine.executed = checkpoint.position, checkpoint.executed
        del engine.prints[checkpoint.prints :]
        self.turn = self.machine.cores[checkpoint.turn] if checkpoint.turn >= 0 else None
        self.finished, self.trap = False, None
        self._recorder.events.clear()
        self._clock = time.perf_counter()
        if self.turn is None:
            self._settle()

    def _save(self) -> None:
        """Make a checkpoint here, if this is far enough after the latest one."""
        started = time.process_time()
        if self.checkpoints.takes(self.position):
            latest = self.checkpoints.latest()
            turn = self.turn.index if self.turn is not None else -1
            prints = len(self.engine.prints)
            state = self.engine.snapshot()
            at = (self.position, self.engine.executed)
            self.checkpoints.add(
                make_checkpoint(at, turn, prints, state, self.engine.save_time(), latest)
            )
            cost = time.process_time() - started
            self._pause = min(PAUSE * cost, max(LONGEST, 5 * cost))
        self._clock = time.perf_counter()
