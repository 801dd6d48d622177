"""FIFOs between the cube core and the vector cores of a cluster: what each end says, and how far
each vector core's share has got."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptosim.machine.values import Pointer


@dataclass(frozen=True, slots=True)
class PipeEnd:
    """One core's end. `local` has the addresses of the consumer's slots by direction (c2v, v2c);
    `gm` is the pointer to slots in global memory, None for slots that lie on the chip."""

    key: Any
    slot_size: int
    slot_num: int
    local_slot_num: int
    local: tuple[tuple[str, int], ...]
    gm: Pointer | None = None

    def address(self, direction: str, index: int) -> int:
        """Return where the tile number `index` lies in the consumer's memory."""
        count = self.slot_num if self.gm is None else self.local_slot_num
        return dict(self.local).get(direction, 0) + index % count * self.slot_size

    @property
    def period(self) -> int:
        """Tiles for each signal of free slots."""
        return self.slot_num if self.slot_num <= 2 else self.slot_num // 2


@dataclass(slots=True, eq=False)
class Share:
    """One vector core's share of one direction: tiles pushed, handed out, popped and given back,
    and what the slots hold."""

    pushed: int = 0
    issued: int = 0
    popped: int = 0
    freed: int = 0
    entries: dict[int, np.ndarray] = field(default_factory=dict)

    def has_slot(self, end: PipeEnd) -> bool:
        """True if the producer may write its next tile: the first round is free, then each half of
        the slots (each round of one or two) waits for the consumer's signal that it is free."""
        beyond = self.pushed - end.slot_num
        return beyond < 0 or self.freed // end.period > beyond // end.period
