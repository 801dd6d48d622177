"""What looks on while an engine executes, and the methods it may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ptosim.engine.core.bound import Bound, Region
from ptosim.engine.core.host import Host
from ptosim.engine.core.records import Inst
from ptosim.machine.core import Core


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
