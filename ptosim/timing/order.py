"""Order by data, for programs whose synchronisation is inserted: an operation starts after those
that wrote what it reads, and after those that read or wrote what it writes.

This stands for the flags and barriers that the assembler would insert. Memory is looked at by
ranges of bytes; of the ranges that a pipe touched, only the latest are kept apart, older ones are
joined.
"""

from __future__ import annotations

from typing import Any

from ptosim.timing.model import CoreTimer
from ptosim.timing.steps import Flag, S, Step

KEPT = 32
"""Ranges of a pipe in one memory that are kept apart."""

Range = tuple[Any, int, int]
"""A memory (space name, or number of a GM buffer), first byte, byte behind the last."""


class _Touched:
    """The ranges of one memory that one pipe touched: [first, end, order, event]."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[list[Any]] = []

    def latest(self, first: int, end: int) -> list[Any] | None:
        """Return the youngest entry that a range meets."""
        best = None
        for entry in self.entries:
            if entry[0] < end and first < entry[1] and (best is None or entry[2] > best[2]):
                best = entry
        return best

    def add(self, first: int, end: int, order: int, event: Flag) -> None:
        """Remember a range; what it covers is forgotten."""
        kept = [e for e in self.entries if not (first <= e[0] and e[1] <= end)]
        kept.append([first, end, order, event])
        if len(kept) > KEPT:
            old, next_ = kept[0], kept[1]
            kept[:2] = [[min(old[0], next_[0]), max(old[1], next_[1]), next_[2], next_[3]]]
        self.entries = kept


class DataOrder:
    """Issues the operations of a core so that data order them."""

    def __init__(self, timer: CoreTimer, draining: frozenset[int]) -> None:
        self.timer = timer
        self.draining = draining  # pipes on which a dependent operation waits for the result
        self._reads: dict[Any, dict[int, _Touched]] = {}
        self._writes: dict[Any, dict[int, _Touched]] = {}
        self._count = 0

    def issue(self, step: Step, scalars: int) -> None:
        """Issue a step behind everything that its data depend on."""
        reads, writes = step.ranges
        found: dict[int, list[Any]] = {}
        for memory, first, end in reads:
            self._meet(self._writes.get(memory), first, end, found)
        for memory, first, end in writes:
            self._meet(self._writes.get(memory), first, end, found)
            self._meet(self._reads.get(memory), first, end, found)
        own = found.pop(step.pipe, None)
        event = Flag(None, "data")
        event.keeps = True
        takes = tuple(entry[3] for entry in found.values())
        drains = own is not None and step.pipe in self.draining and step.pipe != S
        for table, ranges in ((self._reads, reads), (self._writes, writes)):
            for memory, first, end in ranges:
                touched = table.setdefault(memory, {}).setdefault(step.pipe, _Touched())
                touched.add(first, end, self._count, event)
        self._count += 1
        self.timer.issue(step.ordered(takes, (event,), drains=drains), scalars)

    @staticmethod
    def _meet(
        touched: dict[int, _Touched] | None, first: int, end: int, found: dict[int, list[Any]]
    ) -> None:
        for pipe, ranges in (touched or {}).items():
            entry = ranges.latest(first, end)
            if entry is not None and (pipe not in found or found[pipe][2] < entry[2]):
                found[pipe] = entry
