"""Who of a launch wrote and read each element of a memory last, since the last point where threads
wait for each other: what races of threads are told with, once `written.py` has found that there may
be some.

A stamp is a number: the clock of the launch, then three bits for what it was, then the linear id of
the thread. The clock goes on at every barrier, and at every collective of a warp."""

from __future__ import annotations

import numpy as np

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
