"""What is where in the memories on chip, and when: tiles with the times at which they hold
something that is still read.

Times come from following the program without values (each operation of the first core of a kind is
one step); a program that does not fit, or that cannot be followed, is drawn from its text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from ptosim.engine.core.bound import Inst
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.ir.core import Value
from ptosim.ground.isa.dates import Profile
from ptosim.ground.isa.schema import Role
from ptosim.ground.isa.targets import SpaceDef, machine
from ptosim.ground.progress import Shown
from ptosim.ground.records import dataclass, field, replace
from ptosim.ground.source import Source
from ptosim.language.frontend import Front
from ptosim.language.place.cores import has_abstract, peer_functions, reached_functions
from ptosim.language.place.planner import Placed, place
from ptosim.language.place.reuse import lifetimes
from ptosim.language.rewrite import abstract
from ptosim.launch import arguments
from ptosim.launch.dry_run import follow
from ptosim.machine.core import Core
from ptosim.machine.effects.storage import bound_values, is_inert
from ptosim.machine.tile import TileRef
from ptosim.time.report import trace
from ptosim.time.report.totals import CostReport

Span = tuple[int, int]
"""First and last step."""


@dataclass(slots=True)
class Buffer:
    """Bytes with a name; `live` are the times at which they hold something that is still read."""

    name: str
    space: str
    addr: int
    bytes: int
    line: int
    live: list[Span] = field(default_factory=list)
    is_borrowed: bool = False  # read where only another name of its bytes was written

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.addr + self.bytes

    def is_live(self, time: int) -> bool:
        """True if it is in use at a step."""
        return any(start <= time <= end for start, end in self.live)

    def meets(self, other: Buffer) -> bool:
        """True if the two share bytes."""
        return self.addr < other.end and other.addr < self.end


@dataclass(slots=True)
class SpaceMap:
    """The buffers of one space and its limits."""

    space: SpaceDef
    buffers: list[Buffer]
    steps: int

    @property
    def high_water(self) -> int:
        """One past the highest byte that anything is placed at."""
        return max((b.end for b in self.buffers), default=0)

    def peak(self) -> tuple[int, int, list[Buffer]]:
        """Return the step at which most bytes are in use, how many, and by whom, the largest
        first."""
        found, most = max(self.levels(), key=lambda level: (level[1], -level[0]), default=(0, 0))
        users = sorted((b for b in self.buffers if b.is_live(found)), key=lambda b: -b.bytes)
        return found, most, users

    def levels(self) -> list[tuple[int, int]]:
        """Return the steps at which the bytes in use change, and how many are in use from there on;
        shared ones count once."""
        edges: dict[int, list[tuple[int, bool]]] = {}
        for number, buffer in enumerate(self.buffers):
            for start, end in buffer.live:
                edges.setdefault(start, []).append((number, True))
                edges.setdefault(end + 1, []).append((number, False))
        covered = _Covered(self.buffers)
        found = []
        for step in sorted(edges):
            for number, begins in edges[step]:
                covered.change(self.buffers[number], 1 if begins else -1)
            found.append((step, covered.bytes))
        return found

    def overlaps(self) -> list[tuple[Buffer, Buffer, str]]:
        """Return the pairs that share bytes: `same` (two names of the same bytes), `overlap` (in
        use together), and `reuse` (never in use together): of all that use the same bytes one after
        the other, those that follow each other."""
        found: list[tuple[int, int, str]] = []
        for one, others in enumerate(self._sharing()):
            after = False
            for two in others:
                kind = _relation(self.buffers[one], self.buffers[two])
                if kind != "reuse" or not after:
                    found.append((min(one, two), max(one, two), kind))
                after |= kind == "reuse"
        return [(self.buffers[a], self.buffers[b], kind) for a, b, kind in sorted(set(found))]

    def _sharing(self) -> list[list[int]]:
        """The buffers that share bytes with each and begin to be used with it or later, up to the
        first that is used after it; in that order."""
        order = sorted(range(len(self.buffers)), key=lambda i: _first_use(self.buffers[i]))
        place = {number: at for at, number in enumerate(order)}
        active: list[int] = []
        found: list[list[int]] = [[] for _ in self.buffers]
        for number in order:
            buffer, kept = self.buffers[number], []
            for earlier in active:
                other = self.buffers[earlier]
                if buffer.meets(other):
                    found[earlier].append(number)
                is_over = _last_use(other) < _first_use(buffer)
                if not (is_over and _within(other, buffer)):
                    kept.append(earlier)
            active = [*kept, number]
        for others in found:
            others.sort(key=place.__getitem__)
        return found

    def advice(self) -> list[str]:
        """Return what to shrink, and by how much, for the space to stay below its limits."""
        told = []
        limits = {self.space.planner: "planner", self.space.safe: "safe"}
        for limit, word in sorted(limits.items()):
            over = self.high_water - limit
            if over > 0:
                cures = " and ".join(self._shrink(over))
                told.append(f"{over:,} bytes over the {word} limit of {limit:,}: shrink {cures}")
        return told

    def _shrink(self, over: int) -> list[str]:
        """The largest buffers at the peak, each by at most half, until enough is gone."""
        _, _, users = self.peak()
        ordered = sorted(users or self.buffers, key=lambda b: -b.bytes)
        cures = []
        for buffer in ordered:
            part = min(over, buffer.bytes // 2)
            cures.append(f"{buffer.name} (line {buffer.line}) by {part:,} bytes")
            over -= part
            if over <= 0:
                break
        return cures


class _Covered:
    """How many bytes the buffers in use have together, while uses begin and end: counted for each
    stretch of bytes between two ends of buffers."""

    def __init__(self, buffers: Iterable[Buffer]) -> None:
        ends = sorted({end for b in buffers for end in (b.addr, b.end)})
        self.bytes = 0
        self._sizes = [after - before for before, after in pairwise(ends)]
        self._uses = [0] * len(self._sizes)
        self._place = {end: number for number, end in enumerate(ends)}

    def change(self, buffer: Buffer, by: int) -> None:
        """Note that a buffer is used once more (1), or less (-1)."""
        for number in range(self._place[buffer.addr], self._place[buffer.end]):
            before = self._uses[number]
            self._uses[number] = before + by
            self.bytes += self._sizes[number] * ((before + by > 0) - (before > 0))


def _first_use(buffer: Buffer) -> int:
    return min((start for start, _ in buffer.live), default=0)


def _last_use(buffer: Buffer) -> int:
    return max((end for _, end in buffer.live), default=1 << 62)


def _within(one: Buffer, two: Buffer) -> bool:
    return two.addr <= one.addr and one.end <= two.end


def _relation(one: Buffer, two: Buffer) -> str:
    together = any(a <= d and c <= b for a, b in one.live for c, d in two.live)
    is_same = (one.addr, one.bytes) == (two.addr, two.bytes)
    if is_same and (together or one.is_borrowed or two.is_borrowed):
        return "same"
    return "overlap" if together else "reuse"


@dataclass(slots=True)
class MemoryMap(Shown):
    """The map of an entry. `source` says where the times come from."""

    entry: str
    target: str
    chip: str
    source: str
    spaces: list[SpaceMap]

    def __repr__(self) -> str:
        spaces = ", ".join(
            f"{s.space.alias} {s.high_water:,} of {s.space.bytes:,} bytes" for s in self.spaces
        )
        return f"<MemoryMap: @{self.entry} on {self.target}, {spaces or 'no tiles on chip'}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the map as JSON data."""
        return {
            "entry": self.entry,
            "target": self.target,
            "chip": self.chip,
            "times": self.source,
            "spaces": [_space_fields(s) for s in self.spaces],
        }


