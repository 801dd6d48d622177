"""What a run did to global memory as a whole: which bytes it found as they were before it, and
which it wrote."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptosim.sanitize.monitor import Monitor
from ptosim.sanitize.shadow import Shadow

Intervals = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class GlobalUse:
    """Bytes of a buffer: those whose content from before the run was read, those that were written,
    and those of them that were read after that."""

    reads: Intervals
    writes: Intervals
    settled: Intervals = ()


def global_uses(monitor: Monitor) -> dict[int, GlobalUse]:
    """Return what was done to each buffer that was touched, by its number."""
    return {
        number: _use(shadow)
        for number, shadow in ((key[1], s) for key, s in monitor.shadows.items())
        if isinstance(number, int)
    }


def _use(shadow: Shadow) -> GlobalUse:
    read = np.array([a.takes_content for a in shadow.atoms])
    written = np.array([a.write[2] is not None for a in shadow.atoms])
    settled = written & np.array([bool(a.reads) for a in shadow.atoms])
    return GlobalUse(*(_intervals(shadow, chosen) for chosen in (read, written, settled)))


def _intervals(shadow: Shadow, chosen: np.ndarray) -> Intervals:
    if not chosen.any():
        return ()
    mask = np.zeros(len(shadow.labels) + 2, np.int8)
    mask[1:-1] = chosen[shadow.labels]
    edges = np.flatnonzero(np.diff(mask)) * shadow.unit
    pairs = edges.reshape(-1, 2)
    return tuple((int(low), min(int(high), shadow.bytes)) for low, high in pairs)
