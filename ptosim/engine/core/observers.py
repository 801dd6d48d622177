"""What looks on while an engine executes, and the methods it may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ptosim.engine.core.bound import Bound, Region
from ptosim.engine.core.records import Inst
from ptosim.machine.core import Core

if TYPE_CHECKING:
    from ptosim.engine.core.engine import Engine


class Observer(Protocol):
    """Looks on; every method is optional, and an engine without observers pays nothing for them."""

    def on_start(self, engine: Engine) -> None:
        """The engine is whole; nothing has been executed."""
        ...

    def on_issue(self, core: Core, inst: Inst, bound: Bound | None) -> None:
        """The scalar unit has reached an instruction."""
        ...

    def on_commit(self, core: Core, inst: Inst, bound: Bound | None) -> None:
        """An instruction has taken effect."""
        ...


class Monitor(Protocol):
    """Watches operations take effect; it wraps the effect of each new binding."""

    def bind(self, core: Core, inst: Inst, bound: Bound) -> None:
        """A binding was made."""
        ...

    def issue(self, core: Core, inst: Inst, bound: Bound) -> None:
        """An operation is issued that waits, or stands behind one that waits."""
        ...

    def enter_later(self, core: Core, inst: Inst) -> None:
        """A vector region is issued to a pipe that waits."""
        ...


Listener = Callable[[Core, Inst, Bound | Region | None], None]


def listeners(observers: Sequence[Any], name: str) -> tuple[Listener, ...]:
    """Return the methods of a name that observers have."""
    return tuple(getattr(o, name) for o in observers if hasattr(o, name))
