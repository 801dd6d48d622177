"""Instructions bound to the operands of one execution: what pipes queue and execute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptosim.semantics.binding import Binding


class Bound:
    """An instruction with the operands of one execution: its effect, the guard that must hold first
    (None: always), and what it was made of."""

    __slots__ = ("at_issue", "binding", "commit", "cost", "guard")

    def __init__(self, commit: Callable[[], object], binding: Binding) -> None:
        self.commit = commit
        self.binding = binding
        self.guard = binding.guard
        self.at_issue = binding.at_issue
        self.cost: Any = None  # for the timing model


class Region:
    """A vector region whose pipe waits: it executes as a whole when the pipe gets to it, on the
    values that it saw when it was issued. Stands in a queue in the place of a binding."""

    __slots__ = ("commit", "cost", "guard")

    def __init__(self, commit: Callable[[], object]) -> None:
        self.commit = commit
        self.guard = None
        self.cost: Any = None
