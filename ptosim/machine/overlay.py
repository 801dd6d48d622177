"""Buffers of global memory whose changes are kept apart from them until they are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ptosim.machine.gm import GmBuffer
from ptosim.machine.pages import PAGE, Pages


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
    """Bytes of a page that are others than before: which (a bit for each byte of the page, packed),
    and what they are."""

    number: int
    at: int
    which: np.ndarray
    bytes: np.ndarray

    def places(self) -> np.ndarray:
        """Return the numbers of the bytes in their buffer."""
        return self.at + np.flatnonzero(np.unpackbits(self.which))


class Overlay:
    """Buffers that were put on top of those of a machine."""

    def __init__(self, buffers: list[GmBuffer]) -> None:
        self._buffers = buffers
        self._below = [(b.content, b.pages) for b in buffers]
        self._known: dict[tuple[int, int], bytes] = {}
        for buffer in buffers:
            if buffer.size:
                buffer.pages = Pages(Below(buffer))
                buffer.content = buffer.pages.memory

    def settle(self) -> None:
        """Changes up to now are not told again."""
        self._known = {(n, at): page.tobytes() for n, at, page in self._changed()}

    def _changed(self) -> Iterator[tuple[int, int, np.ndarray]]:
        for buffer in self._buffers:
            if buffer.size and buffer.pages is not None:
                for at, page in buffer.pages.changes():
                    yield buffer.number, at, page

    def changes(self) -> Iterator[Change]:
        """Yield what was changed, page by page."""
        for number, at, page in self._changed():
            known = self._known.get((number, at))
            if known is None:
                pages = self._buffers[number].pages
                assert pages is not None
                before = pages.origin.read(at, at + len(page))
            else:
                before = np.frombuffer(known, np.uint8)
            differs = page != before
            if differs.any():
                yield Change(number, at, np.packbits(differs), page[differs])

    def touched(self, number: int) -> np.ndarray:
        """Return the numbers of the pages of a buffer that were reached."""
        pages = self._buffers[number].pages
        return np.flatnonzero(~pages.missing) if pages is not None else np.empty(0, np.int64)

    def remove(self) -> None:
        """Put the buffers below back; changes are forgotten."""
        for buffer, (content, pages) in zip(self._buffers, self._below, strict=True):
            buffer.content, buffer.pages = content, pages


def apply(buffers: list[GmBuffer], change: Change) -> None:
    """Write changed bytes."""
    places = change.places()
    buffers[change.number].part(int(places[0]), int(places[-1]) + 1)
    buffers[change.number].content[places] = change.bytes
