"""Where flags and barriers must be, found block by block.

The rules are the assembler's: a flag right after the producer and right before the consumer where
pipes differ, a barrier where an A2/A3 vector operation follows one that it depends on, nothing
where an earlier flag orders the two already. A signal to other cores tells that what is before it
is done, so its pipe waits for every other one with work. In a function that gathers or scatters
(trait `keeps_flags`) an earlier flag counts for its own dependence only. A dependence on something
inside a loop or branch is one on the loop or branch itself, so that every flag is set and waited
for equally often. Dependences from one iteration to the next set the flag once before the loop and
wait once after it. A section is for the cores of one kind, and those of another have flags of their
own: each kind is planned for itself, and a flag outside of the sections is written in one of its
kind. Every function ends with a barrier of all pipes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ptosim.ground.ir.core import Block, Operand, Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import MemRefType, PtrType, TileType, ViewType
from ptosim.ground.isa.schema import Role
from ptosim.ground.records import dataclass, field
from ptosim.language.place.planner import Placement
from ptosim.language.place.sides import CUBE, has_registers, pipe_of, votes
from ptosim.language.verify.verbs import HELPER
from ptosim.machine.effects.account import REGISTER, SPECIAL_REGISTER_BYTES, acts_on_memory
from ptosim.machine.effects.storage import (
    argument_of,
    destroyed_sources,
    is_handed_over,
    is_inert,
    named_values,
    part_of_allocation,
    registers,
    root_of,
)

EVERYWHERE = (0, 1 << 62)


@dataclass(frozen=True, slots=True)
class Touch:
    """Bytes [low, high) of a memory that an operation on a pipe reads or writes. `memory` is a
    space, `gm:` and the name of an argument, `gm:?` for global memory of unknown origin, or a
    register that several pipes use."""

    pipe: str
    memory: str
    low: int
    high: int
    writes: bool

    def meets(self, other: Touch) -> bool:
        """True if both may touch a byte and one of them writes."""
        if not (self.writes or other.writes) or not _same_memory(self.memory, other.memory):
            return False
        return self.low < other.high and other.low < self.high


def _same_memory(one: str, two: str) -> bool:
    if one == two:
        return True
    return one.startswith("gm:") and two.startswith("gm:") and "gm:?" in (one, two)


class Accesses:
    """Touches of operations, with the places of their storages."""

    def __init__(self, resolved: ResolvedModule, placement: Placement) -> None:
        self.resolved = resolved
        self.target = resolved.target
        self.placement = placement

    def of(self, op: Operation, *, in_region: bool = False) -> list[Touch]:
        """Return what an operation itself touches; nothing for one that only makes a handle. What
        is `in_region`, in a vector region, is done by the vector unit."""
        helper = self.helper(op)
        if helper is not None:
            return self._of_helper(op, helper)
        definition = op.definition
        if definition is None or definition.form == "core" or op.variant is None:
            return []
        is_action = acts_on_memory(op, self.target)
        if not is_action and (definition.family == "sync" or op.has("handle")):
            return []
        pipe = "V" if in_region else pipe_of(op, self.target)
        destroyed = destroyed_sources(op, self.target)
        touched = [
            (Role.INOUT if n in destroyed else r, v, _step_pipe(op, n, r, pipe))
            for n, r, v in named_values(op)
            if not is_inert(op, n)
        ]
        found = [t for role, v, at in touched for t in self._touches(op, v, at, role)]
        for names, writes in zip(registers(op, self.target), (False, True), strict=True):
            found += [Touch(pipe, REGISTER + n, 0, SPECIAL_REGISTER_BYTES, writes) for n in names]
        return found

    def helper(self, op: Operation) -> Function | None:
        """Return the helper that an operation calls: it is as one operation on tiles."""
        name = op.bound.get("callee", "") if op.has("call") else ""
        callee = self.resolved.functions.get(name)
        return callee if callee is not None and HELPER in callee.op.attrs else None

    def _of_helper(self, op: Operation, helper: Function) -> list[Touch]:
        pipe = "M" if CUBE in votes(helper.body, self.target) else "V"
        places = [p for v in op.operand_values() if (p := self._place(v)) is not None]
        return [Touch(pipe, *place, writes) for place in places for writes in (False, True)]

    def _touches(self, op: Operation, value: Value, pipe: str, role: Role) -> Iterator[Touch]:
        place = self._place(value)
        if place is None:
            return
        if role is Role.IN and op.has("writes_memory"):  # through a pointer
            role = Role.OUT
        if role is not Role.OUT:
            yield Touch(pipe, *place, False)
        if role is not Role.IN:
            yield Touch(pipe, *place, True)

    def _place(self, value: Value) -> tuple[str, int, int] | None:
        """The bytes of a value's storage; None if it is no memory."""
        type_ = value.type
        if isinstance(type_, TileType):
            return self._tile(value, type_)
        if isinstance(type_, MemRefType) and type_.space not in (None, "gm"):
            low = self.placement.values.get(value)
            return (type_.space, *EVERYWHERE) if low is None else self._sized(value, low)
        if isinstance(type_, PtrType) and type_.space != "gm":
            return (type_.space, *EVERYWHERE)
        if isinstance(type_, (ViewType, PtrType, MemRefType)):
            return (f"gm:{argument_of(value)}", *EVERYWHERE)
        return None

    def _sized(self, value: Value, low: int) -> tuple[str, int, int]:
        placed = next(p for p in self.placement.placed if p.addr == low and p.name == value.name)
        return placed.space, low, low + placed.bytes

    def _tile(self, value: Value, type_: TileType) -> tuple[str, int, int]:
        root = root_of(value)
        at = self.placement.values.get(root)
        if at is None and root.owner is not None and root.owner.has("makes_storage"):
            addr = root.owner.bound.get("addr")
            at = addr.const if isinstance(addr, Operand) else None
        if at is None or is_handed_over(root):
            return (type_.loc, *EVERYWHERE)
        part = part_of_allocation(value)
        _, low, high = part if part is not None else (root, 0, type_.bytes)
        return type_.loc, at + low, at + high


