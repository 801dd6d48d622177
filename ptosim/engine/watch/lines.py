"""The data cache of the scalar units: lines of 64 bytes that no other core and no DMA sees.

A scalar store fills its line and writes it back as a whole, some time before the kernel ends; what
others wrote to the same line since is lost then. A scalar load finds what its line held when it was
cached. DMA goes past the cache. In a run with values loads and transfers find what these have.
Lines are counted from the start of a buffer: arguments are assumed to begin at one (PTOAS#696,
#915, #951, pypto#2005, pypto PR#2513)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Inst
from ptosim.engine.watch.access import SCALAR, Access, Agent, Clock
from ptosim.engine.watch.report import Reporter
from ptosim.engine.watch.shadow import ORIGIN, Footprint, Shadow
from ptosim.ground.diagnostics.model import Label
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.machine.core import Core, Machine
from ptosim.machine.effects.account import UNDEFINED
from ptosim.machine.effects.ranges import intervals
from ptosim.machine.effects.strided import Strided
from ptosim.machine.gm import GmBuffer
from ptosim.machine.pages import POISON

LINE = 64
MOST_LINES = 4096
"""Lines of one DMA access that are looked at; of a longer one those at its beginning."""

Line = tuple[str, int]
"""The name of a buffer, and the number of the line in it."""


class _Hidden(NamedTuple):
    """Bytes of a line, as bits, that an access does not find as they were stored last, and what it
    finds instead."""

    line: Line
    bits: int
    content: bytes


@dataclass(slots=True, eq=False)
class _Use:
    """An access: by which core and instruction, and how many its pipe has done with it; what the
    core knew of others then; of a store the bytes of the line, as bits, that the core stored since
    it was clean."""

    core: Core
    inst: Inst
    agent: int
    count: int
    known: Clock
    stored: int = 0


_NOTHING = nullcontext()


class ScalarLines:
    """What scalar units have in their caches, and what DMA stored, by lines."""

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self._dirty: dict[Line, dict[int, _Use]] = {}
        self._cached: dict[int, dict[Line, _Use]] = {}
        self._stored: dict[Line, tuple[int, _Use]] = {}  # by DMA, with the number of the store
        self._passed: list[tuple[int, _Use, str, np.ndarray]] = []  # the same of many rounds
        self._stores = 0
        self._last: dict[Line, dict[int, _Use]] = {}  # stores of each core
        self._stale: dict[Line, tuple[_Use, set[int]]] = {}
        self._written_back: dict[int, dict[Line, _Use]] = {}  # no fence waited for it yet
        self._given_up: dict[int, dict[Line, _Use]] = {}  # stale ones, and no fence since
        self._seen: set[tuple[str, int, int]] = set()
        self._behind: dict[Line, bytes] = {}  # what memory has of dirty lines
        self._held: dict[
            tuple[int, Line], bytes
        ] = {}  # what a core has of lines that changed since
        self.contents: Mapping[str, GmBuffer] = {}
        """The buffers by name, in a run with values."""
        self.lost: dict[Line, tuple[Shadow, int]] = {}
        """Bytes of lines, as bits, of which nobody knows what they are in the end."""

    def scalar(self, access: Access, agent: Agent) -> AbstractContextManager[None]:
        """A load or store of the scalar unit begins: return what is around it, so that it finds
        what its cache has."""
        use = _Use(access.core, access.inst, agent.index, agent.count + 1, agent.clock)
        hidden = [h for p in access.reads for line in _lines(p) for h in self._load(use, line, p)]
        for print_ in access.writes:
            for line in _lines(print_):
                self._store(use, line, print_)
        return self._hiding(hidden) if hidden else _NOTHING

    def moved(self, access: Access, agent: Agent) -> None:
        """A transfer past the cache."""
        use = _Use(access.core, access.inst, agent.index, agent.count, agent.clock)
        for print_ in _past(access) if self._dirty or self._written_back else ():
            self._read(use, print_)
        for print_ in access.writes:
            for line in _lines(print_):
                self._transferred(use, line, print_)

    def past(self, access: Access, commit: Callable[[], object]) -> Callable[[], object]:
        """Return the effect of a transfer, which finds what memory has."""
        stored = {print_.shadow.name for print_ in access.writes if print_.shadow.is_global}
        reads = [print_ for print_ in _past(access) if print_.shadow.name not in stored]

        def effect() -> object:
            if not self._behind:
                return commit()
            hidden = [
                _Hidden(line, bits, content)
                for line, content in self._behind.items()
                if (bits := self._unwritten(line))
                and any(_bits(p, line) & bits for p in reads if p.shadow.name == line[0])
            ]
            with self._hiding(hidden):
                return commit()

        return effect if reads else commit

    def _unwritten(self, line: Line, but: int | None = None) -> int:
        """The bytes of a line, as bits, that cores have stored and memory has not."""
        found = 0
        for core, use in self._dirty.get(line, {}).items():
            found |= use.stored if core != but else 0
        return found

    @contextmanager
    def _hiding(self, hidden: Iterable[_Hidden]) -> Iterator[None]:
        """For as long as an access lasts its bytes are what it finds."""
        kept = []
        for (name, number), bits, content in hidden:
            data = np.frombuffer(self.contents[name].data, np.uint8)
            part = data[number * LINE : number * LINE + len(content)]
            chosen = np.array([bits >> at & 1 for at in range(len(content))], bool)
            kept.append((part, chosen, part[chosen].copy()))
            part[chosen] = np.frombuffer(content, np.uint8)[chosen]
        try:
            yield
        finally:
            for part, chosen, before in kept:
                part[chosen] = before

    def _in_memory(self, line: Line) -> bytes:
        """What memory has of a line."""
        name, number = line
        if line in self._behind or name not in self.contents:
            return self._behind.get(line, b"")
        return self.contents[name].data[number * LINE : (number + 1) * LINE].tobytes()

    def cleaned(self, core: Core, line: Line | None) -> None:
        """The core writes a line back and gives it up (None: all of them); who waits for a fence
        after it finds it in memory."""
        mine = self._cached.get(core.index, {})
        pending = self._written_back.setdefault(core.index, {})
        for each in list(self._dirty) if line is None else [line]:
            use = self._dirty.get(each, {}).pop(core.index, None)
            if use is not None:
                pending[each] = use
                self._changed(self._last[each][core.index], each, {core.index})
                self._write_back(each, use.stored)
        for each in list(mine) if line is None else [line]:
            if each in mine:
                self._given_up.setdefault(core.index, {})[each] = mine.pop(each)
            self._held.pop((core.index, each), None)

    def _write_back(self, line: Line, bits: int) -> None:
        """Memory has bytes that a core had stored."""
        old = self._behind.pop(line, b"")
        if old and self._dirty.get(line):
            new = self._in_memory(line)
            merged = (
                n if bits >> at & 1 else o for at, (o, n) in enumerate(zip(old, new, strict=True))
            )
            self._behind[line] = bytes(merged)

    def fenced(self, core: Core) -> None:
        """What the core has written back is in memory, and what it gave up is gone."""
        self._written_back.pop(core.index, None)
        for line in self._given_up.pop(core.index, ()):
            self._stale.get(line, (None, set[int]()))[1].discard(core.index)

    def begin_again(self) -> None:
        """Nothing is cached, as at first."""
        for kept in (
            self._dirty, self._cached, self._stored, self._stale, self._passed, self._written_back,
            self._given_up, self._behind, self._held, self._last,
        ):  # fmt: skip
            kept.clear()

    # -- rounds that are left out ------------------------------------------------------------------

    def state(self) -> tuple[Any, ...]:
        """Return what decides what is told later, but for what DMA stored."""
        dirty = tuple((line, tuple(users)) for line, users in self._dirty.items() if users)
        cached = tuple((core, frozenset(lines)) for core, lines in self._cached.items() if lines)
        stale = tuple((line, frozenset(cores)) for line, (_, cores) in self._stale.items())
        open_ = (self._written_back, self._given_up)
        pending = tuple((core, frozenset(lines)) for of in open_ for core, lines in of.items())
        return dirty, cached, stale, pending, len(self._seen)

    def is_clean(self, swept: Footprint) -> bool:
        """True if no scalar unit keeps a line of these bytes to itself."""
        own = {line for line, users in self._dirty.items() if users}
        ranges, name = _ranges(swept), swept.shadow.name
        lines = own.union(*self._written_back.values())
        return not any(_is_in(ranges, number) for other, number in lines if other == name)

    def is_free(self, window: Footprint, swept: Footprint) -> bool:
        """True if a window that DMA stores meets no line of a scalar unit in the rounds in which it
        sweeps over some bytes."""
        if window.bytes > MOST_LINES * LINE:
            return False
        ranges, name = _ranges(swept), swept.shadow.name
        lines = {line for line, users in self._dirty.items() if users}
        return not any(
            _is_in(ranges, number)
            for other, number in lines.union(*self._cached.values())
            if other == name
        )

    def pass_over(self, swept: Footprint, access: Access) -> None:
        """DMA has stored bytes in many rounds."""
        self._stores += 1
        use = _Use(access.core, access.inst, 0, 0, {})
        self._passed.append((self._stores, use, swept.shadow.name, _ranges(swept)))

    def _stored_by(self, line: Line) -> _Use | None:
        """The last transfer to a line."""
        last, found = self._stored.get(line, (0, None))
        for number, use, name, ranges in self._passed:
            if number > last and name == line[0] and _is_in(ranges, line[1]):
                last, found = number, use
        return found

    # -- one access --------------------------------------------------------------------------------

    def _load(self, use: _Use, line: Line, print_: Footprint) -> Iterator[_Hidden]:
        """A load: what its cache has where memory has changed since, else what memory has."""
        core = use.core.index
        mine = self._cached.setdefault(core, {})
        cached = mine.get(line) or self._given_up.get(core, {}).get(line)
        by, knowing = self._stale.get(line, (None, ()))
        is_stale = cached is not None and core in knowing
        if cached is not None and not is_stale:
            by = self._stored_since(use, line, cached)
        if by is not None and cached is not None:
            self._tell("PTO6111", use, by)
        own = self._dirty.get(line, {}).get(core)
        content, bits = self._behind.get(line, b""), self._unwritten(line, core)
        if cached is None and bits & _bits(print_, line):
            self._tell("PTO6110", use, next(u for c, u in self._dirty[line].items() if c != core))
        if is_stale and line in mine:
            content = self._held.get((core, line), b"")
            bits = _ALL & ~(own.stored if own is not None else 0)
        mine.setdefault(line, use)
        if content and bits:
            yield _Hidden(line, bits, content)

    def _stored_since(self, use: _Use, line: Line, cached: _Use) -> _Use | None:
        """What another core has stored before a load, but not for certain before the line was
        cached: here it came first."""
        for core, last in self._last.get(line, {}).items():
            before, now = (known.get(last.agent, 0) for known in (cached.known, use.known))
            if core != use.core.index and before < last.count <= now:
                return last
        return None

    def _store(self, use: _Use, line: Line, print_: Footprint) -> None:
        core = use.core.index
        users = self._dirty.setdefault(line, {})
        bits = _bits(print_, line) | (users[core].stored if core in users else 0)
        use = _Use(use.core, use.inst, use.agent, use.count, use.known, bits)
        other = next((u for c, u in users.items() if c != core), None)
        if other is not None:
            self._tell("PTO5250", use, other)
            self._lose(line, print_, bits | other.stored)
        stored = self._stored_by(line)
        if stored is not None:
            self._tell("PTO5251", use, stored)
            self._lose(line, print_, _ALL & ~bits)
        self._changed(use, line, {core})
        if line not in self._behind and line[0] in self.contents:
            self._behind[line] = self._in_memory(line)
        users[core] = use
        self._cached.setdefault(core, {}).setdefault(line, use)

    def _read(self, use: _Use, print_: Footprint) -> None:
        """A transfer takes bytes that a scalar unit has stored: they are in its cache."""
        lines = _lines(print_) if len(self._dirty) > MOST_LINES else list(self._dirty)
        pending = (each for lines in self._written_back.values() for each in lines.items())
        kept = [
            *((line, u) for line in lines for u in self._dirty.get(line, {}).values()),
            *pending,
        ]
        for line, by in kept:
            if line[0] == print_.shadow.name and _bits(print_, line) & by.stored:
                self._tell("PTO6110", use, by)

    def _lose(self, line: Line, print_: Footprint, bits: int) -> None:
        shadow, known = self.lost.get(line, (print_.shadow, 0))
        self.lost[line] = shadow, known | bits

    def leave_without_values(self, machine: Machine, uninit: str, seed: int) -> None:
        """The run is over: what was written into bytes that were lost since has no value, and shows
        as memory does that nothing has written."""
        numbers = {buffer.name: buffer.number for buffer in machine.buffers}
        fill = {"poison": POISON, "zero": 0}.get(uninit)
        for (name, number), (shadow, bits) in self.lost.items():
            data = machine.buffers[numbers[name]].data
            chance = random.Random(f"{seed}|{name}|{number}")
            for low, high in _runs(bits, number * LINE):
                for start, end in _written(shadow, low, min(high, len(data))):
                    size = end - start
                    chances = np.frombuffer(chance.randbytes(size), np.uint8)
                    data[start:end] = chances if fill is None else fill
                    for atom in shadow.resolve((Strided(start, size),)):
                        atom.defined = UNDEFINED

    def _transferred(self, use: _Use, line: Line, print_: Footprint) -> None:
        users = self._dirty.get(line)
        if users:
            by = next(iter(users.values()))
            self._tell("PTO5251", use, by)
            self._lose(line, print_, _bits(print_, line) & ~by.stored)
        self._stores += 1
        self._stored[line] = self._stores, use
        self._changed(use, line, set())

    def _changed(self, use: _Use, line: Line, knowing: set[int]) -> None:
        """Cores that have the line cached have an old one now."""
        self._last.setdefault(line, {})[use.core.index] = use
        having = {c for c, lines in self._cached.items() if line in lines} - knowing
        if having:
            self._stale[line] = use, having
            for core in having if self.contents else ():
                self._held.setdefault((core, line), self._in_memory(line))

    def _tell(self, code: str, later: _Use, earlier: _Use) -> None:
        key = (code, later.inst.pc, earlier.inst.pc)
        if key in self._seen:
            return
        self._seen.add(key)
        _TOLD[code](self._report, later, earlier)


_ALL = (1 << LINE) - 1


def _past(access: Access) -> Iterator[Footprint]:
    """What a transfer reads past the cache: of global memory all but what the library's code for it
    reads with the scalar unit."""
    op = access.inst.op
    steps = op.passes.steps if op is not None and op.passes is not None else ()
    cached = [name for step in steps if step.pipe == SCALAR for name in step.reads]
    for print_ in access.reads:
        if print_.shadow.is_global and print_.name not in cached:
            yield print_


def _bits(print_: Footprint, line: Line) -> int:
    """The bytes of a line that a footprint has, as bits."""
    begin, (low, high) = line[1] * LINE, print_.span
    if high <= begin or low >= begin + LINE:
        return 0
    if high - low == print_.bytes:
        return _run(low - begin, high - begin)
    rows = intervals(print_.parts) - begin
    rows = rows[(rows[:, 1] > 0) & (rows[:, 0] < LINE)]
    found = 0
    for first, end in rows.tolist():
        found |= _run(first, end)
    return found


def _run(low: int, high: int) -> int:
    return (1 << min(high, LINE)) - (1 << max(low, 0))


def _runs(bits: int, start: int) -> Iterator[tuple[int, int]]:
    """The bytes of a line as ranges, the first byte and the one after the last."""
    set_ = [at for at in range(LINE) if bits >> at & 1]
    for at in set_:
        if at == 0 or not bits >> (at - 1) & 1:
            end = next(n for n in range(at, LINE + 1) if not bits >> n & 1)
            yield start + at, start + end


def _written(shadow: Shadow, low: int, high: int) -> Iterator[tuple[int, int]]:
    """The ranges of some bytes that this run wrote."""
    if low >= high:
        return
    written = [a.write is not ORIGIN for a in shadow.resolve((Strided(low, high - low),))]
    if all(written):
        yield low, high
    elif any(written) and high - low > 1:
        yield from _written(shadow, low, (low + high) // 2)
        yield from _written(shadow, (low + high) // 2, high)


def _ranges(print_: Footprint) -> np.ndarray:
    """The first line and the last one of each run of bytes, ascending."""
    rows = intervals(print_.parts)
    return np.stack([rows[:, 0] // LINE, (rows[:, 1] - 1) // LINE], 1)


def _is_in(ranges: np.ndarray, line: int) -> bool:
    at = int(np.searchsorted(ranges[:, 0], line, "right")) - 1
    return at >= 0 and line <= int(ranges[at, 1])


def _lines(print_: Footprint) -> list[Line]:
    if not print_.shadow.is_global:
        return []
    low, high = print_.span
    name = print_.shadow.name
    first, last = low // LINE, min((high - 1) // LINE, low // LINE + MOST_LINES)
    if len(print_.parts) == 1 and not print_.parts[0].dims:
        return [(name, n) for n in range(first, last + 1)]
    found: dict[int, None] = {}
    for part in print_.parts:
        starts = [part.start]
        for count, distance in part.dims:
            starts = [s + k * distance for s in starts for k in range(count)][:MOST_LINES]
        for start in starts:
            found.update(dict.fromkeys(range(start // LINE, (start + part.run - 1) // LINE + 1)))
    return [(name, n) for n in found]


def _shared(report: Reporter, later: _Use, earlier: _Use) -> None:
    one, two = earlier.inst.operation, later.inst.operation
    report.sink.report(
        "PTO5250",
        f"cores {earlier.core.index} and {later.core.index} store to one 64-byte line: "
        "words of one of them are lost",
        report.span(two),
        label=f"core {later.core.index}",
        more=(Label(report.span(one), f"core {earlier.core.index}"),) if one is not two else (),
        notes=(
            "a scalar store fills its line and writes all of it back later, over what others wrote",
            _ASSUMED,
        ),
        help="store 64 bytes apart, let one core store, or build the row in UB and tstore it",
    )


def _mixed(report: Reporter, later: _Use, earlier: _Use) -> None:
    one, two = earlier.inst.operation, later.inst.operation
    report.sink.report(
        "PTO5251",
        f"'{one.name}' and '{two.name}' store to one 64-byte line: bytes around the scalar store "
        "return to their old values",
        report.span(two),
        more=(Label(report.span(one), "the same line"),),
        notes=("no sequence of cache operations makes it safe", _ASSUMED),
        help="do not mix tstore and store_scalar in one 64-byte line: move one of them to the next",
    )


def _old(report: Reporter, later: _Use, earlier: _Use) -> None:
    one, two = earlier.inst.operation, later.inst.operation
    report.sink.report(
        "PTO6111",
        f"'{two.name}' loads a stale line: the scalar unit has it cached from before '{one.name}'",
        report.span(two),
        more=(Label(report.span(one), "writes memory, not the cache"),),
        notes=("a flag orders the two, and the cache keeps what it has", _ASSUMED),
        help="before the load write\npto.cmo.cacheinvalid %pointer single_cache_line : …\n"
        "pto.fence.barrier_all #pto.fence_scope<gm>",
    )


def _unpublished(report: Reporter, later: _Use, earlier: _Use) -> None:
    one, two = earlier.inst.operation, later.inst.operation
    report.sink.report(
        "PTO6110",
        f"'{one.name}' is in the scalar unit's cache when '{two.name}' reads its bytes from memory",
        report.span(one),
        more=(Label(report.span(two), "reads past the cache"),),
        notes=("neither a flag nor a barrier writes the cache back", _ASSUMED),
        help="after the store write\npto.cmo.cacheinvalid %pointer single_cache_line : …\n"
        "pto.fence.barrier_all #pto.fence_scope<gm>\nand then the flag",
    )


_ASSUMED = "lines are counted from the start of the buffer: that it begins at one is assumed"
_TOLD: dict[str, Callable[[Reporter, _Use, _Use], None]] = {
    "PTO5250": _shared,
    "PTO5251": _mixed,
    "PTO6110": _unpublished,
    "PTO6111": _old,
}
