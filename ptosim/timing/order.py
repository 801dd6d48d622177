"""Order by data, for programs whose synchronisation is inserted: an operation starts after those
that wrote what it reads, and after those that read or wrote what it writes.

This stands for the flags and barriers that the assembler would insert. Memory is looked at by
regions of bytes; every region knows the others that it overlaps, and when each pipe last read and
wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptosim.timing.model import CoreTimer
from ptosim.timing.steps import Flag, S, Step

KEPT = 256
"""Regions of a memory that are kept apart; older ones are joined."""

Range = tuple[Any, int, int]
"""A memory (space name, or number of a GM buffer), first byte, byte behind the last."""

Given = tuple[int, int, int]
"""When an operation is done, its core and its record."""


class _Region:
    """A range of bytes, the regions that it overlaps (itself among them), and by pipe the last
    operation that read and wrote it: a time if it is known, else an event."""

    __slots__ = ("end", "first", "overlaps", "past", "reads", "writes")

    def __init__(self, first: int, end: int) -> None:
        self.first = first
        self.end = end
        self.overlaps: list[_Region] = [self]
        self.reads: dict[int, Given | Flag] = {}
        self.writes: dict[int, Given | Flag] = {}
        self.past: list[tuple[dict[int, Given | Flag], dict[int, Given | Flag]]] = []


_SavedRegion = tuple[_Region, int, int, list[_Region], dict[int, Any], dict[int, Any]]
Saved = dict[Any, tuple[list[_SavedRegion], _SavedRegion | None]]


def _saved(region: _Region) -> _SavedRegion:
    return (
        region, region.first, region.end, list(region.overlaps), dict(region.reads),
        dict(region.writes),
    )  # fmt: skip


def _restored(saved: _SavedRegion) -> _Region:
    region, region.first, region.end = saved[0], saved[1], saved[2]
    region.overlaps, region.reads, region.writes = list(saved[3]), dict(saved[4]), dict(saved[5])
    return region


class _Memory:
    """The regions of one memory."""

    def __init__(self) -> None:
        self.regions: dict[tuple[int, int], _Region] = {}
        self.rest: _Region | None = None

    def add(self, first: int, end: int) -> _Region:
        """Return a new region."""
        if len(self.regions) >= KEPT:
            self._join(next(iter(self.regions)))
        region = _Region(first, end)
        others = [*self.regions.values(), *([self.rest] if self.rest is not None else [])]
        for other in others:
            if other.first < end and first < other.end:
                region.overlaps.append(other)
                other.overlaps.append(region)
        self.regions[first, end] = region
        return region

    def _join(self, key: tuple[int, int]) -> None:
        """Put the oldest region into the rest, which grows to cover it."""
        old = self.regions.pop(key)
        rest = self.rest if self.rest is not None else _Region(old.first, old.end)
        rest.first, rest.end = min(rest.first, old.first), max(rest.end, old.end)
        rest.reads.update(old.reads)
        rest.writes.update(old.writes)
        rest.overlaps = [rest]
        for region in self.regions.values():
            region.overlaps = [o for o in region.overlaps if o is not old and o is not rest]
            if rest.first < region.end and region.first < rest.end:
                region.overlaps.append(rest)
                rest.overlaps.append(region)
        self.rest = rest


class DataOrder:
    """Issues the operations of a core so that data order them. On the pipes of `draining` an
    operation that depends on an earlier one of the same pipe waits for its result. With `buffers`
    every region of the core stands for that many more: what fills it anew waits for those who used
    it so many fillings ago."""

    def __init__(self, timer: CoreTimer, draining: frozenset[int], buffers: int = 0) -> None:
        self.timer = timer
        self.draining = draining
        self.buffers = buffers
        self._memories: dict[Any, _Memory] = {}
        # Regions made so far, in memories of the core and in global memory: what a step found out
        # about its own holds until there are new ones.
        self.local_regions = 0
        self.regions = 0

    def issue(self, step: Step, scalars: int) -> None:
        """Issue a step behind everything that its data depend on."""
        timer, pipe = self.timer, step.pipe
        places = step.places
        if places is None or places[0] != (self.regions if places[3] else self.local_regions):
            places = self._places(step)
        seen: Any = self._refilled(step) if self.buffers else places[1]
        best: Any = None
        pending: list[Any] = []
        own = False
        latest = -1
        for events in seen:
            for by in events:
                if by == pipe:
                    own = True
                    continue
                event = events[by]
                if event.__class__ is Flag:
                    pending.append(event)
                elif event[0] > latest:
                    best, latest = event, event[0]
        drains = own and pipe in self.draining
        given: Given | Flag
        if step.is_plain and not pending and timer.gate is None and timer.queues[pipe] is None:
            given = timer.run_behind(step, scalars, best, drains=drains)
        else:
            given = self._wait(step, scalars, best, pending, drains=drains)
        for events in places[2]:
            events[pipe] = given

    def _refilled(self, step: Step) -> list[dict[int, Given | Flag]]:
        """Return what a step waits for where regions have more buffers than one."""
        reads, writes = ([self._region(r) for r in part] for part in step.ranges)
        found = [o.writes for r in reads for o in r.overlaps]
        for region, place in zip(writes, step.ranges[1], strict=True):
            if not isinstance(place[0], str) or region in reads:
                found += [e for o in region.overlaps for e in (o.reads, o.writes)]
                continue
            for used in region.overlaps:
                past = used.past
                if len(past) >= self.buffers:
                    found += past[-self.buffers]
                past.append((used.reads.copy(), used.writes.copy()))
                del past[: -self.buffers]
                used.reads.clear()
                used.writes.clear()
        return found

    def _places(self, step: Step) -> tuple[int, tuple[Any, ...], tuple[Any, ...], bool]:
        """Return what a step looks at and what it leaves its mark in, for the regions there are."""
        for part in step.ranges:
            for place in part:
                self._region(place)  # making one may join another: first all, then find them
        reads, writes = ([self._region(r) for r in part] for part in step.ranges)
        seen = [o.writes for r in (*reads, *writes) for o in r.overlaps]
        seen += [o.reads for r in writes for o in r.overlaps]
        marks = [*(r.reads for r in reads), *(r.writes for r in writes)]
        looked = tuple({id(events): events for events in seen}.values())
        is_global = any(not isinstance(r[0], str) for part in step.ranges for r in part)
        version = self.regions if is_global else self.local_regions
        step.places = places = (version, looked, tuple(marks), is_global)
        return places

    def _region(self, place: Range) -> _Region:
        memory = self._memories.get(place[0])
        if memory is None:
            memory = self._memories[place[0]] = _Memory()
        found = memory.regions.get((place[1], place[2]))
        if found is None:
            self.regions += 1
            if isinstance(place[0], str):
                self.local_regions += 1
            found = memory.add(place[1], place[2])
        return found

    # -- state -------------------------------------------------------------------------------------

    def save(self) -> Saved:
        """Return the regions as they are now, for `restore`."""
        return {
            place: (
                [_saved(r) for r in memory.regions.values()],
                memory.rest and _saved(memory.rest),
            )
            for place, memory in self._memories.items()
        }

    def restore(self, saved: Saved) -> None:
        """Go back to regions of this run. What steps know of their regions holds no longer: version
        numbers go on upwards."""
        self.local_regions += 1
        self.regions += 1
        self._memories = {}
        for place, (regions, rest) in saved.items():
            memory = self._memories[place] = _Memory()
            for region in map(_restored, regions):
                memory.regions[region.first, region.end] = region
            memory.rest = rest and _restored(rest)

    def events(self) -> Iterator[Flag]:
        """Yield the events that regions hold."""
        for memory in self._memories.values():
            for region in (*memory.regions.values(), *([memory.rest] if memory.rest else [])):
                for held in (*region.reads.values(), *region.writes.values()):
                    if isinstance(held, Flag):
                        yield held

    # -- waiting -----------------------------------------------------------------------------------

    def _wait(
        self, step: Step, scalars: int, best: Given | None, pending: list[Flag], *, drains: bool
    ) -> Flag:
        """Issue with events, where something before is not placed in time yet."""
        takes = list(dict.fromkeys(pending))
        if best is not None:
            known = Flag(None, "data", keeps=True)
            known.times.append(best)
            takes.append(known)
        event = Flag(None, "data", keeps=True)
        drains = drains and step.pipe != S
        self.timer.issue(step.ordered(tuple(takes), (event,), drains=drains), scalars)
        return event
