"""Addresses for buffers of which not all are in use at once.

As in the assembler's planner reuse comes in levels: first no buffer takes over from one that
another kind of pipe touches (data movement against computation), then only lifetimes must be
disjoint, at last those may touch in an operation that reads one and writes the other. Each level
places buffers one by one at the first address where nothing of the same time is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

from ptosim.ground.ir.core import Block, Operation, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import TileType
from ptosim.ground.isa.schema import Role
from ptosim.ground.records import dataclass, field
from ptosim.machine.effects.storage import is_inert, is_storage, joined, named_values

# From where to where in a function the storage of each planned tile is in use.
#
# A buffer begins with the first operation that uses it and ends with the last; uses through views
# of its storage, through results of branches and through values that loops carry count as uses of
# the buffer. One that is made before a loop and used in it is in use throughout the loop; in a
# function of several blocks what is in use in a cycle of blocks is in use in all of it.


@dataclass(slots=True)
class Lifetime:
    """When a buffer is in use, as numbers of operations, and what touches it."""

    start: int
    end: int
    pipes: set[str] = field(default_factory=set)
    heirs: set[Value] = field(default_factory=set)  # may begin where this one ends
    followers: set[Value] = field(
        default_factory=set
    )  # begin as results of what reads this one last


def lifetimes(
    function: Function, planned: Collection[Value]
) -> tuple[dict[Value, Lifetime], dict[Operation, tuple[int, int]]]:
    """Return the lifetime of each planned value of a function that is used at all, and the numbers
    at which each operation begins and ends."""
    walker = _Walker(function, planned)
    return walker.run(), walker.spans


class _Walker:
    def __init__(self, function: Function, planned: Collection[Value]) -> None:
        self.function = function
        self.planned = planned
        self.parent: dict[Value, Value] = {}
        self.found: dict[Value, Lifetime] = {}
        self.home: dict[Value, tuple[Operation, ...]] = {}
        self.spans: dict[Operation, tuple[int, int]] = {}
        self.count = 0
        self.pending: list[tuple[Lifetime, Operation]] = []

    def run(self) -> dict[Value, Lifetime]:
        for op in self.function.ops:
            self._join(op)
        self._block(self.function.body, ())
        self._outermost()
        self._cycles(self.function.op.regions[0].blocks)
        last = self.count
        for value in self.function.args:  # the caller's
            if value in self.found:
                self.found[value].start, self.found[value].end = 0, last
        if self.function.implicit:
            for life in self.found.values():  # results that nothing consumes are outputs
                life.end = last
        return self.found

    # -- one storage under several names ----------------------------------------------------------

    def root(self, value: Value) -> Value:
        """Return the value that represents a storage."""
        while value in self.parent:
            value = self.parent[value]
        return value

    def _join(self, op: Operation) -> None:
        for one, two in joined(op):
            one, two = self.root(one), self.root(two)
            if one is two:
                continue
            if two in self.planned and one not in self.planned:
                one, two = two, one
            self.parent[two] = one

    # -- uses -------------------------------------------------------------------------------------

    def _block(self, ops: Any, loops: tuple[Operation, ...]) -> None:
        for op in ops:
            start = self.count
            self.count += 1
            for result in op.results:
                self.home[result] = loops
            if not ("same_storage" in op.traits or "makes_storage" in op.traits):
                self._uses(op, start, loops)
            inner = (*loops, op) if "loop" in op.traits else loops
            for region in op.regions:
                for block in region.blocks:
                    self._block(block.ops, inner)
            self.count += 1
            self.spans[op] = (start, self.count)

    def _uses(self, op: Operation, at: int, loops: tuple[Operation, ...]) -> None:
        touched: list[tuple[Role, Value, Value]] = []
        for name, role, value in named_values(op):
            root = self.root(value)
            if root not in self.planned or not is_storage(value) or is_inert(op, name):
                continue
            touched.append((role, value, root))
            life = self.found.setdefault(root, Lifetime(at, at))
            life.start, life.end = min(life.start, at), max(life.end, at)
            if op.definition is not None:
                life.pipes.update(p.pipe for p in op.definition.pipes)
            home = self.home.get(root, ())
            outside = [loop for loop in loops if loop not in home]
            if outside:  # made before the loop: in use until the loop ends
                self.pending.append((life, outside[0]))
        self._in_place(op, touched)

    def _outermost(self) -> None:
        for life, loop in self.pending:
            start, end = self.spans[loop]
            life.start, life.end = min(life.start, start), max(life.end, end)

    def _cycles(self, blocks: Sequence[Block]) -> None:
        """What is in use in a cycle of blocks is in use in all of it."""
        spans: dict[Block, tuple[int, int]] = {}
        at = 0
        for block in blocks:
            end = self.spans[block.ops[-1]][1] if block.ops else at
            spans[block], at = (at, end), end
        back = (
            (spans[jump.block][0], spans[block][1])
            for block in blocks
            for op in block.ops[-1:]
            for jump in op.jumps
            if jump.block in spans and spans[jump.block] <= spans[block]
        )
        cycles = _united(back)
        for life in self.found.values() if cycles else ():
            reached = [c for c in cycles if life.start < c[1] and life.end > c[0]]
            life.start = min([life.start, *(start for start, _ in reached)])
            life.end = max([life.end, *(end for _, end in reached)])

    def _in_place(self, op: Operation, touched: list[tuple[Role, Value, Value]]) -> None:
        """A result may replace a source of its own shape exactly, except where the library writes
        before it has read. Of other results of an operation the storage follows on that of its
        sources, which the default planner of the assembler counts as free by then."""
        self._follow(op, touched)
        if "in_place" not in op.traits or op.definition is None or "apart" in op.definition.access:
            return
        outs = {root for role, _, root in touched if role is Role.OUT}
        for role, value, root in touched:
            if role is Role.IN and value is root:
                self.found[root].heirs |= {o for o in outs if _same_places(root, o)}

    def _follow(self, op: Operation, touched: list[tuple[Role, Value, Value]]) -> None:
        """Scratch never shares with a destination, nor do operands that must not share bytes."""
        roles: dict[Value, set[Role]] = {}
        for role, _, root in touched:
            roles.setdefault(root, set()).add(role)
        if op.definition is None or op.definition.access.keys() & {"apart", "no_alias"}:
            return
        outs = {root for root, found in roles.items() if found == {Role.OUT}}
        for root, found in roles.items():
            if found == {Role.IN}:
                self.found[root].followers |= outs


def _united(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans that overlap as one, in order: what is in use in one of them is so in all of them."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _same_places(one: Value, other: Value) -> bool:
    """True if the elements of two tiles are at the same distances."""
    a, b = one.type, other.type
    if not isinstance(a, TileType) or not isinstance(b, TileType):
        return False
    shapes = ((t.rows, t.cols, t.dtype.bits, t.blayout, t.slayout) for t in (a, b))
    return len(set(shapes)) == 1


_MOVES = frozenset(("MTE1", "MTE2", "MTE3", "FIX"))


class Reuse(Enum):
    """What may take over the bytes of a buffer that is not in use any more."""

    BY_PIPE = 1  # one that the same kind of pipe touches
    BY_LIFE = 2  # any that begins later, or exactly in its place as the result of its last use
    OVER_SOURCES = 3  # also a result of its last use that is larger, smaller or at an offset


@dataclass(slots=True, eq=False)
class Buffer:
    """A buffer to place: its bytes (rounded up), where it is in the program, when it is in use.
    One without a lifetime is in use all the time. `group` is the function it belongs to."""

    owner: Any
    bytes: int
    order: int
    group: int
    life: Lifetime | None


def pack(
    buffers: Sequence[Buffer],
    capacity: int,
    taken: Sequence[tuple[int, int]],
    *,
    over_sources: bool,
) -> dict[Any, int] | None:
    """Return an address for each buffer below `capacity`, clear of the ranges `taken`; None if no
    level of reuse finds room. The last level lets results be over the sources that they end
    (`over_sources`)."""
    for reuse in Reuse if over_sources else (Reuse.BY_PIPE, Reuse.BY_LIFE):
        for order in _ORDERS:
            placed = _place(sorted(buffers, key=order), capacity, taken, reuse)
            if placed is not None:
                return placed
    return None


def _moves_first(buffer: Buffer) -> tuple[int, int]:
    pipes = buffer.life.pipes if buffer.life is not None else set()
    rank = 0 if pipes & _MOVES else 2 if "S" in pipes else 1
    return rank, buffer.order


def _by_start(buffer: Buffer) -> tuple[int, int]:
    return buffer.life.start if buffer.life is not None else -1, buffer.order


_ORDERS: tuple[Callable[[Buffer], Any], ...] = (
    _moves_first,
    lambda b: (-b.bytes, b.order),
    _by_start,
)


def _place(
    buffers: Sequence[Buffer], capacity: int, taken: Sequence[tuple[int, int]], reuse: Reuse
) -> dict[Any, int] | None:
    done = _Placed(taken, reuse)
    found: dict[Any, int] = {}
    for buffer in buffers:
        busy, donors = done.around(buffer)
        at = _place_one(buffer.bytes, busy, donors)
        if at + buffer.bytes > capacity:
            return None
        done.add(at, buffer)
        found[buffer.owner] = at
    return found


class _Placed:
    """Buffers that have their place. Of those in use all the time, and of those that may not be
    followed whatever the time, the ranges are kept together; of the others each by its lifetime, so
    that only those of about the same time are looked at."""

    def __init__(self, taken: Sequence[tuple[int, int]], reuse: Reuse) -> None:
        self.reuse = reuse
        self._always = list(taken)
        self._groups: dict[int, Ranges] = {}
        self._kinds: dict[tuple[int, bool], Ranges] = {}
        self._lives: dict[tuple[int, int], list[tuple[int, int, int, int, Buffer]]] = {}
        self._count = 0

    def add(self, at: int, buffer: Buffer) -> None:
        """A buffer is placed."""
        place = at, at + buffer.bytes
        life, self._count = buffer.life, self._count + 1
        if life is None:
            self._always.append(place)
            return
        self._groups.setdefault(buffer.group, Ranges()).add(*place)
        self._kinds.setdefault((buffer.group, _moves(buffer)), Ranges()).add(*place)
        size = (life.end - life.start).bit_length()
        lives = self._lives.setdefault((buffer.group, size), [])
        insort(lives, (life.start, self._count, *place, buffer), key=lambda entry: entry[:2])

    def around(self, buffer: Buffer) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return the ranges that a buffer may not use, and those of buffers that end where it
        begins, or begin where it ends."""
        if buffer.life is None:
            return [*self._always, *(r for g in self._groups.values() for r in g.all)], []
        busy, donors = list(self._always), []
        for group, ranges in self._groups.items():
            if group != buffer.group:
                busy += ranges.all
        if self.reuse is Reuse.BY_PIPE:
            other = self._kinds.get((buffer.group, not _moves(buffer)))
            busy += other.all if other is not None else []
        for start, end, near in self._near(buffer):
            if _conflict(buffer, near, self.reuse):
                busy.append((start, end))
            elif self.reuse is not Reuse.OVER_SOURCES and _meet_in_one_operation(buffer, near):
                donors.append((start, end))
        return busy, donors

    def _near(self, buffer: Buffer) -> Iterator[tuple[int, int, Buffer]]:
        """Yield what is placed and in use when the buffer is, in the order of placing."""
        life = buffer.life
        assert life is not None
        found = []
        for (group, size), lives in self._lives.items():
            if group != buffer.group:
                continue
            first = bisect_left(lives, life.start - (1 << size), key=lambda entry: entry[0])
            for begin, number, start, end, other in lives[first:]:
                if begin > life.end:
                    break
                assert other.life is not None
                if other.life.end >= life.start:
                    found.append((number, start, end, other))
        for _, start, end, other in sorted(found, key=lambda entry: entry[0]):
            yield start, end, other


