"""Who of a launch wrote and read each element of a memory last, since the last point where threads
wait for each other: what races of threads are told with, once `written.py` has found that there may
be some.

A stamp is a number: the clock of the launch, then three bits for what it was, then the linear id of
the thread. The clock goes on at every barrier, and at every collective of a warp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.records import NamedTuple

THREAD = (1 << 11) - 1
ATOMIC = 1 << 11
MANY = 1 << 12  # several threads read it
_WARPS = 1 << 13  # of several warps
_SHIFT = 14
_MOST_KEPT = 16

Ids = np.ndarray
Where = np.ndarray | slice
"""Elements of a memory: one for each thread, or a run of them."""


class Conflict(NamedTuple):
    """Two threads at one element: `kind` says what the later one does to what the other did."""

    kind: str
    thread: int
    other: int
    element: int


class Clock:
    """Which accesses of a launch are ordered: all those before a barrier, and those of a warp
    before a collective of its lanes."""

    def __init__(self, threads: int) -> None:
        self.now = 1
        self.floor = 1 << _SHIFT  # stamps below it are before the last barrier
        self.warps = np.zeros(-(-threads // 32), np.int64)  # the same for each warp
        self.ids = np.arange(threads, dtype=np.int64)
        self._own = self.ids + self.floor
        self._some: dict[int, tuple[Ids, np.ndarray]] = {}

    def barrier(self) -> None:
        """Every thread has come to a barrier."""
        self.now += 1
        self.floor = self.now << _SHIFT
        self._own = self.ids + self.floor
        self._some.clear()

    def collective(self, warps: np.ndarray | slice) -> None:
        """Lanes of some warps have met."""
        self.now += 1
        self.warps[warps] = self.now << _SHIFT
        self._own = self.ids + (self.now << _SHIFT)
        self._some.clear()

    def stamps(self, ids: Ids | None) -> np.ndarray:
        """Return the stamps of an access by some threads (None: by all) now; arrays of ids never
        change."""
        if ids is None:
            return self._own
        found = self._some.get(id(ids))
        if found is None:
            if len(self._some) > _MOST_KEPT:
                self._some.clear()
            found = self._some[id(ids)] = (ids, self._own.take(ids))
        return found[1]

    def conflicting(self, stamps: np.ndarray, ids: Ids, same: int) -> np.ndarray:
        """Return which stamps are of other threads, and not ordered before these ones; `same` is
        the bit of accesses that do not disturb each other."""
        others = (stamps & THREAD) != ids
        others |= (stamps & MANY) != 0
        found = (stamps >= self.floor) & others
        if same:
            found &= (stamps & same) == 0
        if found.any():
            warp = ids >> 5
            apart = ((stamps & THREAD) >> 5) != warp
            apart |= (stamps & _WARPS) != 0
            found &= apart | (stamps >= self.warps[warp])
        return found


class Units:
    """Arrays with an entry for every `unit` bytes of a memory, named in `kept`."""

    kept: tuple[str, ...] = ()

    def __init__(self, clock: Clock, unit: int) -> None:
        self.clock = clock
        self.unit = unit

    def units(self, where: Where, step: int, size: int) -> Where:
        """Return the units of elements of `size` bytes, one every `step` bytes: one for each, or a
        row of them."""
        if step == size == self.unit:
            return where
        start = _listed(where) * step
        granule = self.unit
        if size < granule or (start & (granule - 1)).any():
            self._refine(min(size, 1 if (start & (size - 1)).any() else size))
        unit = self.unit
        first = start // unit
        return first if size == unit else first[:, None] + np.arange(size // unit)

    def _refine(self, unit: int) -> None:
        factor = self.unit // unit
        if factor > 1:
            for name in self.kept:
                setattr(self, name, np.repeat(getattr(self, name), factor))
            self.unit = unit


class Tracks(Units):
    """The last writes and reads of each unit of one memory."""

    kept = ("writes", "reads")

    def __init__(self, clock: Clock, size: int, unit: int) -> None:
        super().__init__(clock, unit)
        count = -(-size // unit)
        self.writes = np.zeros(count, np.int64)
        self.reads = np.zeros(count, np.int64)

    def write(
        self, where: Where, step: int, size: int, ids: Ids | None, *, atomic: bool = False
    ) -> Conflict | None:
        """Note writes of threads (None: of all) in the order of their ids; return the first
        conflict."""
        clock = self.clock
        at = self.units(where, step, size)
        same = ATOMIC if atomic else 0
        own = clock.stamps(ids) | same if same else clock.stamps(ids)
        ids = clock.ids if ids is None else ids
        wide = not isinstance(at, slice) and at.ndim > 1
        if wide:
            own, ids = own[:, None], ids[:, None]
        conflict, kept = None, None
        before = self.writes[at]
        if before.max() >= clock.floor and not np.array_equal(before, own):
            found = clock.conflicting(before, ids, same)
            conflict = _first("write", found, before, ids, where, step)
            later = found & ((before & THREAD) > ids)
            if later.any():
                kept = ~(np.bitwise_or.reduce(later, axis=1) if wide else later)
        conflict = conflict or self._over_reads(at, ids, where, step, same)
        if kept is not None:
            at, own = _listed(at)[kept], own[kept]
        self.writes[at] = own
        if conflict is None and not atomic and not isinstance(at, slice):
            now = self.writes[at]
            conflict = _first("write", now != own, now, ids, where, step)
        return conflict

    def _over_reads(
        self, at: Where, ids: Ids, where: Where, step: int, same: int
    ) -> Conflict | None:
        """The first write of what another thread has read."""
        seen = self.reads[at]
        if seen.max() < self.clock.floor:
            return None
        found = self.clock.conflicting(seen, ids, same)
        return _first("overwrite", found, seen, ids, where, step)

    def read(
        self, where: Where, step: int, size: int, ids: Ids | None, *, everybody: bool = False
    ) -> Conflict | None:
        """Note reads of threads (None: of all), of one element by `everybody` of them where the
        place is the same for all."""
        clock = self.clock
        at = self.units(where, step, size)
        ids = clock.ids if ids is None else ids
        if everybody:
            ids = ids[:1]
        own = clock.stamps(ids)
        if not isinstance(at, slice) and at.ndim > 1:
            own, ids = own[:, None], ids[:, None]
        conflict = None
        before = self.writes[at]
        if before.max() >= clock.floor and not np.array_equal(before, own):
            found = clock.conflicting(before, ids, 0)
            conflict = _first("read", found, before, ids, where, step)
        seen = self.reads[at]
        if isinstance(at, slice) and seen.max() < clock.floor:
            self.reads[at] = own  # each element has one reader, and had none before
            return conflict
        self._read_again(at, np.array(seen), own, ids, everybody=everybody)
        return conflict

    def _read_again(
        self, at: Where, seen: np.ndarray, own: np.ndarray, ids: Ids, *, everybody: bool
    ) -> None:
        """Note reads of elements that may have several readers."""
        recent = seen >= self.clock.floor
        self.reads[at] = own
        now = self.reads[at]
        several = recent & ((seen & THREAD) != ids) | (now != own)
        if not everybody and not several.any() and not (recent & ((seen & MANY) != 0)).any():
            return
        warp = ids >> 5
        apart = recent & ((seen & THREAD) >> 5 != warp) | ((now & THREAD) >> 5 != warp)
        if everybody:
            several, apart = several | True, apart | (len(self.clock.ids) > 32)
        bits = np.where(several, MANY, 0) | np.where(apart, _WARPS, 0)
        self.reads[at] = now | bits | np.where(recent, seen & (MANY | _WARPS), 0)


def run_of(index: np.ndarray, ids: Ids) -> Where:
    """Return places one after the other as a slice, which is much faster; others as they are."""
    count = len(index)
    if count < 2 or index.dtype != np.int64:
        return index
    first = index.item(0)
    if index.item(count - 1) - first != count - 1:
        return index
    # Comparing bytes takes half the time of comparing numbers and counting.
    if np.add(ids[:count], first).tobytes() != index.tobytes():
        return index
    return slice(first, first + count)


def _listed(where: Where) -> np.ndarray:
    return np.arange(where.start, where.stop) if isinstance(where, slice) else where


def _first(
    kind: str, found: np.ndarray, stamps: np.ndarray, ids: Ids, where: Where, step: int
) -> Conflict | None:
    """The first conflict of an access, None if there is none."""
    if not found.any():
        return None
    row, *column = (int(i) for i in np.unravel_index(int(found.argmax()), found.shape))
    stamp = int(stamps[(row, *column)]) & THREAD
    thread = int(ids.reshape(-1)[min(row, ids.size - 1)])
    places = _listed(where)
    return Conflict(kind, thread, stamp, int(places[min(row, len(places) - 1)]) * step)


# What the threads of a launch did to memory since the last barrier. At the barrier it is dropped if
# no thread can have disturbed another one; else it is gone through in order, to tell who did.
#
# What the threads of a launch wrote of a memory, and what they read as it came: enough to say at
# once whose store stays, and at a barrier whether two threads may have disturbed each other.

# -- what was written last -------------------------------------------------------------------------


class Written(Units):
    """The stamps of the last writes of one memory, for units of `unit` bytes; `inputs` are the
    units that were read before the launch wrote them, kept only where somebody watches."""

    kept = ("writes", "inputs")

    def __init__(self, clock: Clock, size: int, unit: int, *, watched: bool) -> None:
        super().__init__(clock, unit)
        count = -(-size // unit)
        self.writes = np.zeros(count, np.int64)
        self.inputs = np.zeros(count if watched else 0, bool)
        self.watched = watched
        self.low, self.high = count * unit, 0  # bytes around all that was touched
        self._all = (count * unit, 0)  # and around all that was written
        self._recent = (count * unit, 0)  # since the last barrier
        self._since = clock.floor

    def write(
        self,
        where: Where,
        step: int,
        size: int,
        ids: Ids | None,
        reach: tuple[int, int],
        *,
        atomic: bool = False,
    ) -> tuple[bool, np.ndarray | None]:
        """Note writes of threads (None: of all) in the order of their ids, to bytes in `reach`.
        Return False if a thread may disturb another one, and which of the writes count where not
        all do: of several threads the one with the highest id."""
        clock = self.clock
        at = self.units(where, step, size)
        own = clock.stamps(ids)
        if atomic:
            own = own | ATOMIC
        wide = not isinstance(at, slice) and at.ndim > 1
        own = own[:, None] if wide else own
        is_clean, kept = True, None
        if self._is_recent(reach):
            before = self.writes[at]
            if not wide and before.tobytes() == own.tobytes():
                return True, None  # each writes what it has written before
            if before.max() >= clock.floor:
                is_clean, kept, own = self._over(before, own, ids, atomic=atomic)
        self._note(reach)
        if atomic and self.watched:
            self.inputs[at] |= self.writes[at] == 0
        if kept is not None:
            at, own = np.r_[at][kept], own[kept]
        self.writes[at] = own
        if self.watched and not isinstance(at, slice):
            now = self.writes[at]
            if now.tobytes() != np.broadcast_to(own, now.shape).tobytes():
                is_clean = is_clean and atomic
                self.writes[at] = now | MANY
        return is_clean, kept

    def _over(
        self, before: np.ndarray, own: np.ndarray, ids: Ids | None, *, atomic: bool
    ) -> tuple[bool, np.ndarray | None, np.ndarray]:
        """Writes over others since the last barrier."""
        clock = self.clock
        ids = clock.ids if ids is None else ids
        column = ids[:, None] if before.ndim > 1 else ids
        found = clock.conflicting(before, column, ATOMIC if atomic else 0)
        if atomic:
            others = (before >= clock.floor) & ((before & THREAD) != column)
            own = np.where(
                others | ((before & MANY) != 0) & (before >= clock.floor), own | MANY, own
            )
        later = found & ((before & THREAD) > column)
        if not later.any():
            return not found.any(), None, own
        kept = ~(np.bitwise_or.reduce(later, axis=1) if before.ndim > 1 else later)
        return False, kept, own

    def _is_recent(self, reach: tuple[int, int]) -> bool:
        """True if bytes in a range may have been written since the last barrier."""
        if self._since != self.clock.floor:
            return False
        low, high = self._recent
        return reach[0] < high and reach[1] > low

    def _note(self, reach: tuple[int, int]) -> None:
        low, high = reach
        if self._since != self.clock.floor:
            self._since, self._recent = self.clock.floor, reach
        else:
            self._recent = min(self._recent[0], low), max(self._recent[1], high)
        self._all = min(self._all[0], low), max(self._all[1], high)
        self.low, self.high = min(self.low, low), max(self.high, high)

    def read(self, where: Where, step: int, size: int, reach: tuple[int, int]) -> None:
        """Note reads of what the launch has not written."""
        at = self.units(where, step, size)
        low, high = reach
        if low < self._all[1] and high > self._all[0]:
            self.inputs[at] |= self.writes[at] == 0
        else:
            self.inputs[at] = True
        self.low, self.high = min(self.low, low), max(self.high, high)

    def disturbs(
        self, where: Where, step: int, size: int, ids: Ids | None, reach: tuple[int, int]
    ) -> bool:
        """True if another thread has written since the last barrier what some threads read."""
        if not self._is_recent(reach):
            return False
        at = self.units(where, step, size)
        stamps = self.writes[at]
        floor = self.clock.floor
        if stamps.max() < floor:
            return False
        ids = self.clock.ids if ids is None else ids
        if stamps.ndim > 1:
            ids = ids[:, None]
        others = ((stamps & THREAD) != ids) | ((stamps & MANY) != 0)
        return bool((others & (stamps >= floor)).any())

    def touched(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first bytes of the units that were read as they came, that were written, and
        that were written by atomic operations."""
        first, end = self.low // self.unit, -(-self.high // self.unit)
        writes = self.writes[first:end]
        atomic = (writes & ATOMIC) != 0
        found = (self.inputs[first:end], (writes != 0) & ~atomic, atomic)
        read, written, updated = ((np.flatnonzero(f) + first) * self.unit for f in found)
        return read, written, updated


