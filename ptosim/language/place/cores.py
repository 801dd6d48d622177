"""What a launch of a function is made of: which functions run, on which cores (cube, vector, both
kinds of a cluster, or one core with everything), and where their tiles are."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Label, Sink, finding
from ptosim.ground.ir.attributes import number_of
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import AbstractTileType, MultiTileType, TileType
from ptosim.ground.isa.targets import Passes, passes_rows
from ptosim.ground.records import dataclass, replace
from ptosim.ground.source import Source
from ptosim.language.place.planner import Placement, place
from ptosim.language.place.sides import queue_of
from ptosim.language.verify.operands import constant, operand_span
from ptosim.language.verify.rule_views import environment, holds
from ptosim.machine.effects.storage import access_entry, operand_value, root_of, slot_of

# Operands of one operation that must not share bytes, wherever they are: the assembler's planner
# refuses a placement in which they do, the program's own addresses too.
#
# Ranges are followed through windows and other names to the allocation. A place that is not known
# here (an argument of a function, a window at a run-time offset) is no finding.


@dataclass(frozen=True, slots=True)
class _Place:
    """`lines` runs of `run` bytes, `pitch` bytes apart, from byte `start` of a memory (or, where
    the address is not known, of an allocation)."""

    memory: object
    start: int
    run: int
    lines: int = 1
    pitch: int = 0

    @property
    def end(self) -> int:
        return self.start + (self.lines - 1) * self.pitch + self.run


def shared_bytes(
    resolved: ResolvedModule, functions: Sequence[Function], placement: Placement
) -> Iterator[Diagnostic]:
    """Yield a finding for each operation of which two such operands overlap."""
    for function in functions:
        for op in function.ops:
            entry = access_entry(op, "no_alias", resolved.target)
            if entry is not None and op.bound:
                yield from _of(op, entry["of"].split(), placement, resolved.module.source)


def _of(
    op: Operation, names: Sequence[str], placement: Placement, source: Source
) -> Iterator[Diagnostic]:
    values = ((name, operand_value(op, name)) for name in names)
    places = [(n, v, _place(v, placement)) for n, v in values if v is not None]
    for (first, one, mine), (second, other, theirs) in itertools.combinations(places, 2):
        if mine is None or theirs is None or not _meet(mine, theirs):
            continue
        low, high = max(mine.start, theirs.start), min(mine.end, theirs.end)
        yield finding(
            "PTO4050",
            f"'{op.name}' op PlanMemory semantic no-alias violation: operand byte ranges overlap",
            op.span(source),
            label=f"{first} %{one.name} and {second} %{other.name} share [{low:#x}, {high:#x})",
            more=tuple(
                Label(
                    operand_span(op.bound[name], op, source), f"{name}: [{p.start:#x}, {p.end:#x})"
                )
                for name, p in ((first, mine), (second, theirs))
            ),
            help=f"give %{other.name} storage of its own",
        )
        return


def sharing(value: Value, others: Iterable[Value], placement: Placement) -> list[Value]:
    """Return the values whose bytes are also bytes of a value, itself among them, as far as places
    are known before the run; of one whose place is not, the names and windows of its storage."""
    root, mine = root_of(value), _place(value, placement)

    def is_shared(other: Value) -> bool:
        theirs = _place(other, placement) if mine is not None else None
        if mine is None or theirs is None:
            return root_of(other) is root
        return _meet(mine, theirs)

    return [other for other in others if is_shared(other)]


def _place(value: Value, placement: Placement) -> _Place | None:
    """Where a value is; None where that is not known before the run."""
    names: list[Value] = []  # windows and other names, from the value to the allocation
    while value.owner is not None and value.owner.has("same_storage"):
        source = operand_value(value.owner, "source")
        if source is None:
            return None
        names.append(value)
        value = source
    type_ = value.type
    if not isinstance(type_, (TileType, MultiTileType)):
        return None
    at = _address(value, placement)
    place = _Place(value, 0, type_.bytes) if at is None else _Place(type_.loc, at, type_.bytes)
    for name in reversed(names):
        if (found := _part(name, place)) is None:
            return None
        place = found
    return place


def _part(value: Value, around: _Place) -> _Place | None:
    """Where a window or another name of a place is."""
    type_, owner = value.type, value.owner
    if owner is None or not isinstance(type_, (TileType, MultiTileType)):
        return None
    if owner.has("picks_slot"):
        at = slot_of(owner)
        return None if at is None else replace(around, start=around.start + at, run=type_.bytes)
    if not owner.has("window"):
        return replace(around, run=type_.bytes, lines=1, pitch=0)
    return _window(owner, operand_value(owner, "source"), around)


def _window(op: Operation, source: Value | None, around: _Place) -> _Place | None:
    type_ = source.type if source is not None else None
    numbers = [constant(op.bound[n]) for n in ("row", "col")]
    sizes = [constant(o) for o in op.bound["sizes"] or ()]
    known = [n for n in (*numbers, *sizes) if n is not None]
    if not isinstance(type_, TileType) or len(known) != 4 or type_.slayout != "none_box":
        return None
    row, col, rows, cols = known
    if type_.blayout == "col_major":
        row, col, rows, cols = col, row, cols, rows
    size = type_.dtype.bits
    width = type_.cols if type_.blayout == "row_major" else type_.rows
    pitch = around.pitch or width * size // 8
    start = around.start + row * pitch + col * size // 8
    return _Place(around.memory, start, -(-cols * size // 8), rows, pitch)


def _address(value: Value, placement: Placement) -> int | None:
    planned = placement.values.get(value)
    if planned is not None or value.owner is None:
        return planned
    given = value.owner.bound.get("addr")
    at = given.const if isinstance(given, Operand) else None
    return at if isinstance(at, int) else None


def _meet(one: _Place, other: _Place) -> bool:
    """True if two places share a byte; windows of one tile are compared line by line."""
    if one.memory != other.memory or one.start >= other.end or other.start >= one.end:
        return False
    if one.pitch != other.pitch or not one.pitch:
        return True
    lines, columns = divmod(other.start - one.start, one.pitch)
    return any(
        -other.lines < distance < one.lines and -other.run < shift < one.run
        for distance, shift in ((lines, columns), (lines + 1, columns - one.pitch))
    )


_PEERS = {"cube": "vector", "vector": "cube"}


@dataclass(frozen=True, slots=True)
class CoreRole:
    """A core of every launched cluster: its kind, its number among the vector cores, what it
    runs."""

    kind: str
    sub_block: int
    sub_blocks: int
    function: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a launch of an entry is made of, as far as the text says it."""

    launched: list[Function]  # the entry and, of a cube-vector pair of kernels, its peer
    reached: list[Function]  # these and all that they call
    roles: list[CoreRole]
    placement: Placement
    findings: list[Diagnostic]


