"""Operations with regions, calls and sections: they become branches and copies of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptosim.engine.core import runners
from ptosim.engine.core.bound import Inst, Kind, Stream
from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.core import Block, Jump, Operand, Operation, Region, Value
from ptosim.ground.ir.program import MOST_INLINED, MOST_NESTED, Function, ResolvedModule
from ptosim.ground.ir.types import TileType
from ptosim.language.place.sides import is_simt_entry
from ptosim.machine.affine import Unknown
from ptosim.ops.micro.hazards import places_of


class ControlFlow:
    """Decodes the operations in `handlers`; `calls` lists the calls that wait for their callee."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.slots = stream.slots
        self.calls: list[tuple[int, str]] = []
        self._inlined = self._depth = 0
        self._starts: dict[Block, int] = {}  # the pc of each block that is decoded
        self._jumps: list[tuple[Inst, Block]] = []  # that wait for the start of their block
        self.handlers: dict[str, Callable[[Operation], None]] = {
            "arith.constant": lambda op: None,
            "scf.for": self._for,
            "scf.if": self._if,
            "scf.while": self._while,
            "scf.execute_region": self._execute_region,
            "pto.fusion_region": self._execute_region,
            # What these pass on is read with the operation that they end a region of.
            "scf.yield": lambda op: None,
            "scf.condition": lambda op: None,
            "pto.yield": lambda op: None,
            "cf.br": self._br,
            "cf.cond_br": self._cond_br,
            "cf.switch": self._cf_switch,
            "scf.index_switch": self._index_switch,
            "func.call": self._call,
            "func.return": self._return,
            "pto.section.cube": self._section,
            "pto.section.vector": self._section,
            "memref.reinterpret_cast": self._reinterpret,
            "pto.vecscope": self._vector_region,
            "pto.strict_vecscope": self._vector_region,
        }

    def _for(self, op: Operation) -> None:
        lower, upper, step = (self.slots.operand(op.bound[n]) for n in ("lower", "upper", "step"))
        block = op.regions[0].blocks[0]
        variable, *carried = (self.slots.value(v) for v in block.values)
        results = [self.slots.value(v) for v in op.results]
        initial = [self.slots.operand(o) for o in op.bound["init"]]
        self.stream.emit(
            Kind.SCALAR, op, runners.loop_start(step, [lower, *initial], [variable, *carried])
        )
        test = self.stream.emit(Kind.BRANCH, op)
        self.stream.ops(block.run)
        yielded = self._yielded(block.ops)
        self.stream.emit(Kind.SCALAR, op, runners.advance(variable, step, yielded, carried))
        self.stream.emit(Kind.BRANCH, op, runners.jump(test.pc))
        body, after = test.pc + 1, len(self.stream.insts)
        test.run = runners.loop_test(variable, upper, body, after)
        self.stream.emit(Kind.SCALAR, op, runners.copier(carried, results))

    # -- blocks ---------------------------------------------------------------------------------

    def region(self, region: Region, results: list[int]) -> None:
        """Decode a region; the values that its blocks yield go to the slots `results`."""
        leaving: list[Inst] = []
        for block in region.blocks:
            self._starts[block] = len(self.stream.insts)
            self.stream.ops(block.run)
            last = block.ops[-1] if block.ops else None
            if last is not None and last.has("yields"):
                run = runners.copier(self._yielded(block.ops), results)
                self.stream.emit(Kind.SCALAR, last, run)
                if block is not region.blocks[-1]:
                    leaving.append(self.stream.emit(Kind.BRANCH, last))
        for inst in leaving:
            inst.run = runners.jump(len(self.stream.insts))
        waiting, self._jumps = self._jumps, []
        for inst, block in waiting:
            if block in self._starts:
                inst.run = runners.jump(self._starts[block])
            else:
                self._jumps.append((inst, block))

    def _to(self, op: Operation, jump: Jump) -> int:
        """Give the arguments of a block their values and go there; return where that begins."""
        at = len(self.stream.insts)
        sources = [self.slots.operand(o) for o in jump.values]
        targets = [self.slots.value(v) for v in jump.block.values]
        if sources:
            self.stream.emit(Kind.SCALAR, op, runners.copier(sources, targets))
        self._jumps.append((self.stream.emit(Kind.BRANCH, op), jump.block))
        return at

    def _br(self, op: Operation) -> None:
        self._to(op, op.jumps[0])

    def _cond_br(self, op: Operation) -> None:
        condition = self.slots.operand(op.bound["condition"])
        test = self.stream.emit(Kind.BRANCH, op)
        then, otherwise = (self._to(op, jump) for jump in op.jumps)
        test.run = runners.branch_test(condition, then, otherwise)

    def _cf_switch(self, op: Operation) -> None:
        selector = self.slots.operand(op.bound["condition"])
        test = self.stream.emit(Kind.BRANCH, op)
        default, *starts = (self._to(op, jump) for jump in op.jumps)
        cases = dict(zip((int(tok.value) for tok in op.items), starts, strict=True))
        test.run = runners.switch(selector, cases, default)

    def _yielded(self, ops: Sequence[Operation]) -> list[int]:
        last = ops[-1] if ops else None
        if last is None or "yields" not in last.traits:
            return []
        return [self.slots.operand(o) for o in last.bound["values"]]

    def _region_value(self, op: Operation, index: int, results: list[int]) -> None:
        """A region whose yielded values go to the results of its operation."""
        region = op.regions[index]
        if len(region.blocks) > 1:
            self.region(region, results)
            return
        self.stream.ops(region.blocks[0].run if region.blocks else ())
        self.stream.emit(Kind.SCALAR, op, runners.copier(self._yielded(region.ops), results))

    def _if(self, op: Operation) -> None:
        condition = self.slots.operand(op.bound["condition"])
        results = [self.slots.value(v) for v in op.results]
        test = self.stream.emit(Kind.BRANCH, op)
        self._region_value(op, 0, results)
        otherwise = len(self.stream.insts)
        if len(op.regions) > 1:
            leave = self.stream.emit(Kind.BRANCH, op)
            otherwise = len(self.stream.insts)
            self._region_value(op, 1, results)
            leave.run = runners.jump(len(self.stream.insts))
        test.run = runners.branch_test(condition, test.pc + 1, otherwise)

    def _while(self, op: Operation) -> None:
        before, after = op.regions[0].blocks[0], op.regions[1].blocks[0]
        initial = [self.slots.operand(o) for o in op.bound["init"]]
        first = [self.slots.value(v) for v in before.values]
        second = [self.slots.value(v) for v in after.values]
        self.stream.emit(Kind.SCALAR, op, runners.copier(initial, first))
        head = len(self.stream.insts)
        self.stream.ops(before.run)
        condition = before.ops[-1]
        passed = [self.slots.operand(o) for o in condition.bound["values"]]
        results = [self.slots.value(v) for v in op.results]
        test = self.stream.emit(Kind.BRANCH, op)
        self.stream.emit(Kind.SCALAR, op, runners.copier(passed, second))
        self.stream.ops(after.run)
        self.stream.emit(Kind.SCALAR, op, runners.copier(self._yielded(after.ops), first))
        self.stream.emit(Kind.BRANCH, op, runners.jump(head))
        leave = len(self.stream.insts)
        self.stream.emit(Kind.SCALAR, op, runners.copier(passed, results))
        slot = self.slots.operand(condition.bound["condition"])
        test.run = runners.branch_test(slot, test.pc + 1, leave)

    def _execute_region(self, op: Operation) -> None:
        self._region_value(op, 0, [self.slots.value(v) for v in op.results])

    def _index_switch(self, op: Operation) -> None:
        selector = self.slots.operand(op.bound["condition"])
        results = [self.slots.value(v) for v in op.results]
        cases = [int(tok.value) for tok in op.items]
        test = self.stream.emit(Kind.BRANCH, op)
        starts: list[int] = []
        leaves: list[Inst] = []
        for index in range(len(op.regions)):
            starts.append(len(self.stream.insts))
            self._region_value(op, index, results)
            leaves.append(self.stream.emit(Kind.BRANCH, op))
        end = len(self.stream.insts)
        for leave in leaves:
            leave.run = runners.jump(end)
        test.run = runners.switch(selector, dict(zip(cases, starts, strict=False)), starts[-1])

    def _section(self, op: Operation) -> None:
        kind = op.definition.side if op.definition is not None else None
        test = self.stream.emit(Kind.BRANCH, op)
        for region in op.regions:
            self.stream.ops(region.blocks[0].run if region.blocks else ())
        test.run = runners.section_test(kind, test.pc + 1, len(self.stream.insts))

    def _vector_region(self, op: Operation) -> None:
        """The instructions of a region follow its head; a second one marks the end."""
        block = op.regions[0].blocks[0]
        captured = [self.slots.operand(o) for o in op.bound.get("values") or ()]
        if captured:
            arguments = [self.slots.value(v) for v in block.values]
            self.stream.emit(Kind.SCALAR, op, runners.copier(captured, arguments))
        if self.stream.in_vector_region:  # of a function that a region calls: a part of that one
            self.stream.ops(block.run)
            return
        head = self.stream.emit(Kind.REGION, op, pipe="V")
        outer, self.stream.in_vector_region = self.stream.in_vector_region, True
        self.stream.places = places_of(op, self.stream.resolved.functions)
        self.stream.regions[op] = self.stream.places
        self.stream.ops(block.run)
        self.stream.in_vector_region = outer
        end = self.stream.emit(Kind.ACTION, op, runners.no_action)
        head.end = end.pc

    def _call(self, op: Operation) -> None:
        values = [self.slots.operand(o) for o in op.bound["values"]]
        results = [self.slots.value(v) for v in op.results]
        callee = op.bound["callee"]
        function = self.stream.resolved.functions[callee]
        if not function.has_body and callee in self.stream.machine.returned:
            given = [self.slots.new(value) for value in self.stream.machine.returned[callee]]
            self.stream.emit(Kind.SCALAR, op, runners.copier(given, results))
            return
        if not function.has_body:
            self.stream.refuse(without_body(op, callee, function, self.stream.resolved))
            unknown = Unknown(f"what `@{callee}` returns, which has no body here")
            for slot in results:
                self.slots.initial[slot] = unknown
            return
        if is_simt_entry(function.op):
            self.stream.launches.call(op)
            return
        if self.stream.in_vector_region and len(function.op.regions[0].blocks) == 1:
            self._inline(op, function, values, results)
            return
        kind = function.kernel_kind
        # Cores of the other kind pass by a kernel of one kind.
        test = self.stream.emit(Kind.BRANCH, op) if kind in ("cube", "vector") else None
        self.calls.append((len(self.stream.insts), callee))
        self.stream.emit(Kind.SCALAR, op, operands=(("values", tuple(values)),))
        self.stream.emit(Kind.BRANCH, op)
        self.stream.emit(Kind.SCALAR, op, operands=(("results", tuple(results)),))
        if test is not None:
            test.run = runners.section_test(str(kind), test.pc + 1, len(self.stream.insts))

    def _inline(
        self, call: Operation, function: Function, values: list[int], results: list[int]
    ) -> None:
        """Put a function that a vector region calls into its place: one region is one unit. Past a
        limit this is refused once, and what follows is not gone into."""
        if self._inlined > MOST_INLINED:
            return
        self._inlined += len(function.body)
        if self._inlined > MOST_INLINED or self._depth >= MOST_NESTED:
            self._inlined = MOST_INLINED + 1
            self._refuse_calls(call)
            return
        self._depth += 1
        arguments = [self.slots.value(v) for v in function.args]
        self.stream.emit(Kind.SCALAR, function.op, runners.copier(values, arguments))
        *ops, last = function.op.regions[0].blocks[0].run
        self.stream.ops(ops)
        given = [self.slots.operand(o) for o in last.bound["values"]]
        self.stream.emit(Kind.SCALAR, last, runners.copier(given, results))
        self._depth -= 1

    def _refuse_calls(self, call: Operation) -> None:
        text = (
            f"'{call.name}': the calls of a vector region are more than {MOST_NESTED} in each "
            f"other, or bring more than {MOST_INLINED:,} operations"
        )
        self.stream.refuse(finding("PTO8002", text, call.span(self.stream.resolved.module.source)))

    def patch_call(self, at: int, name: str) -> None:
        callee = self.stream.functions[name]
        enter, jump, leave = self.stream.insts[at : at + 3]
        enter.run = runners.copier(list(enter.operands[0][1]), callee.arg_slots)  # type: ignore[arg-type]
        jump.run = runners.call(callee.pc, at + 2)
        leave.run = runners.copier(callee.result_slots, list(leave.operands[0][1]))  # type: ignore[arg-type]

    def _return(self, op: Operation) -> None:
        self.emit_return(op, [self.slots.operand(o) for o in op.bound["values"]])

    def emit_return(self, op: Operation, values: list[int]) -> None:
        results = self.stream.current.result_slots
        if values:
            self.stream.emit(Kind.SCALAR, op, runners.copier(values, results))
        self.stream.emit(Kind.BRANCH, op, runners.leave)

    def _reinterpret(self, op: Operation) -> None:
        source = self.slots.operand(op.bound["source"])
        result = self.slots.value(op.results[0])
        parts = {k: self.slots.bound(op.bound.get(k)) or () for k in ("offset", "sizes", "strides")}
        type_ = op.results[0].type
        self.stream.emit(Kind.SCALAR, op, runners.reinterpreter(source, result, parts, type_))


