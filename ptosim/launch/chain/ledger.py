"""What launches do to the buffers that they share: hazards between one launch and a later one.

Launches of one stream do not overlap, so nothing races. But a launch may read what no launch has
written, or write over what another one wrote and nobody has read. Launches of several streams race
for bytes that one of them writes, unless one waits for the other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from ptosim.engine.watch.reach import GlobalUse
from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.records import dataclass, field, replace
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


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Which launch it is: its name, the place in the file, how often it was repeated before. It is
    number `number` of its stream; `knows` says of each stream how many launches are done when it
    begins."""

    name: str
    place: Span
    counters: str = ""
    stream: str = ""
    number: int = 0
    knows: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"`{self.name}`{f' ({self.counters})' if self.counters else ''}"

    def follows(self, other: Stage) -> bool:
        """True if the other launch is done when this one begins."""
        return other is self or self.knows.get(other.stream, 0) >= other.number


class Streams:
    """Makes stages in the order of the file: a launch begins after the one before it in its stream,
    and after the last launches of the names that it waits for."""

    def __init__(self) -> None:
        self._last: dict[str, Stage] = {}
        self._named: dict[str, Stage] = {}

    def issue(
        self, name: str, place: Span, counters: str, stream: str, after: Sequence[str]
    ) -> Stage:
        """Return the next launch of a stream."""
        before = [self._last.get(stream), *(self._named.get(n) for n in after)]
        knows: dict[str, int] = {}
        for one in (s for s in before if s is not None):
            for known, count in (*one.knows.items(), (one.stream, one.number)):
                knows[known] = max(knows.get(known, 0), count)
        stage = Stage(name, place, counters, stream, knows.get(stream, 0) + 1, knows)
        self._last[stream] = self._named[name] = stage
        return stage


@dataclass(frozen=True, slots=True)
class _State:
    """The history of some bytes: who wrote them last (None: nobody), whether that was read, and who
    read it, the last of each stream; `is_added`: the last write was an atomic addition."""

    writer: Stage | None
    is_given: bool = False
    is_read: bool = False
    readers: tuple[Stage, ...] = ()
    is_added: bool = False


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
        added = Extents(buffer.extents.size + 1, first=False)
        for start, stop in use.added:
            added.set(offset + start, min(offset + stop, buffer.extents.size), True)
        writes = [
            part for low, high in use.writes for part in added.within(offset + low, offset + high)
        ]
        for low, high in use.reads:
            for part in list(added.within(offset + low, offset + high)):
                self._race(stage, buffer, part, place, is_write=False)
        for part in writes:
            self._race(stage, buffer, part, place, is_write=True)
        for start, stop in use.reads:
            self._read(stage, buffer, offset + start, offset + stop, place)
        for part in writes:
            self._write(stage, buffer, part, place)
        for start, stop in use.settled:
            state = _State(stage, is_read=True, readers=(stage,))
            buffer.extents.set(offset + start, offset + stop, state)
        if use.reads:
            buffer.readers[stage.name] = buffer.readers.get(stage.name, 0) + 1
        if use.writes:
            buffer.writers[stage.name] = buffer.writers.get(stage.name, 0) + 1

    def _read(self, stage: Stage, buffer: BufferUse, start: int, stop: int, place: Span) -> None:
        for low, high, state in list(buffer.extents.within(start, min(stop, buffer.extents.size))):
            if state.writer is None and not state.is_given:
                self._unwritten(stage, buffer, low, high, place)
            others = tuple(r for r in state.readers if r.stream != stage.stream)
            found = replace(state, is_read=True, readers=(*others, stage))
            buffer.extents.set(low, high, found)

    def _race(
        self,
        stage: Stage,
        buffer: BufferUse,
        part: tuple[int, int, bool],
        place: Span,
        *,
        is_write: bool,
    ) -> None:
        """Report launches that this one does not follow, and that reach the same bytes; the last of
        `part` says if it adds to them."""
        low, high, adds = part[0], min(part[1], buffer.extents.size), part[2]
        for start, stop, state in buffer.extents.within(low, high):
            writer = state.writer
            if writer is not None and not stage.follows(writer) and not (adds and state.is_added):
                did = "writes" if is_write else "reads"
                self._unordered(stage, writer, buffer, (start, stop), place, (did, "writes"))
            for reader in state.readers if is_write and not adds else ():
                if not stage.follows(reader):
                    self._unordered(
                        stage, reader, buffer, (start, stop), place, ("writes", "reads")
                    )

    def _unordered(
        self,
        stage: Stage,
        other: Stage,
        buffer: BufferUse,
        part: tuple[int, int],
        place: Span,
        words: tuple[str, str],
    ) -> None:
        if self._is_known("PTO6125", stage.name, other.name, buffer.name):
            return
        self.findings.append(
            finding(
                "PTO6125",
                f"launch {stage} {words[0]} what {other} {words[1]} in buffer `{buffer.name}`, and "
                f"nothing orders them: bytes [{part[0]:#x}, {part[1]:#x})",
                place,
                label=_in(stage),
                more=(Label(other.place, _in(other)),),
                help=f'have it wait, `after = ["{other.name}"]`, or launch both in one stream',
            )
        )

    def _write(
        self,
        stage: Stage,
        buffer: BufferUse,
        part: tuple[int, int, bool],
        place: Span,
    ) -> None:
        start, stop = part[0], min(part[1], buffer.extents.size)
        for low, high, state in buffer.extents.within(start, stop):
            if state.writer is not None and not state.is_read:
                self._lost(stage, state.writer, buffer, (low, high), place)
        if start < stop:
            buffer.extents.set(start, stop, _State(stage, is_added=part[2]))

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


def _in(stage: Stage) -> str:
    return f"in stream `{stage.stream}`" if stage.stream else "in no stream that has a name"