def _step_pipe(op: Operation, name: str, role: Role, usual: str) -> str:
    """The pipe that touches an operand: of an operation in several steps that of its step."""
    for step in reversed(op.passes.steps) if op.passes is not None else ():
        if name in (step.reads if role is Role.IN else step.writes):
            return step.pipe
    return usual


@dataclass(slots=True, eq=False)
class Flag:
    """A flag from the end of one operation to the begin of another. `loop` is the loop around both
    for a dependence between iterations; `side` the kind of core, where there are sections."""

    source: str
    target: str
    first: Operation
    second: Operation
    loop: Operation | None = None
    side: str | None = None
    number: int | None = None

    @property
    def begin(self) -> int:
        """Where in the text it is set first; before the waits at this place for a loop's."""
        return self.first.end if self.loop is None else self.loop.start - 1

    @property
    def end(self) -> int:
        """Where in the text it is waited for last; after what is set at this place for a loop's."""
        return self.second.start if self.loop is None else self.loop.end + 1


@dataclass(slots=True)
class Plan:
    """What to insert: flags, barriers of a pipe before an operation, barriers of all pipes before
    and after operations."""

    flags: list[Flag] = field(default_factory=list)
    barriers: list[tuple[Operation, str]] = field(default_factory=list)
    walls_before: list[Operation] = field(default_factory=list)
    walls_after: list[Operation] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Item:
    """An operation of a block with all that it, or anything inside it, touches, and the pipes on
    which it signals to other cores."""

    op: Operation
    touches: list[Touch]
    is_wall: bool = False
    signals: frozenset[str] = frozenset()


Knowledge = dict[str, dict[str, int]]
"""For each pipe: up to which item of the block the work of each other pipe is known to be done."""


