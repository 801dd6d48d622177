"""Where a NaN comes up: an operation writes one though no tile it reads is known to hold one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptosim.debug.names import brief
from ptosim.debug.reading import numbers_of
from ptosim.debug.walker import Event
from ptosim.debug.writes import tiles_of
from ptosim.ops.base.binding import Binding


class NanTracker:
    """Remembers which tiles hold a NaN while a run goes on."""

    def __init__(self) -> None:
        self._known: set[tuple[int, str, int]] = set()

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()

    def first(self, events: Sequence[Event]) -> str | None:
        """Return, in words, the first of these events that brought up a NaN."""
        for event in events:
            if event.what == "done" and event.binding is not None:
                found = self._done(event, event.binding)
                if found is not None:
                    return found
        return None

    def _done(self, event: Event, binding: Binding) -> str | None:
        core = event.core.index
        reads = {(core, t.type.loc, t.addr) for _, t in tiles_of(binding, written=False)}
        had = bool(reads & self._known)
        found = None
        for name, tile in tiles_of(binding, written=True):
            key = (core, tile.type.loc, tile.addr)
            numbers = numbers_of(np.array(tile.read()), tile.type.dtype)
            if numbers.dtype.kind != "f" or not np.isnan(numbers).any():
                self._known.discard(key)
                continue
            self._known.add(key)
            if not had and found is None:
                place = ", ".join(map(str, np.argwhere(np.isnan(numbers))[0]))
                found = f"{brief(event.inst.op)} wrote one to {name}[{place}]"
        return found
