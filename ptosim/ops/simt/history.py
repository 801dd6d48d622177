"""What the threads of a launch did to memory since the last barrier. At the barrier it is dropped
if no thread can have disturbed another one; else it is gone through in order, to tell who did.

What the threads of a launch wrote of a memory, and what they read as it came: enough to say at
once whose store stays, and at a barrier whether two threads may have disturbed each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.records import NamedTuple
from ptosim.ops.simt.tracks import ATOMIC, MANY, THREAD, Clock, Conflict, Ids, Tracks, Units, Where

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
