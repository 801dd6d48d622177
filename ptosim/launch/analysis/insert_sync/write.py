"""Writes addresses and synchronisation into the text of a program."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Sink, rejected
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operand, Operation, Tok
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import REGISTERS, MultiTileType, TileType
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import dtypes
from ptosim.ground.isa.targets import machine
from ptosim.ground.records import replace
from ptosim.ground.source import Source
from ptosim.language.build import Builder
from ptosim.language.frontend import Front, FrontOptions, run_frontend
from ptosim.language.place.cores import has_abstract, reached_functions
from ptosim.language.place.planner import Placed, Placement, called_functions, place
from ptosim.language.place.sides import SIMT_ENTRY
from ptosim.language.rewrite.abstract import Edit, after, before, edited, indent_of
from ptosim.language.rewrite.forms import convert
from ptosim.language.verify.verbs import HELPER
from ptosim.launch.analysis.insert_sync.planner import Accesses, Flag, Plan, Planner, number


def rewritten(
    source: Source, options: FrontOptions, *, plan: bool, insert_sync: bool
) -> tuple[str, Sink]:
    """Return the text of a program with addresses (`plan`) and flags (`insert_sync`), and notes on
    what was left as it is. Operations with results are given destinations first. Raises
    ProgramError if the program is wrong."""
    front = run_frontend(source, options)
    if front.sink.is_rejected:
        raise rejected(list(front.sink))
    if any(_gives_a_tile(op) for f in _bodies(front.resolved) for op in f.op.walk()):
        given = source.changed(convert(source, "dps", front.target, options.compat))
        placed = run_frontend(given, options)
        source, front = (source, front) if placed.sink.is_rejected else (given, placed)
    if any(has_abstract(f) for f in _bodies(front.resolved)):
        raise UsageError(
            "tiles without a shape cannot be planned: it comes from the arguments",
            help="write shape and element type into the types",
        )
    sink = Sink()
    edits: list[Edit] = []
    if insert_sync:
        for function in _bodies(front.resolved):
            _synchronise(front, function, edits, sink)
    scratch = _addresses(front, edits) if plan else {}
    return _with_shapes(front, options, edits, scratch), sink


def _gives_a_tile(op: Operation) -> bool:
    is_tiles = op.definition is not None and op.definition.form == "dps" and op.form != "dps"
    return is_tiles and any(isinstance(v.type, TileType) for v in op.results)


def _bodies(resolved: ResolvedModule) -> list[Function]:
    return [f for f in resolved.functions.values() if f.has_body]


def _placement(front: Front, function: Function) -> Placement:
    return place(front.resolved, reached_functions(front.resolved, [function]), Sink())


# -- synchronisation ------------------------------------------------------------------------------


def plan_of(front: Front, function: Function) -> Plan:
    """Return the synchronisation that a function needs."""
    planner = Planner(Accesses(front.resolved, _placement(front, function)), front.target)
    planner.function(function.body, function.op.regions[0].blocks)
    number(planner.plan, machine(front.chip).event_ids)
    return planner.plan


def _synchronise(front: Front, function: Function, edits: list[Edit], sink: Sink) -> None:
    if HELPER in function.op.attrs or SIMT_ENTRY in function.op.attrs:
        return  # its caller orders it, as one operation
    if _is_in_regions(front.resolved, function):
        return
    written = next((op for op in function.op.walk() if op.has("by_hand")), None)
    if written is not None:
        sink.report(
            "PTO5220",
            f"@{function.name} has synchronisation of its own and is left as it is",
            front.resolved.module.span(written),
            help="remove it all to have it inserted",
        )
        return
    edits += _write_plan(plan_of(front, function), front.source.text, function)


def _is_in_regions(resolved: ResolvedModule, function: Function) -> bool:
    """True for a function that takes or gives registers, or is called in vector regions alone."""
    if any(
        isinstance(type_, REGISTERS)
        for type_ in (*(v.type for v in function.args), *function.results)
    ):
        return True
    bodies = [op for f in _bodies(resolved) for op in f.op.walk()]
    calls = [op for op in bodies if op.has("call") and op.bound.get("callee") == function.symbol]
    return bool(calls) and all(call.inside("vector_region") for call in calls)


def _write_plan(plan: Plan, text: str, function: Function) -> Iterator[Edit]:
    b = Builder()
    for op in dict.fromkeys(plan.walls_after):
        yield after(text, op, [b.barrier("ALL")])
    for flag in plan.flags:
        yield after(text, flag.first, [_written(flag, "set", flag.first, function)])
        if flag.loop is not None:
            yield before(text, flag.loop, [_written(flag, "set", flag.loop, function)])
            yield after(text, flag.loop, [_written(flag, "wait", flag.loop, function)])
        yield before(text, flag.second, [_written(flag, "wait", flag.second, function)])
    for op, pipe in dict.fromkeys(plan.barriers):
        yield before(text, op, [b.barrier(pipe)])
    for op in dict.fromkeys(plan.walls_before):
        yield before(text, op, [b.barrier("ALL")])


def _written(flag: Flag, word: str, beside: Operation, function: Function) -> Operation:
    """The set or the wait of a flag: beside what no section is around, in one of its kind. Sections
    that are inferred are no text."""
    assert flag.number is not None, "the plan is numbered"
    b = Builder()
    if flag.side is None or function.inferred or beside.inside("section") is not None:
        return b.flag(word, flag.source, flag.target, flag.number)
    rows = (row for row in isa().having("section") if row.side == flag.side)
    with b.scope(next(rows).name):
        b.flag(word, flag.source, flag.target, flag.number)
    return b.ops[0]


# -- addresses ------------------------------------------------------------------------------------


Scratch = dict[Operation, tuple[str, Placed]]
"""Operations whose scratch is to be written: the operand, and where it is."""


def _addresses(front: Front, edits: list[Edit]) -> Scratch:
    """What calls a function decides where its tiles are: beside those of the caller. Returns the
    scratch that is to be written, too."""
    planned: dict[Operation, tuple[int, str]] = {}
    slots: dict[Operation, tuple[int, str]] = {}
    scratch: Scratch = {}
    for function in _roots(front.resolved):
        if function.implicit:
            raise UsageError(
                "--plan writes addresses into functions; this is a snippet",
                help="run it as it is: ptosim places its tiles",
            )
        reached = reached_functions(front.resolved, [function])
        placement = place(front.resolved, reached, Sink())
        _refuse_values(front, placement)
        for (op, name), placed in placement.scratch.items():
            if not _is_wanted(op, name):
                continue
            if scratch.setdefault(op, (name, placed))[1].addr != placed.addr:
                raise _two_places(front, op, placed.name, "one caller", "another")
        for op in (op for f in reached for op in f.op.walk()):
            is_slots = op.has("reserves") and "base" not in op.attrs
            is_tile = _is_allocation(op) and not isinstance(op.bound.get("addr"), Operand)
            if not (is_slots or is_tile) or op.results[0] not in placement.values:
                continue
            known = slots if is_slots else planned
            at, root = known.setdefault(op, (placement.values[op.results[0]], function.name))
            if at != placement.values[op.results[0]]:
                raise _two_places(
                    front, op, f"%{op.results[0].name}", f"@{root}", f"@{function.name}"
                )
    edits += _with_addresses(front, {op: at for op, (at, _) in planned.items()})
    edits += (_with_base(op, at) for op, (at, _) in slots.items())
    return scratch


def _with_addresses(front: Front, planned: dict[Operation, int]) -> Iterator[Edit]:
    for count, (op, at) in enumerate(planned.items()):
        if op.form == "generic":
            line, _ = front.source.line_column(op.start)
            raise UsageError(
                f"--plan: '{op.name}' in line {line} is quoted and takes no address",
                help="convert the program with `fmt --to short` first",
            )
        name = f"%ptosim_addr{count}"
        yield before(front.source.text, op, [Builder().constant(name, at, "i64")])
        yield Edit(op.name_end, op.name_end, f" addr = {name}")


def _with_base(op: Operation, at: int) -> Edit:
    """The slots of a FIFO with their address, instead of one that the assembler chooses."""
    given, text = op.attrs.get("auto"), f"false, base = {at}"
    if given is not None:
        return Edit(given.atom.start, given.atom.end, text)
    last = op.attrs["name"].atom.end
    return Edit(last, last, f", auto = {text}")


def _is_wanted(op: Operation, name: str) -> bool:
    """True for scratch that the assembler wants written where the tiles have addresses: at the
    level that is given to it, or that it takes from them."""
    use = (op.scratch or {}).get(name)
    is_left_out = op.bound.get(f"no_{name}") is not None  # the text says that it takes none
    return use is not None and use.definition.missing is not None and not is_left_out


def _with_shapes(front: Front, options: FrontOptions, edits: list[Edit], scratch: Scratch) -> str:
    """The text with scratch of the first types that the rules of the operations take at the level
    of addresses. Raises UsageError where none is."""
    chosen = dict.fromkeys(scratch, 0)
    while True:
        whole = list(edits)
        for count, (op, (name, placed)) in enumerate(scratch.items()):
            types = _types_of(op, placed)
            if chosen[op] == len(types):
                line, _ = front.source.line_column(op.start)
                raise UsageError(
                    f"--plan: '{op.name}' in line {line} takes {placed.bytes} bytes of scratch, "
                    "and its rules take no tile that is known here",
                    help="write the scratch tile as an operand",
                )
            whole += _with_scratch(front, op, name, placed, types[chosen[op]], count)
        text = edited(front.source.text, whole)
        refused = _refused(front, options, text, {op.name for op in scratch}) & scratch.keys()
        if not refused:
            return text
        for op in refused:
            chosen[op] += 1


def _refused(front: Front, options: FrontOptions, text: str, names: set[str]) -> set[Operation]:
    """The operations with these names that are refused in another text of the program."""
    if not names:
        return set()
    made = run_frontend(front.source.changed(text), replace(options, level=3))
    wrong = [d.span.start for d in made.sink if d.is_rejection and d.span is not None]
    both = ([o for f in _bodies(x.resolved) for o in f.op.walk() if o.name in names]
            for x in (front, made))  # fmt: skip
    return {
        old
        for old, new in zip(*both, strict=True)
        if any(new.start <= place < new.end for place in wrong)
    }


def _types_of(op: Operation, placed: Placed) -> list[TileType]:
    """The tiles of so many bytes that scratch may be: as the source is, or one row, two, or one
    more than the destination has, of its elements, of words or of bytes."""
    given = {name: op.bound.get(name) for name in ("src", "src0", "dst")}
    tiles = {
        n: o.type
        for n, o in given.items()
        if isinstance(o, Operand) and isinstance(o.type, TileType)
    }
    target = tiles.pop("dst", None)
    sources = list(tiles.values())[:1]
    elems = dict.fromkeys([*(t.dtype for t in sources), dtypes()["f32"], dtypes()["ui8"]])
    made = [replace(t, loc=placed.space) for t in sources if t.bytes <= placed.bytes]
    for rows in (1, 2, *([target.rows + 1] if target is not None else [])):
        for elem in elems:
            cols = placed.bytes * 8 // elem.bits // rows
            made.append(TileType(placed.space, elem, rows, cols, rows, cols))
    return [type_ for type_ in made if type_.cols]


def _with_scratch(
    front: Front, op: Operation, operand: str, placed: Placed, tile: TileType, count: int
) -> Iterator[Edit]:
    """The scratch as a tile at its address, among the operation's inputs or outputs."""
    line, _ = front.source.line_column(op.start)
    if op.form != "dps" or op.variant is None:
        raise UsageError(
            f"--plan: '{op.name}' in line {line} takes {placed.bytes} bytes of scratch that it "
            "does not name, and this form cannot take the tile",
            help="convert the program with `fmt --to dps` first",
        )
    at, name = f"%ptosim_scratch_addr{count}", f"%ptosim_scratch{count}"
    b = Builder()
    b.constant(at, placed.addr, "i64")
    yield before(front.source.text, op, b.ops)
    made = f"{name} = pto.alloc_tile addr = {at} : {tile}"
    yield Edit(op.start, op.start, f"{made}\n{indent_of(front.source.text, op.start)}")
    listed = [d.name for d in op.variant.outs]
    values, types = (op.outs, op.outs_types) if operand in listed else (op.ins, op.ins_types)
    listed = listed if operand in listed else [d.name for d in op.variant.ins]
    listed = listed[: listed.index(operand)] if operand in listed else listed
    earlier = sum(op.bound.get(other) is not None for other in listed)
    value = [v for v in values if isinstance(v, Tok) and v.type == "SSA"][earlier - 1]
    yield Edit(value.end, value.end, f", {name}")
    yield Edit(types[earlier - 1].end, types[earlier - 1].end, f", {tile}")


