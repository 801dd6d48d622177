"""What is issued: an operation with its cost and the events that it waits for and gives."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from ptosim.timing.laws.cost import Cost

PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "MTE4", "MTE5", "V2")
PIPE_INDEX = {name: number for number, name in enumerate(PIPES)}
S = 0


class Flag:
    """An event that is given and taken: the times at which it was given and not yet taken, each
    with the core and the record that gave it; and who waits, in order. One that `keeps` is given
    once and can be taken by any number; `credits` are given before anything is issued. One of a
    `group` counts when as many have been given, and then as many times."""

    __slots__ = ("credits", "group", "held", "keeps", "key", "reason", "times", "waiters")

    def __init__(
        self, key: Any, reason: str, *, keeps: bool = False, group: int = 1, credits: int = 0
    ) -> None:
        self.key = key
        self.reason = reason
        self.keeps = keeps
        self.group = group
        self.credits = credits
        self.held: list[tuple[int, int, int]] = []
        self.times: deque[tuple[int, int, int]] = deque()
        self.waiters: deque[tuple[Any, int]] = deque()
        self.reset()

    def reset(self) -> None:
        """Go back to how the event is before anything is issued."""
        self.set([(0, 0, -1)] * self.credits, (), ())

    def saved(self) -> tuple[tuple[Any, ...], ...]:
        """Return what was given and who waits, for `set`."""
        return tuple(self.times), tuple(self.waiters), tuple(self.held)

    def set(self, times: Iterable[Any], waiters: Iterable[Any], held: Iterable[Any]) -> None:
        """Replace what was given, who waits, and what a group has of its number."""
        self.times.clear()
        self.times.extend(times)
        self.waiters.clear()
        self.waiters.extend(waiters)
        self.held[:] = held


Stretch = tuple[Any, int, int, bool]
"""Global memory: who used the buffer, first byte, byte after the last, and whether it is
written."""


class Step:
    """An operation as the pipes see it; equal operations of a core share one object.

    `is_work`: it occupies its pipe; `drains`: everything before on the pipe (the scalar unit: on
    every pipe) is done first; `takes` and `gives` are events; `carry` is what a given event takes
    to arrive; `shared` is the demand of a transfer that competes for bandwidth, (pool,
    bytes/cycle). `site` says to which instruction of the program it belongs.
    """

    __slots__ = (
        "base", "buffer", "busy", "carry", "cost", "drains", "far", "flag", "gives", "is_plain",
        "is_quick", "is_work", "issue", "latency", "pipe", "ranges", "reach", "shared", "site",
        "takes", "then",
    )  # fmt: skip

    def __init__(
        self,
        pipe: int,
        site: Any,
        cost: Cost,
        *,
        issue: int = 1,
        takes: tuple[Flag, ...] = (),
        gives: tuple[Flag, ...] = (),
        drains: bool = False,
        is_work: bool = True,
        carry: int = 0,
        shared: tuple[str, float] | None = None,
    ) -> None:
        self.pipe = pipe
        self.site = site
        self.cost = cost
        self.busy = cost.busy
        self.latency = cost.latency
        self.issue = issue
        self.takes = takes
        self.gives = gives
        self.drains = drains
        self.is_work = is_work
        self.carry = carry
        self.shared = shared
        self.is_plain = is_work and not (takes or gives or drains or shared)
        # The one event of an operation that does nothing else.
        events = (*takes, *gives)
        is_flag = len(events) == 1 and not (is_work or drains)
        self.flag: Flag | None = events[0] if is_flag else None
        self.base: Step = self
        self.then: Step | None = None  # a second step of the same operation
        # Where data order the program: the bytes of the core's memories that it reads and writes,
        # who used them, and global memory (see `Placed`).
        self.ranges: Any = None
        self.reach: Any = None
        self.buffer: Any = None
        self.far: tuple[Stretch, ...] = ()
        self.is_quick = True

    def ordered(self, takes: tuple[Flag, ...], gives: tuple[Flag, ...], *, drains: bool) -> Step:
        """Return the step of one execution with events of its own; it is recorded as this one."""
        step = Step(
            self.pipe,
            self.site,
            self.cost,
            issue=self.issue,
            takes=self.takes + takes,
            gives=self.gives + gives,
            drains=self.drains or drains,
            is_work=self.is_work,
            carry=self.carry,
            shared=self.shared,
        )
        step.base = self.base
        step.then = self.then
        return step

    def __repr__(self) -> str:
        return f"Step({PIPES[self.pipe]}, {self.cost!r})"


class Placed:
    """An execution of a step (`base`) with the global memory that it uses, where data order the
    program: a stretch of a buffer that it reads or `writes`. `is_quick`: nothing else is to be
    looked at."""

    __slots__ = ("base", "buffer", "end", "first", "is_quick", "writes")

    def __init__(self, base: Step, buffer: Any, first: int, end: int, writes: bool) -> None:
        self.base = base
        self.buffer = buffer
        self.first = first
        self.end = end
        self.writes = writes
        self.is_quick = True

    @property
    def far(self) -> tuple[Stretch, ...]:
        """What it uses."""
        return ((self.buffer, self.first, self.end, self.writes),)

    def moved(self, distance: int) -> Placed:
        """Return an execution that uses global memory so many bytes farther on."""
        return Placed(
            self.base, self.buffer, self.first + distance, self.end + distance, self.writes
        )


class Spread:
    """The same with several stretches, or on a pipe that drains."""

    __slots__ = ("base", "buffer", "far", "is_quick")

    def __init__(self, base: Step, far: tuple[Stretch, ...]) -> None:
        self.base = base
        self.far = far
        self.buffer = None
        self.is_quick = False

    def moved(self, distance: int) -> Spread:
        """Return an execution that uses global memory so many bytes farther on."""
        return Spread(
            self.base, tuple((f, a + distance, b + distance, w) for f, a, b, w in self.far)
        )


Issued = Step | Placed | Spread
"""What is issued where data order the program."""
