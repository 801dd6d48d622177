"""Programs that say of each of their lines which pipe executes it and which bytes it reads and writes.

Nothing of this comes from the product: the bytes are those of the instruction's description, written
down where the line is made, so that a verdict on a changed program has two independent sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.oracle.ordering import Access, Event, Ordering, conflicts, with_sums

Bytes = dict[str, int]
"""Memory to its bytes, one bit each."""


def span(start: int, size: int) -> int:
    """Return `size` bytes from `start` on."""
    return ((1 << size) - 1) << start


def bursts(start: int, size: int, count: int, distance: int) -> int:
    """Return `count` bursts of `size` bytes whose starts are `distance` bytes apart."""
    found = 0
    for n in range(count):
        found |= span(start + n * distance, size)
    return found


@dataclass(frozen=True)
class Line:
    """A line of a program. Work has `reads` and `writes` of the core that executes it (memories on
    chip are the core's own; a name that begins with `=` is one that all cores share);
    synchronisation has `sync`, or tokens that it gives and takes. `again` makes it with another
    number, `toward` for another rank. A line whose `halves` several pipes execute has their bytes."""

    text: str
    pipe: str = "S"
    reads: Bytes = field(default_factory=dict, hash=False)
    writes: Bytes = field(default_factory=dict, hash=False)
    sync: tuple[Any, ...] | None = None
    gives: Callable[[int], tuple[Any, ...]] | None = None
    takes: Callable[[int], tuple[Any, ...]] | None = None
    again: Callable[[int], Line] | None = None
    kinds: tuple[str, ...] = ()
    by_core: Callable[[int], tuple[Bytes, Bytes]] | None = None
    """Bytes that depend on the core, in the place of `reads` and `writes`."""
    sync_by_core: Callable[[int], tuple[Any, ...]] | None = None
    toward: Callable[[], Line] | None = None
    halves: tuple[Line, ...] = ()

    @property
    def is_work(self) -> bool:
        """True for a line that touches memory."""
        return bool(self.reads or self.writes or self.by_core)

    def event(self, core: int) -> Event:
        """The line as one core executes it."""
        gives = self.gives(core) if self.gives is not None else ()
        takes = self.takes(core) if self.takes is not None else ()
        sync = self.sync_by_core(core) if self.sync_by_core is not None else self.sync
        return Event(self.pipe, sync, core, gives, takes)

    def access(self, core: int) -> Access:
        """The bytes that one core touches."""
        reads, writes = self.by_core(core) if self.by_core else (self.reads, self.writes)

        def own(held: Bytes) -> Bytes:
            return {m if m[0] == "=" else f"{core} {m}": b for m, b in held.items() if b}

        return Access(own(reads), own(writes))


@dataclass(frozen=True)
class Part:
    """What some cores execute: lines before a loop, in it, and after it."""

    cores: tuple[int, ...]
    before: tuple[Line, ...] = ()
    body: tuple[Line, ...] = ()
    after: tuple[Line, ...] = ()
    times: int = 2

    def lines(self) -> tuple[Line, ...]:
        """The lines in the order of execution."""
        lines = (*self.before, *(self.body * self.times), *self.after)
        return tuple(half for line in lines for half in line.halves or (line,))

    def text(self) -> str:
        """The text of the part; `%c0`, `%c1` and `%times` are defined around it."""
        body = ""
        if self.body:
            inner = "\n".join(line.text for line in self.body)
            body = f"scf.for %round = %c0 to %times{self.times} step %c1 {{\n{inner}\n}}"
        lines = [*(x.text for x in self.before), body, *(x.text for x in self.after)]
        return "\n".join(filter(None, lines))


@dataclass(frozen=True)
class Model:
    """A program: its parts, and the text around theirs."""

    name: str
    target: str
    parts: tuple[Part, ...]
    around: Callable[[Sequence[str]], str] = field(hash=False)
    needs_values: bool = False
    """Whether what a signal in memory holds decides who goes on."""
    ranks: tuple[dict[str, Any], ...] = field(default=(), hash=False)
    """The arguments of each rank, where there are several: names of arrays, and numbers."""

    def text(self) -> str:
        """The program as text."""
        return self.around([part.text() for part in self.parts])

    def verdict(self) -> tuple[str, str]:
        """What the graph says of it: `stuck`, `misused`, `race` or `ordered`, and an example. With
        `overtaken` a wait for a sum may be let go by other notifications than it is when they come
        in turn, and then there is a race: one run need not show it."""
        events: list[Event] = []
        work: list[tuple[int, Line]] = []  # event and line
        for part in self.parts:
            for core in part.cores:
                for line in part.lines():
                    if line.is_work:
                        work.append((len(events), line))
                    events.append(line.event(core))
        order = with_sums(events, self.target) if self.ranks else Ordering(events, self.target)
        if order.misused:
            return "misused", ""
        if order.stuck:
            return "stuck", ""
        found = self._race(order, work)
        if found and self.ranks:
            in_turn = Ordering(events, self.target, order.seen)
            return "race" if self._race(in_turn, work) else "overtaken", found
        return ("race" if found else "ordered"), found

    def _race(self, order: Ordering, work: Sequence[tuple[int, Line]]) -> str:
        """Two lines that touch the same bytes in no order; nothing where there are none."""
        events = order.events
        touched = [line.access(events[at].core) for at, line in work]
        for one, two in conflicts([events[at] for at, _ in work], touched, self.target):
            (a, first), (b, second) = work[one], work[two]
            swapped = events[a].core != events[b].core and order.is_ordered(b, a)
            if not (order.is_ordered(a, b) or swapped):
                return f"{first.text} | {second.text}"
        return ""


# -- changes ---------------------------------------------------------------------------------------

KINDS = ("drop", "double", "up", "down", "renumber")
BETWEEN_RANKS = (*KINDS, "retarget")


@dataclass(frozen=True)
class Mutant:
    """A changed model, and what was changed."""

    what: str
    model: Model


def mutants(model: Model) -> Iterator[Mutant]:
    """Yield a model with one line of synchronisation, or transfer between ranks, dropped, doubled,
    moved, renumbered or turned to another rank."""
    for place, part in enumerate(model.parts):
        for name in ("before", "body", "after"):
            lines = getattr(part, name)
            for at, line in enumerate(lines):
                for kind in line.kinds:
                    changed = _changed(lines, at, kind)
                    if changed is None:
                        continue
                    parts = list(model.parts)
                    parts[place] = replace(part, **{name: changed})
                    what = f"{kind} {name} {at}: {line.text}"
                    yield Mutant(what, replace(model, parts=tuple(parts)))


def _changed(lines: tuple[Line, ...], at: int, kind: str) -> tuple[Line, ...] | None:
    line = lines[at]
    if kind == "drop":
        return (*lines[:at], *lines[at + 1 :])
    if kind == "double":
        return (*lines[:at], line, *lines[at:])
    if kind == "renumber":
        other = line.again(3) if line.again is not None else None
        return None if other is None else (*lines[:at], other, *lines[at + 1 :])
    if kind == "retarget":
        return None if line.toward is None else (*lines[:at], line.toward(), *lines[at + 1 :])
    to = at + (-1 if kind == "up" else 1)
    if not 0 <= to < len(lines):
        return None
    moved = list(lines)
    moved[at], moved[to] = moved[to], moved[at]
    return tuple(moved)


# -- synchronisation as lines ----------------------------------------------------------------------


def flag(kind: str, source: str, target: str, number: int = 0) -> Line:
    """A flag that is set or waited for."""
    name = {"set": "set_flag", "wait": "wait_flag"}[kind]
    return Line(
        f'pto.{name}["PIPE_{source}", "PIPE_{target}", "EVENT_ID{number}"]',
        source if kind == "set" else target,
        sync=(kind, source, target, number),
        again=lambda other: flag(kind, source, target, (number + other) % 8),
        kinds=KINDS,
    )


def barrier(pipe: str) -> Line:
    """A barrier of a pipe, or of all."""
    kinds = ("drop", "double", "up", "down")
    return Line(f"pto.barrier #pto.pipe<PIPE_{pipe}>", "S", sync=("barrier", pipe), kinds=kinds)


def token(kind: str, pipe: str, number: int) -> Line:
    """A buffer token that is taken (`get`) or given back (`rls`) by a pipe (A5)."""
    word = {"get": "get", "rls": "release"}[kind]
    return Line(
        f'pto.{kind}_buf "PIPE_{pipe}", {number}, 0',
        pipe,
        sync=(word, pipe, number),
        again=lambda other: token(kind, pipe, (number + other) % 8),
        kinds=KINDS,
    )


def ordered(part: Part, target: str) -> Part:
    """Return a part of one core with flags and barriers after which nothing in it races: one for
    each pair of pipes that conflict, where the first such pair is."""
    lines, count = list(part.before), 0
    while (found := _first_conflict(lines, target)) is not None and count < 40:
        one, two = found
        count += 1
        source, to = lines[one].pipe, lines[two].pipe
        if source == to:
            lines.insert(two, barrier(source))
            continue
        lines.insert(two, flag("wait", source, to, count % 8))
        lines.insert(one + 1, flag("set", source, to, count % 8))
    return replace(part, before=tuple(lines))


def _first_conflict(lines: Sequence[Line], target: str) -> tuple[int, int] | None:
    events = [line.event(0) for line in lines]
    order = Ordering(events, target)
    work = [at for at, line in enumerate(lines) if line.is_work]
    pairs = conflicts([events[at] for at in work], [lines[at].access(0) for at in work], target)
    for one, two in pairs:
        if not order.is_ordered(work[one], work[two]):
            return work[one], work[two]
    return None


def sampled(model: Model, count: int) -> list[Mutant]:
    """Return some mutants of a model, the same ones each time."""
    every = list(mutants(model))
    return every if len(every) <= count else Random(model.name).sample(every, count)