def _space_fields(found: SpaceMap) -> dict[str, Any]:
    step, live, users = found.peak()
    return {
        "space": found.space.name,
        "alias": found.space.alias,
        "bytes": found.space.bytes,
        "planner": found.space.planner,
        "safe": found.space.safe,
        "high_water": found.high_water,
        "steps": found.steps,
        "peak": {"step": step, "live_bytes": live, "buffers": [b.name for b in users]},
        "buffers": [
            {
                "name": b.name,
                "addr": b.addr,
                "bytes": b.bytes,
                "line": b.line,
                "live": [list(span) for span in b.live],
            }
            for b in found.buffers
        ],
        "overlaps": [
            {"first": a.name, "second": b.name, "kind": k} for a, b, k in found.overlaps()
        ],
        "advice": found.advice(),
    }


def memory_map(
    front: Front, profile: Profile, entry: str, args: Mapping[str, Any] | None = None
) -> MemoryMap:
    """Return the map of an entry. The program may be over its budgets; any other fault of it must
    have been refused before."""
    args = dict(args or {})
    if has_abstract(front.resolved.functions[entry]):  # shapes come from the arguments
        peers = peer_functions(front.resolved, front.resolved.functions[entry])
        given = arguments.match(peers, args)
        front = replace(front, resolved=abstract.concrete(front, given, front.sink)[0])
    resolved = front.resolved
    functions = reached_functions(resolved, peer_functions(resolved, resolved.functions[entry]))
    placement = place(resolved, functions, Sink())
    buffers = _buffers(front, placement.placed)
    steps, source = 0, "the text"
    if not front.sink.is_rejected:
        watcher = _Watcher(buffers, front.source)
        outcome = follow(front, profile, entry, args, observers=[watcher])
        if outcome.begun:
            steps = watcher.finish()
            source = "the executed program" + (f", up to: {outcome.ended}" if outcome.ended else "")
            buffers = watcher.buffers
    if not steps:
        steps = _from_text(functions, buffers, front)
    spaces = machine(front.chip).spaces.values()
    maps = [SpaceMap(s, [b for b in buffers if b.space == s.name], steps) for s in spaces]
    return MemoryMap(entry, front.target, front.chip, source, [m for m in maps if m.buffers])