class Planner:
    """Finds the synchronisation of functions."""

    def __init__(self, accesses: Accesses, target: str) -> None:
        self.accesses = accesses
        self.ordered = {"V"} if target == "a2a3" else set()
        self.plan = Plan()
        self.side: str | None = None
        self.keeps = False  # flags that others make needless
        self._inside: dict[tuple[Operation, str | None], list[Touch]] = {}

    def function(self, ops: Sequence[Operation], blocks: Sequence[Block] = ()) -> None:
        """Plan the body of a function. Between several blocks everything is done: nobody knows
        which comes before which."""
        runs = [block.run for block in blocks] or [ops]
        self.keeps = any(o.has("keeps_flags") for run in runs for op in run for o in op.walk())
        sections = (o for run in runs for op in run for o in op.walk() if o.has("section"))
        sides = {o.definition.side for o in sections if o.definition is not None}
        for self.side in sorted(sides, key=str) or [None]:
            for run in runs:
                self._block(run, None)
        for block in blocks if len(blocks) > 1 else ():
            self.plan.walls_before.extend(block.ops[-1:])
        last = ops[-1] if ops else None
        if last is not None and last.has("returns"):
            self.plan.walls_before.append(last)
        elif last is not None:
            self.plan.walls_after.append(last)

    # -- blocks -----------------------------------------------------------------------------------

    def _block(self, ops: Sequence[Operation], loop: Operation | None) -> None:
        ops = list(self._on_this_side(ops))
        items = [i for i in map(self._item, ops) if i.touches or i.is_wall or i.signals]
        scan = _Scan(self, loop)
        for index, item in enumerate(items):
            scan.step(index, item, first=True)
        if loop is not None:
            for index, item in enumerate(items):
                scan.step(len(items) + index, item, first=False)
        for op in ops:
            self._regions(op)

    def _on_this_side(self, ops: Sequence[Operation]) -> Iterator[Operation]:
        """Operations of a block, in place of a section what is in it: nothing where it is for
        cores of another kind."""
        for op in ops:
            if not op.has("section"):
                yield op
            elif op.definition is not None and op.definition.side == self.side:
                yield from (inner for r in op.regions for block in r.blocks for inner in block.run)

    def _regions(self, op: Operation) -> None:
        if op.traits & {"simt_region", "vector_region"} or (op.has("loop") and has_registers(op)):
            return  # one operation of the vector pipe; what carries registers is in a region
        for region in op.regions:
            for block in region.blocks:
                self._block(block.run, op if op.has("counted") else None)
                if op.has("loop") and not op.has("counted") and block.ops:
                    self.plan.walls_before.append(block.ops[-1])

    def _item(self, op: Operation) -> _Item:
        is_call = op.has("call") and self.accesses.helper(op) is None and not has_registers(op)
        is_wall = is_call or op.has("launches")
        return _Item(op, self._all_touches(op), is_wall, frozenset(self._signals(op)))

    def _signals(self, op: Operation) -> Iterator[str]:
        """The pipes on which an operation, or one inside it, signals to other cores."""
        if op.has("cross_core") and op.has("signals"):
            yield pipe_of(op, self.accesses.target)
        for block in (block for region in op.regions for block in region.blocks):
            for inner in self._on_this_side(block.ops):
                yield from self._signals(inner)

    def _all_touches(self, op: Operation, *, in_region: bool = False) -> list[Touch]:
        found = self._inside.get((op, self.side))
        if found is None:
            found = list(self.accesses.of(op, in_region=in_region))
            in_region = in_region or op.has("vector_region") or op.has("simt_region")
            blocks = (block for region in op.regions for block in region.blocks)
            for inner in (i for block in blocks for i in self._on_this_side(block.ops)):
                touches = self._all_touches(inner, in_region=in_region)
                found.extend(t for t in touches if t not in found)
            self._inside[op, self.side] = found
        return found


