"""Time without values: operands have shapes and no more, and what is timed once is timed."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ptosim.engine.core.bound import Bound
from ptosim.engine.core.engine import Engine
from ptosim.engine.core.meter import UNLIMITED
from ptosim.engine.core.records import Inst, Kind
from ptosim.engine.core.symbolic import SymbolicEngine, is_unplaced
from ptosim.engine.timed.engine import TimedEngine
from ptosim.engine.timed.fifo_events import is_fifo
from ptosim.engine.timed.operand_shapes import forms_of
from ptosim.engine.timed.steady import Pause, Steady, Unsteady
from ptosim.machine.core import Core
from ptosim.machine.moving import NO_LINE, now
from ptosim.machine.unknown import NeedsValue
from ptosim.ops.base.binding import OpFault
from ptosim.ops.base.functions import EVENTS, Commit, nothing
from ptosim.ops.scalar.numbers import ScalarFault
from ptosim.ops.sync.fifo import counted


class TimedSymbolicEngine(SymbolicEngine, TimedEngine):
    """Executes control flow and synchronisation, and times everything."""

    @cached_property
    def _by_form(self) -> dict[tuple[Any, ...], Bound]:
        return {}

    def _enter(self, core: Core, inst: Inst) -> int:
        """The instructions of a vector region are counted, not executed."""
        return inst.end + 1

    steady: Steady | None = None
    """What watches the loops, while the engine runs."""

    @cached_property
    def in_full(self) -> dict[int, str]:
        """Lines of long loops that were executed round by round, and why."""
        return {}

    def watch_loops(self) -> None:
        """From the start on execute one period of loops that repeat. With more buffers than the
        program has, or with transfers that compete, every round is executed."""
        self.bridge.in_rounds = False
        if self.bridge.model.shares:
            self.in_full[0] = "its transfers compete for bandwidth"
        elif self.bridge.buffers:
            self.in_full[0] = "buffers were added"
        else:
            self.steady = Steady(self)

    def run(self, limit: int = UNLIMITED) -> None:
        """Execute every core to its end, then place what competes for bandwidth."""
        try:
            super().run(limit)
        finally:
            if self.steady is not None:
                self.steady.stop()

    def _run_fast(self, core: Core, limit: int = UNLIMITED) -> bool:
        """As with values; an unknown value stops the loop where it is needed, and so does the head
        of a loop that is to be looked at."""
        end = self.executed + limit
        if self.steady is not None:
            self.steady.enter(core)
        while not core.halted and core.stalled is None and core.pc >= 0 and self.executed < end:
            try:
                super()._run_fast(core, end - self.executed)
            except NeedsValue as need:
                self._pass_by(core, need)
            except (TypeError, AttributeError, ValueError, OverflowError) as problem:
                if self.steady is None or self.steady.attempt is None:
                    raise
                raise Unsteady("an operation cannot take what moves with the round") from problem
            except Pause:
                self.executed -= 1  # the test comes again
                self.issued -= 1
                assert self.steady is not None
                self.steady.visit(core)
        return not core.halted and core.stalled is None and core.pc >= 0

    def _pass_by(self, core: Core, need: NeedsValue) -> None:
        """Go on after an instruction that looked at a value that is not known."""
        inst = self.program.insts[core.pc]
        if need.unknown is NO_LINE and self.steady is not None:
            after = self.steady.blurred(core)
            if after is None:
                self.steady.give_up(f"'{inst.operation.name}' takes what moves with the round")
                return
            core.pc = after
        else:
            core.pc = self._beyond(core, inst, need.unknown)
        if inst.kind is Kind.SCALAR:
            self._scalars[core.index] += 1

    # -- what watches the loops --------------------------------------------------------------------

    def values_of(self, core: Core, inst: Inst) -> dict[str, Any]:
        """Return the present values of an instruction's operands."""
        values = super().values_of(core, inst)
        if self.steady is not None and self.steady.attempt is not None:
            return {name: now(value) for name, value in values.items()}
        return values

    def numbers_of(self, inst: Inst) -> tuple[int, ...] | None:
        """Return the slots of the results of an instruction that only computes numbers."""
        return self._numbers(inst)

    def waiting_scalars(self, core: Core) -> int:
        """Return the operations of the scalar unit since the last issue."""
        return self._scalars[core.index]

    def issue_by(self, issuers: list[Any] | None) -> None:
        """Issue through other functions, or again through those of the timing model."""
        if issuers is None:
            issuers = [self.bridge.issuer(core) for core in self.machine.cores]
        self._issuers = issuers

    def _fault(self, core: Core, inst: Inst, fault: OpFault | ScalarFault) -> int:
        return Engine._fault(self, core, inst, fault)

    def _released(self, waiting: list[Core]) -> Core:
        return Engine._released(self, waiting)

    def _bind(self, core: Core, inst: Inst) -> Bound:
        """Bind what moves events as with values (of FIFOs the counters move), everything else to
        the shapes of its operands."""
        values = self.values_of(core, inst)
        if inst.op is not None and inst.op.name in EVENTS:
            binding = self.binding(core, inst, values)
            bound = Bound(inst.semantics(binding), binding)
            if is_fifo(binding):
                bound.commit = counted(binding)
            return bound
        form: tuple[Any, ...] = (core.index, inst.pc, *forms_of(inst, values))
        bound = None if self.bridge.is_ordered else self._by_form.get(form)
        if bound is None:
            binding = self.binding(core, inst, values)
            if inst.window is not None and not any(map(is_unplaced, values.values())):
                binding.moved = _nothing_at
            bound = self._by_form[form] = Bound(nothing, binding)
        return bound


def _nothing_at(place: int) -> Commit:
    """A transfer moves nothing, wherever its window is."""
    return nothing
