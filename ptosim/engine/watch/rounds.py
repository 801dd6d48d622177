"""What the sanitizers know at the head of a loop, so that rounds can be compared; and what they
know so many periods later.

Everything they keep is a count of what a pipe has done, or of the executions of an instruction. At
heads one period apart each count is the same, or has grown by what the period adds: then the next
period finds what this one found. Bytes on chip, and those windows of global memory that stay where
they are, are compared like this (`Reading`), and moved on (`Writing`). Windows that move reach
other bytes in each period; `moved_windows` says which, and `Sweep` whether all of those are
free."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Kind
from ptosim.engine.watch.access import READS, Agent, Clock
from ptosim.engine.watch.lines import ScalarLines
from ptosim.engine.watch.marks import NOBODY, Noted, read_too, takes_over
from ptosim.engine.watch.monitor import Monitor
from ptosim.engine.watch.shadow import Atom, Entry, Footprint
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.machine.effects.account import DEFINED
from ptosim.machine.effects.strided import Strided

EXECUTIONS = -1
"""Owner of a count of executions; other owners are the numbers of agents."""
MOST_ATOMS = 4096
"""Groups of bytes that are compared: more are no state that repeats."""
MOST_SWEPT = 256 << 20
"""Bytes between the first and the last that a window reaches in periods that are left out."""
MOST_WHOLE = 16 << 30
"""The same where it reaches all of them: then large regions need no map."""

_MOST_SENT = 64
"""Signals of one flag that wait to be taken: no counter of a flag holds as many."""


def is_plain(monitor: Monitor) -> bool:
    """True while all that the monitor keeps is compared: nobody was let go by a signal in memory,
    nothing is left to be said of the operation before. Where each round sets a flag that nobody
    waits for, no round is like the one before, and to compare them takes longer each time."""
    grows = any(len(sent) > _MOST_SENT for sent in monitor.clocks.messages.values())
    return not grows and monitor.notices.is_empty and not (monitor.tainted or monitor.twins)


def waits(monitor: Monitor) -> bool:
    """True if something has been issued and waits."""
    return any(agent.pending for agent in monitor.clocks.agents.values())


class Walk:
    """Goes through all counts of a monitor in the same order each time. `number` is asked for each
    with its owner, and says what it is to be; `shape` is what is no count."""

    def __init__(self) -> None:
        self.shape: list[Any] = []
        self._clocks: dict[int, tuple[int, Clock, Clock]] = {}
        self._counted_by: dict[int, int] = {}

    def number(self, owner: int, value: int) -> int:
        """Return what a count is to be."""
        raise NotImplementedError

    def monitor(self, monitor: Monitor, fixed: Sequence[Footprint]) -> None:
        """All of a monitor; `fixed` are the windows of global memory that stay."""
        agents = [agent for agent in monitor.clocks.by_index if agent is not None]
        # What the scalar unit has read is counted as what it has done.
        self._counted_by = {a.index: a.scalar.index for a in agents if a.pipe == READS}
        self._agents(agents)
        for key, messages in monitor.clocks.messages.items():
            self.shape.append((key, len(messages)))
            self._messages(messages)
        for times in monitor.times:
            times[:] = [self.number(EXECUTIONS, time) for time in times]
        self.shape += [
            (key, tuple(i.pc for i in set_)) for key, set_ in monitor.flags.pending.items() if set_
        ]
        self.shape += [monitor.control.state(), monitor.lines.state(), monitor.passed.state()]
        for key, shadow in monitor.shadows.items():
            if not shadow.is_global:
                self.shape.append((key, shadow.version, len(shadow.atoms)))
                self._atoms(shadow.atoms)
        for print_ in fixed:
            self.shape.append((id(print_.shadow), print_.parts))
            self._atoms(print_.atoms())

    def _agents(self, agents: list[Agent]) -> None:
        joined = [agent.seen is agent.scalar.clock for agent in agents]
        self.shape.append(tuple(joined))
        for agent in agents:
            agent.count = self.number(agent.index, agent.count)
        for agent in agents:
            agent.clock = self._clock(agent.clock)
            if agent.pending:
                self.shape.append((agent.index, len(agent.pending)))
                self._messages(agent.pending)
        for agent, is_joined in zip(agents, joined, strict=True):
            if is_joined:
                agent.seen = agent.scalar.clock

    def _messages(self, messages: deque[Clock]) -> None:
        for at, clock in enumerate(messages):
            messages[at] = self._clock(clock)

    def _clock(self, clock: Clock) -> Clock:
        """Clocks are shared: one that came before is the same one again."""
        known = self._clocks.get(id(clock))
        if known is not None:
            self.shape.append(known[0])
            return known[1]
        self.shape.append(tuple(clock))
        by = self._counted_by
        made = {agent: self.number(by.get(agent, agent), count) for agent, count in clock.items()}
        made = clock if made == clock else made
        self._clocks[id(clock)] = len(self._clocks), made, clock
        return made

    def _atoms(self, atoms: Sequence[Atom]) -> None:
        for atom in atoms:
            held = atom.defined, atom.size, id(atom.owner), id(atom.lost), atom.taken
            self.shape += (held, tuple(atom.reads))
            atom.write = self._entry(atom.write)
            for reader, entry in atom.reads.items():
                atom.reads[reader] = self._entry(entry)

    def _entry(self, entry: Entry) -> Entry:
        agent, count, access, time = entry
        if access is None:
            self.shape.append(None)
            return entry
        self.shape.append((agent, access.inst.pc, access.core.index))
        later = self.number(agent, count), self.number(EXECUTIONS, time)
        return entry if later == (count, time) else (agent, later[0], access, later[1])


class Reading(Walk):
    """What a monitor is now: its counts with their owners."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []
        self.owners: list[int] = []

    def number(self, owner: int, value: int) -> int:
        """Take down a count; it stays what it is."""
        self.owners.append(owner)
        self.numbers.append(value)
        return value