def without_body(
    op: Operation, name: str, function: Function | None, resolved: ResolvedModule
) -> Diagnostic:
    """Return the finding of a call or launch of what is only declared, or not in the text."""
    source = resolved.module.source
    told = (
        f"`@{name}` is not in the text"
        if function is None
        else (f"`@{function.symbol}` is only declared: the file has no body for it")
    )
    more = (Label(function.op.span(source), "declared here"),) if function is not None else ()
    help = "add the unit that defines it, or run a function that does not call it"
    if function is not None:
        help += "; `--peer stub` lets something stand for it"
    return finding("PTO8005", told, op.span(source), more=more, help=help)


# -- the order of a block --------------------------------------------------------------------------
#
# The assembler writes out the place of a tile of scales, `tget_scale_addr`, where the tile is first
# filled: the nearest earlier move from L1 into it goes there already, if nothing between the two
# uses the tile.


def in_effect(ops: Sequence[Operation]) -> Sequence[Operation]:
    """Return the operations of a block in the order in which they take effect."""
    if not any(op.has("places_earlier") for op in ops):
        return ops
    ordered: list[Operation] = []
    for op in ops:
        at = len(ordered)
        if op.has("places_earlier"):
            at = _place_of(op, ordered)
        ordered.insert(at, op)
    return ordered


def _place_of(op: Operation, before: Sequence[Operation]) -> int:
    """Where an operation goes that places a tile: in front of the move into it, or at the end."""
    end = len(before)
    tile, source = _value(op, "dst"), _value(op, "src")
    if tile is None:
        return end
    for at in range(end - 1, -1, -1):
        earlier = before[at]
        if source is not None and source in earlier.results:
            return end  # what it takes the place of does not exist any earlier
        if any(tile in inner.operand_values() for inner in earlier.walk()):
            return at if _fills(earlier, tile) else end
    return end


def _fills(op: Operation, tile: Value) -> bool:
    """True for a move from L1 into a tile."""
    source = op.bound.get("src")
    type_ = source.type if isinstance(source, Operand) else None
    from_l1 = isinstance(type_, TileType) and type_.loc == "mat"
    return op.has("moves_whole") and from_l1 and _value(op, "dst") is tile


def _value(op: Operation, name: str) -> Value | None:
    operand = op.bound.get(name)
    return operand.value if isinstance(operand, Operand) else None
