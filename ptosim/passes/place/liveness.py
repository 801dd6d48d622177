"""From where to where in a function the storage of each planned tile is in use.

A buffer begins with the first operation that uses it and ends with the last; uses through views of
its storage, through results of branches and through values that loops carry count as uses of the
buffer. One that is made before a loop and used in it is in use throughout the loop."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import MemRefType, TileType

_LOOPS = frozenset(("scf.for", "scf.while"))
_IN_PLACE = frozenset(("elementwise", "tile_scalar"))
"""Families whose destination may take the place of a source that ends with the operation."""


@dataclass(slots=True)
class Lifetime:
    """When a buffer is in use, as numbers of operations, and what touches it."""

    start: int
    end: int
    pipes: set[str] = field(default_factory=set)
    heirs: set[Value] = field(default_factory=set)  # may begin where this one ends


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
        for op in self.function.op.walk():
            self._join(op)
        self._block(self.function.body, ())
        self._outermost()
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
        """Return the value that stands for a storage."""
        while value in self.parent:
            value = self.parent[value]
        return value

    def _union(self, one: Value | None, two: Value | None) -> None:
        if one is None or two is None or not (_is_storage(one) and _is_storage(two)):
            return
        one, two = self.root(one), self.root(two)
        if one is two:
            return
        if two in self.planned and one not in self.planned:
            one, two = two, one
        self.parent[two] = one

    def _join(self, op: Operation) -> None:
        if op.has("same_storage"):
            source = getattr(op.bound.get("source"), "value", None)
            for result in op.results:
                self._union(source, result)
        elif op.name == "arith.select":
            for name in ("true_value", "false_value"):
                self._union(getattr(op.bound.get(name), "value", None), op.results[0])
        elif op.name.startswith("scf.") and op.regions:
            self._join_regions(op)

    def _join_regions(self, op: Operation) -> None:
        first = op.regions[0].blocks[0] if op.regions[0].blocks else None
        init = [getattr(o, "value", None) for o in op.bound.get("init", ())]
        carried = first.values[1:] if op.name == "scf.for" and first else []
        if op.name == "scf.while" and first:
            carried = first.values
            for value, result in zip(op.regions[1].blocks[0].values, op.results, strict=False):
                self._union(value, result)
        for lists in (zip(init, carried, strict=False), zip(carried, op.results, strict=False)):
            for one, two in lists:
                self._union(one, two)
        for region in op.regions:
            last = region.ops[-1] if region.ops else None
            if last is None or last.name not in ("scf.yield", "scf.condition"):
                continue
            targets = op.results
            if op.name == "scf.while" and last.name == "scf.yield":
                targets = carried
            for operand, result in zip(last.bound.get("values", ()), targets, strict=False):
                self._union(getattr(operand, "value", None), result)

    # -- uses -------------------------------------------------------------------------------------

    def _block(self, ops: Any, loops: tuple[Operation, ...]) -> None:
        for op in ops:
            start = self.count
            self.count += 1
            for result in op.results:
                self.home[result] = loops
            if not op.has("same_storage") and op.name != "pto.alloc_tile":
                self._uses(op, start, loops)
            inner = (*loops, op) if op.name in _LOOPS else loops
            for region in op.regions:
                for block in region.blocks:
                    self._block(block.ops, inner)
            self.count += 1
            self.spans[op] = (start, self.count)

    def _uses(self, op: Operation, at: int, loops: tuple[Operation, ...]) -> None:
        touched: dict[str, set[Value]] = {}
        for name, value in _storages(op):
            root = self.root(value)
            if root not in self.planned:
                continue
            touched.setdefault(name, set()).add(root)
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

    def _in_place(self, op: Operation, touched: dict[str, set[Value]]) -> None:
        """A result may replace a source of its own shape exactly, except where the library writes
        before it has read."""
        row = op.definition
        if (
            row is None
            or row.family not in _IN_PLACE
            or op.variant is None
            or "apart" in row.access
        ):
            return
        names = {role: [o.name for o in op.variant.operands if o.role == role] for role in _ROLES}
        outs = {r for name in names["out"] for r in touched.get(name, ())}
        for name in names["in"]:
            operand = op.bound.get(name)
            for source in touched.get(name, ()):
                if isinstance(operand, Operand) and operand.value is source:
                    self.found[source].heirs |= {o for o in outs if _same_places(source, o)}


_ROLES = ("in", "out")


def _same_places(one: Value, other: Value) -> bool:
    """True if the elements of two tiles lie at the same distances."""
    a, b = one.type, other.type
    if not isinstance(a, TileType) or not isinstance(b, TileType):
        return False
    shapes = ((t.rows, t.cols, t.dtype.bits, t.blayout, t.slayout) for t in (a, b))
    return len(set(shapes)) == 1


def _is_storage(value: Value) -> bool:
    return isinstance(value.type, (TileType, MemRefType))


def _storages(op: Operation) -> Iterator[tuple[str, Value]]:
    """The tiles and buffers that an operation names, by operand."""
    for name, bound in op.bound.items():
        for operand in bound if isinstance(bound, list) else (bound,):
            value = operand.value if isinstance(operand, Operand) else None
            if value is not None and _is_storage(value):
                yield name, value
    for name, value in op.result_values().items():
        if _is_storage(value):
            yield name, value
