"""Which slots of a decoded program may hold what nobody knows before the run, and loops with a
condition that count their rounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from ptosim.engine.core.bound import DecodedProgram, Inst, Kind
from ptosim.engine.core.runners import form_of
from ptosim.ground.ir.core import Clause, Operand, Operation
from ptosim.ground.ir.types import TileType
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.machine.affine import Unknown
from ptosim.machine.core import SLOT_BLOCK, SLOT_BLOCK_NUM
from ptosim.ops.scalar.numbers import word_of

NO_REPEAT = "its rounds do not repeat"
ADDRESSES, DECIDES = "the addresses of line", "what is read in its rounds decides in line"
CURVED = "what does not move evenly decides in line"
ADDS_UP = "what its rounds carry is used after them in line"
"""Why a loop is not proven for every number of rounds; lines follow the others."""
OF_CORE = (SLOT_BLOCK, SLOT_BLOCK_NUM)
"""What an operation that tells where it runs reads."""


class Counted(NamedTuple):
    """A loop that goes on while a variable of it is less than something, or as large (`more` is 1):
    the operation that compares them, the variable before each round, where it begins, ends, and
    what each round adds."""

    test: Operation
    variable: Any
    lower: Operand
    upper: Operand
    step: Operand
    more: int


_ENDING = {"lt": ("lhs", "rhs", 0), "le": ("lhs", "rhs", 1), "gt": ("rhs", "lhs", 0),
           "ge": ("rhs", "lhs", 1)}  # fmt: skip
"""Comparisons while which a loop goes on: where its variable is, and its end."""


def counted(op: Operation | None) -> Counted | None:
    """Return how a loop with a condition counts its rounds; None for any other operation, and where
    it does not count them."""
    if op is None or not op.has("loop") or op.has("counted") or len(op.regions) != 2:
        return None
    before, after = (region.blocks[0] for region in op.regions)
    inside = {id(v) for block in (before, after) for v in block.values}
    inside |= {id(v) for each in op.walk() if each is not op for v in each.results}
    condition = before.ops[-1]
    test = _maker(before.ops, condition.bound["condition"])
    ending = _ENDING.get(word_of(test)[0]) if test is not None else None
    if test is None or ending is None:
        return None
    left, right, more = ending
    variable, upper = test.bound[left].value, test.bound[right]
    at = _index(before.values, variable)
    then = _index([o.value for o in condition.bound["values"]], variable)
    if at is None or then is None or id(upper.value) in inside:
        return None
    gain = _maker(after.ops, after.ops[-1].bound["values"][at])
    if gain is None or word_of(gain)[0] != "add":
        return None
    one, other = gain.bound["lhs"], gain.bound["rhs"]
    step = other if one.value is after.values[then] else one
    own = one if step is other else other
    if own.value is not after.values[then] or id(step.value) in inside:
        return None
    return Counted(test, variable, op.bound["init"][at], upper, step, more)


def carried_gains(op: Operation | None) -> dict[int, Operand]:
    """Return what each round of a counted loop adds to the values that it carries: of those by
    number to which it adds the same."""
    if op is None or not (op.has("loop") and op.has("counted")):
        return {}
    (block,) = op.regions[0].blocks
    inside = {id(v) for v in block.values}
    inside |= {id(v) for each in op.walk() if each is not op for v in each.results}
    found: dict[int, Operand] = {}
    yielded = block.ops[-1].bound.get("values") or [] if block.ops else []
    for number, (held, then) in enumerate(zip(block.values[1:], yielded, strict=False)):
        gain = _maker(block.ops, then)
        if gain is None or word_of(gain)[0] != "add":
            continue
        sides = gain.bound["lhs"], gain.bound["rhs"]
        other = next((b for a, b in (sides, sides[::-1]) if a.value is held), None)
        if other is not None and id(other.value) not in inside:
            found[number] = other
    return found


def added_up(program: DecodedProgram, head: Inst, moves: Callable[[int], bool]) -> Inst | None:
    """Return what uses, after a loop, a value that its rounds carry and that `moves` with them, if
    something does: of one to which each round adds the same, its form says what it is."""
    op = head.op
    if op is None or not op.has("loop"):
        return None
    known, loop, blocks = carried_gains(op), counted(op), [r.blocks[0] for r in op.regions]
    if len(blocks) == 2:
        passed = [operand.value for operand in blocks[0].ops[-1].bound["values"]]
        pairs = [(v, r) for v, r in zip(passed, op.results, strict=False)
                 if loop is None or v is not loop.variable]  # fmt: skip
    else:
        held = zip(blocks[0].values[1:], op.results, strict=False)
        pairs = [pair for n, pair in enumerate(held) if n not in known]
    slots = program.slots
    wanted = {slots[r] for v, r in pairs if v in slots and r in slots and moves(slots[v])}
    users = (i for i in program.insts if i.op is not op and i.op is not None)
    return next((i for i in users if not wanted.isdisjoint(sources_of(program, i))), None)


def _maker(ops: Sequence[Operation], operand: Operand) -> Operation | None:
    return next((op for op in ops if any(v is operand.value for v in op.results)), None)


def _index(values: Sequence[Any], value: Any) -> int | None:
    return next((n for n, each in enumerate(values) if each is value), None)


def sources_of(program: DecodedProgram, inst: Inst) -> tuple[int, ...]:
    """Return the slots that an instruction reads."""
    form = form_of(inst.run)
    if form is not None:
        taken = _of_form(form)[0]
        # How far the variable of a loop goes is said by the test after its start.
        test = form_of(program.insts[inst.pc + 1].run) if form[0] == "start" else None
        loop = counted(inst.op) if form[0] == "copy" else None
        if loop is not None:
            ends = (operand.value for operand in (loop.upper, loop.step))
            return (*taken, *(program.slots[v] for v in ends if v is not None))
        return (*taken, test[2]) if test is not None else taken
    if inst.kind is Kind.EXEC:
        return tuple(_flat(slot for _, slot in inst.operands))
    if inst.op is None:
        return ()
    found = [program.slots[v] for v in _values(inst.op) if v in program.slots]
    return tuple(found) + (OF_CORE if inst.op.has("tells_core") else ())


def targets_of(program: DecodedProgram, inst: Inst) -> tuple[int, ...]:
    """Return the slots that an instruction may write: of the scalar unit also the handles that it
    changes."""
    form = form_of(inst.run)
    if form is not None:
        return _of_form(form)[1]
    if inst.op is None or inst.kind is Kind.BRANCH:
        return ()
    results = [program.slots[v] for v in inst.op.results if v in program.slots]
    named = [s for name, slot in inst.operands if name == "results" for s in _flat([slot])]
    is_plain = inst.op.has("window") or inst.op.has("reads_memory") or inst.op.has("writes_memory")
    changed = sources_of(program, inst) if inst.kind is Kind.ACTION and not is_plain else ()
    return (*results, *named, *(s for s in changed if s not in OF_CORE))


def open_slots(program: DecodedProgram, seeds: Iterable[int]) -> frozenset[int]:
    """Return the slots whose content may depend on `seeds` or on what memory holds."""
    return _open(program, seeds, [(sources_of(program, i), targets_of(program, i))
                                  for i in program.insts])  # fmt: skip


def _open(
    program: DecodedProgram,
    seeds: Iterable[int],
    flows: Sequence[tuple[Sequence[int], Sequence[int]]],
) -> frozenset[int]:
    found = set(seeds)
    found |= {slot for slot, held in enumerate(program.initial) if held.__class__ is Unknown}
    return _closed(found, flows)


def is_inside(op: Operation | None, around: Collection[Operation | None]) -> bool:
    """True if an operation is in the body of one of some others."""
    above = op.parent if op is not None else None
    while above is not None and not any(above is each for each in around):
        above = above.parent
    return above is not None


def reached_from(program: DecodedProgram, insts: Iterable[Inst]) -> frozenset[int]:
    """Return the slots of results of instructions, and of what is made of these."""
    made = {program.slots[v] for inst in insts for v in inst.operation.results}
    flows = [flow for inst in program.insts for flow in _flows(program, inst)] if made else ()
    return _closed(made, flows)


def deciding_in(program: DecodedProgram, head: Inst) -> Inst | None:
    """Return what decides in the rounds of a loop on what the scalar unit reads there, if
    something does: no two rounds need be alike."""
    inside = [inst for inst in program.insts if is_inside(inst.op, (head.op,))]
    reads = [i for i in inside if i.kind is Kind.ACTION and i.operation.has("reads_memory")]
    found = reached_from(program, reads)
    branches = [inst for inst in inside if inst.kind is Kind.BRANCH]
    return next((i for i in branches if not found.isdisjoint(sources_of(program, i))), None)


def moving_seldom(
    program: DecodedProgram, head: Inst, around: Collection[Operation | None]
) -> Inst | None:
    """Return what decides, or is at a place, by the number of the round in branches (`around`) that
    few rounds of a loop may take, if something does: another round in them need not be alike."""
    if head.op is None:
        return None
    args = [a for region in head.op.regions for block in region.blocks for a in block.values]
    made = {program.slots[value] for value in args if value in program.slots}
    found = _closed(made, [flow for inst in program.insts for flow in _flows(program, inst)])
    inside = (i for i in program.insts if i.kind is not Kind.SCALAR and is_inside(i.op, around))
    return next((i for i in inside if not found.isdisjoint(sources_of(program, i))), None)


def _closed(
    found: set[int], flows: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> frozenset[int]:
    """The slots to which something of some goes, and these."""
    grows = bool(flows)
    while grows:
        before = len(found)
        for sources, targets in flows:
            if not found.isdisjoint(sources):
                found.update(targets)
        grows = len(found) > before
    return frozenset(found)


@dataclass(slots=True, eq=False)
class Flow:
    """What of a program may meet what nobody knows: instructions with the slots that they read and
    write, of those that are bound (`asked`) by place. `has_reads`: the scalar unit reads memory;
    `has_tiles`: what a tile is may depend on it; `sources` and `targets` are the slots that any
    instruction reads and writes, by place."""

    insts: list[tuple[Inst, tuple[int, ...], tuple[int, ...]]]
    asked: dict[int, tuple[int, ...]]
    has_reads: bool
    has_tiles: bool = False
    sources: Sequence[tuple[int, ...]] = ()
    targets: Sequence[tuple[int, ...]] = ()
    answers: dict[tuple[Any, ...], dict[tuple[Any, ...], str]] = field(default_factory=dict)
    """What checks told, by instruction, core and operands without forms, then by the others: runs
    ask the same again and again."""
    branches: dict[int, set[Operation]] = field(default_factory=dict)
    """The branches around an instruction, by its place, once somebody asked for them."""
    places: dict[int, list[int]] = field(default_factory=dict)
    """The slots of operands that say where a tile is, by place, once somebody asked for them."""
    bound: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    """Operations on tiles and flags as a run bound them, by instruction, core, operands: None for
    one that each run binds anew."""


def flow_of(program: DecodedProgram, seeds: Iterable[int]) -> Flow:
    """Return what may depend on `seeds` or on what memory holds."""
    read = [sources_of(program, inst) for inst in program.insts]
    written = [targets_of(program, inst) for inst in program.insts]
    flows = [*zip(read, written, strict=True)]
    open_ = _open(program, seeds, flows)
    found = [
        (inst, sources, targets)
        for inst, (sources, targets) in zip(program.insts, flows, strict=True)
        if not (open_.isdisjoint(sources) and open_.isdisjoint(targets))
    ]
    asked = {i.pc: s for i, s, _ in found if i.kind is Kind.EXEC and i.semantics is not None}
    reads = any(i.op is not None and i.op.has("reads_memory") for i in program.insts)
    made = (v for i, *_ in found if i.kind is Kind.ACTION for v in i.operation.results)
    has_tiles = any(isinstance(v.type, TileType) for v in made)
    return Flow(found, asked, reads, has_tiles, read, written)


def _flows(program: DecodedProgram, inst: Inst) -> list[tuple[Sequence[int], Sequence[int]]]:
    """What of an instruction goes where: each of what is copied to its own place."""
    match form_of(inst.run):
        case ("copy", sources, targets) | ("start", _, sources, targets):
            return [((s,), (t,)) for s, t in zip(sources, targets, strict=True)]
        case ("next", variable, step, sources, targets):
            copied = zip(sources, targets, strict=True)
            return [((variable, step), (variable,)), *(((s,), (t,)) for s, t in copied)]
    return [(sources_of(program, inst), targets_of(program, inst))]


def _of_form(form: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    match form:
        case ("call", _, sources, result):
            return tuple(sources), (result,)
        case ("copy", sources, targets):
            return tuple(sources), tuple(targets)
        case ("start", step, sources, targets):
            return (step, *sources), tuple(targets)
        case ("next", variable, step, sources, targets):
            return (variable, step, *sources), (variable, *targets)
        case ("for", variable, upper, *_):
            return (variable, upper), ()
        case ("if" | "switch", condition, *_):
            return (condition,), ()
    return (), ()


def _values(op: Operation) -> Iterator[Any]:
    """The values among the operands of an operation."""
    todo: list[Any] = list(op.bound.values())
    while todo:
        each = todo.pop()
        if isinstance(each, Operand):
            if each.value is not None:
                yield each.value
        elif isinstance(each, Clause):
            todo.extend(each.operands.values())
        elif isinstance(each, list):
            todo.extend(each)


def _flat(slots: Iterable[Any]) -> Iterator[int]:
    for slot in slots:
        if isinstance(slot, tuple):
            yield from slot
        else:
            yield slot
