"""What a launch touches of global memory, as numbers: the account that L2 and HBM are asked for."""

from __future__ import annotations

from ptosim.ground.records import dataclass


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of a launch, all blocks together, each line of memory counted once (`read`, `written`);
    and what comes from HBM if L2 is empty at the start, as far as lines are touched again after
    more than L2 keeps (`fetched`, `returned`). `every_transfer` is True where some place depends on
    data, so that each of its transfers counts as if nobody else touched it. `together` are the
    lines of the program whose loads all blocks of a wave begin at one address."""

    read: int
    written: int
    fetched: int
    returned: int
    every_transfer: bool = False
    together: frozenset[int] = frozenset()

    @property
    def unique(self) -> int:
        """Bytes of all lines that are touched; read and written ones count twice."""
        return self.read + self.written
