"""What is issued: an operation with its cost and the events that it waits for and gives."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from ptosim.timing.cost import Cost

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


class Step:
    """An operation as the pipes see it; equal operations of a core share one object.

    `is_work`: it occupies its pipe; `drains`: everything before on the pipe (the scalar unit: on
    every pipe) is done first; `takes` and `gives` are events; `carry` is what a given event takes
    to arrive; `shared` is the demand of a transfer that competes for bandwidth, (pool,
    bytes/cycle). `site` says to which instruction of the program it belongs.
    """

    __slots__ = (
        "base", "busy", "carry", "cost", "drains", "flag", "gives", "is_plain", "is_work", "issue",
        "latency", "pipe",
        "ranges", "reach", "shared", "site", "takes", "then",
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
        self.ranges: Any = None  # bytes read and written, where data order the program
        self.reach: Any = None  # and who used them

    def at(self, ranges: Any) -> Step:
        """Return the step of executions that use other bytes; it is recorded as this one."""
        step = Step.__new__(Step)
        step.pipe, step.site, step.cost, step.busy = self.pipe, self.site, self.cost, self.busy
        step.latency, step.issue, step.carry = self.latency, self.issue, self.carry
        step.takes, step.gives, step.drains = self.takes, self.gives, self.drains
        step.is_work, step.is_plain, step.flag = self.is_work, self.is_plain, self.flag
        step.shared, step.base, step.then = self.shared, self.base, self.then
        step.ranges, step.reach = ranges, None
        return step

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
