"""What a run did to global memory as a whole: which bytes it found as they were before it, and
which it wrote."""

from __future__ import annotations

import numpy as np

from ptosim.engine.watch.monitor import Monitor
from ptosim.engine.watch.shadow import Shadow
from ptosim.ground.records import dataclass

Intervals = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class GlobalUse:
    """Bytes of a buffer: those whose content from before the run was read, those that were written,
    those of them that were read after that, and those that were added to at last."""

    reads: Intervals
    writes: Intervals
    settled: Intervals = ()
    added: Intervals = ()


def global_uses(monitor: Monitor) -> dict[int, GlobalUse]:
    """Return what was done to each buffer that was touched, by its number."""
    return {
        number: _use(shadow)
        for number, shadow in ((key[1], s) for key, s in monitor.shadows.items())
        if isinstance(number, int)
    }


def _use(shadow: Shadow) -> GlobalUse:
    reads: list[tuple[int, int]] = []
    writes: list[tuple[int, int]] = []
    settled: list[tuple[int, int]] = []
    added: list[tuple[int, int]] = []
    for base, region in shadow.regions():
        read = np.array([a.takes_content for a in region.atoms])
        written = np.array([a.write[2] is not None for a in region.atoms])
        after = written & np.array([bool(a.reads) for a in region.atoms])
        adds = np.array([bool(a.write[2] and a.write[2].is_atomic) for a in region.atoms])
        kinds = (reads, read), (writes, written), (settled, after), (added, adds & ~after)
        for found, chosen in kinds:
            found += _intervals(base, region, chosen)
    return GlobalUse(tuple(reads), tuple(writes), tuple(settled), tuple(added))


def _intervals(base: int, region: Shadow, chosen: np.ndarray) -> list[tuple[int, int]]:
    if not chosen.any():
        return []
    mask = np.zeros(len(region.labels) + 2, np.int8)
    mask[1:-1] = chosen[region.labels]
    pairs = (np.flatnonzero(np.diff(mask)) * region.unit).reshape(-1, 2)
    return [(base + int(low), base + min(int(high), region.bytes)) for low, high in pairs]
