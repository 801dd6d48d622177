"""Where the loads and stores of many rounds are, and whether the rounds may be executed at once.

Rounds are executed instruction by instruction, each for all rounds, where the program has them one
after the other. Both are the same if, at every place, accesses of which one is a store come in the
same order; and nothing is to be reported if no load meets an earlier store, and no store one that
it is not ordered after. All of it is known before the rounds are executed: places are divided into
pieces that every access covers as a whole, and the accesses of each piece are looked at in the
order of the program."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise, repeat

import numpy as np

from ptosim.ground.records import NamedTuple, dataclass
from ptosim.machine.vector import PAGE_BITS, VectorWindow
from ptosim.ops.micro.hazards import RegionPlace

MOST_PIECES = 1 << 17
"""Pieces of all accesses that are looked at; more are too fine to be worth it."""


class Access(NamedTuple):
    """One load or store in every round: its places in UB, its bytes, its instruction; whether it
    is one entry of a log, or a part of its own."""

    starts: np.ndarray
    size: int
    place: RegionPlace
    is_entry: bool = True
    pages_of_all: bool = False

    @property
    def step(self) -> int:
        """Bytes from round to round, which are always the same."""
        return int(self.starts[1] - self.starts[0]) if len(self.starts) > 1 else 0

    def pages(self) -> set[int]:
        """Pages that a window remembers for it."""
        if not self.pages_of_all and abs(self.step) >> PAGE_BITS == 0:
            ends = (int(self.starts[0]) >> PAGE_BITS, int(self.starts[-1]) >> PAGE_BITS)
            return set(range(min(ends), max(ends) + 1))
        found = set((self.starts >> PAGE_BITS).tolist())
        if self.pages_of_all:
            for first, last in zip(
                (self.starts >> PAGE_BITS).tolist(),
                ((self.starts + self.size - 1) >> PAGE_BITS).tolist(),
                strict=True,
            ):
                found.update(range(first, last + 1))
        return found


class Band(NamedTuple):
    """Runs of bytes of one length at one distance."""

    low: int
    length: int
    step: int
    times: int

    def of(self, data: bytearray) -> np.ndarray:
        """Return a view of its bytes."""
        if self.times == 1:
            return np.frombuffer(data, np.uint8, self.length, self.low)
        shape, strides = (self.times, self.length), (self.step, 1)
        return np.ndarray(shape, np.uint8, data, self.low, strides)

    @property
    def high(self) -> int:
        """The byte after the last."""
        return self.low + (self.times - 1) * self.step + self.length


@dataclass(slots=True, eq=False)
class Places:
    """What independent rounds reach: bytes that are loaded, bytes whose first access is a store and
    what that is ordered after; bytes that are stored, the last access of all bytes, the pages that
    are touched."""

    loaded: list[Band]
    first_stored: list[tuple[Band, bytes]]
    stored: list[Band]
    last: list[tuple[Band, int]]
    pages: set[int]

    def is_open(self, ub: VectorWindow) -> bool:
        """True if a load reads what no barrier has ordered yet, or a store replaces it."""
        for band in self.loaded:
            if ub.marks.find(ub.interval, band.low, band.high) < 0:
                continue
            if band.times == 1 or (band.of(ub.marks) == ub.interval).any():
                return True
        return any(not _is_known(band, known, ub) for band, known in self.first_stored)

    def note(self, ub: VectorWindow) -> None:
        """Remember the accesses."""
        for band, number in self.last:
            band.of(ub.last).fill(number)
        for band in self.stored:
            band.of(ub.marks).fill(ub.interval)
        ub.touched |= self.pages


def _is_known(band: Band, known: bytes, ub: VectorWindow) -> bool:
    """True if whatever accessed these bytes last is known to a store."""
    pages = range(max(band.low >> PAGE_BITS, 1) - 1, (band.high - 1 >> PAGE_BITS) + 1)
    if ub.touched.isdisjoint(pages):
        return True
    last = band.of(ub.last)
    number = int(last.max())
    if int(last.min()) == number:
        return number in known
    return not last.tobytes().translate(None, known)


def places_of_rounds(accesses: list[Access], rounds: int) -> Places | int:
    """Return what the accesses of independent rounds reach, in the order of a round; else how many
    of the first rounds are independent."""
    return _apart(accesses, rounds) or _in_pieces(accesses, rounds)


def _apart(accesses: list[Access], rounds: int) -> Places | None:
    """The same of accesses that have nothing to do with one another, but that a store may be where
    loads before it are: what most loops do, in a fraction of the time. None of any others."""
    streams: dict[tuple[int, int, int], list[RegionPlace]] = {}
    for access in accesses:
        key = (int(access.starts[0]), access.step, access.size)
        streams.setdefault(key, []).append(access.place)
    found = sorted((_band_of(*key, rounds), key, places) for key, places in streams.items())
    if any(one.high > other.low for (one, *_), (other, *_) in pairwise(found)):
        return None
    reached = Places([], [], [], [], set().union(*(a.pages() for a in accesses)))
    for band, (_, step, size), (*before, last) in found:
        if any(place.is_store for place in before):
            return None
        reached.last.append((band, last.number))
        if before or not last.is_store:
            reached.loaded.append(band)
        if not last.is_store:
            continue
        if abs(step) < size or (before and before[-1].number not in last.known):
            return None
        reached.stored.append(band)
        if not before:
            reached.first_stored.append((band, last.known))
    return reached


def _band_of(first: int, step: int, size: int, rounds: int) -> Band:
    """The bytes of all rounds of an access."""
    low = min(first, first + step * (rounds - 1))
    if abs(step) > size and rounds > 1:
        return Band(low, size, abs(step), rounds)
    return Band(low, abs(step) * (rounds - 1) + size, 0, 1)


def _in_pieces(accesses: list[Access], rounds: int) -> Places | int:
    unit = _unit(accesses)
    if rounds * sum(a.size for a in accesses) // unit > MOST_PIECES:
        return 0
    pieces, times = _pieces(accesses, rounds, unit)
    at = times % len(accesses)
    begins = np.empty(len(pieces), np.bool_)
    begins[0] = True
    np.not_equal(pieces[1:], pieces[:-1], out=begins[1:])
    stores = np.array([a.place.is_store for a in accesses])[at]
    bad = _dependent(accesses, begins, at, stores)
    if bad.any():
        return int((times[1:][bad] // len(accesses)).min())
    ends = np.append(begins[1:], True)
    numbers = np.array([a.place.number for a in accesses])
    first, last = begins & stores, ends & stores
    return Places(
        loaded=[b for b, _ in _bands(pieces[begins & ~stores], None, unit)],
        first_stored=[
            (band, accesses[label].place.known)
            for band, label in _bands(pieces[first], at[first], unit)
        ],
        stored=[b for b, _ in _bands(pieces[last], None, unit)],
        last=list(_bands(pieces[ends], numbers[at[ends]], unit)),
        pages=set().union(*(a.pages() for a in accesses)),
    )


def _unit(accesses: list[Access]) -> int:
    """Bytes of the pieces: every access begins and ends at multiples of them."""
    numbers = [n for a in accesses for n in (int(a.starts[0]), a.step, a.size)]
    return int(np.gcd.reduce(numbers)) or 1


def _pieces(accesses: list[Access], rounds: int, unit: int) -> tuple[np.ndarray, np.ndarray]:
    """Every piece of every access, and when it is accessed: sorted by the piece, then by time."""
    found = []
    span = rounds * len(accesses)
    clock = np.arange(rounds, dtype=np.int64) * len(accesses)
    for number, access in enumerate(accesses):
        keys = access.starts // unit * span + (clock + number)
        found.append((keys[:, None] + _steps(access.size // unit) * span).reshape(-1))
    keys = np.concatenate(found)
    keys.sort()
    pieces = keys // span
    return pieces, keys - pieces * span


@lru_cache(maxsize=64)
def _steps(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int64)


def _dependent(
    accesses: list[Access], begins: np.ndarray, at: np.ndarray, stores: np.ndarray
) -> np.ndarray:
    """Return which accesses, but the first, do not follow the one before in the same piece as they
    may: loads after stores, and stores that do not know what they come after, or do not come after
    it in the order of the instructions, too."""
    same, store = ~begins[1:], stores[1:]
    # Instructions are numbered within each piece; the largest number so far says who came last.
    level = np.cumsum(begins) * len(accesses)
    latest = np.maximum.accumulate(level + at) - level
    known = np.array([[b.place.number in a.place.known for a in accesses] for b in accesses])
    is_wrong = np.where(store, (latest[:-1] >= at[1:]) | ~known[at[:-1], at[1:]], stores[:-1])
    return same & is_wrong


def _bands(pieces: np.ndarray, labels: np.ndarray | None, unit: int) -> Iterator[tuple[Band, int]]:
    """Pieces in rising order as runs at one distance, those of each label by themselves."""
    if not len(pieces):
        return
    if labels is None or not (labels != labels[0]).any():
        label = 0 if labels is None else int(labels[0])
        yield from ((band, label) for band in _runs(pieces, unit))
        return
    for label in np.unique(labels).tolist():
        yield from ((band, label) for band in _runs(pieces[labels == label], unit))


def _runs(pieces: np.ndarray, unit: int) -> Iterator[Band]:
    if int(pieces[-1] - pieces[0]) == len(pieces) - 1:
        yield Band(int(pieces[0]) * unit, len(pieces) * unit, 0, 1)
        return
    cuts = np.flatnonzero(np.diff(pieces) != 1) + 1
    lows = pieces[np.append(0, cuts)]
    lengths = np.diff(np.concatenate(([0], cuts, [len(pieces)]))).tolist()
    starts = lows.tolist()
    at = 0
    while at < len(starts):
        end = at + 1
        step = starts[end] - starts[at] if end < len(starts) else 0
        while (
            end < len(starts)
            and lengths[end] == lengths[at]
            and starts[end] - starts[end - 1] == step
        ):
            end += 1
        count = end - at
        yield Band(starts[at] * unit, lengths[at] * unit, step * unit if count > 1 else 0, count)
        at = end


# -- the log of a batch ----------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Log:
    """Entries of a window's log, and the parts that those below 0 name, counted from 0."""

    entries: np.ndarray
    parts: list[tuple[int, np.ndarray, int]]

    def write(self, ub: VectorWindow) -> None:
        """Add them to the log of a window, if it has one."""
        if ub.log is None:
            return
        entries = self.entries
        if self.parts:
            entries = np.where(entries < 0, entries - len(ub.parts), entries)
            ub.parts.extend(self.parts)
        ub.log.frombytes(entries.tobytes())


def log_of(accesses: list[Access], rounds: int) -> Log:
    """Return the log of accesses in the order of a round."""
    columns: list[np.ndarray] = []
    parts: list[tuple[int, np.ndarray, int]] = []
    for access in accesses:
        starts, place = access.starts, access.place
        if access.is_entry:
            columns.append(place.entry(access.size) + starts)
            continue
        columns.append(-1 - len(parts) - np.arange(rounds, dtype=np.int64))
        parts.extend(zip(repeat(place.code), starts[:, None].copy(), repeat(access.size)))
    if not columns:
        return Log(np.zeros(0, np.int64), [])
    return Log(np.stack(columns, axis=1).reshape(-1), parts)
