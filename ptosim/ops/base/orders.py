"""What an operation orders, as its binding says it for the timing model, the race checks and
reports: flags, barriers, buffer tokens, events between cores, FIFOs and signals in memory.

`kind` is the word for it in reports and JSON; the text is what an operation that waits there waits
for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


_SENDERS = {"v": "cube", "to vector": "cube", "c": "vector", "to cube": "vector"}
"""Who gives an event of each kind."""


def who_is_missing(
    wait: Any, awaits: Sequence[tuple[Any, ...]], counters: Mapping[Any, int]
) -> str | None:
    """Return which cores of the cluster have to signal for a wait to go on, and how, by the events
    that it waits for and those that there are; None for a wait that does not name them."""
    if not isinstance(wait, CrossWait):
        return None
    keys = [k[1] for k in awaits if len(k) == 2 and not counters.get(k[1])]
    if not keys or keys[0][0] not in _SENDERS:
        return None
    number, towards = wait.event, keys[0][0]
    if _SENDERS[towards] == "cube":
        number = keys[0][1] + 16 * keys[0][2] if towards == "to vector" else number
        return f"the cube core has to signal: `pto.sync.set <PIPE_FIX>, {number}` there"
    lanes = [key[2] if towards == "c" else key[1] // 16 for key in keys]
    set_ = f"`pto.sync.set <PIPE_MTE3>, {keys[0][1] % 16}`"
    if towards == "c" and len(lanes) == 1 and len(awaits) > 1:
        text = "the cube core waits for both, vector core {} never signals: {} where both come by"
        return text.format(lanes[0], set_)
    who = "both vector cores have" if len(lanes) > 1 else f"vector core {lanes[0]} has"
    return f"{who} to signal: {set_} there"


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
