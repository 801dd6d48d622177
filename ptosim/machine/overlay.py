"""Buffers of global memory whose changes are kept apart from them until they are wanted."""

from __future__ import annotations

import mmap

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
    """What some bytes of a buffer are: rows (first byte, one past the last), and an array of the
    buffer's size that has them there; None for the memory that processes share."""

    number: int
    rows: np.ndarray
    content: np.ndarray | None


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
        """Return the bytes of a buffer that were changed, to WORD bytes: rows (first byte of the
        first word, one past the last word) of words that follow one another in a page."""
        pages = self._buffers[number].pages
        found = [np.empty((0, 2), np.int64)]
        for at, page in pages.changes() if pages is not None else ():
            known = self._known.get((number, at))
            before = (
                np.frombuffer(known, np.uint8)
                if known is not None
                else pages.origin.read(at, at + len(page))  # type: ignore[union-attr]
            )
            found.append(at + WORD * _runs(_words(page) != _words(before)))
        return np.concatenate(found)

    def change(self, number: int, rows: np.ndarray) -> Change:
        """Return what some bytes of a buffer are."""
        return Change(number, rows, self._buffers[number].content)

    def remove(self) -> None:
        """Put the buffers below back; changes are forgotten."""
        for buffer, (content, pages) in zip(self._buffers, self._below, strict=True):
            buffer.content, buffer.pages = content, pages


def _words(page: np.ndarray) -> np.ndarray:
    """A page as whole words; what is left of the last one is filled up."""
    rest = -len(page) % WORD
    return (np.concatenate((page, np.zeros(rest, np.uint8))) if rest else page).view(np.uint64)


def _runs(marks: np.ndarray) -> np.ndarray:
    """Rows (first number, one past the last) of the marks that follow one another."""
    edges = np.flatnonzero(np.diff(marks, prepend=False, append=False))
    return edges.reshape(-1, 2)


def shared_contents(buffers: list[GmBuffer]) -> list[np.ndarray]:
    """Return memory of the size of each buffer that this process and those forked from it share.
    It costs what is touched of it."""
    return [np.frombuffer(mmap.mmap(-1, max(b.size, 1)), np.uint8)[: b.size] for b in buffers]


def publish(change: Change, shared: list[np.ndarray]) -> Change:
    """Put bytes that were changed into shared memory."""
    assert change.content is not None
    _copy(shared[change.number], change.content, change.rows)
    return change._replace(content=None)


def apply(buffers: list[GmBuffer], change: Change, shared: list[np.ndarray]) -> None:
    """Write bytes."""
    buffer, content = buffers[change.number], change.content
    for start, stop in change.rows.tolist():
        buffer.part(start, stop)
    _copy(buffer.content, shared[change.number] if content is None else content, change.rows)


def _copy(target: np.ndarray, source: np.ndarray, rows: np.ndarray) -> None:
    into, from_ = target.data, source.data
    for start, stop in rows.tolist():
        into[start:stop] = from_[start:stop]