def _buffers(front: Front, placed: Iterable[Placed]) -> list[Buffer]:
    found: dict[tuple[str, str, int, int], Buffer] = {}
    for p in placed:
        name = p.name if p.name.startswith(("%", "scratch")) else f"%{p.name}"
        line = front.source.line_column(p.start)[0]
        found.setdefault(
            (name, p.space, p.addr, p.bytes), Buffer(name, p.space, p.addr, p.bytes, line)
        )
    return sorted(found.values(), key=lambda b: (b.addr, b.line))


def _from_text(functions: list[Any], buffers: list[Buffer], front: Front) -> int:
    """Lifetimes from the first to the last operation of the text that names a tile."""
    steps = 0
    by_line = {(b.line, b.name): b for b in buffers}
    for function in functions:
        values = {v for op in function.op.walk() for v in op.results} | set(function.args)
        lives, spans = lifetimes(function, values)
        steps = max(steps, *(end for _, end in spans.values())) if spans else steps
        for value, life in lives.items():
            line = front.source.line_column(_start(value))[0]
            buffer = by_line.get((line, f"%{value.name}"))
            if buffer is not None:
                buffer.live.append((life.start, life.end))
    return steps + 1


def _start(value: Value) -> int:
    return value.owner.start if value.owner is not None else value.start


