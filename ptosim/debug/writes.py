"""Who wrote a byte: an index of what every instruction may have written, and a probe that tells
whether it did.

The index says which bytes an instruction may write, from the roles of its operands; that is more
than it writes where a valid region has gaps. A candidate is then executed again with the byte in
question inverted beforehand: whoever writes it makes both executions agree. Each stretch of the run
is recorded when it is first asked about, so that a run costs nothing while nobody asks."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from ptosim.debug.reading import Place, read_bytes, whole
from ptosim.debug.walker import Event, Interrupted, Walker
from ptosim.engine.core.bound import Kind
from ptosim.ground.records import dataclass, field
from ptosim.machine.effects.ranges import may_write
from ptosim.machine.effects.storage import READ, WRITTEN, bound_values, written_name
from ptosim.machine.tile import Tile, TileRef
from ptosim.ops.base.binding import Binding, OpFault

_WRITERS = frozenset((Kind.EXEC, Kind.ACTION, Kind.VECTOR, Kind.REGION))


def tiles_of(binding: Binding, *, written: bool) -> Iterator[tuple[str, Tile]]:
    """Yield the tile operands that an operation writes, or those that it reads, with their names in
    the program."""
    op, wanted = binding.op, WRITTEN if written else READ
    for name, role, value in bound_values(op, binding.values):
        if role in wanted and isinstance(value, TileRef):
            with suppress(OpFault):
                yield written_name(op, name), binding.bind_tile(value, name)


def footprint(binding: Binding) -> list[Place] | None:
    """Return the places that an operation may write; None if they are not known."""
    found = may_write(binding)
    if found is None:
        return [] if binding.sync is not None else None
    return [
        Place("gm", where, low, high) if isinstance(where, int) else Place(where, core, low, high)
        for core, where, low, high in found
    ]


@dataclass(slots=True)
class Segment:
    """The writes in (start, end]: time t is the position after the instruction that made them."""

    start: int
    end: int
    times: array[int] = field(default_factory=lambda: array("Q"))
    writers: array[int] = field(default_factory=lambda: array("I"))


@dataclass(frozen=True, slots=True)
class Write:
    """The last write of a byte: at position `before` the writer had not yet taken effect. `event`
    is the writer; None for what the launch put there."""

    before: int
    event: Event | None


@dataclass(eq=False)
class WriteIndex:
    """Finds writers. Moves the walker about and puts it back."""

    walker: Walker
    _segments: list[Segment] = field(default_factory=list)
    _footprints: list[list[Place] | None] = field(default_factory=list)
    _events: list[Event] = field(default_factory=list)
    _ids: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def last_write(self, place: Place, position: int | None = None) -> Write:
        """Return the last write of a byte of `place` before a position (default: the present
        one)."""
        walker = self.walker
        origin = walker.position
        end = origin if position is None else position
        try:
            while end > 0:
                segment = self._segment(end)
                found = self._in_segment(segment, place, end)
                if found is not None:
                    return found
                end = segment.start
            return Write(0, None)
        finally:
            walker.goto(origin)

    # -- recording --------------------------------------------------------------------------------

    def _segment(self, end: int) -> Segment:
        """The segment that covers the instruction in front of `end`."""
        for segment in self._segments:
            if segment.start < end <= segment.end:
                return segment
        start = self.walker.checkpoints.before(end - 1).position
        start = max([start, *(s.end for s in self._segments if s.end < end)])
        return self._record(start, end)

    def _record(self, start: int, end: int) -> Segment:
        walker = self.walker
        walker.goto(start)
        segment = Segment(start, end)
        while walker.position < end and not walker.stopped:
            walker.step()
            if walker.interrupted:
                walker.interrupted = False
                raise Interrupted
            for event in walker.events:
                if event.what == "done" and event.inst.kind in _WRITERS:
                    segment.times.append(walker.position)
                    segment.writers.append(self._writer(event))
        self._segments.append(segment)
        return segment

    def _writer(self, event: Event) -> int:
        """The number of an instruction with its operands."""
        key = (event.core.index, event.inst.pc, id(event.bound))
        number = self._ids.get(key)
        if number is None:
            number = self._ids[key] = len(self._footprints)
            self._events.append(event)  # keeps the binding alive, so that its id stays its own
            self._footprints.append(self._written(event))
        return number

    @staticmethod
    def _written(event: Event) -> list[Place] | None:
        if event.binding is not None:
            return footprint(event.binding)
        if event.inst.kind is Kind.REGION:
            return None if event.bound is not None else []  # in place its instructions come apart
        makes_value = event.inst.op is not None and bool(event.inst.op.results)
        return [] if makes_value else None

    # -- search -----------------------------------------------------------------------------------

    def _in_segment(self, segment: Segment, place: Place, end: int) -> Write | None:
        possible = [
            number
            for number, places in enumerate(self._footprints)
            if places is None or any(p.holds(place) for p in places)
        ]
        writers = np.frombuffer(segment.writers, np.uint32)
        times = np.frombuffer(segment.times, np.uint64)
        candidates = np.flatnonzero(np.isin(writers, possible) & (times <= end))
        for at in candidates[::-1]:
            time, event = int(times[at]), self._events[int(writers[at])]
            if self._probe(time, place):
                return Write(time - 1, event)
        return None

    def _probe(self, time: int, place: Place) -> bool:
        """True if the step that ends at `time` writes a byte of `place`."""
        walker = self.walker
        walker.goto(time - 1)
        before = read_bytes(walker.machine, place)
        walker.step()
        plain = read_bytes(walker.machine, place)
        if plain != before:
            return True
        walker.goto(time - 1)
        inverted = bytes(b ^ 0xFF for b in before)
        with walker.trial():
            whole(walker.machine, place)[place.start : place.end] = memoryview(inverted)
            walker.step()
            return read_bytes(walker.machine, place) != inverted
