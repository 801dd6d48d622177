"""What an engine says: findings of scalar operations, and the trap where a program cannot go on."""

from __future__ import annotations

from ptosim.engine.core.records import Inst
from ptosim.ground.diagnostics.model import Diagnostic, Label, Sink, finding
from ptosim.ground.errors import Trap
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.source import Span
from ptosim.ops.base.binding import OpFault
from ptosim.ops.scalar.numbers import ScalarFault


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