def plan(resolved: ResolvedModule, name: str) -> Plan:
    """Return the plan of an entry; what is wrong with the placement is in its findings."""
    entry = resolved.functions[name]
    launched = peer_functions(resolved, entry)
    reached = reached_functions(resolved, launched)
    found = Sink()
    placement = place(resolved, reached, found)
    found.extend(shared_bytes(resolved, reached, placement))
    kept = resolved.module.kept
    for op in (op for function in reached for op in function.ops if op.definition is not None):
        if kept is not None and op in kept.same and op in kept.queues:
            op.queue, op.passes = kept.queues[op]
            continue
        op.passes = _passes_of(op, resolved.target, resolved.date)
        only = op.passes.only if op.passes is not None else None
        op.queue = only or queue_of(op, resolved.target)
        if kept is not None:
            kept.queues[op] = op.queue, op.passes
    return Plan(launched, reached, roles(resolved, entry, reached), placement, list(found))


def plans(resolved: ResolvedModule, sink: Sink) -> dict[str, Plan]:
    """Return the plan of each entry, and report what they find: what several entries reach once.
    Entries that reach tiles whose shapes come from the arguments wait for the run."""
    made: dict[str, Plan] = {}
    for name in resolved.entries:
        launched = peer_functions(resolved, resolved.functions[name])
        if not any(has_abstract(f) for f in reached_functions(resolved, launched)):
            made[name] = plan(resolved, name)
            sink.extend(made[name].findings)
    return made


def roles(resolved: ResolvedModule, entry: Function, reached: Sequence[Function]) -> list[CoreRole]:
    """Return the cores that a launch of `entry` uses.

    A function of kernel kind cube or vector runs on one core of that kind. Sections and cube-vector
    pipes make a mixed kernel: one cube and both vector cores run the whole function, each without
    the other's sections. A kernel whose FIFO imports a buffer of a peer runs beside that peer.
    Everything else runs on one core that has all memory spaces."""
    peer = _peer(resolved, entry)
    if peer is not None:
        return _pair(entry, peer, reached)
    ops = [op for function in reached for op in function.ops]
    if entry.kernel_kind in _PEERS and not any("section" in op.traits for op in ops):
        return [CoreRole(entry.kernel_kind, 0, 1, entry.name)]
    kinds = {function.kernel_kind for function in reached}
    is_split = any(function.inferred for function in reached)
    if kinds >= _PEERS.keys() or is_split or any(map(_is_of_one_side, ops)):
        return _cluster(entry.name, entry.name, reached)
    return [CoreRole("any", 0, 1, entry.name)]


