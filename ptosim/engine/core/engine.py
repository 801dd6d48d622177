"""Runs a decoded program: fetch, execute scalar instructions, bind and issue the others.

There is one engine. In which runs differ is given to it: what a value is (`domain.py`), when
effects happen (`pace.py`), the timing model beside it, and who looks on. What is not there costs
nothing. The decoded program is only read: whoever watches an instruction has the engine execute a
copy (`insts`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ptosim.engine.core.binder import (
    Binder,
    Listener,
    Numbers,
    Timing,
    executing,
    is_executing,
    listeners,
)
from ptosim.engine.core.bound import Bound, DecodedProgram, Inst, Kind, Region
from ptosim.engine.core.pace import ProgramOrder, Retirement
from ptosim.engine.core.runners import UNLIMITED, Meter
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.isa.dates import Profile
from ptosim.ground.source import Span
from ptosim.machine.affine import NeedsValue
from ptosim.machine.core import Core, Machine, MachineState, restore, snapshot
from ptosim.ops.base.binding import OpFault
from ptosim.ops.scalar.numbers import ScalarFault

if TYPE_CHECKING:
    from ptosim.engine.core.schedule import Scheduled


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
        domain: Numbers | None = None,
        pace: ProgramOrder | Retirement | Scheduled | None = None,
    ) -> None:
        super().__init__(program, resolved, machine, profile, sink, domain or Numbers())
        self.pace = pace or ProgramOrder()
        # In a program without events of its own order comes from the text: what waits holds up the
        # scalar unit.
        self.in_order = in_order
        self.executed = 0
        self.left_out = 0  # of rounds that do what others do (`engine/period`)
        self.issued = 0  # the same without what regions execute when their pipe gets to them
        self.meter = Meter()
        self._on_issue: tuple[Listener, ...] = listeners(observers, "on_issue")
        self._on_commit: tuple[Listener, ...] = listeners(observers, "on_commit")
        self.is_observed = bool(self._on_issue or self._on_commit)
        self.timing = timing
        self.issuers: list[Any] = []
        self.issue_by(None)
        self.scalars = [0] * len(machine.cores)  # executed since the last issue, by core
        batched = self.domain.has_regions and not self.is_observed and self._has_rounds_at_once()
        self.batches = None
        if batched:
            from ptosim.engine.batch.batches import Batches  # a run without values has none

            self.batches = Batches(self)
        for observer in observers:
            if hasattr(observer, "on_start"):
                observer.on_start(self)

    def _has_rounds_at_once(self) -> bool:
        """True where rounds may be executed at once: those of tile loops have contents."""
        insts = self.program.insts
        return self.domain.has_contents or any(inst.kind is Kind.VECTOR for inst in insts)

    @property
    def is_bare(self) -> bool:
        """True if nothing but values is asked for, as the text has them one after the other."""
        looks = self.timing is not None or self.monitor is not None or self.is_observed
        return not looks and self.pace.__class__ is ProgramOrder and self.domain.has_contents

    # -- the whole program ------------------------------------------------------------------------

    def run(self, limit: int = UNLIMITED) -> None:
        """Execute every core to its end. Raises Trap where the program cannot go on, LimitError
        when `limit` instructions did not bring it to its end."""
        self.meter = Meter(limit)
        try:
            with executing():
                self.pace.run(self)
            if self.timing is not None:
                self.timing.ended()
        finally:  # where a run stops, its time until then counts
            if self.timing is not None:
                self.timing.settle()
            self.domain.stop()

    def look(self, core: Core) -> None:
        """Look at the limits, at what a vector region has noted, and at how much is recorded.
        Raises LimitError, with the place of a core, if a limit is reached."""
        self.meter.look(self.executed, lambda: self._place(core))
        if core.ub is not None:
            core.ub.shorten()
        if self.timing is not None:
            self.timing.looked()

    def _place(self, core: Core) -> str:
        op = self.insts[core.pc].op
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
        """Return the core that has the next turn, None when all have ended. Raises Trap if some
        have not and none can go on."""
        return self.pace.next_core(self)  # type: ignore[union-attr]  # in the order of the text

    def resume(self, core: Core) -> bool:
        """Let a stalled scalar unit go on if its guard holds; end a core whose queues are empty."""
        if core.queues:
            self.pace.progress(self)
        if core.stalled is not None:
            if not core.stalled[1].guard():
                return False
            self.go_on(core)
            return True
        if core.pc < 0 and not core.queues:
            core.halted = True
        return False

    def go_on(self, core: Core) -> None:
        """Commit the operation that a scalar unit waits with."""
        (inst, bound), core.stalled = core.stalled, None  # type: ignore[misc]
        self.commit(core, inst, bound)

    def advance(self, core: Core, limit: int) -> None:
        """Execute a core as `run` does, without observers, until it ends, waits, or has executed
        `limit` instructions. Raises Trap where the program cannot go on."""
        with executing():
            self.execute(core, limit)

    def execute(self, core: Core, limit: int = UNLIMITED) -> bool:
        """Execute a core until it ends, waits, or has executed `limit` instructions; True if only
        that stopped it. With a timing model each is issued there before it takes effect."""
        return self.domain.execute(self, core, limit)

    def release(self) -> None:
        """Let go of what holds on to the cores; nothing can be executed any more."""
        if self.monitor is not None:
            self.monitor.release()
        self.batches = self.monitor = self.timing = None
        self.issuers.clear()
        self.insts.clear()

    # -- one instruction --------------------------------------------------------------------------

    def step(self, core: Core) -> Inst | None:
        """Execute one instruction of a core; None if it has ended or cannot go on."""
        if core.halted or core.pc < 0 or (core.stalled is not None and not self.resume(core)):
            return None
        inst = self.insts[core.pc]
        self.executed += 1
        self.issued += 1
        try:
            if is_executing():
                self._step(core, inst)
            else:
                with executing():
                    self._step(core, inst)
        except NeedsValue as need:
            core.pc = self.domain.missing(self, core, inst, need)
        except (OpFault, ScalarFault) as fault:
            core.pc = self.domain.fault(self, core, inst, fault)
        if core.pc < 0 and not core.queues:
            core.halted = True
        return inst

    def _step(self, core: Core, inst: Inst) -> None:
        bound = self.bound(core, inst) if inst.kind is Kind.EXEC else None
        if self.timing is not None:
            self._time(self.timing, core, inst, bound)
        for listen in self._on_issue:
            listen(core, inst, bound)
        if bound is not None:
            core.pc = inst.pc + 1
            self.pace.issue(self, core, inst, bound)
            return
        following = inst.pc + 1
        if inst.kind is Kind.SCALAR:
            inst.run(core.slots)
        elif inst.kind is Kind.BRANCH:
            following = inst.run(core.slots)
        elif inst.kind is Kind.REGION:
            following = self.enter(core, inst)
        else:
            inst.run(core)
        core.pc = following
        for listen in self._on_commit:
            listen(core, inst, None)

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
            self.scalars[index] += 1
        elif inst.pc in timing.ends:
            self.scalars[index] = 0
        if step is not None:
            self.issuers[index](step, self.scalars[index])
            self.scalars[index] = 0

    # -- vector regions ----------------------------------------------------------------------------

    def enter(self, core: Core, inst: Inst) -> int:
        """Return where the scalar unit goes on: in the region, or after it if its pipe waits, or if
        its instructions are not executed."""
        if not self.domain.has_regions:
            return inst.end + 1
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
                pc = self._region_step(core, self.insts[pc])
            self.insts[pc].run(core)
        finally:
            core.slots = slots

    def _region_step(self, core: Core, inst: Inst) -> int:
        if self.executed >= self.meter.due:
            self.look(core)
        self.executed += 1
        try:
            if inst.kind is Kind.BRANCH:
                return inst.run(core.slots)
            if inst.kind is Kind.SCALAR:
                inst.run(core.slots)
            elif inst.kind is Kind.EXEC:
                bound = self.bound(core, inst)
                if bound.guard is not None and not bound.guard():
                    raise OpFault(
                        "PTO6601", f"'{inst.operation.name}' waits inside a vector region"
                    )
                bound.commit()
            else:
                inst.run(core)
        except NeedsValue as need:
            return self.domain.missing(self, core, inst, need)
        except (OpFault, ScalarFault) as fault:
            return self.domain.fault(self, core, inst, fault)
        return inst.pc + 1

    # -- effects ----------------------------------------------------------------------------------

    def issuing(self, core: Core, inst: Inst, bound: Bound) -> None:
        """An operation is issued: what it does then, and who has to know."""
        if bound.at_issue is not None:
            bound.at_issue()
        if self.monitor is not None:
            self.monitor.issue(core, inst, bound)

    def commit(self, core: Core, inst: Inst, bound: Bound) -> None:
        """An operation takes effect, and whatever waited for it moves."""
        self.effect(core, inst, bound)
        if bound.binding.sync is not None:
            self.pace.progress(self)

    def effect(self, core: Core, inst: Inst, bound: Bound) -> None:
        """An operation takes effect."""
        try:
            bound.commit()
        except OpFault as fault:
            raise self.trap(inst, fault) from fault
        for listen in self._on_commit:
            listen(core, inst, bound)

    def issue_by(self, issuers: list[Callable[[Any, int], None]] | None) -> None:
        """Issue in time through other functions, by core; None: those of the timing model."""
        timing = self.timing
        of_cores = [timing.issuer(c) if timing else None for c in self.machine.cores]
        self.issuers = list(issuers or of_cores)

    # -- state ------------------------------------------------------------------------------------

    def snapshot(self) -> MachineState:
        """Return a copy of all state."""
        return snapshot(self.machine)

    def restore(self, state: MachineState) -> None:
        """Go back to a state of this run."""
        restore(self.machine, state)

    def save_time(self) -> Any:
        """Return the state in time, for `restore_time`; None without a timing model."""
        return (self.timing.save(), list(self.scalars)) if self.timing is not None else None

    def restore_time(self, state: Any, *, forget: bool = False) -> None:
        """Go to a state in time of this run; `forget` what came after an earlier one."""
        if self.timing is not None:
            pipes, scalars = state
            self.timing.restore(pipes, forget=forget)
            self.scalars = list(scalars)
