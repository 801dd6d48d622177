"""From instructions and the present values of their operands to bindings, which are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ptosim.engine.core.bound import Bound, DecodedProgram, Inst, Moved, Region, has_zero
from ptosim.engine.core.execute import Numbers
from ptosim.engine.core.runners import Host
from ptosim.ground.diagnostics.model import Diagnostic, Label, Sink, Trap, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.isa.dates import Profile
from ptosim.ground.source import Span
from ptosim.machine.core import Core, Machine
from ptosim.machine.unknown import NeedsValue
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import Binding, OpFault
from ptosim.ops.scalar.numbers import ScalarFault

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