# -- since the last barrier ------------------------------------------------------------------------


MOST_BYTES = 1 << 26
"""Places that are kept, in bytes; with more the rest up to the barrier is told as it comes."""

Tell = Callable[[Operation, Any, Conflict, int], None]


class Access(NamedTuple):
    """Accesses of some threads (`ids`, None: all) by one operation. `kind`: read, write, atomic."""

    kind: str
    op: Operation
    memory: Any
    where: Where
    step: int
    size: int
    ids: Ids | None
    reach: tuple[int, int]


class Meeting(NamedTuple):
    """Lanes of warps that met."""

    warps: Any


class History:
    """Accesses since the last barrier. `tell` reports a conflict; `limits` are the bytes and the
    size of the units of each memory."""

    def __init__(self, clock: Clock, tell: Tell) -> None:
        self.clock = clock
        self.tell = tell
        self.written: dict[Any, Written] = {}
        self._events: list[Access | Meeting] = []
        self._held = 0
        self._is_clean = True
        self._tracks: dict[Any, Tracks] | None = None  # where accesses are told as they come
        self._retold: Clock | None = None

    def add(self, access: Access, *, is_clean: bool = True) -> None:
        """Note an access; one that is not `is_clean` disturbed another thread, or may have."""
        if self._tracks is not None:
            self._retell(access)
            return
        self._events.append(access)
        self._is_clean = self._is_clean and is_clean
        if isinstance(access.where, np.ndarray):
            self._held += access.where.nbytes
            if self._held > MOST_BYTES:
                self._go_through()

    def meet(self, warps: Any) -> None:
        """Lanes of some warps have met."""
        self.clock.collective(warps)
        if self._retold is not None:
            self._retold.collective(warps)
        elif self._events:
            self._events.append(Meeting(warps))

    def barrier(self) -> None:
        """Every thread has come to a barrier."""
        self.settle()
        self.clock.barrier()

    def settle(self) -> None:
        """Tell what has happened since the last barrier."""
        if self._events and not (self._is_clean and self._is_undisturbed()):
            self._go_through()
        self._events.clear()
        self._held, self._is_clean = 0, True
        self._tracks = self._retold = None

    def _is_undisturbed(self) -> bool:
        written = self.written
        reads = (e for e in self._events if isinstance(e, Access) and e.kind == "read")
        return not any(
            written[e.memory].disturbs(e.where, e.step, e.size, e.ids, e.reach) for e in reads
        )

    def _go_through(self) -> None:
        self._tracks, self._retold = {}, Clock(len(self.clock.ids))
        for event in self._events:
            if isinstance(event, Meeting):
                self._retold.collective(event.warps)
            else:
                self._retell(event)
        self._events.clear()

    def _retell(self, access: Access) -> None:
        assert self._tracks is not None
        assert self._retold is not None
        kind, op, memory, where, step, size, ids, _ = access
        tracks = self._tracks.get(memory)
        if tracks is None:
            written = self.written[memory]
            count = len(written.writes) * written.unit
            tracks = self._tracks[memory] = Tracks(self._retold, count, size)
        if kind == "read":
            active = len(self.clock.ids) if ids is None else len(ids)
            alone = isinstance(where, np.ndarray) and len(where) == 1
            conflict = tracks.read(where, step, size, ids, everybody=alone and active > 1)
        else:
            conflict = tracks.write(where, step, size, ids, atomic=kind == "atomic")
        if conflict is not None:
            self.tell(op, memory, conflict, size)
