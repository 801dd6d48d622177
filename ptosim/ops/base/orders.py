"""What an operation orders, as its binding says it for the timing model, the race checks and
reports: flags, barriers, buffer tokens, events between cores, FIFOs and signals in memory.

`kind` is the word for it in reports and JSON; the text is what an operation that waits there waits
for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptosim.ground.records import NamedTuple
from ptosim.machine.fifo import FifoKey
from ptosim.machine.numbers.lanes import COMPARISONS

STORES = ("MTE3", "FIX")
MOVES = ("MTE2", *STORES)
"""Pipes that store to global memory, and all that move data to or from it."""


class SetFlag(NamedTuple):
    """Signals an event between two pipes of its core."""

    source: str
    target: str
    event: int
    kind = "set"


class WaitFlag(NamedTuple):
    """Waits for an event between two pipes of its core."""

    source: str
    target: str
    event: int
    kind = "wait"

    def __str__(self) -> str:
        return f"{self.source} -> {self.target} EVENT_ID{self.event}"


class Barrier(NamedTuple):
    """Waits until a pipe, or every pipe of its core (ALL), has finished what was issued before."""

    pipe: str
    kind = "barrier"

    def __str__(self) -> str:
        return "its pipes to finish" if self.pipe == "ALL" else f"pipe {self.pipe} to finish"


class GetToken(NamedTuple):
    """Acquires a buffer token."""

    pipe: str
    number: int
    kind = "get"

    def __str__(self) -> str:
        return f"buffer token {self.number}"


class ReleaseToken(NamedTuple):
    """Releases a buffer token."""

    pipe: str
    number: int
    kind = "release"


class CrossSet(NamedTuple):
    """Signals an event to other cores."""

    pipe: str
    event: int
    kind = "cross_set"


class CrossWait(NamedTuple):
    """Waits for an event of other cores."""

    pipe: str
    event: int
    kind = "cross_wait"

    def __str__(self) -> str:
        return f"the cross-core event {self.event}"


class FifoUse(NamedTuple):
    """Uses one direction (c2v, v2c) of a FIFO between the cores of a cluster."""

    key: FifoKey
    direction: str
    kind = ""


class Alloc(FifoUse):
    """Takes a free slot in global memory, to be filled."""

    __slots__ = ()
    kind = "alloc"

    def __str__(self) -> str:
        return f"a free slot in its FIFO ({self.direction})"


class Push(FifoUse):
    """Puts a tile into a slot."""

    __slots__ = ()
    kind = "push"

    def __str__(self) -> str:
        return f"a free slot in its FIFO ({self.direction})"


class Pop(FifoUse):
    """Takes the oldest tile."""

    __slots__ = ()
    kind = "pop"

    def __str__(self) -> str:
        return f"a tile in its FIFO ({self.direction})"


class Free(FifoUse):
    """Gives the slot of the oldest popped tile back."""

    __slots__ = ()
    kind = "free"


class Notify(NamedTuple):
    """Sets signals in a buffer of global memory, or adds to them, after the stores of its core:
    `cells` are the first bytes of these elements."""

    buffer: str
    number: int
    cells: tuple[int, ...]
    adds: bool
    kind = "notify"

    @property
    def pipes(self) -> tuple[str, ...]:
        """Return the pipes whose stores it comes after."""
        return STORES

    def __str__(self) -> str:
        return "the stores before it"


class Signals(NamedTuple):
    """Waits until signals in a buffer of global memory compare true with a value, or looks whether
    they do."""

    buffer: str
    number: int
    cells: tuple[int, ...]
    compare: str
    value: int
    kind = "signals"

    @property
    def comparison(self) -> Callable[[Any, Any], Any]:
        """Return the function of a signal, or an array of them, and the value."""
        return COMPARISONS[self.compare.lower()]

    def __str__(self) -> str:
        return f"signals of {self.buffer} {self.compare.lower()} {self.value}"


class Fence(NamedTuple):
    """Waits until some pipes of its core have finished what was issued before."""

    pipes: tuple[str, ...]
    kind = "fence"

    def __str__(self) -> str:
        return f"{', '.join(self.pipes)} to finish"


Sync = (
    SetFlag | WaitFlag | Barrier | GetToken | ReleaseToken | CrossSet | CrossWait | FifoUse
    | Notify | Signals | Fence
)  # fmt: skip
WITHIN_CORE = (SetFlag, WaitFlag, Barrier, GetToken, ReleaseToken, Fence)
"""What orders the pipes of one core; a barrier that others take part in has signals of its own."""
