"""What an operation orders, as its binding says it for the timing model, the race checks and
reports: flags, barriers, buffer tokens, events between cores, FIFOs and signals in memory.

`kind` is the word for it in reports and JSON; the text is what an operation that waits there waits
for."""

from __future__ import annotations

from typing import NamedTuple

from ptosim.machine.fifo import FifoKey


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
    """Sets signals in a buffer of global memory."""

    buffer: str
    kind = "notify"


class Signals(NamedTuple):
    """Waits for, or looks at, signals in a buffer of global memory."""

    buffer: str
    kind = "signals"

    def __str__(self) -> str:
        return f"signals of {self.buffer}"


Sync = (
    SetFlag | WaitFlag | Barrier | GetToken | ReleaseToken | CrossSet | CrossWait | FifoUse
    | Notify | Signals
)  # fmt: skip
