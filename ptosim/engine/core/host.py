"""What the parts of a run may ask of the engine that they are given to."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ptosim.engine.core.bound import Bound, DecodedProgram, Inst
from ptosim.ground import progress
from ptosim.ground.diagnostics.model import Diagnostic, Sink, Trap
from ptosim.ground.errors import BudgetError
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.limits import current
from ptosim.machine.core import Core, Machine
from ptosim.ops.base.binding import Binding, OpFault
from ptosim.ops.scalar.numbers import ScalarFault

# When an engine looks at its limits: after slices of instructions that take a fraction of a second
# each, so that an instruction costs nothing for it.

UNLIMITED = sys.maxsize
FIRST = 64
"""Instructions of the first slice; one may take a tenth of a second."""
UNTIMED = 1 << 18
"""The same where only the number of instructions is limited."""
LONGEST = 1 << 20
SECONDS = 0.05
"""What a slice should take."""


class Meter:
    """The limits of one run of an engine. `due` is the number of executed instructions at which to
    look again."""

    __slots__ = ("_budget", "_clock", "_most", "_size", "_watch", "due")

    def __init__(self, limit: int = UNLIMITED) -> None:
        self._budget = current()
        own = self._budget.instructions
        self._most = limit if own is None else min(limit, own)
        self._watch = progress.current()
        is_looked_at = self._budget.is_limited or self._watch is not None
        self._size = FIRST if is_looked_at else UNTIMED
        if self._watch is not None:
            self._watch.begin()
        self._clock = time.monotonic()
        self.due = min(self._most, self._size)

    def look(self, executed: int, place: Callable[[], str]) -> None:
        """Raise LimitError if a limit is reached, with the place where the program is; else say
        when to look again."""
        if executed >= self._most:
            where = place()
            raise BudgetError(
                f"PTO0014: the program has not ended after {self._most:,} instructions"
                f"{f'; it stopped at {where}' if where else ''}",
                help="look for a loop that does not end, or raise --max-instructions",
            )
        self._budget.look(place)
        if self._watch is not None:
            self._watch.tell(executed, place)
        now = time.monotonic()
        took, self._clock = now - self._clock, now
        if took < SECONDS / 2:
            self._size = min(self._size * 2, LONGEST)
        elif took > SECONDS * 2:
            self._size = max(self._size // 4, 1)
        self.due = min(self._most, executed + self._size)


Fault = OpFault | ScalarFault


class Host(Protocol):
    """The engine as its domain, its pace and its timing model see it."""

    program: DecodedProgram
    resolved: ResolvedModule
    machine: Machine
    sink: Sink
    domain: Any
    pace: Any
    timing: Any
    batches: Any
    insts: list[Inst]
    """What is executed: the program's instructions, or watched copies of them."""
    in_order: bool
    is_observed: bool
    executed: int
    left_out: int
    issued: int
    meter: Meter
    issuers: list[Any]
    """What issues in time, by core."""
    scalars: list[int]
    """Operations of the scalar unit since the last issue, by core."""
    reported: set[tuple[int, str]]
    """Findings of instructions that were told: the place and the code."""

    # -- binding -----------------------------------------------------------------------------------

    def bind(self, core: Core, inst: Inst) -> Bound:
        """Bind an instruction to the present values of its operands, and keep the binding."""
        ...

    def binding(self, core: Core, inst: Inst, values: Mapping[str, Any]) -> Binding:
        """Return an operation with values of its operands; nothing is checked yet."""
        ...

    def values_of(self, core: Core, inst: Inst) -> dict[str, Any]:
        """Return the present values of an instruction's operands."""
        ...

    # -- execution ---------------------------------------------------------------------------------

    def execute(self, core: Core, limit: int = ...) -> bool:
        """Execute a core until it ends, waits, or has executed `limit` instructions."""
        ...

    def step(self, core: Core) -> Inst | None:
        """Execute one instruction of a core."""
        ...

    def enter(self, core: Core, inst: Inst) -> int:
        """Return where the scalar unit goes on at the head of a vector region."""
        ...

    def look(self, core: Core) -> None:
        """Look at the limits."""
        ...

    def resume(self, core: Core) -> bool:
        """Let a stalled scalar unit go on if its guard holds."""
        ...

    def go_on(self, core: Core) -> None:
        """Commit the operation that a scalar unit waits with."""
        ...

    # -- effects -----------------------------------------------------------------------------------

    def issuing(self, core: Core, inst: Inst, bound: Bound) -> None:
        """An operation is issued."""
        ...

    def commit(self, core: Core, inst: Inst, bound: Bound) -> None:
        """An operation takes effect, and whatever waited for it moves."""
        ...

    def effect(self, core: Core, inst: Inst, bound: Bound) -> None:
        """An operation takes effect."""
        ...

    def issue_by(self, issuers: list[Any] | None) -> None:
        """Issue in time through other functions; None: those of the timing model."""
        ...

    # -- what is said ------------------------------------------------------------------------------

    def trap(self, inst: Inst | None, fault: Fault) -> Trap:
        """Report a fault, and return the trap that says where the program cannot go on."""
        ...

    def finding(self, inst: Inst | None, fault: Fault) -> Diagnostic:
        """Return what there is to say of an instruction that cannot be executed."""
        ...
