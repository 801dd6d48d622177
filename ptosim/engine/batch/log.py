"""The log of the accesses of many rounds: round by round as if they were executed one by one."""

from __future__ import annotations

from itertools import repeat

import numpy as np

from ptosim.engine.batch.places import Access
from ptosim.ground.records import dataclass
from ptosim.machine.vector import VectorWindow


@dataclass(slots=True, eq=False)
class Log:
    """Entries of a window's log, and the parts that those below 0 name, counted from 0."""

    entries: np.ndarray
    parts: list[tuple[int, np.ndarray, int]]

    def write(self, ub: VectorWindow) -> None:
        """Add them to the log of a window, if it has one."""
        if ub.log is None:
            return
        entries = self.entries
        if self.parts:
            entries = np.where(entries < 0, entries - len(ub.parts), entries)
            ub.parts.extend(self.parts)
        ub.log.frombytes(entries.tobytes())


def log_of(accesses: list[Access], rounds: int) -> Log:
    """Return the log of accesses in the order of a round."""
    columns: list[np.ndarray] = []
    parts: list[tuple[int, np.ndarray, int]] = []
    for access in accesses:
        starts, place = access.starts, access.place
        if access.is_entry:
            columns.append(place.entry(access.size) + starts)
            continue
        columns.append(-1 - len(parts) - np.arange(rounds, dtype=np.int64))
        parts.extend(zip(repeat(place.code), starts[:, None].copy(), repeat(access.size)))
    if not columns:
        return Log(np.zeros(0, np.int64), [])
    return Log(np.stack(columns, axis=1).reshape(-1), parts)