def _is_of_one_side(op: Operation) -> bool:
    """True for an operation that only one kind of core executes, and for the ends of FIFOs."""
    row = op.definition
    return row is not None and (row.side is not None or row.fifo == "open")


def _cluster(cube: str, vector: str, reached: Sequence[Function]) -> list[CoreRole]:
    vectors = 1 if _is_single(reached) else 2
    return [
        CoreRole("cube", 0, vectors, cube),
        *(CoreRole("vector", k, vectors, vector) for k in range(vectors)),
    ]


def _is_single(reached: Sequence[Function]) -> bool:
    """True if only whole tiles go through FIFOs: such a kernel has one vector core beside each cube
    core."""
    rows = ((op, op.definition) for f in reached for op in f.ops)
    splits = [_split(op) for op, row in rows if row is not None and row.fifo in ("push", "pop")]
    return bool(splits) and not any(splits)


def _split(op: Operation) -> int:
    return number_of(op, "split") or 0


def side_of(function: Function) -> str | None:
    """Return the kind of core that a function is for: its kernel kind, or that of its only kind of
    section."""
    if function.kernel_kind in _PEERS:
        return function.kernel_kind
    sections = [op.definition for op in function.ops if "section" in op.traits]
    kinds = {row.side for row in sections if row is not None}
    return kinds.pop() if len(kinds) == 1 else None


def _pair(entry: Function, peer: Function, reached: Sequence[Function]) -> list[CoreRole]:
    cube, vector = (entry, peer) if side_of(entry) == "cube" else (peer, entry)
    return _cluster(cube.name, vector.name, reached)


def _peer(resolved: ResolvedModule, entry: Function) -> Function | None:
    """The kernel that runs beside `entry`: the one at the other end of its FIFO, or of its signals
    between cores."""
    wanted = _PEERS.get(side_of(entry) or "")
    if wanted is None or not _meets_others(entry):
        return None
    peer = _sharing(resolved, entry)
    if peer is None:
        others = [
            f
            for f in resolved.functions.values()
            if f is not entry and f.has_body and _meets_others(f) and side_of(f) == wanted
        ]
        peer = others[0] if len(others) == 1 else None
    return peer if peer is not None and side_of(peer) == wanted else None


def _meets_others(function: Function) -> bool:
    """True for a function with an end of a FIFO, or with signals to other cores of its cluster."""
    rows = (op.definition for op in function.ops)
    has_fifo = any(row is not None and row.fifo == "open" for row in rows)
    return has_fifo or any(op.has("cross_core") for op in function.ops)


def _sharing(resolved: ResolvedModule, entry: Function) -> Function | None:
    """The function whose reserved buffer `entry` imports, or that imports `entry`'s."""
    for function in resolved.functions.values():
        for op in function.ops:
            if "imports" not in op.traits:
                continue
            peer = resolved.peer(op)
            if function is entry and peer is not None and peer is not entry:
                return peer
            if peer is entry and function is not entry:
                return function
    return None


def peer_functions(resolved: ResolvedModule, entry: Function) -> list[Function]:
    """Return the entry and, for a cube-vector pair of kernels, its peer."""
    peer = _peer(resolved, entry)
    return [entry, peer] if peer is not None else [entry]


def reached_functions(resolved: ResolvedModule, launched: Sequence[Function]) -> list[Function]:
    """Return the launched functions and all that they call, callers first."""
    found = list(launched)
    for function in found:
        for op in function.ops:
            known = resolved.functions.get(op.bound.get("callee", ""))
            if known is not None and known.has_body and known not in found:
                found.append(known)
    return found


def has_abstract(function: Function) -> bool:
    """Does a value of the function take its shape from the arguments of the run?"""
    values = [*function.args, *(v for op in function.ops for v in op.results)]
    return any(isinstance(v.type, AbstractTileType) for v in values)


def _passes_of(op: Operation, target: str, date: str) -> Passes | None:
    """Return the steps of an operation; None for one that its own pipe does as a whole."""
    rows = passes_rows(date).get(op.name.removeprefix("pto."))
    if rows is None or op.variant is None:
        return None
    # A date whose operand list has no scratch has none that could be given.
    names = {"tmp": None, **environment(op, target)}
    for row in rows:
        if row.target in (None, target) and (
            row.when is None or holds(row.when, names, absent=False)
        ):
            return row.passes
    return None