class Ranges:
    """Ranges of bytes, put together where they touch."""

    def __init__(self) -> None:
        self.all: list[tuple[int, int]] = []

    def add(self, start: int, end: int) -> None:
        """Add a range."""
        first = bisect_left(self.all, start, key=lambda known: known[1])
        last = bisect_right(self.all, end, key=lambda known: known[0])
        meeting = self.all[first:last]
        if meeting:
            start, end = min(start, meeting[0][0]), max(end, meeting[-1][1])
        self.all[first:last] = [(start, end)]


def _moves(buffer: Buffer) -> bool:
    return buffer.life is not None and bool(buffer.life.pipes & _MOVES)


def _place_one(
    size: int, busy: Sequence[tuple[int, int]], donors: Sequence[tuple[int, int]]
) -> int:
    """The lowest place clear of everything, or exactly that of a buffer that hands its own on."""
    best = _first_gap(sorted([*busy, *donors]), size)
    for start, end in donors:
        others = [d for d in donors if d != (start, end)]
        clear = all(e <= start or start + size <= s for s, e in (*busy, *others))
        if clear and end == start + size and start < best:
            best = start
    return best


def _first_gap(busy: Sequence[tuple[int, int]], size: int) -> int:
    at = 0
    for start, end in busy:
        if start >= at + size:
            break
        at = max(at, end)
    return at