def _roots(resolved: ResolvedModule) -> list[Function]:
    """Functions with a body that no other function calls."""
    bodies = _bodies(resolved)
    called = called_functions(bodies)
    return [f for f in bodies if f.name not in called]


def _two_places(front: Front, op: Operation, what: str, one: str, two: str) -> UsageError:
    line, _ = front.source.line_column(op.start)
    return UsageError(
        f"--plan: {what} in line {line} is at one address for {one} and at another for {two}",
        help="pass the tile as an argument, or give each of them a function of its own",
    )


def _is_allocation(op: Operation) -> bool:
    """True for an allocation of a tile, or of several."""
    kinds = (TileType, MultiTileType)
    return op.has("makes_storage") and any(isinstance(v.type, kinds) for v in op.results)


_ELSEWHERE = ("places", "reserves", "imports", "function", "same_storage")
"""Traits of operations whose values need no address of their own in the text, or have one."""


def _refuse_values(front: Front, placement: Placement) -> None:
    """Only alloc_tile can carry an address, and the slots of FIFOs; tiles that are arguments are
    where the caller has them."""
    for value in placement.values:
        owner = value.owner
        if owner is None or _is_allocation(owner) or any(map(owner.has, _ELSEWHERE)):
            continue
        line, _ = front.source.line_column(value.start)
        raise UsageError(
            f"--plan: %{value.name} in line {line} has no alloc_tile that could take an address",
            help="convert the program with `fmt --to dps` first",
        )
