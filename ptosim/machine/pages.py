"""Large arrays of a caller as global memory: a page is copied when something reaches it.

A launch must not change the arrays that it is given. Small ones are copied; of a large one, a cache
of keys or a table of weights, a kernel touches a window, so memory and time follow the window."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

import numpy as np

PAGE = 64 << 10
"""Bytes that are copied at a time."""
LARGE = 4 << 20
"""Arrays of fewer bytes are copied at once."""


class Pages:
    """Memory of the size of `origin`, and which of its pages have the content of it. Nothing may
    change `origin` meanwhile."""

    __slots__ = ("memory", "missing", "origin")

    def __init__(self, origin: np.ndarray) -> None:
        self.origin = origin
        self.memory = np.frombuffer(mmap.mmap(-1, len(origin)), np.uint8)  # costs what is touched
        self.missing = np.ones(-(-len(origin) // PAGE), bool)

    @property
    def brought(self) -> int:
        """How many pages were copied."""
        return len(self.missing) - int(self.missing.sum())

    def bring(self, start: int, stop: int) -> None:
        """Copy the pages of bytes [start, stop) that are missing."""
        first, last = max(start, 0) // PAGE, -(-stop // PAGE)
        for page in np.flatnonzero(self.missing[first:last]) + first:
            place = slice(int(page) * PAGE, (int(page) + 1) * PAGE)
            self.memory[place] = self.origin[place]
        self.missing[first:last] = False

    def bring_rows(
        self, start: int, shape: Sequence[int], strides: Sequence[int], size: int
    ) -> None:
        """Copy the missing pages of an array of elements of `size` bytes, row by row where its rows
        are pages apart."""
        starts = np.full(1, start, np.int64)
        low = run = 0
        for count, stride in zip(shape, strides, strict=True):
            if abs(stride) >= PAGE:
                starts = (starts[:, None] + np.arange(count, dtype=np.int64) * stride).reshape(-1)
                continue
            reach = (count - 1) * stride
            low, run = (low + reach, run) if reach < 0 else (low, run + reach)
        for first in starts:
            self.bring(int(first) + low, int(first) + run + size)

    def bring_places(self, places: np.ndarray, size: int) -> None:
        """Copy the missing pages of elements of `size` bytes, by their numbers."""
        for page in np.unique(places // (PAGE // size)):
            self.bring(int(page) * PAGE, (int(page) + 1) * PAGE)

    def is_changed(self) -> bool:
        """True if a byte is another one than at first."""
        return any(
            not np.array_equal(self.memory[at : at + PAGE], self.origin[at : at + PAGE])
            for at in (int(page) * PAGE for page in np.flatnonzero(~self.missing))
        )
