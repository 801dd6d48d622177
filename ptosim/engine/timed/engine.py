"""The engine with a timing model beside it: every instruction is issued to the pipes as it is
executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ptosim.engine.core.engine import UNLIMITED, Engine
from ptosim.engine.core.records import DecodedProgram, Inst, Kind
from ptosim.engine.timed.timing_bridge import TimingBridge
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.isa.profiles import Profile
from ptosim.machine.core import Core, Machine
from ptosim.semantics.base.binding import OpFault
from ptosim.semantics.scalar.scalar import ScalarFault


class TimedEngine(Engine):
    """Executes and times in lock-step. Values never depend on time."""

    def __init__(
        self,
        program: DecodedProgram,
        resolved: ResolvedModule,
        machine: Machine,
        profile: Profile,
        sink: Sink,
        bridge: TimingBridge,
        observers: Sequence[Any] = (),
        *,
        in_order: bool = False,
    ) -> None:
        super().__init__(program, resolved, machine, profile, sink, observers, in_order=in_order)
        self.bridge = bridge
        self._issuers: list[Callable[[Any, int], None]] = [
            bridge.issuer(core) for core in machine.cores
        ]
        self._scalars = [0] * len(machine.cores)  # executed since the last issue, by core
        # Scalar instructions of a region are part of its cost.
        self._ends = frozenset(i.end for i in program.insts if i.kind is Kind.REGION)

    def run(self, limit: int = UNLIMITED) -> None:
        """Execute every core to its end, then place what competes for bandwidth."""
        try:
            super().run(limit)
        finally:  # where a run stops, its time until then counts
            self.bridge.model.settle()
            self.bridge.model.drain_retired()

    # -- state ------------------------------------------------------------------------------------

    def save_time(self) -> Any:
        """Return the state of the pipes in time, for `restore_time`."""
        return self.bridge.save(), list(self._scalars)

    def restore_time(self, state: Any, *, forget: bool = False) -> None:
        """Take the pipes to another state of this run; `forget` what came after an earlier one."""
        pipes, scalars = state
        self.bridge.restore(pipes, forget=forget)
        self._scalars = list(scalars)

    def cycle(self, core: Core) -> int:
        """Return the cycle at which everything that a core has executed so far is done."""
        timer = self.bridge.model.cores[core.index]
        issued = timer.clock + self._scalars[core.index] * self.bridge.model.scalar_cycles
        return max(issued, *timer.done)

    # -- execution --------------------------------------------------------------------------------

    def _run_fast(self, core: Core, limit: int = UNLIMITED) -> None:  # noqa: C901 - hot loop
        """Execute a core until it ends, waits, or has executed `limit` instructions; each is issued
        before it takes effect."""
        insts, slots, bounds = self.program.insts, core.slots, core.bounds
        scalar, vector, branch, execute = Kind.SCALAR, Kind.VECTOR, Kind.BRANCH, Kind.EXEC
        region = Kind.REGION
        queues, bridge = core.queues, self.bridge
        issue, timed = self._issuers[core.index], bridge.timed
        pc, count = core.pc, 0
        scalars, ends = self._scalars[core.index], self._ends
        inst: Any = None
        try:
            while pc >= 0 and count < limit:
                inst = insts[pc]
                kind = inst.kind
                count += 1
                if kind is vector:
                    inst.run(core)
                    pc += 1
                elif kind is execute:
                    cache = bounds[pc]
                    bound = cache.get(inst.getter(slots)) if cache is not None else None
                    if bound is None:
                        bound = self.bind(core, inst)
                    issue(bound.cost or bridge.prepare(core, inst, bound), scalars)
                    scalars = 0
                    pc += 1
                    if bound.guard is None and not queues:
                        bound.commit()
                    elif not self._issue(core, inst, bound):
                        break
                elif kind is scalar:
                    inst.run(slots)
                    pc += 1
                    scalars += 1
                elif kind is branch:
                    pc = inst.run(slots)
                    scalars += 1
                elif kind is region:
                    issue(bridge.region(core, inst), scalars)
                    scalars = 0
                    pc = self._enter(core, inst)
                else:
                    inst.run(core)
                    if pc in timed:
                        issue(bridge.action(core, inst), scalars)
                        scalars = 0
                    elif pc in ends:
                        scalars = 0
                    pc += 1
        except (OpFault, ScalarFault) as fault:
            raise self._trap(inst, fault) from fault
        finally:
            self.executed += count
            self.issued += count
            self._scalars[core.index] = scalars
            core.pc = pc
        if pc < 0 and not queues:
            core.halted = True

    def _step(self, core: Core, inst: Inst) -> None:
        """Execute one instruction, issued before it takes effect."""
        index = core.index
        step = None
        if inst.kind is Kind.EXEC:
            bound = self.bound(core, inst)
            step = bound.cost or self.bridge.prepare(core, inst, bound)
        elif inst.kind is Kind.REGION:
            step = self.bridge.region(core, inst)
        elif inst.pc in self.bridge.timed:
            step = self.bridge.action(core, inst)
        elif inst.kind in (Kind.SCALAR, Kind.BRANCH):
            self._scalars[index] += 1
        elif inst.pc in self._ends:
            self._scalars[index] = 0
        if step is not None:
            self._issuers[index](step, self._scalars[index])
            self._scalars[index] = 0
        super()._step(core, inst)
