"""Memory that belongs to one thread of SIMT code."""

from __future__ import annotations

from ptosim.ground.records import NamedTuple


class Fragment(NamedTuple):
    """Memory of each thread that lives from one section to the next: which allocation of the
    program it is, and its bytes for a thread."""

    number: int
    bytes: int
