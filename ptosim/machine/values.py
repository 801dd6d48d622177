"""Values in the slots of a core that are no numbers, tiles or registers: places in memory, and
handles.

All of them are tuples with names: they never change, so that a snapshot of the slots is a copy of
them, and they are keys of what is kept for the operands of an operation."""

from __future__ import annotations

from itertools import chain
from operator import index
from typing import Any

from ptosim.ground.records import NamedTuple
from ptosim.machine.affine import Unknown
from ptosim.machine.gm import ViewSpec

Memory = int | str
"""Which memory: a buffer of global memory by number, or a space of the core by name."""


_FAR = 1 << 62


def near(byte: int) -> int:
    """Return an address that 64 bits hold, with all that an access reaches from there: one farther
    away is outside every memory all the same. Of rows in a batch, which are arrays, 64 bits hold
    each."""
    return min(max(byte, -_FAR), _FAR) if isinstance(byte, int) else byte


class Pointer(NamedTuple):
    """A pointer: the memory, and the offset of its first byte there. The memory is None for an
    address that belongs to no space."""

    memory: Memory | None
    byte: int

    @property
    def is_global(self) -> bool:
        """True if it leads into global memory."""
        return isinstance(self.memory, int)


class GmView(NamedTuple):
    """A view of a buffer: its shape, strides and type, the memory, and the offset of its first
    element in elements. An argument of a memref type is one, too."""

    spec: ViewSpec
    memory: Memory
    offset: int

    @property
    def start(self) -> Pointer:
        """A pointer to the first element."""
        return Pointer(self.memory, self.offset * self.spec.dtype.bits // 8)

    @property
    def is_placed(self) -> bool:
        """True if it is known where it is and what it reaches; in a run on values it always is."""
        return Unknown not in (self.offset.__class__, self.spec.low.__class__)

    def span(self) -> tuple[int, int]:
        """Return the first byte that the view reaches and the one after its last; they are equal
        for an empty view."""
        spec = self.spec
        bits, low, high = spec.dtype.bits, self.offset + spec.low, self.offset + spec.high
        return low * bits // 8, -(-(high + 1) * bits // 8)


class EventArray(NamedTuple):
    """Numbers of events, None where an entry has not been set."""

    entries: tuple[int | None, ...]


_CHUNK = 1024
"""Cells in a tuple of their own: the root of the most that an array has, so that to set one copies
few references."""


class Cells(NamedTuple):
    """The scalars of an array or a record of the scalar unit, None where one has not been set."""

    chunks: tuple[tuple[Any, ...], ...]
    length: int

    def __repr__(self) -> str:
        return f"Cells(entries={tuple(chain(*self.chunks))})"  # the chunks concern nobody else

    @classmethod
    def filled(cls, length: int, value: Any = None) -> Cells:
        """Return so many cells with one value."""
        whole, rest = divmod(length, _CHUNK)
        return cls(((value,) * _CHUNK,) * whole + ((value,) * rest,), length)

    def at(self, number: int) -> Any:
        """Return what a cell holds."""
        chunk, at = divmod(index(number), _CHUNK)
        return self.chunks[chunk][at]

    def changed(self, number: int, value: Any) -> Cells:
        """Return these cells with another value in one."""
        chunks, (chunk, at) = self.chunks, divmod(index(number), _CHUNK)
        held = chunks[chunk]
        made = (*held[:at], value, *held[at + 1 :])
        return Cells((*chunks[:chunk], made, *chunks[chunk + 1 :]), self.length)


class AsyncSession(NamedTuple):
    """A session of asynchronous transfers, by its `sync_id`."""

    number: int


class AsyncEvent(NamedTuple):
    """The end of an asynchronous transfer: the register that counts those of its kind which are
    done, and the number that it then has."""

    register: str
    number: int


# -- memory of one thread --------------------------------------------------------------------------


class Fragment(NamedTuple):
    """Memory of each thread that lives from one section to the next: which allocation of the
    program it is, and its bytes for a thread."""

    number: int
    bytes: int
