"""Runs a decoded program: fetch, execute scalar instructions, bind and issue the others.

Effects of a core happen in program order wherever that leads on. Cores run one at a time, the
lowest-numbered one that can go on; one whose next operation waits for an event gives way to the
next. Only where no core can go on in order does an operation that waits hold nothing but its pipe:
what is issued to that pipe afterwards queues after it, other pipes and the scalar unit go on until
they have signalled, and the queue moves when the event comes. So a run is deterministic, and it
ends for every program: with its results, or where nothing can move any more."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from ptosim.engine.core.binder import Binder
from ptosim.engine.core.bound import Bound, Region
from ptosim.engine.core.deadlock import deadlock
from ptosim.engine.core.fast import Loops, run_fast
from ptosim.engine.core.meter import UNLIMITED, Meter
from ptosim.engine.core.observers import Listener, Timing, listeners
from ptosim.engine.core.records import DecodedProgram, Inst, Kind
from ptosim.engine.core.runtime import executing
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.isa.profiles import Profile
from ptosim.ground.source import Span
from ptosim.machine.core import Core, Machine, MachineState, restore, snapshot
from ptosim.ops.base.binding import OpFault
from ptosim.ops.scalar.numbers import ScalarFault


class Engine(Binder):
    """A program on a machine. `run` executes to the end, `step` one instruction of one core."""

    def __init__(
        self,
        program: DecodedProgram,
        resolved: ResolvedModule,
        machine: Machine,
        profile: Profile,
        sink: Sink,
        observers: Sequence[Any] = (),
        *,
        in_order: bool = False,
        timing: Timing | None = None,
    ) -> None:
        super().__init__(program, resolved, machine, profile, sink)
        # In a program without events of its own order comes from the text: what waits holds up the
        # scalar unit.
        self.in_order = in_order
        self.executed = 0
        self.issued = 0  # the same without what regions execute when their pipe gets to them
        self.meter = Meter()
        self._on_issue: tuple[Listener, ...] = listeners(observers, "on_issue")
        self._on_commit: tuple[Listener, ...] = listeners(observers, "on_commit")
        self.timing = timing
        self._issuers = [timing.issuer(core) if timing else None for core in machine.cores]
        self._scalars = [0] * len(machine.cores)  # executed since the last issue, by core
        observed = bool(self._on_issue or self._on_commit)
        self.loops = None if observed else Loops(self)
        for observer in observers:
            if hasattr(observer, "on_start"):
                observer.on_start(self)

    # -- the whole program ------------------------------------------------------------------------

    def run(self, limit: int = UNLIMITED) -> None:
        """Execute every core to its end. Raises Trap where the program cannot go on, LimitError
        when `limit` instructions did not bring it to its end."""
        observed = bool(self._on_issue or self._on_commit)
        meter = self.meter = Meter(limit)
        with executing():
            while (core := self.next_core()) is not None:
                if self.executed >= meter.due:
                    self.look(core)
                if observed:
                    self.step(core)
                    continue
                while self._run_fast(core, meter.due - self.executed):
                    self.look(core)

    def look(self, core: Core) -> None:
        """Look at the limits, and at what a vector region has noted. Raises LimitError, with the
        place of a core, if one is reached."""
        self.meter.look(self.executed, lambda: self._place(core))
        if core.ub is not None:
            core.ub.shorten()

    def _place(self, core: Core) -> str:
        op = self.program.insts[core.pc].op
        if not op:
            return ""
        rounds = ", ".join(self._rounds(core, op))
        span = Span(self.resolved.module.source, op.start, op.name_end)
        return f"{span} ({rounds})" if rounds else str(span)

    def _rounds(self, core: Core, op: Operation) -> list[str]:
        """Where the loops around an operation are, the outermost first: `%i = 7`."""
        found: list[str] = []
        slots = self.program.slots
        outer = op.parent
        while outer is not None:
            if "loop" in outer.traits and outer.regions and outer.regions[0].blocks[0].values:
                counter = outer.regions[0].blocks[0].values[0]
                content = core.slots[slots[counter]] if counter in slots else None
                if isinstance(content, int):
                    found.insert(0, f"%{counter.name} = {content}")
            outer = outer.parent
        return found

    def next_core(self) -> Core | None:
        """Return the lowest-numbered core that can go on, first of those whose pipes wait for
        nothing; None when all have ended. Raises Trap if some have not and none can."""
        ahead: Core | None = None
        waiting: list[Core] = []
        for core in self.machine.cores:
            if core.halted:
                continue
            if (core.stalled is None and core.pc >= 0) or self._resume(core):
                if not core.queues:
                    return core
                ahead = ahead or core
            elif not core.halted:
                waiting.append(core)
        if ahead is not None or not waiting:
            return ahead
        return self._released(waiting)

    def _released(self, waiting: list[Core]) -> Core:
        """No core can go on in order: let the first that may leave its waiting operation in the
        queue of its pipe. Raises Trap if none may."""
        for core in waiting:
            if core.stalled is not None and core.stalled[1].binding.polls:
                (inst, bound), core.stalled = core.stalled, None
                self._commit(core, inst, bound)
                return core
            if core.stalled is not None and not self.in_order and core.stalled[0].pipe != "S":
                core.queues[core.stalled[0].pipe] = deque([core.stalled])
                core.stalled = None
                return core
        return self._stuck()

    def _stuck(self) -> Core:
        """Nothing can move: raise the trap that says so. A run that knows more goes on."""
        raise deadlock(self.machine, self.resolved.module.source, self.sink)

    def _resume(self, core: Core) -> bool:
        """Let a stalled scalar unit go on if its guard holds; end a core whose queues are empty."""
        if core.queues:
            self._progress()
        if core.stalled is not None:
            inst, bound = core.stalled
            if not bound.guard():
                return False
            core.stalled = None
            self._commit(core, inst, bound)
            return True
        if core.pc < 0 and not core.queues:
            core.halted = True
        return False

    def advance(self, core: Core, limit: int) -> None:
        """Execute a core as `run` does, without observers, until it ends, waits, or has executed
        `limit` instructions. Raises Trap where the program cannot go on."""
        with executing():
            self._run_fast(core, limit)

    def _run_fast(self, core: Core, limit: int = UNLIMITED) -> bool:
        """Execute a core until it ends, waits, or has executed `limit` instructions; True if only
        that stopped it. With a timing model each is issued there before it takes effect."""
        return run_fast(self, core, limit)

    def release(self) -> None:
        """Let go of what holds on to the cores; nothing can be executed any more."""
        if self.monitor is not None:
            self.monitor.release()
        self.loops = self.monitor = self.timing = None
        self._issuers.clear()

    # -- one instruction --------------------------------------------------------------------------

    def step(self, core: Core) -> Inst | None:
        """Execute one instruction of a core; None if it has ended or cannot go on."""
        if core.halted or core.pc < 0 or (core.stalled is not None and not self._resume(core)):
            return None
        inst = self.program.insts[core.pc]
        self.executed += 1
        self.issued += 1
        try:
            with executing():
                self._step(core, inst)
        except (OpFault, ScalarFault) as fault:
            raise self._trap(inst, fault) from fault
        if core.pc < 0 and not core.queues:
            core.halted = True
        return inst

    def _step(self, core: Core, inst: Inst) -> None:
        bound = self.bound(core, inst) if inst.kind is Kind.EXEC else None
        if self.timing is not None:
            self._time(self.timing, core, inst, bound)
        self._tell(self._on_issue, core, inst, bound)
        if bound is not None:
            core.pc = inst.pc + 1
            self._issue(core, inst, bound)
            return
        following = inst.pc + 1
        if inst.kind is Kind.SCALAR:
            inst.run(core.slots)
        elif inst.kind is Kind.BRANCH:
            following = inst.run(core.slots)
        elif inst.kind is Kind.REGION:
            following = self._enter(core, inst)
        else:
            inst.run(core)
        core.pc = following
        self._tell(self._on_commit, core, inst, None)

    def _time(self, timing: Timing, core: Core, inst: Inst, bound: Bound | None) -> None:
        """Issue an instruction in time, or count it to those of the scalar unit."""
        index, step = core.index, None
        if bound is not None:
            step = bound.cost or timing.prepare(core, inst, bound)
        elif inst.kind is Kind.REGION:
            step = timing.region(core, inst)
        elif inst.pc in timing.timed:
            step = timing.action(core, inst)
        elif inst.kind in (Kind.SCALAR, Kind.BRANCH):
            self._scalars[index] += 1
        elif inst.pc in timing.ends:
            self._scalars[index] = 0
        if step is not None:
            self._issuers[index](step, self._scalars[index])  # type: ignore[misc]
            self._scalars[index] = 0

    def _tell(
        self, listeners: tuple[Listener, ...], core: Core, inst: Inst, bound: Bound | None
    ) -> None:
        for listen in listeners:
            listen(core, inst, bound)

    # -- vector regions ----------------------------------------------------------------------------

    def _enter(self, core: Core, inst: Inst) -> int:
        """Return where the scalar unit goes on: in the region, or after it if its pipe waits."""
        queue = core.queues.get(inst.pipe)
        if queue is None:
            core.open_vector_region()
            return inst.pc + 1
        values = list(core.slots)
        if self.monitor is not None:
            self.monitor.enter_later(core, inst)
        queue.append((inst, Region(lambda: self._execute_region(core, inst, values))))
        return inst.end + 1

    def _execute_region(self, core: Core, inst: Inst, values: list[Any]) -> None:
        """Execute a region as a whole, on values of its own."""
        slots, core.slots = core.slots, values
        core.open_vector_region()
        pc = inst.pc + 1
        try:
            while pc != inst.end:
                pc = self._region_step(core, pc)
            self.program.insts[pc].run(core)
        finally:
            core.slots = slots

    def _region_step(self, core: Core, pc: int) -> int:
        step = self.program.insts[pc]
        if self.executed >= self.meter.due:
            self.look(core)
        self.executed += 1
        try:
            if step.kind is Kind.BRANCH:
                return step.run(core.slots)
            if step.kind is Kind.SCALAR:
                step.run(core.slots)
            elif step.kind is Kind.EXEC:
                bound = self.bound(core, step)
                if bound.guard is not None and not bound.guard():
                    raise OpFault(
                        "PTO6601", f"'{step.operation.name}' waits inside a vector region"
                    )
                bound.commit()
            else:
                step.run(core)
        except (OpFault, ScalarFault) as fault:
            return self._fault(core, step, fault)
        return pc + 1

    def _fault(self, core: Core, inst: Inst, fault: OpFault | ScalarFault) -> int:
        """An instruction cannot be executed: raise the trap that says why. A run that goes on
        returns the next pc."""
        raise self._trap(inst, fault) from fault

    # -- pipes ------------------------------------------------------------------------------------

    def _issue(self, core: Core, inst: Inst, bound: Bound) -> bool:
        """Commit an instruction, or queue it where its pipe waits. False if its core gives way to
        others: it waits, or has signalled while a pipe of its own waits."""
        if bound.at_issue is not None:
            bound.at_issue()
        if self.monitor is not None:
            self.monitor.issue(core, inst, bound)
        queue = core.queues.get(inst.pipe)
        if queue is not None:
            queue.append((inst, bound))
            return True
        if bound.guard is None or bound.guard():
            self._commit(core, inst, bound)
            return bound.binding.sync is None or not core.queues
        core.stalled = (inst, bound)
        return False

    def _commit(self, core: Core, inst: Inst, bound: Bound) -> None:
        self._effect(core, inst, bound)
        if bound.binding.sync is not None:
            self._progress()

    def _effect(self, core: Core, inst: Inst, bound: Bound) -> None:
        try:
            bound.commit()
        except OpFault as fault:
            raise self._trap(inst, fault) from fault
        self._tell(self._on_commit, core, inst, bound)

    def _progress(self) -> None:
        """Move every queue whose head need not wait any more."""
        moved = True
        while moved:
            moved = False
            for core in [c for c in self.machine.cores if c.queues]:
                for pipe in list(core.queues):
                    moved = self._drain(core, pipe) or moved

    def _drain(self, core: Core, pipe: str) -> bool:
        queue = core.queues[pipe]
        moved = False
        while queue:
            inst, bound = queue[0]
            if bound.guard is not None and not bound.guard():
                return moved
            queue.popleft()
            self._effect(core, inst, bound)
            moved = True
        del core.queues[pipe]
        return True

    # -- state ------------------------------------------------------------------------------------

    def snapshot(self) -> MachineState:
        """Return a copy of all state."""
        return snapshot(self.machine)

    def restore(self, state: MachineState) -> None:
        """Go back to a state of this run."""
        restore(self.machine, state)

    def save_time(self) -> Any:
        """Return the state of a timing model beside the engine; None without one."""
        return None

    def restore_time(self, state: Any, *, forget: bool = False) -> None:
        """Go to a state in time of this run; `forget` what came after an earlier one."""
