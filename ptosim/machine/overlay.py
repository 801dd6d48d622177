"""Buffers of global memory whose changes are kept apart from them until they are wanted."""

from __future__ import annotations

import numpy as np

from ptosim.ground.records import NamedTuple
from ptosim.machine.gm import GmBuffer
from ptosim.machine.pages import PAGE, Pages

WORD = 8
"""Bytes that are compared at a time."""


class Below:
    """The bytes of a buffer as the origin of pages above it."""

    unit = PAGE

    def __init__(self, buffer: GmBuffer) -> None:
        self.size = buffer.size
        self._content, self._pages = buffer.content, buffer.pages

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return bytes [start, stop)."""
        if self._pages is not None:
            self._pages.bring(start, stop)
        return self._content[start:stop]


class Change(NamedTuple):
    """What some bytes of a buffer are: rows (first byte, one past the last), and all of them one
    after the other."""

    number: int
    rows: np.ndarray
    bytes: np.ndarray


class Overlay:
    """Buffers that were put on top of those of a machine."""

    def __init__(self, buffers: list[GmBuffer]) -> None:
        self._buffers = buffers
        self._below = [(b.content, b.pages) for b in buffers]
        self._known: dict[tuple[int, int], bytes] = {}
        self._touched: dict[int, np.ndarray] = {}
        for buffer in buffers:
            if buffer.size:
                buffer.pages = Pages(Below(buffer))
                buffer.content = buffer.pages.memory

    def settle(self) -> None:
        """What was changed and touched up to now is not told again."""
        self._touched = {b.number: self.touched(b.number) for b in self._buffers}
        self._known = {
            (b.number, at): page.tobytes()
            for b in self._buffers
            if b.pages is not None and b.size
            for at, page in b.pages.changes()
        }

    def touched(self, number: int) -> np.ndarray:
        """Return the numbers of the pages of a buffer that were reached."""
        pages = self._buffers[number].pages
        reached = np.flatnonzero(~pages.missing) if pages is not None else np.empty(0, np.int64)
        return np.setdiff1d(reached, self._touched.get(number, ()), assume_unique=True)

    def changed(self, number: int) -> np.ndarray:
        """Return the numbers of the bytes that were changed, to WORD bytes: a word has one number
        of the bytes in it that were."""
        pages = self._buffers[number].pages
        found = [np.empty(0, np.int64)]
        for at, page in pages.changes() if pages is not None else ():
            known = self._known.get((number, at))
            before = (
                np.frombuffer(known, np.uint8)
                if known is not None
                else pages.origin.read(at, at + len(page))  # type: ignore[union-attr]
            )
            whole = len(page) // WORD * WORD
            words = page[:whole].view(np.uint64) != before[:whole].view(np.uint64)
            found.append(at + np.flatnonzero(words) * WORD)
            found.append(at + whole + np.flatnonzero(page[whole:] != before[whole:]))
        return np.concatenate(found)

    def change(self, number: int, rows: np.ndarray) -> Change:
        """Return what some bytes of a buffer are now."""
        content = self._buffers[number].content
        parts = [content[a:b] for a, b in rows.tolist()]
        return Change(number, rows, np.concatenate(parts) if parts else content[:0])

    def remove(self) -> None:
        """Put the buffers below back; changes are forgotten."""
        for buffer, (content, pages) in zip(self._buffers, self._below, strict=True):
            buffer.content, buffer.pages = content, pages


def apply(buffers: list[GmBuffer], change: Change) -> None:
    """Write bytes."""
    buffer, at = buffers[change.number], 0
    for start, stop in change.rows.tolist():
        buffer.part(start, stop)[:] = change.bytes[at : at + stop - start]
        at += stop - start