class Writing(Walk):
    """Adds to the counts of a monitor, in the order in which they are read."""

    def __init__(self, gains: Iterator[int]) -> None:
        super().__init__()
        self._gains = gains

    def number(self, owner: int, value: int) -> int:
        """Return a count with what it gains."""
        return value + next(self._gains)


def lag_of(numbers: np.ndarray, gains: np.ndarray, owners: np.ndarray) -> int | None:
    """Return for how many periods somebody may not know at most what an agent did, of those that
    get to know; None if a count grows in another way than its agent does. The counts begin with
    that of each agent."""
    of_agents = owners >= 0
    agents, first = np.unique(owners[of_agents], return_index=True)
    places = np.zeros(int(agents[-1]) + 1, np.int64)
    places[agents] = np.flatnonzero(of_agents)[first]
    own = places[owners[of_agents]]
    values, grown = numbers[of_agents], gains[of_agents]
    each, done = gains[own], numbers[own]
    moving = grown != 0
    if (grown[moving] != each[moving]).any() or (grown < 0).any():
        return None
    behind = done[moving] - values[moving]
    return int(max((-(-behind // each[moving])).max(initial=0), 0))


# -- windows ---------------------------------------------------------------------------------------


class Moving(NamedTuple):
    """A window of a period, by how many bytes it moves to the next one, what it was noted with, and
    what the counts of that gain; of what is written the state (None: it stays)."""

    print_: Footprint
    step: int
    noted: Noted
    gain: tuple[int, int]
    is_write: bool
    state: int | None


def moved_windows(
    before: Sequence[Noted], last: Sequence[Noted], known: set[Any]
) -> list[Moving] | None:
    """Return the windows of a period with their distances from the period before; None if the two
    do not touch the same bytes on chip, or bytes of global memory moved as a whole. What stays has
    to be among those that are `known` to."""
    if len(before) != len(last):
        return None
    found: list[Moving] = []
    for old, new in zip(before, last, strict=True):
        same = old.entry[0] == new.entry[0] and old.reader == new.reader
        if not same or old.entry[2].inst.pc != new.entry[2].inst.pc or old.as_found != new.as_found:
            return None
        if len(old.reads) != len(new.reads) or len(old.writes) != len(new.writes):
            return None
        gain = new.entry[1] - old.entry[1], new.entry[3] - old.entry[3]
        writes = zip(old.writes, new.writes, strict=True)
        pairs = [(a, b, False, None) for a, b in zip(old.reads, new.reads, strict=True)]
        pairs += [(a, b, True, state) for (a, _), (b, state) in writes]
        for first, second, is_write, state in pairs:
            step = _distance(first, second)
            if step is None or (not step and second.shadow.is_global and spot(second) not in known):
                return None
            found.append(Moving(second, step, new, gain, is_write, state))
    return found


def spot(print_: Footprint) -> Any:
    """Return what bytes a footprint is of."""
    return id(print_.shadow), print_.parts


def _distance(first: Footprint, second: Footprint) -> int | None:
    if first is second:
        return 0
    one, two = first.parts, second.parts
    if first.shadow is not second.shadow or len(one) != len(two):
        return None
    distances = {b.start - a.start for a, b in zip(one, two, strict=True)}
    same = all(a.run == b.run and a.dims == b.dims for a, b in zip(one, two, strict=True))
    if len(distances) != 1 or not same:
        return None
    (distance,) = distances
    return distance if not distance or first.shadow.is_global else None


def repeated(part: Strided, step: int, count: int) -> Strided | None:
    """Return the bytes of a window in so many periods, the first of them where it is; None if they
    are no set of runs apart from each other."""
    start = part.start if step > 0 else part.start + step * (count - 1)
    if not part.dims and abs(step) <= part.run:
        return Strided(start, part.run + abs(step) * (count - 1))
    whole = _apart(start, part.run, (*part.dims, (count, abs(step))))
    return whole or _along(part, start, abs(step), count)


def _apart(start: int, run: int, dims: Sequence[tuple[int, int]]) -> Strided | None:
    """Runs at these distances; None if they overlap."""
    reach, found = run, sorted(dims, key=lambda dim: dim[1])
    for number, distance in found:
        if distance < reach:
            return None
        reach += (number - 1) * distance
    return Strided(start, run, tuple(reversed(found)))


def _along(part: Strided, start: int, step: int, count: int) -> Strided | None:
    """The bytes of a window that moves along its own rows, by fewer than it has: rows at its ends
    are reached in several periods, as those of a stencil are."""
    for at, (number, distance) in enumerate(part.dims):
        more, rest = divmod(step, distance)
        if not rest and 0 < more <= number:
            longer = number + more * (count - 1), distance
            return _apart(start, part.run, (*part.dims[:at], longer, *part.dims[at + 1 :]))
    return None


class Sweep:
    """The windows that move in a loop, in the periods that are left out. `is_free` says if no
    period meets another one in them, or anything from before that it is not ordered after: then
    `mark` notes all of them."""

    def __init__(self, windows: Sequence[Moving], periods: int) -> None:
        self._windows = windows
        self._periods = periods
        self._swept: list[tuple[Moving, Footprint]] = []

    def are_apart(self) -> bool:
        """True if no period writes what another one touches."""
        return self._are_apart(list(self._windows))

    def is_free(self) -> bool:
        """True if what these periods do finds nothing that one of them alone does not."""
        by_shadow: dict[int, list[Moving]] = {}
        for window in self._windows:
            if window.print_.shadow.is_global:
                by_shadow.setdefault(id(window.print_.shadow), []).append(window)
        if not all(map(self._are_apart, by_shadow.values())):
            return False
        for window in self._windows:
            if window.step:
                swept = self._of(window)
                if swept is None:
                    return False
                self._swept.append((window, swept))
        return all(_is_new(window, swept) for window, swept in self._swept)

    def _of(self, window: Moving) -> Footprint | None:
        print_ = window.print_
        parts = []
        for part in print_.parts:
            first = Strided(part.start + window.step, part.run, part.dims)
            whole = repeated(first, window.step, self._periods)
            if whole is None:
                return None
            if whole.end - whole.start > (MOST_SWEPT if whole.dims else MOST_WHOLE):
                return None
            parts.append(whole)
        inside = all(p.start >= 0 and p.end <= print_.shadow.bytes for p in parts)
        return Footprint(print_.shadow, tuple(parts), print_.name, print_.owner) if inside else None

    def _are_apart(self, windows: list[Moving]) -> bool:
        """True if no period writes what another one touches."""
        writes = [w for w in windows if w.is_write]
        return all(
            self._is_apart(write, other)
            for write in writes
            for other in windows
            if write.step or other.step
        )

    def _is_apart(self, write: Moving, other: Moving) -> bool:
        (low, high), (first, last) = write.print_.span, other.print_.span
        if write.step == other.step:
            step = abs(write.step)
            return max(high, last) - min(low, first) <= step or _in_columns(
                write, other, step * (self._periods + 1)
            )
        way, else_ = write.step * self._periods, other.step * self._periods
        low, high = low + min(way, 0), high + max(way, 0)
        first, last = first + min(else_, 0), last + max(else_, 0)
        return high <= first or last <= low

    def meets(self, lines: ScalarLines | None) -> bool:
        """True if a scalar unit accesses memory in windows that move, or has a line in its cache
        over which a transfer passes; False where nobody watches lines."""
        for window, swept in self._swept if lines is not None else ():
            assert lines is not None
            if window.noted.entry[2].inst.kind is Kind.ACTION:  # by the scalar unit
                return True
            is_free = (
                lines.is_free(window.print_, swept) if window.is_write else lines.is_clean(swept)
            )
            if not is_free:
                return True
        return False

    def pass_over(self, lines: ScalarLines | None) -> None:
        """Note what transfers store in these periods past the caches of scalar units."""
        for window, swept in self._swept:
            if window.is_write and lines is not None:
                lines.pass_over(swept, window.noted.entry[2])

    def mark(self) -> Iterator[Noted]:
        """Note what the last of these periods leaves behind; yield it as what was noted."""
        for window, swept in self._swept:
            agent, count, access, time = window.noted.entry
            counts, times = window.gain
            entry = agent, count + counts * self._periods, access, time + times * self._periods
            for atom in swept.atoms():
                if window.is_write:
                    _write(atom, entry, window.state, swept)
                else:
                    atom.reads[window.noted.reader] = entry
            writes = ((swept, window.state),) if window.is_write else ()
            reads = () if window.is_write else (swept,)
            yield window.noted._replace(entry=entry, reads=reads, writes=writes)


def _in_columns(write: Moving, other: Moving, way: int) -> bool:
    """True for windows of the same rows that move along them, and do not meet in one period what
    they reach in another."""
    step = abs(write.step)
    for one in write.print_.parts:
        for two in other.print_.parts:
            hull = max(one.start + one.run, two.start + two.run) - min(one.start, two.start)
            if not one.dims or one.dims != two.dims or hull > step:
                return False
            if way + hull > one.dims[-1][1]:
                return False
    return True


def _is_new(window: Moving, swept: Footprint) -> bool:
    """True if an access of bytes is ordered after everything that was done to them so far, and
    finds values there if it has to."""
    noted = window.noted
    known, index = noted.agent.clock.get, noted.agent.index
    passes = noted.agent.swaps and window.is_write and swept.shadow.is_global
    own = index if noted.agent.in_order and not passes else NOBODY
    for atom in swept.atoms():
        write = atom.write
        if write[0] != own and known(write[0], 0) < write[1]:
            return False
        if atom.lost is not None:
            return False
        if not (window.is_write or noted.as_found) and not _is_own(atom, swept):
            return False
        if window.is_write and any(
            other != index and known(other, 0) < read[1] for other, read in atom.reads.items()
        ):
            return False
    return True


def _is_own(atom: Atom, swept: Footprint) -> bool:
    """True for a value that nobody else may have left there."""
    owners = (None, swept.owner) if swept.owner is not None else (None, atom.owner)
    return atom.defined == DEFINED and (swept.shadow.is_global or atom.owner in owners)


def _write(atom: Atom, entry: Entry, state: int | None, print_: Footprint) -> None:
    if atom.reads:
        atom.reads.clear()
        atom.taken |= atom.write[2] is None
    if atom.write[2] is None and entry[2].is_atomic:
        atom.taken = True
    atom.write = entry
    if state is not None:
        atom.defined = state
    if atom.owner is not print_.owner:
        lost = None if takes_over(atom, read_too(entry[2], print_)) else atom.owner
        atom.lost, atom.owner = lost, print_.owner


class Journal(list[Noted]):
    """What was noted, and what whoever did it knew then."""

    def __init__(self) -> None:
        super().__init__()
        self.clocks: list[Clock] = []

    def append(self, noted: Noted) -> None:
        """Another access."""
        super().append(noted)
        self.clocks.append(noted.agent.clock)


@dataclass(slots=True, eq=False)
class Lasting:
    """An execution of a loop that repeats: the accesses of its rounds were noted from `begin` to
    `end`, and compared until `shown`."""

    pc: int
    core: int
    begin: int
    shown: int
    windows: Sequence[Moving]
    end: int = 1 << 60
