"""Which executed operations are ordered, by a graph: slow, and independent of the vector clocks.

Every operation of every core is a node. What must be done before it may begin is a set of nodes,
kept as a whole number with one bit for each. Cores and pipes are walked one operation at a time
until nothing moves: a wait goes on when the set it belongs to has been done.

The rules (PTO ISA documentation, events and pipes): a pipe begins an operation after the one
before it, on the A2/A3 vector pipe without waiting for its end; the scalar unit issues in order and
goes on after its own waits, its loads and barriers of all pipes; a flag, between pipes or between
cores, fires when everything that its pipe was given before is done; so does the data of a FIFO, and
the release of a buffer token, for which the next holder waits; all cores that meet know what each had
done; a notification in memory waits for the stores of its core, on MTE3 and FIX; who waits for a sum
of notifications knows of those without which it is not reached. Slots that come back order nothing here."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    """An executed operation: its core and pipe, what it synchronises (`kind` with pipes and number),
    and the tokens that it gives to other cores and takes from them."""

    pipe: str
    sync: tuple[Any, ...] | None = None
    core: int = 0
    gives: tuple[Any, ...] = ()
    takes: tuple[Any, ...] = ()

    @property
    def words(self) -> tuple[Any, ...]:
        """What it synchronises, the kind first; that of work is empty."""
        return self.sync or ("",)

    @property
    def lane(self) -> tuple[int, str]:
        """The pipe in whose order it is: a barrier of one pipe is on that pipe."""
        if self.sync is not None and self.sync[0] == "barrier":
            return self.core, "S" if self.sync[1] == "ALL" else self.sync[1]
        return self.core, self.pipe

    @property
    def flag(self) -> tuple[Any, ...] | None:
        """The flag inside its core that it sets or waits for; one within a pipe is none."""
        if self.sync is None or self.sync[0] not in ("set", "wait") or self.sync[1] == self.sync[2]:
            return None
        return (self.core, *self.sync[1:])

    @property
    def token(self) -> tuple[Any, ...] | None:
        """The buffer token that it takes or gives back."""
        if self.sync is None or self.sync[0] not in ("get", "release"):
            return None
        return self.core, self.sync[2]

    @property
    def orders(self) -> bool:
        """True for what is no work of its own: flags, barriers, tokens."""
        return self.sync is not None or bool(self.gives or self.takes)


class Ordering:
    """The order of events; `before[j]` has bit i if i is done when j begins."""

    def __init__(
        self,
        events: Sequence[Event],
        target: str,
        certain: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        self.events = events
        self.certain = certain or {}  # wait -> notifications that are done in any case
        lanes = {e.lane for e in events}
        self.in_order = {lane: not (target == "a2a3" and lane[1] == "V") for lane in lanes}
        self.before = [0] * len(events)
        self.done = [0] * len(events)
        self.stuck = False
        self.misused = False  # a token that nobody holds is released
        self._lanes: dict[tuple[int, str], deque[int]] = {lane: deque() for lane in lanes}
        self._given: dict[int, int] = {}  # what an operation knew when it was issued
        self._known: dict[tuple[int, str], int] = dict.fromkeys(lanes, 0)
        self._issued: dict[tuple[int, str], int] = dict.fromkeys(lanes, 0)
        self._sets: dict[tuple[Any, ...], deque[int]] = {}
        self._held: set[tuple[Any, ...]] = set()
        self._released: dict[tuple[Any, ...], int] = {}
        self._arrived: set[int] = set()
        self.seen: dict[int, list[int]] = {}  # wait -> notifications that came before it here
        self._cells: Counter[Any] = Counter()
        self._notified: list[int] = []
        self._scalar = {e.core: 0 for e in events}
        self._walk()

    def is_ordered(self, first: int, second: int) -> bool:
        """True if the first event is done when the second begins."""
        return bool(self.before[second] >> first & 1)

    def _walk(self) -> None:
        """Each core issues in order; an operation of its scalar unit that cannot go on holds up all
        its issue."""
        left: dict[int, deque[int]] = {}
        for number, event in enumerate(self.events):
            left.setdefault(event.core, deque()).append(number)
        moved = True
        while moved:
            moved = self._move()
            for core, numbers in left.items():
                while numbers and not self._lanes.get((core, "S")):
                    number = numbers.popleft()
                    self._given[number] = self._scalar[core]
                    self._lanes[self.events[number].lane].append(number)
                    self._move()
                    moved = True
        self.stuck = any(self._lanes.values()) or any(left.values())

    def _move(self) -> bool:
        any_moved, moved = False, True
        while moved:
            moved = False
            for lane, queue in self._lanes.items():
                while queue and self._is_ready(queue[0]):
                    self._finish(lane, queue.popleft())
                    moved = any_moved = True
        return any_moved

    def _is_ready(self, number: int) -> bool:
        event = self.events[number]
        if event.flag is not None and event.words[0] == "wait":
            return bool(self._sets.get(event.flag))
        if event.token is not None and event.words[0] == "get" and event.token in self._held:
            return False
        kind = event.words[0]
        if kind == "notify" and any(self._lanes.get(lane) for lane in _stores(event)):
            return False
        if kind == "await" and self._cells[event.words[1]] < event.words[2]:
            return False
        if event.sync == ("barrier", "ALL"):
            mine = (
                q for (core, lane), q in self._lanes.items() if core == event.core and lane != "S"
            )
            if any(mine):
                return False
            if event.gives and number not in self._arrived:  # a meeting: arrive, then wait
                self._arrived.add(number)
                self.done[number] = self._knows(number) | 1 << number
                self._give(number)
        return all(self._sets.get(key) for key in event.takes)

    def _give(self, number: int) -> None:
        for key in self.events[number].gives:
            self._sets.setdefault(key, deque()).append(number)

    def _knows(self, number: int) -> int:
        """What is done when an operation begins, but for what it takes from others."""
        event = self.events[number]
        before = self._given[number] | self._known[event.lane]
        kind = event.sync[0] if event.sync is not None else ""
        if kind in ("set", "barrier", "release") or event.gives:
            before |= self._issued[event.lane]
        if event.sync == ("barrier", "ALL"):
            for lane, issued in self._issued.items():
                before |= issued if lane[0] == event.core else 0
        if kind == "notify":
            for lane in _stores(event):
                before |= self._issued.get(lane, 0)
        return before

    def _finish(self, lane: tuple[int, str], number: int) -> None:
        event = self.events[number]
        start = self._given[number] | self._known[lane]
        before = self._knows(number)
        waits = event.flag if event.sync is not None and event.sync[0] == "wait" else None
        for key in (*((waits,) if waits is not None else ()), *event.takes):
            before |= self.done[self._sets[key].popleft()]
        if event.token is not None and event.words[0] == "get":
            before |= self._released.get(event.token, 0)
        for told in self.certain.get(number, ()):
            before |= self.done[told]
        self.before[number] = before
        self.done[number] = before | 1 << number
        if _adds(event):
            self._cells[event.words[1]] += event.words[2]
            self._notified.append(number)
        if event.words[0] == "await":
            cell = event.words[1]
            self.seen[number] = [n for n in self._notified if self.events[n].words[1] == cell]
        if event.flag is not None and waits is None:
            self._sets.setdefault(event.flag, deque()).append(number)
        if event.token is not None:
            self._pass_on(number)
        if number not in self._arrived:
            self._give(number)
        self._issued[lane] |= self.done[number]
        kind = event.sync[0] if event.sync is not None else ""
        orders = kind in ("wait", "barrier", "get", "await") or bool(event.takes)
        self._known[lane] |= self.done[number] if orders or self.in_order[lane] else start
        if lane[1] == "S" and (orders or not event.orders):
            self._scalar[event.core] |= self.done[number]

    def _pass_on(self, number: int) -> None:
        """A token is taken, or given back: who takes it next knows what all its holders did."""
        event = self.events[number]
        token = event.token
        assert token is not None
        if event.sync[0] == "get":  # type: ignore[index]
            self._held.add(token)
            return
        self.misused = self.misused or token not in self._held
        self._held.discard(token)
        self._released[token] = self._released.get(token, 0) | self.done[number]


def _stores(event: Event) -> tuple[tuple[int, str], ...]:
    return (event.core, "MTE3"), (event.core, "FIX")


def _adds(event: Event) -> bool:
    """True for a notification that adds to a sum, `("notify", cell, amount)`, for which others wait
    with `("await", cell, least)`."""
    return event.words[0] == "notify" and len(event.words) > 1


def with_sums(events: Sequence[Event], target: str) -> Ordering:
    """Return the order of events among which some wait for sums of notifications.

    One of them is done before a wait in every execution if the others that may come before the wait
    do not suffice; which those are follows from the order there is without it, until nothing is
    added."""
    certain: dict[int, list[int]] = {}
    adds = [n for n, event in enumerate(events) if _adds(event)]
    waits = [n for n, e in enumerate(events) if e.words[0] == "await"]
    while True:
        order = Ordering(events, target, certain)
        found = {wait: _certain(order, wait, adds) for wait in waits}
        if order.stuck or found == certain:
            return order
        certain = found


def _certain(order: Ordering, wait: int, adds: Sequence[int]) -> list[int]:
    _, cell, least = order.events[wait].words
    there = [n for n in adds if order.events[n].words[1] == cell and not order.is_ordered(wait, n)]

    def others(one: int) -> int:
        free = (n for n in there if n != one and not order.is_ordered(one, n))
        return sum(order.events[n].words[2] for n in free)

    return [n for n in there if others(n) < least]


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
            one, two = events[first], events[second]
            same = (one.core, one.pipe) == (two.core, two.pipe)
            write_late = not same and _meets(early.reads, late.writes)
            if write_write or read_late or write_late:
                found.append((first, second))
    return found


def _meets(one: dict[Any, int], two: dict[Any, int]) -> bool:
    return any(one[where] & two[where] for where in one.keys() & two.keys())