@dataclass(eq=False)
class _Scan:
    """One walk over the items of a block; for a loop a second one, whose conflicts with items of
    the first are those between iterations."""

    planner: Planner
    loop: Operation | None
    known: Knowledge = field(default_factory=dict)
    history: list[tuple[_Item, Knowledge]] = field(default_factory=list)
    work: dict[str, list[tuple[int, list[Touch]]]] = field(default_factory=dict)
    """What the items of the history touch, by pipe, with their places in it."""
    places: dict[Operation, int] = field(default_factory=dict)
    """Where in the history each operation was seen last."""
    count: int = 0
    forward: dict[Operation, list[Flag]] = field(default_factory=dict)
    barriers: dict[Operation, set[str]] = field(default_factory=dict)

    def step(self, index: int, item: _Item, *, first: bool) -> None:
        """Order an item after everything before it that it conflicts with."""
        if not first and self.count == 0:
            self.count = index
        if item.is_wall:
            self._wall(index, item, first)
        else:
            self._repeat(index, item)
            self._same_pipe(index, item)
            self._other_pipes(index, item, first)
            self._before_signals(index, item, first)
        snapshot = {pipe: dict(known) for pipe, known in self.known.items()}
        self.history.append((item, snapshot))
        self.places[item.op] = index
        for pipe in dict.fromkeys(t.pipe for t in item.touches):
            mine = [t for t in item.touches if t.pipe == pipe]
            self.work.setdefault(pipe, []).append((index, mine))

    def _wall(self, index: int, item: _Item, first: bool) -> None:
        """A call: nothing is known of what it does, so everything is done before and after it."""
        if first:
            self.planner.plan.walls_before.append(item.op)
            self.planner.plan.walls_after.append(item.op)
        for known in self.known.values():
            for pipe in known:
                known[pipe] = index
        self.known.setdefault("S", {})["*"] = index

    def _repeat(self, index: int, item: _Item) -> None:
        """In the second walk: the flags and barriers of the first are at their places."""
        if not self.count:
            return
        for flag in self.forward.get(item.op, ()):
            at = self.places.get(flag.first)
            if at is not None:
                self._learn(flag.target, flag.source, at)
        for pipe in self.barriers.get(item.op, ()):
            self.known.setdefault(pipe, {})[pipe] = index - 1

    def _same_pipe(self, index: int, item: _Item) -> None:
        for pipe in sorted({t.pipe for t in item.touches} & self.planner.ordered):
            if self._latest(index, item, pipe, pipe) is None:
                continue
            self.planner.plan.barriers.append((item.op, pipe))
            self.barriers.setdefault(item.op, set()).add(pipe)
            self.known.setdefault(pipe, {})[pipe] = index - 1

    def _other_pipes(self, index: int, item: _Item, first: bool) -> None:
        pipes = sorted({t.pipe for t in item.touches})
        for target in pipes:
            sources = sorted(self.work.keys() - {target})
            found = [(s, self._latest(index, item, s, target)) for s in sources]
            # The nearest producer first: what it has waited for need not be waited for again.
            for source, _ in sorted(found, key=lambda f: -(f[1] if f[1] is not None else -1)):
                at = self._latest(index, item, source, target)
                if at is not None:
                    self._flag(source, target, at, item, first)

    def _before_signals(self, index: int, item: _Item, first: bool) -> None:
        for target in sorted(item.signals):
            worked = {pipe: done[-1][0] for pipe, done in self.work.items()}
            for source, at in sorted(worked.items(), key=lambda found: -found[1]):
                if source != target and at > self._known(source, target):
                    self._flag(source, target, at, item, first)

    def _flag(self, source: str, target: str, at: int, item: _Item, first: bool) -> None:
        between = not first and at < self.count
        loop, side = self.loop if between else None, self.planner.side
        flag = Flag(source, target, self.history[at][0].op, item.op, loop, side)
        self.planner.plan.flags.append(flag)
        if not between:
            self.forward.setdefault(item.op, []).append(flag)
        self._learn(target, source, at)

    def _learn(self, target: str, source: str, at: int) -> None:
        """The target pipe knows what the source pipe knew after item `at`."""
        _, snapshot = self.history[at]
        known = self.known.setdefault(target, {})
        for pipe, upto in snapshot.get(source, {}).items():
            known[pipe] = max(known.get(pipe, -1), upto)
        known[source] = max(known.get(source, -1), at)

    def _known(self, source: str, target: str) -> int:
        """Up to which item the work of a pipe is known to be done by another one."""
        scalar = self.known.get("S", {})
        return max(
            self.known.get(target, {}).get(source, -1), scalar.get(source, -1), scalar.get("*", -1)
        )

    def _latest(self, index: int, item: _Item, source: str, target: str) -> int | None:
        """The last earlier item whose work on `source` meets what `item` does on `target`, if that
        is not known to be done."""
        mine = [t for t in item.touches if t.pipe == target]
        keeps = self.planner.keeps and source != target
        done = self.known.get("S", {}).get("*", -1) if keeps else self._known(source, target)
        for at, theirs in reversed(self.work.get(source, ())):
            if at <= done:
                return None
            if any(_depends(t, m, source == target) for t in theirs for m in mine):
                return None if keeps and 0 < self.count <= at else at  # the first walk has it
        return None


def _depends(earlier: Touch, later: Touch, same_pipe: bool) -> bool:
    """On one pipe a read is done before a later write begins."""
    return earlier.meets(later) and (earlier.writes or not same_pipe)


def number(plan: Plan, event_ids: int) -> None:
    """Give every flag one of the `event_ids` of its two pipes that no other one has from where it
    is set to where it is waited for: dependences between iterations from the last one on, the rest
    in turn. Where all are taken, a barrier of all pipes takes the place of the flag."""
    kept: list[Flag] = []
    for pair in sorted({(f.source, f.target) for f in plan.flags}):
        flags = [f for f in plan.flags if (f.source, f.target) == pair]
        carried = [f for f in flags if f.loop is not None]
        straight = [f for f in flags if f.loop is None]
        room = event_ids - (1 if straight else 0)
        numbered: list[Flag] = []
        for flag in carried:
            _numbered(flag, numbered, range(event_ids - 1, event_ids - 1 - room, -1))
        free = event_ids - min(len(carried), room)
        for count, flag in enumerate(straight):
            turn = [(count + k) % free for k in range(free)]
            _numbered(flag, numbered, [*turn, *range(free, event_ids)])
        plan.walls_before += [f.second for f in flags if f.number is None]
        kept += numbered
    plan.flags = kept


def _numbered(flag: Flag, others: list[Flag], numbers: Iterable[int]) -> None:
    """Give a flag the first of some numbers that is free, and put it to the others."""
    taken = {
        o.number
        for o in others
        if o.begin < flag.end and flag.begin < o.end and (o.side == flag.side)
    }
    flag.number = next((n for n in numbers if n not in taken), None)
    if flag.number is not None:
        others.append(flag)
