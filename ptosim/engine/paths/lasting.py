"""Windows that move with the rounds of loops which repeat, and what else uses their buffer: whether
the two can meet in rounds beyond those that were followed, without an order between them."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import product
from math import inf

from ptosim.engine.core.bound import Inst
from ptosim.engine.watch.access import Clock
from ptosim.engine.watch.marks import Inserted, Noted
from ptosim.engine.watch.rounds import Journal, Lasting, Moving
from ptosim.engine.watch.shadow import Footprint
from ptosim.ground.records import NamedTuple


class _Access(NamedTuple):
    """An access of global memory: where in the journal it is, and what was known then."""

    at: int
    noted: Noted
    clock: Clock
    print_: Footprint
    is_write: bool

    @property
    def place(self) -> tuple[int, int]:
        """The core and the instruction."""
        access = self.noted.entry[2]
        return access.core.index, access.inst.pc


class LastingRounds:
    """The executions of loops that were shown to repeat, with all that was noted."""

    def __init__(self, inserted: Inserted, journal: Journal, executions: Sequence[Lasting]) -> None:
        self._inserted, self._journal, self.executions = inserted, journal, executions

    def _accesses(self, of: Sequence[Moving]) -> dict[int, list[_Access]]:
        """The accesses of the buffers in which some windows move, if one of them writes."""
        found: dict[int, list[_Access]] = {id(w.print_.shadow): [] for w in of if w.step}
        every = zip(self._journal, self._journal.clocks, strict=True)
        for at, (noted, clock) in enumerate(every):
            prints = [(p, False) for p in noted.reads] + [(p, True) for p, _ in noted.writes]
            for print_, is_write in prints:
                if id(print_.shadow) in found:
                    found[id(print_.shadow)].append(_Access(at, noted, clock, print_, is_write))
        return {key: each for key, each in found.items() if any(a.is_write for a in each)}

    def clashing(self, lasting: Lasting) -> tuple[list[Inst], set[int]]:
        """Return the first two instructions of which nothing orders two accesses that meet in some
        round beyond those that were followed (one of a window that moves, and one of something
        else), and the places of all that nothing orders."""
        found: list[Inst] = []
        unordered: set[int] = set()
        for accesses in self._accesses(lasting.windows).values():
            own: dict[int, tuple[Moving, list[_Access]]] = {}
            others: list[_Access] = []
            for access in accesses:
                window = _window_of(lasting, access)
                if window is None:
                    others.append(access)
                elif window.step:
                    own.setdefault(id(window), (window, []))[1].append(access)
            for other, (window, each) in product(others, own.values()):
                pairs = _in_turn(other, each, lasting.shown)
                if all(self._are_in_order(*pair) for pair in pairs):
                    continue
                unordered |= {other.place[1], each[0].place[1]}
                low, high = _for_ever(window)
                first, last = self._reach(other)
                if not found and low < last and first < high:
                    found = [access.noted.entry[2].inst for access in (other, each[0])]
        return found, unordered

    def _reach(self, access: _Access) -> tuple[float, float]:
        """Where an access may be: in a loop that repeats wherever it moves to."""
        low, high = access.print_.span
        for window in filter(None, (_window_of(lasting, access) for lasting in self.executions)):
            first, last = _for_ever(window)
            low, high = min(low, first), max(high, last)
        return low, high

    def _are_in_order(self, one: _Access, other: _Access) -> bool:
        """True if the first of two accesses is done before the second one is, or they may be in any
        order."""
        if not (one.is_write or other.is_write):
            return True
        (agent, count, access, _), (own, _, later, _) = one.noted.entry, other.noted.entry
        who = agent if one.is_write else one.noted.reader
        if who == own and access.inst is later.inst:
            return True
        passes = other.noted.agent.swaps and one.is_write and other.is_write
        if who == own and other.noted.agent.in_order and not passes:
            return True
        return other.clock.get(who, 0) >= count or bool(
            self._inserted and self._inserted.orders(access, later, other.print_, one.print_.span)
        )


def _window_of(lasting: Lasting, access: _Access) -> Moving | None:
    """The window that an access is, in some round."""
    core, pc = access.place
    if access.at < lasting.begin or (core == lasting.core and access.at >= lasting.end):
        return None
    first, size = access.print_.span[0], access.print_.span[1] - access.print_.span[0]
    for window in lasting.windows:
        known = window.noted.entry[2]
        low, high = window.print_.span
        is_it = (known.core.index, known.inst.pc, high - low) == (core, pc, size)
        away = first - low
        is_there = not away % window.step if window.step else not away
        if is_it and is_there and window.print_.shadow is access.print_.shadow:
            return window
    return None


def _for_ever(window: Moving) -> tuple[float, float]:
    """The bytes that a window reaches in this and all later periods."""
    low, high = window.print_.span
    return (-inf if window.step < 0 else low), (inf if window.step > 0 else high)


def _in_turn(
    other: _Access, own: Sequence[_Access], shown: int
) -> Iterator[tuple[_Access, _Access]]:
    """Pairs of an access and those of a window of a loop, of which the first has to be done before
    the second: of an access before the loop repeats with the last one of the window, since later
    ones know no less; else with those just before and after it."""
    if other.at < shown:
        yield other, own[-1]
        return
    after = bisect(own, other.at, key=lambda a: a.at)
    if after:
        yield own[after - 1], other
    if after < len(own):
        yield other, own[after]
