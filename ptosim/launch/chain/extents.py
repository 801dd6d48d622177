"""Which bytes of a buffer have which history, as intervals."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

from ptosim.ground.records import dataclass, field

T = TypeVar("T")


@dataclass(slots=True)
class Extents(Generic[T]):
    """A value for every byte from 0 to before `size`, the same for whole intervals."""

    size: int
    first: T
    _starts: list[int] = field(init=False)
    _values: list[T] = field(init=False)

    def __post_init__(self) -> None:
        self._starts, self._values = [0], [self.first]

    def within(self, start: int, stop: int) -> Iterator[tuple[int, int, T]]:
        """Yield the intervals of bytes [start, stop) with their values."""
        at = bisect_right(self._starts, start) - 1
        while start < stop:
            end = self._starts[at + 1] if at + 1 < len(self._starts) else self.size
            yield start, min(end, stop), self._values[at]
            start, at = end, at + 1

    def set(self, start: int, stop: int, value: T) -> None:
        """Give bytes [start, stop) a value."""
        low, high = self._cut(start), self._cut(stop)
        self._starts[low:high] = [start]
        self._values[low:high] = [value]

    def _cut(self, at: int) -> int:
        """Let an interval begin at a byte; return its number."""
        number = bisect_left(self._starts, at)
        if at < self.size and (number == len(self._starts) or self._starts[number] != at):
            self._starts.insert(number, at)
            self._values.insert(number, self._values[number - 1])
        return number
