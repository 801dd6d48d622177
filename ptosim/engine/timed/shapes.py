"""Time without values: operands have shapes and no more, and what is timed once is timed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ptosim.engine.core.binder import Numbers, execute
from ptosim.engine.core.bound import Bound, Inst, Kind
from ptosim.engine.core.runners import Fault, Host
from ptosim.engine.core.symbolic import Unknowns, is_unplaced
from ptosim.engine.period.loops import Loops, NotFollowed, Pause
from ptosim.engine.timed.events import forms_of, is_fifo
from ptosim.engine.timed.timing_bridge import bridge_of
from ptosim.machine.affine import NO_LINE, NeedsValue, Unknown, now
from ptosim.machine.core import Core
from ptosim.machine.values import GmView
from ptosim.ops.base.functions import EVENTS, Commit, nothing
from ptosim.ops.sync.fifo import counted


class Shapes(Unknowns):
    """Control flow and synchronisation are executed, everything is timed. `in_full` are lines of
    long loops that were executed round by round, and why; `executed` what each core did."""

    has_regions = False

    def __init__(self) -> None:
        super().__init__()
        self._by_form: dict[tuple[Any, ...], Bound] = {}
        self.in_full: dict[int, str] = {}
        self.executed: Counter[int] = Counter()

    def watch_loops(self, engine: Host) -> None:
        """From the start on execute one period of loops that repeat. Where transfers compete in any
        order every round is executed."""
        bridge = bridge_of(engine)
        if bridge.model.shares and bridge.model.in_step is None:
            self.in_full[0] = "its transfers compete for bandwidth"
        else:
            self.loops = Loops(engine, self.in_full)

    def execute(self, engine: Host, core: Core, limit: int) -> bool:
        """As with values; an unknown value stops the loop where it is needed, and so does the head
        of a loop that is to be looked at."""
        begun = engine.executed
        end = begun + limit
        if self.loops is not None:
            self.loops.enter(core)
        while not core.halted and core.stalled is None and core.pc >= 0 and engine.executed < end:
            try:
                execute(engine, core, end - engine.executed)
            except NeedsValue as need:
                self._pass_by(engine, core, need)
            except (TypeError, AttributeError, ValueError, OverflowError) as problem:
                if self.loops is None or not self.loops.is_trying:
                    raise
                raise NotFollowed("an operation cannot take what moves with the round") from problem
            except Pause:
                engine.executed -= 1  # the test comes again
                engine.issued -= 1
                assert self.loops is not None
                self.loops.visit(core)
        self.executed[core.index] += engine.executed - begun
        return not core.halted and core.stalled is None and core.pc >= 0

    def _pass_by(self, engine: Host, core: Core, need: NeedsValue) -> None:
        """Go on after an instruction that looked at a value that is not known."""
        inst = engine.insts[core.pc]
        if need.unknown is NO_LINE and self.loops is not None:
            after = self.loops.pass_by(core)
            if after is None:
                self.loops.give_up(f"'{inst.operation.name}' takes what moves with the round")
                return
            core.pc = after
        else:
            core.pc = self.missing(engine, core, inst, need)
        if inst.kind is Kind.SCALAR:
            engine.scalars[core.index] += 1

    def fault(self, engine: Host, core: Core, inst: Inst, fault: Fault) -> int:
        """An instruction cannot be executed. Raises the Trap that says why, as with values."""
        return Numbers.fault(self, engine, core, inst, fault)

    def released(self, engine: Host, waiting: list[Core]) -> Core | None:
        """What waits for counters in memory that nobody of the launch raises goes on: another
        device or the host may."""
        return Unknowns.released(self, engine, waiting)

    def stop(self) -> None:
        """The run has ended."""
        self.loops = None

    def bind(self, engine: Host, core: Core, inst: Inst) -> Bound:
        """Bind what moves events as with values (of FIFOs the counters move), everything else to
        the shapes of its operands."""
        values = engine.values_of(core, inst)
        if self.loops is not None and self.loops.is_trying:
            values = {name: now(value) for name, value in values.items()}
        if inst.op is not None and (inst.op.name in EVENTS or _is_followed(engine, values)):
            binding = engine.binding(core, inst, values)
            bound = Bound(inst.semantics(binding), binding)
            if is_fifo(binding):
                bound.commit = counted(binding)
            return bound
        form: tuple[Any, ...] = (core.index, inst.pc, *forms_of(inst, values))
        bound = None if bridge_of(engine).is_ordered else self._by_form.get(form)
        if bound is None:
            binding = engine.binding(core, inst, values)
            if inst.window is not None and not any(map(is_unplaced, values.values())):
                binding.moved = _nothing_at
            bound = self._by_form[form] = Bound(nothing, binding)
        return bound


def _is_followed(engine: Host, values: dict[str, Any]) -> bool:
    """True for an operation on a counter in memory whose place and number are known."""
    signal: Any = values.get("signal")
    if signal.__class__ is not GmView or not signal.is_placed:
        return False
    known = values.get("value").__class__ is not Unknown
    return (
        known and signal.memory.__class__ is int and engine.machine.buffers[signal.memory].size > 0
    )


def _nothing_at(place: int) -> Commit:
    """A transfer moves nothing, wherever its window is."""
    return nothing
