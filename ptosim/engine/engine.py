"""Runs a decoded program: fetch, execute scalar instructions, bind and commit the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ptosim.diagnostics.model import Diagnostic, Sink, error, warning
from ptosim.engine.decode import static_attributes
from ptosim.engine.records import DecodedProgram, Inst, Kind
from ptosim.errors import Trap
from ptosim.ir.core import Operation
from ptosim.ir.program import ResolvedModule
from ptosim.isa.profiles import Profile
from ptosim.machine.core import Core, Machine, MachineState, restore, snapshot
from ptosim.semantics.binding import Binding, OpFault
from ptosim.semantics.scalar import ScalarFault
from ptosim.source import Span

MAX_BOUND = 256
"""Bindings kept for an instruction; a loop that never repeats its operands must not grow without end."""


class Bound:
    """An instruction with the operands of one execution: its effect, and what it was made of."""

    __slots__ = ("binding", "commit")

    def __init__(self, commit: Any, binding: Binding) -> None:
        self.commit = commit
        self.binding = binding


class Observer(Protocol):
    """Looks on; every method is optional, and an engine without observers pays nothing for them."""

    def on_issue(self, core: Core, inst: Inst, bound: Bound | None) -> None:
        """An instruction is about to take effect."""
        ...

    def on_commit(self, core: Core, inst: Inst, bound: Bound | None) -> None:
        """An instruction has taken effect."""
        ...


class Engine:
    """A program on a machine. `run` executes to the end, `step` one instruction of one core."""

    def __init__(
        self,
        program: DecodedProgram,
        resolved: ResolvedModule,
        machine: Machine,
        profile: Profile,
        sink: Sink,
        observers: Sequence[Any] = (),
    ) -> None:
        self.program = program
        self.resolved = resolved
        self.machine = machine
        self.profile = profile
        self.sink = sink
        self.executed = 0
        self.prints: list[str] = []
        self._on_issue = tuple(o.on_issue for o in observers if hasattr(o, "on_issue"))
        self._on_commit = tuple(o.on_commit for o in observers if hasattr(o, "on_commit"))
        self._attrs: dict[int, dict[str, Any]] = {}
        self._reported: set[tuple[int, str]] = set()
        for core in machine.cores:
            core.bounds = [None] * len(program.insts)

    def run(self) -> None:
        """Execute every core to its end, in order. Raises Trap where the program cannot go on."""
        with np.errstate(all="ignore"):
            for core in self.machine.cores:
                if self._on_issue or self._on_commit:
                    while not core.halted:
                        self.step(core)
                else:
                    self._run_fast(core)

    def _run_fast(self, core: Core) -> None:
        insts, slots, bounds = self.program.insts, core.slots, core.bounds
        scalar, action, branch, execute = Kind.SCALAR, Kind.ACTION, Kind.BRANCH, Kind.EXEC
        pc = core.pc
        count = 0
        inst = None
        try:
            while pc >= 0:
                inst = insts[pc]
                kind = inst.kind
                count += 1
                if kind is execute:
                    cache = bounds[pc]
                    bound = cache.get(inst.getter(slots)) if cache is not None else None  # type: ignore[misc]
                    if bound is None:
                        bound = self.bind(core, inst)
                    bound.commit()
                    pc += 1
                elif kind is scalar:
                    inst.run(slots)  # type: ignore[misc]
                    pc += 1
                elif kind is branch:
                    pc = inst.run(slots)  # type: ignore[misc]
                elif kind is action:
                    inst.run(core)  # type: ignore[misc]
                    pc += 1
                else:
                    pc += 1
        except (OpFault, ScalarFault) as fault:
            core.pc = pc
            raise self._trap(inst, fault) from fault
        finally:
            self.executed += count
        core.pc = pc
        core.halted = True

    def step(self, core: Core) -> Inst | None:
        """Execute one instruction of a core; None if it has halted."""
        if core.halted:
            return None
        inst = self.program.insts[core.pc]
        self.executed += 1
        try:
            self._step(core, inst)
        except (OpFault, ScalarFault) as fault:
            raise self._trap(inst, fault) from fault
        if core.pc < 0:
            core.halted = True
        return inst

    def _step(self, core: Core, inst: Inst) -> None:
        kind = inst.kind
        bound = None
        if kind is Kind.EXEC:
            cache = core.bounds[inst.pc]
            bound = cache.get(inst.getter(core.slots)) if cache is not None else None  # type: ignore[misc]
            if bound is None:
                bound = self.bind(core, inst)
        for listen in self._on_issue:
            listen(core, inst, bound)
        following = inst.pc + 1
        if bound is not None:
            bound.commit()
        elif kind is Kind.SCALAR:
            inst.run(core.slots)  # type: ignore[misc]
        elif kind is Kind.BRANCH:
            following = inst.run(core.slots)  # type: ignore[misc]
        elif kind is Kind.ACTION:
            inst.run(core)  # type: ignore[misc]
        core.pc = following
        for listen in self._on_commit:
            listen(core, inst, bound)

    def bind(self, core: Core, inst: Inst) -> Bound:
        """Bind an instruction to the present values of its operands, and keep the binding."""
        slots = core.slots
        values = {
            name: tuple(slots[s] for s in slot) if isinstance(slot, tuple) else slots[slot]
            for name, slot in inst.operands
        }
        binding = Binding(
            inst.op,  # type: ignore[arg-type]
            values,
            self._attributes(inst),
            core,
            self.machine,
            self.profile,
            self.resolved.module.source,
        )
        binding.prints = self.prints
        binding.emit = self.sink.emit
        bound = Bound(inst.semantics(binding), binding)
        if _has_zero(binding):
            return bound
        cache = core.bounds[inst.pc]
        if cache is None:
            cache = core.bounds[inst.pc] = {}
        elif len(cache) >= MAX_BOUND:
            cache.clear()
        cache[inst.getter(slots)] = bound  # type: ignore[misc]
        return bound

    def _attributes(self, inst: Inst) -> dict[str, Any]:
        attrs = self._attrs.get(inst.pc)
        if attrs is None:
            attrs = self._attrs[inst.pc] = static_attributes(inst.op)  # type: ignore[arg-type]
        return attrs

    # -- state ----------------------------------------------------------------------------------

    def snapshot(self) -> MachineState:
        """Return a copy of all state."""
        return snapshot(self.machine)

    def restore(self, state: MachineState) -> None:
        """Go back to a state of this run."""
        restore(self.machine, state)

    # -- findings -------------------------------------------------------------------------------

    def warn(self, op: Operation, code: str, message: str) -> None:
        """Report a warning of a scalar operation, once for each place and code."""
        key = (op.start, code)
        if key in self._reported:
            return
        self._reported.add(key)
        span = Span(self.resolved.module.source, op.start, op.name_end)
        self.sink.emit(warning(code, f"'{op.name}' {message}", span))

    def _trap(self, inst: Inst | None, fault: OpFault | ScalarFault) -> Trap:
        finding = self._finding(inst, fault)
        self.sink.emit(finding)
        return Trap(list(self.sink), pc=inst.pc if inst else None)

    def _finding(self, inst: Inst | None, fault: OpFault | ScalarFault) -> Diagnostic:
        op = inst.op if inst is not None else None
        span = Span(self.resolved.module.source, op.start, op.name_end) if op is not None else None
        if isinstance(fault, OpFault):
            return error(fault.code, fault.message, span, **fault.details)
        return error("PTO6007", f"'{op.name if op else '?'}': {fault}", span)


def _has_zero(binding: Binding) -> bool:
    """True if a scalar that the text does not fix is 0.0 or -0.0, which are equal as keys."""
    return any(
        value.__class__ is float and value == 0 and binding.op.bound[name].const is None
        for name, value in binding.values.items()
    )