class _Watcher:
    """Notes when each buffer is written and last read."""

    def __init__(self, buffers: list[Buffer], source: Source) -> None:
        self.buffers = list(buffers)
        self._source = source
        self._steps = 0
        self._open: dict[int, list[int]] = {}  # buffer -> [first write, last use]
        self._cores: dict[str, int] = {}
        self._named: dict[tuple[str, str], list[int]] = {}
        for number, buffer in enumerate(self.buffers):
            self._named.setdefault((buffer.space, buffer.name), []).append(number)
        self._others: dict[tuple[str, int, int], int] = {}
        """The buffers around bytes that are named otherwise."""

    def on_issue(self, core: Core, inst: Inst, bound: Any) -> None:
        """An operation is issued."""
        binding = getattr(bound, "binding", None)
        op: Any = inst.op
        if binding is None or binding.sync is not None:
            return
        if self._cores.setdefault(core.kind, core.index) != core.index:
            return  # the second vector core of a cluster does the same
        uses = [
            (role, self._index(op, name, ref))
            for name, role, ref in bound_values(op, binding.values)
            if isinstance(ref, TileRef) and not is_inert(op, name)
        ]
        if not uses:
            return
        self._steps += 1
        for role, index in sorted(uses, key=lambda u: u[0] is Role.OUT):
            self._use(index, fresh=role is Role.OUT)

    def _use(self, index: int, *, fresh: bool) -> None:
        now = self._steps
        known = self._open.get(index)
        if known is None:
            self._open[index] = [now, now]
            self.buffers[index].is_borrowed |= not fresh
        elif fresh and known[1] < now:  # written anew: what it held ended with its last use
            self._close(index)
            self._open[index] = [now, now]
        else:
            known[1] = now

    def _close(self, index: int) -> None:
        start, end = self._open.pop(index)
        live = self.buffers[index].live
        if live and live[-1][1] >= start:
            live[-1] = (live[-1][0], end)
        else:
            live.append((start, end))

    def finish(self) -> int:
        """End every lifetime; return the number of steps."""
        for index in list(self._open):
            self._close(index)
        return self._steps

    def _index(self, op: Any, name: str, ref: TileRef) -> int:
        """The buffer that a tile, or a window of one, is in: the smallest one around it that has
        its name, or any."""
        space, start = ref.type.loc, ref.addr
        end = start + ref.layout.reach
        value = getattr(op.bound.get(name), "value", None)
        of_name = self._named.get((space, f"%{getattr(value, 'name', '')}"), ())
        around = self._around(of_name, start, end)
        if around is None:
            around = self._others.get((space, start, end))
        if around is None:
            everywhere = (i for i, b in enumerate(self.buffers) if b.space == space)
            around = self._around(everywhere, start, end)
        if around is None:
            return self._new(f"%{getattr(value, 'name', name)}", space, start, end, op)
        self._others[space, start, end] = around
        return around

    def _around(self, numbers: Iterable[int], start: int, end: int) -> int | None:
        """The smallest of some buffers that has bytes [start, end)."""
        each = ((self.buffers[i], i) for i in numbers)
        fits = ((b.bytes, i) for b, i in each if b.addr <= start and end <= b.end)
        return min(fits, default=(0, None))[1]

    def _new(self, name: str, space: str, start: int, end: int, op: Any) -> int:
        line = self._source.line_column(op.start)[0]
        number = len(self.buffers)
        self.buffers.append(Buffer(name, space, start, end - start, line))
        self._named.setdefault((space, name), []).append(number)
        self._others.clear()  # it may be smaller than what was found before
        return number


# The memory map over cycles: when tiles are in use in a launch that was timed.


def in_cycles(found: MemoryMap, report: CostReport) -> MemoryMap:
    """Return the map with cycles in the place of steps (cycle c is step c + 1): those of the core
    that uses each memory first. Spaces whose tiles no timed operation names keep no times."""
    spaces = [_space(space, report) for space in found.spaces]
    return replace(found, source="the timed program", spaces=spaces)


def _space(found: SpaceMap, report: CostReport) -> SpaceMap:
    buffers = [replace(buffer, live=[]) for buffer in found.buffers]
    for core in report.model.cores:
        lives = trace.lifetimes(core).items()
        of_core = [(p, spans) for p, spans in lives if p[0] == found.space.name]
        if not of_core:
            continue
        for used, spans in of_core:
            buffer = _around(used, buffers)
            if buffer is not None:
                buffer.live += [(start + 1, max(end, start + 1)) for start, end in spans]
        break
    for buffer in buffers:
        buffer.live = _united(buffer.live)
    return SpaceMap(found.space, buffers, max(report.span, 1))


def _around(place: trace.Place, buffers: list[Buffer]) -> Buffer | None:
    """The smallest buffer that a place, a window perhaps, lies in."""
    _, low, high = place
    around = [b for b in buffers if b.addr <= low and high <= b.end]
    return min(around, key=lambda b: b.bytes, default=None)


def _united(spans: list[Span]) -> list[Span]:
    """Spans that meet as one, in order."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
