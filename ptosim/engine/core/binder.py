"""From instructions and the present values of their operands to bindings, which are kept."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import numpy as np

from ptosim.engine.core.bound import Bound, DecodedProgram, Inst, Kind, Moved, Region, has_zero
from ptosim.engine.core.runners import Fault, Host
from ptosim.ground import processes
from ptosim.ground.diagnostics.model import Diagnostic, Label, Sink, Trap, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.isa.dates import Profile
from ptosim.ground.records import dataclass
from ptosim.ground.source import Span
from ptosim.machine.affine import NeedsValue
from ptosim.machine.core import Core, Machine
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import Binding, OpFault
from ptosim.ops.base.functions import Commit
from ptosim.ops.scalar.numbers import ScalarFault

# Executes a core as fast as may be, while nobody looks on at each instruction.


class _Executing(threading.local):
    """How many runs of a thread are under way in one another."""

    depth = 0


_UNDER_WAY = _Executing()


@contextmanager
def executing() -> Iterator[None]:
    """Arithmetic reports through its results, not through NumPy's warnings, and the
    cycle collector comes rarely."""
    before = processes.seldom()
    _UNDER_WAY.depth += 1
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _UNDER_WAY.depth -= 1
        gc.set_threshold(*before)


def is_executing() -> bool:
    """True inside of `executing`: a walk enters it once, not for each instruction."""
    return _UNDER_WAY.depth > 0


# -- instructions ----------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Progress:
    """How far a core has got: where it is, what was executed, and how much of that without the
    scalar instructions that no issue has told of; the last instruction."""

    pc: int
    counted: int
    count: int = 0
    inst: Any = None


def execute(engine: Host, core: Core, limit: int) -> bool:
    """Execute a core until it ends, waits, or has executed `limit` instructions; True if only that
    stopped it."""
    at = _Progress(core.pc, -engine.scalars[core.index])
    try:
        goes_on = _execute(engine, core, limit, at)
    except BaseException as fault:
        at.counted = min(at.counted + 1, at.count)  # what did not happen takes no time
        if isinstance(fault, OpFault | ScalarFault):
            raise engine.trap(at.inst, fault) from fault
        raise
    finally:
        engine.executed += at.count
        engine.issued += at.count
        engine.scalars[core.index] = at.count - at.counted
        core.pc = at.pc
    if at.pc < 0 and not core.queues:
        core.halted = True
    return goes_on


def _execute(engine: Host, core: Core, limit: int, at: _Progress) -> bool:  # noqa: C901 - hot loop
    insts, slots, bounds = engine.insts, core.slots, core.bounds
    scalar, vector, branch, execute = Kind.SCALAR, Kind.VECTOR, Kind.BRANCH, Kind.EXEC
    queues, timing, batches = core.queues, engine.timing, engine.batches
    heads = batches.known if batches is not None else {}
    issue: Any = engine.issuers[core.index]
    quick = not any(c.queues for c in engine.machine.cores)  # and so it stays: nobody else moves
    pc, count, counted, inst = at.pc, at.count, at.counted, at.inst
    try:
        while pc >= 0 and count < limit:
            inst = insts[pc]
            kind = inst.kind
            count += 1
            if kind is execute:
                cache = bounds[pc]
                bound = cache.get(inst.getter(slots)) if cache is not None else None
                if bound is None:
                    bound = engine.bind(core, inst)
                if issue is not None:
                    step = bound.cost or timing.prepare(core, inst, bound)  # type: ignore[union-attr]
                    issue(step, count - counted - 1)
                    counted = count
                pc += 1
                guard = bound.guard
                if not queues and (guard is None or (quick and bound.at_once and guard())):
                    bound.commit()
                elif not engine.pace.issue(engine, core, inst, bound):
                    return False
            elif kind is scalar:
                inst.run(slots)
                pc += 1
            elif kind is branch:
                before, pc = pc, inst.run(slots)
                if 0 <= pc <= before and heads.get(pc, batches) is not None and not queues:
                    done, scalars = batches.run(core, pc, slots, limit - count)  # type: ignore[union-attr]
                    count += done
                    counted += done - scalars
            elif kind is vector:
                inst.run(core)
                counted += 1
                pc += 1
            else:
                pc, counted = _other(engine, core, inst, count, counted)
        return pc >= 0
    finally:
        at.pc, at.count, at.counted, at.inst = pc, count, counted, inst


def _other(engine: Host, core: Core, inst: Any, count: int, counted: int) -> tuple[int, int]:
    """Execute the head of a vector region, or what the scalar unit does to the core itself. Returns
    the next pc, and `count` without scalars that no issue has told of."""
    timing, pc = engine.timing, inst.pc
    issue: Any = engine.issuers[core.index]
    if inst.kind is Kind.REGION:
        if timing is not None:
            issue(timing.region(core, inst), count - counted - 1)
            counted = count
        return engine.enter(core, inst), counted
    inst.run(core)
    if timing is None or pc in timing.ends:
        return pc + 1, count
    if pc in timing.timed:
        issue(timing.action(core, inst), count - counted - 1)
        return pc + 1, count
    return pc + 1, counted + 1


# What a value is while a program executes: the one thing in which runs of a kind differ.
#
# A domain binds instructions to the present values of their operands, and says what happens where a
# value is not known or an instruction cannot be executed. `Numbers` knows all values; `Unknowns`
# (`symbolic.py`) places and scalars; `Shapes` (`timed/shapes.py`) what time depends on.


class Numbers:
    """Values are numbers."""

    has_regions = True
    """The instructions of vector regions are executed; else a region is one unit."""
    has_contents = True
    """What memory holds is known."""
    counted = 0
    """Executions whose values were looked at."""
    is_unsure = False
    """Some of these were not the ones of the run."""

    def bind(self, engine: Host, core: Core, inst: Inst) -> Bound:
        """Return an instruction bound to the present values of its operands."""
        binding = engine.binding(core, inst, engine.values_of(core, inst))
        return Bound(self.watched(binding, inst.semantics(binding)), binding)

    def watched(self, binding: Binding, commit: Commit) -> Commit:
        """Return an effect with what is looked at before it."""
        return commit

    def is_placed(self, inst: Inst, operands: tuple[Any, ...]) -> bool:
        """True if the window of a transfer is at a known place of global memory."""
        return True

    def unbound(self, engine: Host, inst: Inst, need: NeedsValue) -> NoReturn:
        """An instruction cannot be bound without a value that is not known."""
        raise need

    def missing(self, engine: Host, core: Core, inst: Inst, need: NeedsValue) -> int:
        """An instruction looked at a value that is not known; return the next pc."""
        raise need

    def fault(self, engine: Host, core: Core, inst: Inst, fault: Fault) -> int:
        """An instruction cannot be executed; return the next pc. Raises the Trap that says why."""
        raise engine.trap(inst, fault) from fault

    def released(self, engine: Host, waiting: list[Core]) -> Core | None:
        """Return a core that goes on where none can by itself; None if there is none."""
        return None

    def execute(self, engine: Host, core: Core, limit: int) -> bool:
        """Execute a core until it ends, waits, or has executed `limit` instructions; True if only
        that stopped it."""
        return execute(engine, core, limit)

    def stop(self) -> None:
        """The run has ended."""


# What looks on while an engine executes, and the methods it may have.


class Observer(Protocol):
    """Looks on; every method is optional, and an engine without observers pays nothing for them."""

    def on_start(self, engine: Host) -> None:
        """The engine is whole; nothing has been executed."""

    def on_issue(self, core: Core, inst: Inst, bound: Bound | None) -> None:
        """The scalar unit has reached an instruction."""

    def on_commit(self, core: Core, inst: Inst, bound: Bound | None) -> None:
        """An instruction has taken effect."""


class Monitor(Protocol):
    """Watches operations take effect; it wraps the effect of each new binding."""

    def bind(self, core: Core, inst: Inst, bound: Bound) -> None:
        """A binding was made."""

    def issue(self, core: Core, inst: Inst, bound: Bound) -> None:
        """An operation is issued that waits, or is after one that waits."""

    def enter_later(self, core: Core, inst: Inst) -> None:
        """A vector region is issued to a pipe that waits."""

    def release(self) -> None:
        """The run is over: let go of what was noted."""


class Timing(Protocol):
    """A timing model that is told of instructions in the order of their issue. `timed` are the
    actions of the scalar unit that take time of their own; `ends` is where vector regions end,
    whose scalar instructions are part of their cost."""

    timed: frozenset[int]
    ends: frozenset[int]

    def issuer(self, core: Core) -> Callable[[Any, int], None]:
        """Return the function of (step, scalar instructions before it) that issues on a core."""
        ...

    def prepare(self, core: Core, inst: Inst, bound: Any) -> Any:
        """Return the step of an instruction with its operands."""

    def region(self, core: Core, inst: Inst) -> Any:
        """Return the step of a vector region on the present values of a core."""

    def action(self, core: Core, inst: Inst) -> Any:
        """Return the step of an operation that the scalar unit executes itself."""

    def looked(self) -> None:
        """The run goes on for long: look at how many records there are."""

    def ended(self) -> None:
        """Every core has come to its end."""

    def settle(self) -> None:
        """The run is over, or stops."""

    def save(self) -> Any:
        """Return the state in time, for `restore`."""

    def restore(self, state: Any, *, forget: bool = False) -> None:
        """Go to another state of this run; `forget` what came after it."""


Listener = Callable[[Core, Inst, Bound | Region | None], None]


def listeners(observers: Sequence[Any], name: str) -> tuple[Listener, ...]:
    """Return the methods of a name that observers have."""
    return tuple(getattr(o, name) for o in observers if hasattr(o, name))


class Reports:
    """Reports to a sink, with places in the text of a program."""

    def __init__(self, resolved: ResolvedModule, sink: Sink) -> None:
        self.resolved = resolved
        self.sink = sink
        self.reported: set[tuple[int, str]] = set()

    def report(self, op: Operation, code: str, message: str, help: str | None = None) -> None:
        """Report a finding at a scalar operation, once for each place and code."""
        key = (op.start, code)
        if key in self.reported:
            return
        self.reported.add(key)
        span = Span(self.resolved.module.source, op.start, op.name_end)
        self.sink.report(code, f"'{op.name}' {message}", span, help=help)

    def trap(self, inst: Inst | None, fault: OpFault | ScalarFault) -> Trap:
        """Report a fault, and return the trap that says where the program cannot go on."""
        self.sink.emit(self.finding(inst, fault))
        return Trap(
            list(self.sink),
            pc=inst.pc if inst else None,
            pipe=inst.pipe if inst else None,
        )

    def finding(self, inst: Inst | None, fault: OpFault | ScalarFault) -> Diagnostic:
        """Return what there is to say of an instruction that cannot be executed."""
        op = inst.op if inst is not None else None
        span = Span(self.resolved.module.source, op.start, op.name_end) if op is not None else None
        if isinstance(fault, OpFault):
            if fault.at is not None and span is not None:
                more = (Label(span, f"in '{op.name}'"),) if op is not None else ()
                span = fault.at.span(self.resolved.module.source)
                return finding(fault.code, fault.message, span, more=more, **fault.details)
            return finding(fault.code, fault.message, span, **fault.details)
        return finding("PTO6007", f"'{op.name if op else '?'}': {fault}", span)


# -- binding ---------------------------------------------------------------------------------------


MAX_BOUND = 256
"""Bindings kept for an instruction; a loop that never repeats its operands must not grow without
end."""

MAX_TRANSFERS = 4096
"""Transfers of a core that are kept for windows at other places."""


class Binder(Reports):
    """Binds the instructions of a program on a machine."""

    def __init__(
        self,
        program: DecodedProgram,
        resolved: ResolvedModule,
        machine: Machine,
        profile: Profile,
        sink: Sink,
        domain: Numbers,
    ) -> None:
        super().__init__(resolved, sink)
        self.program = program
        self.insts = list(program.insts)
        """What is executed: the program's, or watched copies of them."""
        self.domain = domain
        self.machine = machine
        self.profile = profile
        self.monitor: Monitor | None = None
        self.prints: list[str] = []
        for core in machine.cores:
            core.bounds = [None] * len(program.insts)

    def bound(self, core: Core, inst: Inst) -> Bound:
        """Return an instruction bound to the present values of its operands."""
        cache = core.bounds[inst.pc]
        found = cache.get(inst.getter(core.slots)) if cache is not None else None
        return found if found is not None else self.bind(core, inst)

    def bind(self, core: Core, inst: Inst) -> Bound:
        """Bind an instruction to the present values of its operands, and keep the binding."""
        try:
            return self._bind(core, inst)
        except NeedsValue as need:
            self.domain.unbound(self, inst, need)  # type: ignore[arg-type]  # an engine

    def _bind(self, core: Core, inst: Inst) -> Bound:
        operands = inst.getter(core.slots)
        bound = self._elsewhere(core, inst, operands) if inst.window is not None else None
        keeps = True
        if bound is None:
            bound = self.domain.bind(self, core, inst)  # type: ignore[arg-type]  # an engine
            keeps = not has_zero(bound.binding)
            if bound.binding.moved is not None and inst.window is not None and keeps:
                key, place = _without_place(inst, operands), operands[inst.window].offset
                _put(core.transfers, key, (bound, place), MAX_TRANSFERS)
        if self.monitor is not None:
            self.monitor.bind(core, inst, bound)
        if keeps:
            cache = core.bounds[inst.pc]
            if cache is None:
                cache = core.bounds[inst.pc] = {}
            _put(cache, operands, bound, MAX_BOUND)
        return bound

    def _elsewhere(self, core: Core, inst: Inst, operands: tuple[Any, ...]) -> Bound | None:
        """Return a transfer that was bound before with its window at another place."""
        if operands[inst.window] is None:  # type: ignore[index]
            return None  # a view that only this operation gives a place, or that has none
        known = core.transfers.get(_without_place(inst, operands))
        if known is None or not self.domain.is_placed(inst, operands):
            return None
        first, place = known
        view: GmView = operands[inst.window]  # type: ignore[index]
        commit = first.binding.moved(view.offset)
        distance = (view.offset - place) * view.spec.dtype.bits >> 3
        return Moved(commit, first, view, distance) if commit is not None else None

    def values_of(self, core: Core, inst: Inst) -> dict[str, Any]:
        """Return the present values of an instruction's operands."""
        slots = core.slots
        return {
            name: tuple(slots[s] for s in slot) if isinstance(slot, tuple) else slots[slot]
            for name, slot in inst.operands
        }

    def binding(self, core: Core, inst: Inst, values: Mapping[str, Any]) -> Binding:
        """Return an operation with values of its operands; nothing is checked yet."""
        binding = Binding(
            inst.operation,
            values,
            inst.attrs,
            core,
            self.machine,
            self.profile,
            self.resolved.module.source,
        )
        binding.prints = self.prints
        binding.emit = self.sink.emit
        binding.slots = self.program.slots
        return binding


def _put(cache: dict[Any, Any], key: Any, item: Any, most: int) -> None:
    if len(cache) >= most:
        cache.clear()
    cache[key] = item


def _without_place(inst: Inst, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands of a transfer without the place of its window in the buffer."""
    at: int = inst.window  # type: ignore[assignment]
    spec, number, _ = operands[at]
    return (inst.pc, spec, number, *operands[:at], *operands[at + 1 :])
