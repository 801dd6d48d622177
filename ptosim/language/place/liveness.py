"""From where to where in a function the storage of each planned tile is in use.

A buffer begins with the first operation that uses it and ends with the last; uses through views of
its storage, through results of branches and through values that loops carry count as uses of the
buffer. One that is made before a loop and used in it is in use throughout the loop; in a function
of several blocks what is in use in a cycle of blocks is in use in all of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ptosim.ground.ir.core import Block, Operation, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import TileType
from ptosim.ground.isa.schema import Role
from ptosim.ground.records import dataclass, field
from ptosim.machine.effects.operands import named_values
from ptosim.machine.effects.row import is_inert
from ptosim.machine.effects.storage import is_storage, joined


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
