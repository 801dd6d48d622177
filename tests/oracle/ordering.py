"""Which executed operations are ordered, by a graph: slow, and independent of the vector clocks.

Every operation of every core is a node. What must be done before it may begin is a set of nodes,
kept as a whole number with one bit for each. Pipes are walked one operation at a time until nothing
moves: a wait goes on when the set it belongs to has been done.

The rules (PTO ISA documentation, events and pipes): a pipe begins an operation behind the one
before it, on the A2/A3 vector pipe without waiting for its end; the scalar unit issues in order and
goes on behind its own waits, its loads and barriers of all pipes; a flag fires when everything that
its pipe was given before is done."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    """An executed operation: its pipe, and what it synchronises (`kind` with pipes and number)."""

    pipe: str
    sync: tuple[Any, ...] | None = None

    @property
    def lane(self) -> str:
        """The pipe in whose order it stands: a barrier of one pipe stands on that pipe."""
        if self.sync is not None and self.sync[0] == "barrier":
            return "S" if self.sync[1] == "ALL" else self.sync[1]
        return self.pipe


class Ordering:
    """The order of the events of one core; `before[j]` has bit i if i is done when j begins."""

    def __init__(self, events: Sequence[Event], target: str) -> None:
        self.events = events
        self.in_order = {e.lane: not (target == "a2a3" and e.lane == "V") for e in events}
        self.before = [0] * len(events)
        self.done = [0] * len(events)
        self.stuck = False
        self._lanes: dict[str, deque[int]] = {}
        self._given: dict[int, int] = {}  # what an operation knew when it was issued
        self._known: dict[str, int] = dict.fromkeys(self.in_order, 0)
        self._issued: dict[str, int] = dict.fromkeys(self.in_order, 0)
        self._sets: dict[tuple[Any, ...], deque[int]] = {}
        self._scalar = 0
        self._walk()

    def is_ordered(self, first: int, second: int) -> bool:
        """True if the first event is done when the second begins."""
        return bool(self.before[second] >> first & 1)

    def _walk(self) -> None:
        """Issue in order; an operation of the scalar unit that cannot go on holds up all issue."""
        for number, event in enumerate(self.events):
            lane = event.lane
            self._given[number] = self._scalar
            self._lanes.setdefault(lane, deque()).append(number)
            self._move()
            if lane == "S" and self._lanes[lane]:
                self.stuck = True
                return
        self.stuck = any(self._lanes.values())

    def _move(self) -> None:
        moved = True
        while moved:
            moved = False
            for lane, queue in self._lanes.items():
                while queue and self._is_ready(queue[0]):
                    self._finish(lane, queue.popleft())
                    moved = True

    def _is_ready(self, number: int) -> bool:
        sync = self.events[number].sync
        if sync is None:
            return True
        if sync[0] == "wait":
            return sync[1] == sync[2] or bool(self._sets.get(sync[1:]))
        if sync == ("barrier", "ALL"):
            return not any(q for lane, q in self._lanes.items() if lane != "S")
        return True

    def _finish(self, lane: str, number: int) -> None:
        sync = self.events[number].sync
        before = start = self._given[number] | self._known[lane]
        own = 1 << number
        if sync is not None and sync[0] in ("set", "barrier"):
            before |= self._issued[lane]
        if sync == ("barrier", "ALL"):
            for other in self._issued.values():
                before |= other
        if sync is not None and sync[0] == "wait" and sync[1] != sync[2]:
            before |= self.done[self._sets[sync[1:]].popleft()]
        self.before[number] = before
        self.done[number] = before | own
        if sync is not None and sync[0] == "set":
            self._sets.setdefault(sync[1:], deque()).append(number)
        self._issued[lane] |= self.done[number]
        orders = sync is not None and sync[0] in ("wait", "barrier")
        self._known[lane] |= self.done[number] if orders or self.in_order[lane] else start
        if lane == "S" and (orders or sync is None):
            self._scalar |= self.done[number]


@dataclass(frozen=True)
class Access:
    """The bytes that an event reads and writes, by memory, as whole numbers with a bit a byte."""

    reads: dict[Any, int]
    writes: dict[Any, int]
    is_atomic: bool = False


def conflicts(events: Sequence[Event], accesses: Sequence[Access], target: str) -> list[tuple]:
    """Return the pairs of events that must be ordered: one of them writes what the other touches.

    Within a pipe a read is done before a later write begins, on every target."""
    found = []
    for second, late in enumerate(accesses):
        for first in range(second):
            early = accesses[first]
            if not (early.writes or late.writes):
                continue
            write_write = _meets(early.writes, late.writes)
            if write_write and early.is_atomic and late.is_atomic:
                write_write = False
            read_late = _meets(early.writes, late.reads)
            same = events[first].pipe == events[second].pipe
            write_late = not same and _meets(early.reads, late.writes)
            if write_write or read_late or write_late:
                found.append((first, second))
    return found


def _meets(one: dict[Any, int], two: dict[Any, int]) -> bool:
    return any(one[where] & two[where] for where in one.keys() & two.keys())
