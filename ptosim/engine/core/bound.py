"""Instructions bound to the operands of one execution: what pipes queue and execute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptosim.ground.ir.core import Operation
from ptosim.ground.records import dataclass
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import Binding


class Bound:
    """An instruction with the operands of one execution: its effect, the guard that must hold first
    (None: always), and what it was made of."""

    __slots__ = ("access", "at_issue", "at_once", "binding", "commit", "cost", "guard")

    def __init__(self, commit: Callable[[], object], binding: Binding) -> None:
        self.commit = commit
        self.binding = binding
        self.guard = binding.guard
        self.at_issue = binding.at_issue
        # True for an operation that waits, of which nobody need know before its event has come.
        self.at_once = binding.at_issue is None and not (binding.signals and binding.awaits)
        self.cost: Any = None  # for the timing model
        self.access: Any = None  # for the sanitizers


class Moved(Bound):
    """A transfer that was bound before (`first`), with its window of global memory at another
    place, `distance` bytes away."""

    __slots__ = ("_binding", "distance", "first", "view")

    def __init__(
        self, commit: Callable[[], object], first: Bound, view: GmView, distance: int
    ) -> None:
        self.commit = commit
        self.first = first
        self.view = view
        self.distance = distance
        self.guard = self.at_issue = self.cost = self._binding = None
        self.at_once = True

    @property
    def binding(self) -> Binding:  # type: ignore[override]
        """What it was made of; made when somebody asks."""
        if self._binding is None:
            self._binding = self.first.binding.elsewhere(self.view)
        return self._binding


@dataclass(slots=True, eq=False)
class Region:
    """A vector region whose pipe waits: it executes as a whole when the pipe gets to it, on the
    values that it saw when it was issued. Stands in a queue in the place of a binding."""

    commit: Callable[[], object]
    guard: None = None
    cost: Any = None


def has_zero(binding: Binding) -> bool:
    """True if a scalar that the text does not fix is 0.0 or -0.0, which are equal as keys."""
    return any(
        value.__class__ is float and value == 0 and _operand(binding.op, name).const is None
        for name, value in binding.values.items()
    )


def _operand(op: Operation, name: str) -> Any:
    """The operand of a name, or `clause.name`."""
    clause, dot, inner = name.partition(".")
    return op.bound[clause][inner] if dot else op.bound[name]
