"""What a value is while a program executes: the one thing in which runs of a kind differ.

A domain binds instructions to the present values of their operands, and says what happens where a
value is not known or an instruction cannot be executed. `Numbers` knows all values; `Unknowns`
(`symbolic.py`) places and scalars; `Shapes` (`timed/shapes.py`) what time depends on."""

from __future__ import annotations

from typing import Any, NoReturn

from ptosim.engine.core.bound import Bound
from ptosim.engine.core.execute import execute
from ptosim.engine.core.host import Fault, Host
from ptosim.engine.core.records import Inst
from ptosim.machine.core import Core
from ptosim.machine.unknown import NeedsValue


class Numbers:
    """Values are numbers."""

    has_regions = True
    """The instructions of vector regions are executed; else a region is one unit."""
    has_contents = True
    """What memory holds is known."""

    def bind(self, engine: Host, core: Core, inst: Inst) -> Bound:
        """Return an instruction bound to the present values of its operands."""
        binding = engine.binding(core, inst, engine.values_of(core, inst))
        return Bound(inst.semantics(binding), binding)

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
