"""A memory space: bytes with an address range."""

from __future__ import annotations

import random

POISON = 0xFF
"""Fill byte of memory that nothing has written: NaN in every float format, -1 in integers."""


class MemorySpace:
    """The bytes of one space of one core. Never resized: NumPy views point into it."""

    __slots__ = ("data", "name", "size")

    def __init__(self, name: str, size: int, uninit: str, seed: int) -> None:
        self.name = name
        self.size = size
        if uninit == "zero":
            self.data = bytearray(size)
        elif uninit == "random":
            self.data = bytearray(random.Random(f"{seed}|{name}").randbytes(size))
        else:
            self.data = bytearray([POISON]) * size

    def snapshot(self) -> bytes:
        """Return a copy of the bytes."""
        return bytes(self.data)

    def restore(self, data: bytes | bytearray) -> None:
        """Put a snapshot back."""
        self.data[:] = data
