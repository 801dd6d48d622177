"""The order in which a vector region's instructions are dispatched: rounds of its outermost loops,
and the loops inside of a round.

The steps of a region say how often each is executed and in which loop it is; a nest is a loop with
the loops in it, gone through round by round. A loop of one level is a nest of one part that is
executed once in a round. Loops of more levels are taken as two: the innermost, and everything
around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ptosim.ground.isa.costs import CostTable
from ptosim.ground.records import NamedTuple
from ptosim.time.laws.instructions import Timed
from ptosim.time.laws.shapes import VectorStep


class Part(NamedTuple):
    """Instructions (by number) that are neighbours in one loop, and their iterations in a round; of
    less than one iteration, every so many rounds one."""

    numbers: tuple[int, ...]
    iterations: int
    every: int = 1


class Rounds(NamedTuple):
    """A loop with what is in it: rounds, parts of a round, cycles from the start of a round to the
    next at least, cycles before the first, and cycles by which the second is earlier."""

    rounds: int
    parts: tuple[Part, ...]
    distance: float
    entry: int
    overlap: int = 0

    @property
    def is_even(self) -> bool:
        """True if each round executes the same."""
        return all(part.every == 1 for part in self.parts)


def rounds_of(
    steps: Sequence[VectorStep], found: Sequence[Timed], table: CostTable
) -> Iterator[Rounds]:
    """Yield the nests of a region in program order; instructions that are never executed are left
    out."""
    numbers = [n for n, step in enumerate(steps) if step.times]
    for _, group in groupby(numbers, lambda n: _outermost(steps[n])):
        chosen = list(group)
        loops = [list(part) for _, part in groupby(chosen, lambda n: steps[n].loop)]
        yield _rounds(loops, steps, found, table)


def _outermost(step: VectorStep) -> int:
    return step.outer if step.outer >= 0 else step.loop


def _rounds(
    loops: list[list[int]], steps: Sequence[VectorStep], found: Sequence[Timed], table: CostTable
) -> Rounds:
    times = [max(steps[n].times for n in part) for part in loops]
    entered = max(steps[n].rows for part in loops for n in part)
    count = entered if len(loops) > 1 or 1 < entered < max(times) else times[0]
    parts = tuple(
        Part(tuple(part), max(each // count, 1), max(count // each, 1))
        for part, each in zip(loops, times, strict=True)
    )
    return Rounds(count, parts, *_starts(count, parts, found, table))


def _starts(
    count: int, parts: Sequence[Part], found: Sequence[Timed], table: CostTable
) -> tuple[float, int, int]:
    """Cycles from the start of a round to the next, before the first, and by which the second is
    earlier. What a row begins with is no iteration of its own."""
    loop, gap, row = (
        int(table[f"function.{name}"]["cycles"]) for name in ("loop", "row_gap", "row_start")
    )
    begins = [part for part in parts if part.iterations > 1 or _has_store(part, found)]
    inner = sum(part.iterations for part in begins if part.every == 1)
    loads, stores = (_accesses(parts, found, kind) for kind in ("load", "store"))
    if inner <= 1:
        second = int(table["window.loops"]["second"]) if loads > 1 else 0
        dispatch = int(table["function.dispatch"]["cycles"])
        early = dispatch if is_simple(parts, found) else 0
        return 1, loop + second + early if count > 1 else 0, 0
    strided = table["function.strided"]["per_access"] * (loads + stores)
    plain = max(gap, inner + row)
    earlier = int(table["window.loops"]["overlap"]) if strided > plain and loads > inner else 0
    return max(plain, strided), loop + int(table["window.loops"]["entry"]), earlier


def is_simple(parts: Sequence[Part], found: Sequence[Timed]) -> bool:
    """True if an iteration has one load at most, and instructions of one cycle."""
    return all(
        sum(found[n].memory == "load" for n in part.numbers) <= 1
        and all(found[n].busy <= 1 for n in part.numbers)
        for part in parts
    )


def _has_store(part: Part, found: Sequence[Timed]) -> bool:
    return any(found[n].memory == "store" for n in part.numbers)


def _accesses(parts: Sequence[Part], found: Sequence[Timed], kind: str) -> int:
    """Loads or stores of a round."""
    return sum(
        part.iterations * round(found[n].busy)
        for part in parts
        for n in part.numbers
        if found[n].memory == kind and part.every == 1
    )


class Cursor:
    """Where dispatch is in a region. `allowed` is the first cycle of the next instruction."""

    def __init__(self, nests: Sequence[Rounds], first: int) -> None:
        self.nests = list(nests)
        self.at = 0
        self.round = self.part = self.iteration = self.position = 0
        self.allowed = self.began = first
        self.due: float = first  # when the round begins at the earliest
        self._enter()

    @property
    def is_done(self) -> bool:
        """True after the last instruction."""
        return self.at >= len(self.nests)

    @property
    def nest(self) -> Rounds:
        """The nest that dispatch is in."""
        return self.nests[self.at]

    @property
    def number(self) -> int:
        """The next instruction."""
        return self.nest.parts[self.part].numbers[self.position]

    def _enter(self) -> None:
        if not self.is_done:
            self.allowed += self.nest.entry
            self.due = self.allowed

    def advance(self, now: int) -> bool:
        """Go to the next instruction; return True if that begins a round."""
        part = self.nest.parts[self.part]
        if not self.position:
            self.began = now
            if not self.part and not self.iteration:
                self.due = now if now > round(self.due) else self.due
        self.position += 1
        if self.position < len(part.numbers):
            return False
        self.position = 0
        self.iteration += 1
        self.allowed = self.began + 1
        if self.iteration < part.iterations:
            return False
        self.iteration = 0
        return self._next_part()

    def _next_part(self) -> bool:
        parts = self.nest.parts
        self.part += 1
        while self.part < len(parts) and self.round % parts[self.part].every:
            self.part += 1
        if self.part < len(parts):
            return False
        self.part = 0
        self.round += 1
        if self.round < self.nest.rounds:
            self.due += self.nest.distance - self.nest.overlap * (self.round == 1)
            self.allowed = max(round(self.due), self.allowed)
        else:
            if self.nest.rounds == 1 and len(parts) == 1:  # no loop that ends
                self.allowed = self.began
            self.at += 1
            self.round = 0
            self._enter()
        return True
