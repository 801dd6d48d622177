"""FIFOs between the cube core and the vector cores of a cluster: what each end says, and how far
each vector core's share has got."""

from __future__ import annotations

import numpy as np

from ptosim.ground.isa.conversions import Epilogue
from ptosim.ground.records import NamedTuple, dataclass, field, replace
from ptosim.machine.values import GmView, Pointer


class FifoKey(NamedTuple):
    """What the ends of a FIFO agree on: `kind` says by what they found each other (pipe: an id,
    flags: a flag base, order: the number of the initialisation on its core)."""

    kind: str
    number: int | str


class ShareKey(NamedTuple):
    """One vector core's share of one direction of a FIFO."""

    fifo: FifoKey
    direction: str
    vector: int


@dataclass(frozen=True, slots=True)
class PipeEnd:
    """One core's end. `local` has the addresses of the consumer's slots by direction (c2v, v2c);
    `gm` is the pointer to slots in global memory, None for slots on the chip. Where the entries are
    the slots in global memory themselves, `slot` is the view of the first. `epilogue` is what its
    pushes do, `popped_as` the elements that come out, `number` what the program calls it."""

    key: FifoKey
    slot_size: int
    slot_num: int
    local_slot_num: int
    local: tuple[tuple[str, int], ...]
    gm: Pointer | None = None
    slot: GmView | None = None
    epilogue: Epilogue | None = None
    popped_as: str | None = None
    number: int = 0

    def address(self, direction: str, index: int) -> int:
        """Return the address of tile number `index` in the consumer's memory."""
        count = self.slot_num if self.gm is None else self.local_slot_num
        return dict(self.local).get(direction, 0) + index % count * self.slot_size

    @property
    def period(self) -> int:
        """Tiles for each signal of free slots."""
        return self.slot_num if self.slot_num <= 2 else self.slot_num // 2


@dataclass(slots=True, eq=False)
class Share:
    """One vector core's share of one direction: slots taken for views, tiles pushed, handed out,
    popped and given back, what the slots hold, and where in global memory a push put it."""

    taken: int = 0
    pushed: int = 0
    issued: int = 0
    popped: int = 0
    freed: int = 0
    entries: dict[int, np.ndarray] = field(default_factory=dict)
    places: dict[int, Pointer] = field(default_factory=dict)

    def has_slot(self, end: PipeEnd) -> bool:
        """True if the producer may write its next tile: the first round is free, then each half of
        the slots (each round of one or two) waits for the consumer's signal that it is free."""
        beyond = max(self.pushed, self.taken) - end.slot_num
        return beyond < 0 or self.freed // end.period > beyond // end.period


@dataclass(slots=True, eq=False)
class Fifos:
    """The FIFOs of a cluster: the ends by core and key, those of a core by the number that the
    program gives them, and the shares."""

    ends: dict[tuple[int, FifoKey], PipeEnd] = field(default_factory=dict)
    current: dict[tuple[int, int], PipeEnd] = field(default_factory=dict)
    shares: dict[ShareKey, Share] = field(default_factory=dict)

    def share(self, key: ShareKey) -> Share:
        """Return a share; it is empty at the first use."""
        return self.shares.setdefault(key, Share())

    def copy(self) -> Fifos:
        """Return a copy of the state; what slots hold is never changed in place."""
        shares = {
            k: replace(s, entries=dict(s.entries), places=dict(s.places))
            for k, s in self.shares.items()
        }
        return Fifos(dict(self.ends), dict(self.current), shares)

    def restore(self, state: Fifos) -> None:
        """Put back a copy of an earlier state."""
        fresh = state.copy()
        self.ends, self.current, self.shares = fresh.ends, fresh.current, fresh.shares
