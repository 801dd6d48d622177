"""What a vector core keeps from one SIMT launch to the next: words of its threads, and what the
debugger shows of the last launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptosim.ground.records import dataclass, field

if TYPE_CHECKING:  # rules read the limits, and a check of the text alone does without NumPy
    import numpy as np

WARP = 32
"""Threads of a warp: consecutive linear ids (PTO micro-instruction specification, SIMT)."""
MAX_THREADS = 2048
"""Threads of a launch, at most."""
SLOTS = 123
"""Words of 4 bytes that a thread can keep from one launch to the next."""

LAUNCH_REGISTERS = ("simt_x", "simt_y", "simt_z")
"""Registers with the threads of a launch, for calls of SIMT functions."""


@dataclass(slots=True, eq=False)
class SimtState:
    """`kept` has an array of 32-bit words by linear thread id for each slot, and `latest` the slots
    that the launch before this one kept; arrays are replaced, never changed. `fragments` have a row
    of bytes for each thread, by allocation. `watched`: sanitizers
    want to know who reads what; `recorded`: a debugger wants the values of every thread, which the
    last launch leaves in `record`."""

    kept: dict[int, np.ndarray] = field(default_factory=dict)
    latest: frozenset[int] = frozenset()
    launches: int = 0
    fragments: dict[int, np.ndarray] = field(default_factory=dict)
    watched: bool = False
    recorded: bool = False
    record: Any = None
    failed: Any = None  # the record of a launch that could not go on; no state of the run

    def saved(self) -> tuple[Any, ...]:
        """Return a copy of what can change."""
        fragments = {number: rows.copy() for number, rows in self.fragments.items()}
        return dict(self.kept), self.latest, self.launches, fragments, self.record

    def restore(self, state: tuple[Any, ...]) -> None:
        """Put a copy back."""
        kept, self.latest, self.launches, fragments, self.record = state
        self.kept = dict(kept)
        self.fragments = {number: rows.copy() for number, rows in fragments.items()}