def _conflict(one: Buffer, two: Buffer, reuse: Reuse) -> bool:
    """True if two buffers may not share bytes."""
    if one.life is None or two.life is None or one.group != two.group:
        return True
    first, second = sorted((one, two), key=_by_start)
    a, b = first.life, second.life
    assert a is not None
    assert b is not None
    takes_over = _follows if reuse is Reuse.OVER_SOURCES else _inherits
    if b.start < a.end or (b.start == a.end and not takes_over(first, second)):
        return True
    return reuse is Reuse.BY_PIPE and bool(a.pipes & _MOVES) != bool(b.pipes & _MOVES)


def _meet_in_one_operation(one: Buffer, two: Buffer) -> bool:
    """True if one buffer begins where the other ends: the operation reads one and writes one."""
    if one.life is None or two.life is None or one.group != two.group:
        return False
    first, second = (b.life for b in sorted((one, two), key=_by_start))
    return first is not None and second is not None and second.start == first.end


def _inherits(first: Buffer, second: Buffer) -> bool:
    """True if the second buffer begins as the result of the operation that ends the first."""
    life = first.life
    owner = second.owner
    return (
        life is not None
        and isinstance(owner, Value)
        and owner in life.heirs
        and second.bytes == first.bytes
    )


def _follows(first: Buffer, second: Buffer) -> bool:
    """True if the second buffer begins as a result of the operation that ends the first."""
    return first.life is not None and second.owner in first.life.followers
