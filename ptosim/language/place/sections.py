"""Sections that the text leaves out: in a function that names no kind of core, each run of
operations of one kind is a section of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.units import unit_rules
from ptosim.ground.records import dataclass
from ptosim.language.bind.units import mark_of
from ptosim.language.place.scopes import around, joins_region, wrap
from ptosim.language.place.sides import CUBE, VECTOR, votes

_BOTH = frozenset((CUBE, VECTOR))


@dataclass(slots=True, eq=False)
class Segment:
    """Operations at the top of a function, outside of sections: of one kind of core, of both, or
    of none that they say."""

    ops: list[Operation]
    sides: set[str]

    @property
    def side(self) -> str | None:
        """The kind, where it is one."""
        named = self.sides & _BOTH
        return next(iter(named)) if len(named) == 1 else None


def infers(function: Function, resolved: ResolvedModule) -> bool:
    """True for a function whose sections are inferred: an entry that names no kind and has one
    block. A function that is no entry is for the cores that call it, all of them where none does.
    """
    rules = unit_rules(resolved.date)
    if "inferred_sections" not in rules.rules or not function.has_body or function.implicit:
        return False
    is_entry = mark_of(function.op, rules) is not None
    return is_entry and function.kernel_kind is None and len(function.op.regions[0].blocks) == 1


def segments(function: Function, target: str) -> list[Segment]:
    """Return what is at the top of a function: a new segment begins where the kind changes and
    after a section; an operation of both kinds is one."""
    found: list[Segment] = []
    current: Segment | None = None
    for op in function.body:
        sides = votes((op,), target)
        named = sides & _BOTH
        if op.has("section") or len(named) == 2:
            current = None
        if op.has("section"):
            continue
        if current is None or (named and current.side not in (None, *named)):
            current = Segment([], set())
            found.append(current)
        current.ops.append(op)
        current.sides |= sides
        if len(named) == 2:
            current = None
    return found


def covered(op: Operation) -> bool:
    """True if a section is inside an operation."""
    return any(o.has("section") for o in op.walk())


def write(resolved: ResolvedModule) -> None:
    """Give the functions of a module the sections and vector regions that they leave out."""
    rules = unit_rules(resolved.date).rules
    for function in resolved.functions.values():
        for op in function.ops:
            for region in op.regions:
                for block in region.blocks:
                    block.executed = None
        function.inferred = False
        if infers(function, resolved):
            _split(function, resolved)
    if "inferred_regions" in rules:
        _write_regions(resolved)


def _write_regions(resolved: ResolvedModule) -> None:
    region = isa(resolved.date).having("vector_region")[0]
    calls: dict[str, list[Operation]] = {}
    for op in resolved.ops:
        if op.has("call"):
            calls.setdefault(op.bound.get("callee", ""), []).append(op)
    for function in resolved.functions.values():
        function.in_region = joins_region(function, calls.get(function.name, ()))
        if function.has_body and not function.in_region:
            wrap(function, region)


def _split(function: Function, resolved: ResolvedModule) -> None:
    """Put a section around each segment of one kind, in a function of both kinds."""
    parts = segments(function, resolved.target)
    explicit = {o.definition.side for o in function.ops if o.has("section") and o.definition}
    sides = explicit.union(part.side for part in parts)
    if any(part.sides >= _BOTH for part in parts) or not sides >= _BOTH:
        return
    rows = {row.side: row for row in isa(resolved.date).having("section")}
    users = _users(function, parts)
    replaced: dict[Operation, list[Operation]] = {}
    for part in parts:
        row = rows.get(part.side) if part.side is not None else None
        if row is None or any(map(covered, part.ops)):
            continue
        made: list[Operation] = []
        head = _head(part, resolved.target) if part is parts[0] else 0
        made += part.ops[:head]
        for run, is_inside in _cut(part, part.ops[head:], users):
            made += [around(run, row)] if is_inside else run
        replaced |= {op: [] for op in part.ops} | {part.ops[0]: made}
    block = function.op.regions[0].blocks[0]
    block.executed = [o for op in block.ops for o in replaced.get(op, (op,))]
    function.inferred = True


Users = dict[Value, list[tuple[Operation, Segment | None]]]


def _users(function: Function, parts: Sequence[Segment]) -> Users:
    """The operations that take each value, with the segment that they are in."""
    at = {inner: part for part in parts for op in part.ops for inner in op.walk()}
    found: Users = {}
    for op in function.ops:
        for value in op.operand_values():
            found.setdefault(value, []).append((op, at.get(op)))
    return found


def _head(part: Segment, target: str) -> int:
    """How many operations come before the first that is of a kind: every core executes them."""
    return next((at for at, op in enumerate(part.ops) if votes((op,), target)), len(part.ops))


def _cut(
    part: Segment, ops: Sequence[Operation], users: Users
) -> Iterator[tuple[list[Operation], bool]]:
    """Yield pieces of a segment and whether a section goes around them: what it defines for others
    and the end of the function stay outside."""
    shared: set[Operation] = set()
    for op in reversed(ops):
        taken = [(user, p) for v in op.results for user, p in users.get(v, ())]
        if not op.regions and any(p is not part or user in shared for user, p in taken):
            shared.add(op)
    run: list[Operation] = []
    for op in ops:
        if not op.has("returns") and op not in shared:
            run.append(op)
            continue
        if run:
            yield run, True
        yield [op], False
        run = []
    if run:
        yield run, True


def escaping(
    function: Function, parts: Sequence[Segment], target: str
) -> Iterator[tuple[Value, Operation, str]]:
    """Yield values that operations of one kind of core make and other segments use, with the user
    and the kind."""
    if len({part.side for part in parts} - {None}) < 2:
        return
    users = _users(function, parts)
    for part in parts:
        for op in part.ops if part.side is not None else ():
            if votes((op,), target) & _BOTH:
                for value in op.results:
                    for user, other in users.get(value, ()):
                        if other is not part:
                            yield value, user, part.side or ""
