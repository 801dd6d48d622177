"""What launches do to the buffers that they share: hazards between one launch and a later one.

Launches of one stream do not overlap, so nothing races. But a launch may read what no launch has
written, or write over what another one wrote and nobody has read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from ptosim.engine.watch.uses import GlobalUse
from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Span

# Which bytes of a buffer have which history, as intervals.

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


@dataclass(frozen=True, slots=True)
class Stage:
    """Which launch it is: its name, the place in the file, how often it was repeated before."""

    name: str
    place: Span
    counters: str = ""

    def __str__(self) -> str:
        return f"`{self.name}`{f' ({self.counters})' if self.counters else ''}"


@dataclass(frozen=True, slots=True)
class _State:
    """The history of some bytes: who wrote them last (None: nobody), and whether that was read."""

    writer: Stage | None
    is_given: bool = False
    is_read: bool = False


@dataclass(slots=True)
class BufferUse:
    """A buffer of a chain: who wrote and who read it, by the names of stages."""

    name: str
    place: Span
    extents: Extents[_State]
    is_passed: bool = False
    writers: dict[str, int] = field(default_factory=dict)
    readers: dict[str, int] = field(default_factory=dict)


class Ledger:
    """The account of all buffers of a chain."""

    def __init__(self) -> None:
        self.buffers: dict[str, BufferUse] = {}
        self.findings: list[Diagnostic] = []
        self._seen: set[tuple[str, ...]] = set()

    def add(self, name: str, size: int, place: Span, *, is_given: bool) -> None:
        """Begin the account of a buffer; `is_given` if it has content before the first launch."""
        self.buffers[name] = BufferUse(name, place, Extents(size, _State(None, is_given)))

    def take(self, name: str) -> None:
        """A launch takes a buffer, whatever it does with it."""
        self.buffers[name].is_passed = True

    def note(self, stage: Stage, name: str, offset: int, use: GlobalUse, place: Span) -> None:
        """A launch used a buffer, of which its own memory begins at byte `offset`. `place` is the
        argument in the file."""
        buffer = self.buffers[name]
        for start, stop in use.reads:
            self._read(stage, buffer, offset + start, offset + stop, place)
        for start, stop in use.writes:
            self._write(stage, buffer, offset + start, offset + stop, place)
        for start, stop in use.settled:
            buffer.extents.set(offset + start, offset + stop, _State(stage, is_read=True))
        if use.reads:
            buffer.readers[stage.name] = buffer.readers.get(stage.name, 0) + 1
        if use.writes:
            buffer.writers[stage.name] = buffer.writers.get(stage.name, 0) + 1

    def _read(self, stage: Stage, buffer: BufferUse, start: int, stop: int, place: Span) -> None:
        for low, high, state in list(buffer.extents.within(start, min(stop, buffer.extents.size))):
            if state.writer is None and not state.is_given:
                self._unwritten(stage, buffer, low, high, place)
            if not state.is_read:
                buffer.extents.set(low, high, _State(state.writer, state.is_given, True))

    def _write(self, stage: Stage, buffer: BufferUse, start: int, stop: int, place: Span) -> None:
        stop = min(stop, buffer.extents.size)
        for low, high, state in buffer.extents.within(start, stop):
            if state.writer is not None and not state.is_read:
                self._lost(stage, state.writer, buffer, (low, high), place)
        if start < stop:
            buffer.extents.set(start, stop, _State(stage))

    def _unwritten(self, stage: Stage, buffer: BufferUse, low: int, high: int, place: Span) -> None:
        if self._is_known("PTO6120", stage.name, buffer.name):
            return
        self.findings.append(
            finding(
                "PTO6120",
                f"launch {stage} reads buffer `{buffer.name}` before any launch wrote it: "
                f"bytes [{low:#x}, {high:#x})",
                place,
                label="read here",
                more=(Label(buffer.place, "has no content of its own"),),
                help="launch what writes it earlier, or give it a content: `zeros:…`, a file",
            )
        )

    def _lost(
        self, stage: Stage, writer: Stage, buffer: BufferUse, part: tuple[int, int], place: Span
    ) -> None:
        if self._is_known("PTO6121", stage.name, writer.name, buffer.name):
            return
        self.findings.append(
            finding(
                "PTO6121",
                f"launch {stage} writes over what {writer} wrote to buffer `{buffer.name}` and no "
                f"launch has read: bytes [{part[0]:#x}, {part[1]:#x})",
                place,
                label="written again here",
                more=(Label(writer.place, "written first here"),),
                help="give one of them another buffer or another window; add with an atomic store "
                "if both are parts of a sum",
            )
        )

    def _is_known(self, *key: str) -> bool:
        known = key in self._seen
        self._seen.add(key)
        return known

    def finish(self, wanted: Sequence[str]) -> None:
        """Report buffers that no launch took, except those whose values are `wanted`."""
        for name, buffer in self.buffers.items():
            if buffer.is_passed or name in wanted:
                continue
            self.findings.append(
                finding(
                    "PTO6124",
                    f"no launch takes buffer `{name}`",
                    buffer.place,
                    help="remove it, or pass it where it is meant",
                )
            )
