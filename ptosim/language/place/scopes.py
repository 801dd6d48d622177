"""Vector regions that the text leaves out: runs of register operations become one each.

In a block a run is made of register operations, loops and branches of them, and numbers between
them; everything else ends it. What a run makes of nothing but registers is made again where
another run uses it; numbers that others use are computed before the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import copy

from ptosim.ground.ir.core import Block, Operand, Operation, Region, Value, add_in_order, walk
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import MemRefType, PtrType, TileType
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OpDef
from ptosim.ground.isa.targets import unit_rules
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.language.bind.units import mark_of
from ptosim.language.place.sides import (
    CUBE,
    VECTOR,
    has_registers,
    is_register,
    makes_registers,
    votes,
)

_MEMORY = (PtrType, MemRefType, TileType)


OF_REGISTERS = frozenset(("vector_region", "loads", "stores"))
"""Traits of operations that can be of registers without making one."""


WHOLE = "llvm.loop.aivector_scope"
"""The attribute of a loop that is a region."""


@dataclass(slots=True, eq=False)
class Run:
    """Operations of a block that become a region: its first and last one are of registers."""

    block: Block
    ops: list[Operation]
    inside: set[Operation] = field(default_factory=set)  # and all that is in them


class Escape(NamedTuple):
    """A register that is used where nobody can make it again."""

    value: Value
    user: Operation


def runs_of(blocks: Iterable[Block]) -> Iterator[Run]:
    """Yield the runs of blocks, and of the loops and branches in them that are no part of one."""
    for block in blocks:
        yield from _runs(block)
        for op in block.run:
            if not op.has("vector_region") and not is_whole(op) and not _is_member(op):
                yield from runs_of(b for region in op.regions for b in region.blocks)


def _runs(block: Block) -> Iterator[Run]:
    waiting: list[Operation] = []
    for op in (*block.run, None):
        if op is not None and not is_whole(op) and (_is_member(op) or _is_number(op)):
            waiting.append(op)
            continue
        at = [k for k, o in enumerate(waiting) if _is_member(o)]
        if at:
            ops = waiting[at[0] : at[-1] + 1]
            yield Run(block, ops, set(walk(ops)))
        waiting = []
        if op is not None and is_whole(op):
            yield Run(block, [op], set(walk([op])))


def is_whole(op: Operation) -> bool:
    """True for a loop that the text makes a region of its own, whatever is in it."""
    return WHOLE in op.attrs and op.has("loop")


def joins_region(function: Function, calls: Sequence[Operation]) -> bool:
    """True for a function of registers alone that is called from written regions and from nowhere
    else: it is executed as a part of them."""
    if not calls or not all(call.inside("vector_region") for call in calls):
        return False
    return function.has_body and all(
        _is_member(op) or _is_number(op) or op.has("returns") for op in function.body
    )


def _is_member(op: Operation) -> bool:
    """True for an operation on registers, and for control flow around such that nothing ends."""
    if op.traits & {"vector_region", "call", "returns", "yields", "jumps"}:
        return False
    if op.regions:
        if not op.traits & {"loop", "branch"}:
            return False
        inner = [o for o in op.inner() if not o.has("yields")]
        fits = all(_is_member(o) or _is_number(o) for o in inner)
        return fits and any(map(_is_member, inner))
    return has_registers(op) or op.has("in_regions")


def _is_number(op: Operation) -> bool:
    """True for scalar operations without an effect on memory."""
    if op.regions or op.traits & {"reads_memory", "writes_memory", "ends_regions"}:
        return False
    row = op.definition
    pure = {"constant", "points_into", "pure"}
    return row is not None and (row.family == "scalar" or not pure.isdisjoint(op.traits))


# -- values between runs ---------------------------------------------------------------------------


def escapes(function: Function, runs: Sequence[Run]) -> Iterator[Escape]:
    """Yield the registers that a run would have to hand to something outside."""
    at = {op: run for run in runs for op in run.inside}
    for op in function.ops:
        if op.traits & {"call", "returns"} or op.regions:
            continue
        for value in _taken(op):
            owner = value.owner
            if owner is None or value.is_argument or not is_register(value.type):
                continue
            run = at.get(owner)
            if run is not None and op not in run.inside and _source(value) is None:
                yield Escape(value, op)


def _taken(op: Operation) -> list[Value]:
    return [*op.operand_values(), *(o.value for j in op.jumps for o in j.values if o.value)]


def _source(value: Value) -> list[Operation] | None:
    """The operations that make a register again, in order; None where memory or a loop is part of
    it."""
    if value.owner is None or value.is_argument:
        return [] if _is_given(value) else None
    if not is_register(value.type):
        return []
    found: dict[Operation, None] = {}
    return list(found) if add_in_order(value.owner, _makers, found) else None


def _makers(op: Operation) -> list[Operation] | None:
    """The operations that make the registers which one takes; None if that cannot be made again."""
    touches = any(isinstance(o.type, _MEMORY) for _, o in op.operands())
    if op.regions or touches or not makes_registers(op):
        return None
    made = [v for v in op.operand_values() if not _is_given(v)]
    if any(v.owner is None or v.is_argument for v in made):
        return None
    return [v.owner for v in made if v.owner is not None and is_register(v.type)]


def _is_given(value: Value) -> bool:
    """True for an argument of the function."""
    return value.is_argument and value.owner is not None and value.owner.has("function")


# -- regions ---------------------------------------------------------------------------------------


def wrap(function: Function, row: OpDef) -> None:
    """Put a region around each run of a function, in what its blocks execute."""
    if not any(op.traits & OF_REGISTERS or makes_registers(op) for op in function.ops):
        return
    runs = list(runs_of(function.op.regions[0].blocks))
    users: dict[Value, list[Operation]] = {}
    for op in function.ops if runs else ():
        for value in _taken(op):
            users.setdefault(value, []).append(op)
    members = {op for run in runs for op in run.inside}
    for run in runs:
        elsewhere = _made_only_elsewhere(run, users, members)
        hoisted = _numbers_for_others(run)
        ops = [o for o in run.ops if o not in hoisted and o not in elsewhere]
        block = run.block
        first = block.run.index(run.ops[0])
        rest = block.run[first + len(run.ops) :]
        made = [o for o in run.ops if o in hoisted]
        if any(is_whole(o) or _is_member(o) for o in ops):
            region = around([*_made_again(run), *ops], row)
            region.start, region.name_end = run.ops[0].start, run.ops[0].name_end
            made.append(region)
        else:
            made = [o for o in run.ops if o not in elsewhere]
        block.executed = [*block.run[:first], *made, *rest]


def _made_only_elsewhere(
    run: Run, users: dict[Value, list[Operation]], members: set[Operation]
) -> set[Operation]:
    """Operations of registers that nothing in the run needs: the runs that do make them again."""
    found: set[Operation] = set()
    again: dict[Operation, None] = {}
    for op in reversed(run.ops):
        taken = [user for value in op.results for user in users.get(value, ())]
        is_needed = any(u not in members or (u in run.inside and u not in found) for u in taken)
        if taken and not is_needed and not _is_number(op) and _can_be_made(op, again):
            found.add(op)
    return found


def _can_be_made(op: Operation, again: dict[Operation, None]) -> bool:
    """True if what an operation makes can be made in another run; `again` keeps what can."""
    return not is_register(op.results[0].type) or add_in_order(op, _makers, again)


def around(ops: list[Operation], row: OpDef) -> Operation:
    """Return an operation with a region of these operations."""
    first, last = ops[0], ops[-1]
    made = Operation(row.name, "core", first.start, last.end, first.name_end)
    made.definition, made.traits = row, row.traits
    made.function, made.parent = first.function, first.parent
    made.regions = [Region([Block(ops, [])], last.end)]
    return made


def _made_again(run: Run) -> list[Operation]:
    """Copies of what makes the registers that come from other runs."""
    made: dict[Operation, Operation] = {}
    for op in walk(run.ops):
        for value in op.operand_values():
            if value.owner in run.inside or not is_register(value.type):
                continue
            for source in _source(value) or ():
                if source not in run.inside:
                    made.setdefault(source, copy(source))
    return list(made.values())


def _numbers_for_others(run: Run) -> set[Operation]:
    """The numbers of a run that are used after it, with those that they are computed from, as far
    as no operation of the run makes them."""
    direct = set(run.ops)
    found: dict[Operation, None] = {}

    def numbers(op: Operation) -> list[Operation] | None:
        if not _is_number(op):
            return None
        return [v.owner for v in op.operand_values() if v.owner is not None and v.owner in direct]

    taken = Counter(v for op in run.inside for v in _operands(op))
    for op in run.ops:
        if _is_number(op) and any(v.uses > taken[v] for v in op.results):
            add_in_order(op, numbers, found)
    return set(found)


def _operands(op: Operation) -> list[Value]:
    clauses = (c for c in op.bound.values() if hasattr(c, "operands"))
    inner = [o.value for c in clauses for o in c.operands.values() if isinstance(o, Operand)]
    return [*op.operand_values(), *(v for v in inner if v is not None)]


# Sections that the text leaves out: in a function that names no kind of core, each run of
# operations of one kind is a section of its own.

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
