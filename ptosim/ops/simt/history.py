"""What the threads of a launch did to memory since the last barrier. At the barrier it is dropped
if no thread can have disturbed another one; else it is gone through in order, to tell who did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.records import NamedTuple
from ptosim.ops.simt.tracks import Clock, Conflict, Ids, Tracks, Where
from ptosim.ops.simt.written import Written

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
