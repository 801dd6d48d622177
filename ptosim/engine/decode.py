"""From functions to a flat instruction stream: values get slots, control flow becomes branches.

Functions cannot recurse, so each has its own slots and a call only copies values and pushes the
return address."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from ptosim.diagnostics.model import Sink, error
from ptosim.engine.records import DecodedFunction, DecodedProgram, Inst, Kind
from ptosim.ir.core import Operand, Operation, Value
from ptosim.ir.program import Function, ResolvedModule
from ptosim.ir.types import ScalarType, TileType
from ptosim.isa.dtypes import dtype
from ptosim.isa.expr import evaluate
from ptosim.isa.profiles import Profile
from ptosim.isa.schema import Status
from ptosim.machine.core import FIRST_SLOT, SLOT_KIND, SLOT_STACK, Machine
from ptosim.machine.gm import five_dims, view_spec
from ptosim.machine.tile import tile_ref
from ptosim.passes.checks import vecscope
from ptosim.passes.clauses import Clause
from ptosim.passes.place import Placement
from ptosim.passes.verify import attribute, environment
from ptosim.semantics import scalar
from ptosim.semantics.binding import OpFault
from ptosim.semantics.micro.context import VectorContext
from ptosim.semantics.micro.order import Place, places_of
from ptosim.semantics.registry import KERNELS, STATE, SUPPORT, VALUES, VECTORS, kernel_of
from ptosim.semantics.sync import pipe_word
from ptosim.semantics.values import ValueContext
from ptosim.source import Span

Warn = Callable[[Operation, str, str], None]


def decode(
    resolved: ResolvedModule,
    entries: Sequence[Function],
    placement: Placement,
    machine: Machine,
    profile: Profile,
    warn: Warn,
    sink: Sink,
    *,
    values: bool = True,
) -> DecodedProgram:
    """Decode the functions that `entries` reach. Operations that cannot be executed are reported,
    unless the program runs without values."""
    decoder = _Decoder(resolved, placement, machine, profile, warn, sink)
    decoder.values = values
    return decoder.run(entries)


class _Decoder:
    def __init__(
        self,
        resolved: ResolvedModule,
        placement: Placement,
        machine: Machine,
        profile: Profile,
        warn: Warn,
        sink: Sink,
    ) -> None:
        self.profile = profile
        self.resolved = resolved
        self.placement = placement
        self.machine = machine
        self.warn = warn
        self.sink = sink
        self.values = True
        self.insts: list[Inst] = []
        self.initial: list[Any] = [None] * FIRST_SLOT
        self.functions: dict[str, DecodedFunction] = {}
        self.slots: dict[Value, int] = {}
        self.types: dict[int, Any] = {}
        self._consts: dict[tuple[type, str], int] = {}
        self._calls: list[tuple[int, str]] = []
        self._current: DecodedFunction | None = None
        self._structured: dict[str, Callable[[Operation], None]] = {
            "arith.constant": lambda op: None,
            "arith.cmpi": self._compare,
            "arith.cmpf": self._compare,
            "arith.select": self._select,
            "scf.for": self._for,
            "scf.if": self._if,
            "scf.while": self._while,
            "scf.execute_region": self._execute_region,
            # What these pass on is read with the operation that they end a region of.
            "scf.yield": lambda op: None,
            "scf.condition": lambda op: None,
            "scf.index_switch": self._index_switch,
            "func.call": self._call,
            "func.return": self._return,
            "pto.section.cube": self._section,
            "pto.section.vector": self._section,
            "memref.reinterpret_cast": self._reinterpret,
            "pto.vecscope": self._vector_region,
            "pto.strict_vecscope": self._vector_region,
        }
        self._in_vector_region = False
        self._places: dict[Operation, Place] = {}  # of the instructions of the vector region

    def run(self, entries: Sequence[Function]) -> DecodedProgram:
        for entry in entries:
            self._function(entry)
        pending = True
        while pending:
            pending = False
            for _, name in list(self._calls):
                if name not in self.functions:
                    self._function(self.resolved.functions[name])
                    pending = True
        for at, name in self._calls:
            self._patch_call(at, name)
        return DecodedProgram(
            self.insts,
            self.initial,
            self.functions,
            self._entry_tiles(entries[0]),
            self.types,
            self.slots,
        )

    def _entry_tiles(self, entry: Function) -> dict[str, tuple[int, TileType, int]]:
        values = list(entry.args)
        if entry.implicit:
            values += [v for op in entry.body for v in op.results]
        return {
            v.name: (self.slot(v), v.type, self.placement.values[v])
            for v in values
            if isinstance(v.type, TileType) and v in self.placement.values
        }

    # -- functions ------------------------------------------------------------------------------

    def _function(self, function: Function) -> None:
        decoded = DecodedFunction(function, len(self.insts), [self.slot(v) for v in function.args])
        decoded.result_slots = [self._new_slot(None) for _ in function.results]
        self.functions[function.name] = decoded
        self._current = decoded
        for value in function.args:
            self._place_argument(value)
        self._ops(function.body)
        if not self.insts or self.insts[-1].kind is not Kind.BRANCH or not _ends(function.body):
            self._emit_return(function.op, [])

    def _place_argument(self, value: Value) -> None:
        addr = self.placement.values.get(value)
        if addr is not None and isinstance(value.type, TileType):
            type_ = value.type
            rows = type_.rows if type_.v_row is None else type_.v_row
            cols = type_.cols if type_.v_col is None else type_.v_col
            self.initial[self.slot(value)] = tile_ref(type_, addr, rows, cols)

    def _ops(self, ops: Any) -> None:
        for op in ops:
            self._operation(op)

    # -- slots ----------------------------------------------------------------------------------

    def _new_slot(self, value: Any) -> int:
        self.initial.append(value)
        return len(self.initial) - 1

    def slot(self, value: Value) -> int:
        """Return the slot of a value; one whose content the text fixes is filled already."""
        slot = self.slots.get(value)
        if slot is None:
            slot = self.slots[value] = self._new_slot(value.const)
            self.types[slot] = value.type
        return slot

    def operand_slot(self, operand: Operand) -> int:
        """Return the slot of an operand; a literal gets one of its own."""
        if operand.value is not None:
            return self.slot(operand.value)
        const = operand.const
        key = (type(const), repr(const))  # 0.0 and -0.0 are equal, and are not one constant
        if key not in self._consts:
            self._consts[key] = self._new_slot(const)
        return self._consts[key]

    def _slots_of(self, bound: Any) -> Any:
        if isinstance(bound, Operand):
            return self.operand_slot(bound)
        if isinstance(bound, list):
            return tuple(self._slots_of(b) for b in bound)
        return None

    def _clause_slots(self, name: str, bound: Any) -> Iterator[tuple[str, Any]]:
        """Operands of a clause as `clause.operand`; of one that can be repeated, a tuple for
        each."""
        if isinstance(bound, Clause):
            for inner, operand in bound.operands.items():
                if operand is not None:
                    yield f"{name}.{inner}", self.operand_slot(operand)
        elif isinstance(bound, list) and bound and isinstance(bound[0], Clause):
            for inner in bound[0].operands:
                yield f"{name}.{inner}", tuple(self._slots_of(c[inner]) for c in bound)

    # -- operations -----------------------------------------------------------------------------

    def _emit(self, kind: Kind, op: Operation | None, run: Any = None, **details: Any) -> Inst:
        inst = Inst(len(self.insts), kind, op, run, **details)
        self.insts.append(inst)
        return inst

    def _operation(self, op: Operation) -> None:
        handler = self._structured.get(op.name)
        if handler is not None:
            handler(op)
        elif op.name in scalar.MAKERS:
            self._scalar(op)
        elif op.name in VALUES and not _has_kernel(op):
            self._value(op)
        elif op.name in VECTORS:
            self._vector(op)
        else:
            self._execute(op)

    def _scalar(self, op: Operation) -> None:
        operands = [o for o in op.bound.values() if isinstance(o, Operand)]
        types = _element(operands[0].type), _element(op.results[0].type)
        function = scalar.MAKERS[op.name](*types)
        self._emit_scalar(op, function, operands)

    def _emit_scalar(
        self, op: Operation, function: Callable[..., Any], operands: list[Operand]
    ) -> None:
        sources = [self.operand_slot(o) for o in operands]
        results = [self.slot(v) for v in op.results]
        runner = _scalar_runner(function, sources, results)
        self._emit(Kind.SCALAR, op, runner, operands=(("results", tuple(results)),))

    def _compare(self, op: Operation) -> None:
        lhs, rhs = op.bound["lhs"], op.bound["rhs"]
        word = str(op.bound["predicate"].const)
        if op.name == "arith.cmpi":
            function = scalar.compare_integers(word, _element(lhs.type))
        else:
            function = scalar.compare_floats(word)
        self._emit_scalar(op, function, [lhs, rhs])

    def _select(self, op: Operation) -> None:
        names = ("condition", "true_value", "false_value")
        self._emit_scalar(op, lambda c, a, b: a if c else b, [op.bound[n] for n in names])

    def _value(self, op: Operation) -> None:
        if self._refused(op):
            return
        context = ValueContext(
            op,
            self.machine,
            {name: self._slots_of(bound) for name, bound in op.bound.items()},
            tuple(self.slot(v) for v in op.results),
            self.resolved.layouts.get(op),
            self.placement.values.get(op.results[0]) if op.results else None,
            lambda code, message: self.warn(op, code, message),
            {n: attribute(op, d) for n, d in op.definition.attrs.items()} if op.definition else {},
            self.profile,
        )
        self._emit(Kind.ACTION, op, VALUES[op.name](context))

    def _vector(self, op: Operation) -> None:
        if not self.values:
            self._emit(Kind.VECTOR, op, pipe="V")
            return
        maker = self._executable(op, VECTORS[op.name])
        if maker is None:
            return
        if not self._in_vector_region and vecscope.has_registers(op):
            self.sink.emit(
                error(
                    "PTO3020",
                    f"'{op.name}' op needs a vector region around it",
                    Span(self.resolved.module.source, op.start, op.name_end),
                    help="put it into `pto.vecscope { … }`",
                )
            )
            return
        slots = {name: self._slots_of(bound) for name, bound in op.bound.items()}
        free = [o.name for o in op.variant.outs if op.bound.get(o.name) is None]
        slots |= {n: self.slot(v) for n, v in zip(free, op.results, strict=False)}
        context = VectorContext(
            op,
            self.profile,
            slots,
            static_attributes(op),
            self._new_slot,
            lambda code, message: self.warn(op, code, message),
            self._places.get(op),
        )
        self._emit(Kind.VECTOR, op, maker(context), pipe="V")

    def _execute(self, op: Operation) -> None:
        kernel = self._kernel(op) if self.values else None
        if kernel is None and self.values:
            return
        operands = self._exec_operands(op)
        slots = [s for _, s in operands]
        flat = [s for entry in slots for s in (entry if isinstance(entry, tuple) else (entry,))]
        self._emit(
            Kind.EXEC,
            op,
            getter=_getter(flat),
            operands=tuple(operands),
            semantics=kernel if self.values else self._any_kernel(op),
            # What stands in a vector region is a part of it and has no queue of its own.
            pipe="S" if self._in_vector_region else issue_pipe(op, self.resolved.target),
        )

    @staticmethod
    def _any_kernel(op: Operation) -> Any:
        return kernel_of(op.name, op.variant.name if op.variant is not None else "")

    def _kernel(self, op: Operation) -> Any:
        variant = op.variant.name if op.variant is not None else ""
        return self._executable(op, kernel_of(op.name, variant))

    def _executable(self, op: Operation, kernel: Any) -> Any:
        """Return the function of an operation, None (reported) if it is not executed."""
        definition = op.definition
        status = definition.status[self.resolved.target] if definition else Status.ABSENT
        span = Span(self.resolved.module.source, op.start, op.name_end)
        if kernel is None or status not in (Status.EXACT, Status.APPROXIMATE):
            self.sink.emit(
                error(
                    "PTO8001",
                    f"'{op.name}' cannot be executed on {self.resolved.target} in this version",
                    span,
                    notes=(f"status of the operation: {status}",),
                    help="`ptosim ops` lists what is executed; `ptosim check` accepts the program",
                )
            )
            return None
        return None if self._refused(op) else kernel

    def _refused(self, op: Operation) -> bool:
        """Report an operation whose types or modes are not executed."""
        refuse = SUPPORT.get(op.name)
        reason = refuse(op, self.profile) if refuse is not None else None
        if reason is not None:
            span = Span(self.resolved.module.source, op.start, op.name_end)
            self.sink.emit(error("PTO8002", f"'{op.name}': {reason}", span))
        return reason is not None

    def _exec_operands(self, op: Operation) -> list[tuple[str, Any]]:
        """Every operand of the row with its slots; results stand for destinations that are not
        written, scratch of the simulator for tiles that are left out."""
        operands: list[tuple[str, Any]] = list(STATE.get(op.name, ()))
        free = [o.name for o in op.variant.outs if op.bound.get(o.name) is None]
        for name, value in zip(free, op.results, strict=False):
            operands.append((name, self._result_slot(value)))
        for name, bound in op.bound.items():
            clauses = list(self._clause_slots(name, bound))
            slots = None if clauses else self._slots_of(bound)
            if slots is not None:
                clauses.append((name, slots))
            operands.extend(clauses)
        for (owner, name), addr in self.placement.scratch.items():
            if owner is op:
                operands.append((name, self._new_slot(self._scratch_tile(op, name, addr))))
        return operands

    def _result_slot(self, value: Value) -> int:
        slot = self.slot(value)
        addr = self.placement.values.get(value)
        if addr is not None and isinstance(value.type, TileType):
            self._place_argument(value)
        return slot

    def _scratch_tile(self, op: Operation, name: str, addr: int) -> Any:
        needs = op.definition.scratch if op.definition is not None else ()
        need = next(s for s in needs if s.name == name)
        size = next(
            p.bytes for p in self.placement.placed if p.addr == addr and p.start == op.start
        )
        byte = dtype("ui8")
        width = -(-size // 32) * 32
        return tile_ref(TileType(need.space, byte, 1, width, 1, width), addr, 1, width)

    # -- control flow ---------------------------------------------------------------------------

    def _for(self, op: Operation) -> None:
        lower, upper, step = (self.operand_slot(op.bound[n]) for n in ("lower", "upper", "step"))
        block = op.regions[0].blocks[0]
        variable, *carried = (self.slot(v) for v in block.values)
        results = [self.slot(v) for v in op.results]
        initial = [self.operand_slot(o) for o in op.bound["init"]]
        self._emit(Kind.SCALAR, op, _loop_start(step, [lower, *initial], [variable, *carried]))
        test = self._emit(Kind.BRANCH, op)
        self._ops(block.ops)
        yielded = self._yielded(block.ops)
        self._emit(Kind.SCALAR, op, _advance(variable, step, yielded, carried))
        self._emit(Kind.BRANCH, op, _jump(test.pc))
        body, after = test.pc + 1, len(self.insts)
        test.run = _loop_test(variable, upper, body, after)
        self._emit(Kind.SCALAR, op, _copier(carried, results))

    def _yielded(self, ops: Any) -> list[int]:
        last = ops[-1] if ops else None
        if last is None or last.name != "scf.yield":
            return []
        return [self.operand_slot(o) for o in last.bound["values"]]

    def _region_value(self, op: Operation, index: int, results: list[int]) -> None:
        """A region whose yielded values go to the results of its operation."""
        region = op.regions[index]
        self._ops(region.ops)
        self._emit(Kind.SCALAR, op, _copier(self._yielded(region.ops), results))

    def _if(self, op: Operation) -> None:
        condition = self.operand_slot(op.bound["condition"])
        results = [self.slot(v) for v in op.results]
        test = self._emit(Kind.BRANCH, op)
        self._region_value(op, 0, results)
        otherwise = len(self.insts)
        if len(op.regions) > 1:
            leave = self._emit(Kind.BRANCH, op)
            otherwise = len(self.insts)
            self._region_value(op, 1, results)
            leave.run = _jump(len(self.insts))
        test.run = _test(condition, test.pc + 1, otherwise)

    def _while(self, op: Operation) -> None:
        before, after = op.regions[0].blocks[0], op.regions[1].blocks[0]
        initial = [self.operand_slot(o) for o in op.bound["init"]]
        first = [self.slot(v) for v in before.values]
        second = [self.slot(v) for v in after.values]
        self._emit(Kind.SCALAR, op, _copier(initial, first))
        head = len(self.insts)
        self._ops(before.ops)
        condition = before.ops[-1]
        passed = [self.operand_slot(o) for o in condition.bound["values"]]
        results = [self.slot(v) for v in op.results]
        test = self._emit(Kind.BRANCH, op)
        self._emit(Kind.SCALAR, op, _copier(passed, second))
        self._ops(after.ops)
        self._emit(Kind.SCALAR, op, _copier(self._yielded(after.ops), first))
        self._emit(Kind.BRANCH, op, _jump(head))
        leave = len(self.insts)
        self._emit(Kind.SCALAR, op, _copier(passed, results))
        slot = self.operand_slot(condition.bound["condition"])
        test.run = _test(slot, test.pc + 1, leave)

    def _execute_region(self, op: Operation) -> None:
        self._region_value(op, 0, [self.slot(v) for v in op.results])

    def _index_switch(self, op: Operation) -> None:
        selector = self.operand_slot(op.bound["condition"])
        results = [self.slot(v) for v in op.results]
        cases = [int(tok.value) for tok in op.items]
        test = self._emit(Kind.BRANCH, op)
        starts: list[int] = []
        leaves: list[Inst] = []
        for index in range(len(op.regions)):
            starts.append(len(self.insts))
            self._region_value(op, index, results)
            leaves.append(self._emit(Kind.BRANCH, op))
        end = len(self.insts)
        for leave in leaves:
            leave.run = _jump(end)
        test.run = _switch(selector, dict(zip(cases, starts, strict=False)), starts[-1])

    def _section(self, op: Operation) -> None:
        kind = op.name.rpartition(".")[2]
        test = self._emit(Kind.BRANCH, op)
        for region in op.regions:
            self._ops(region.ops)
        test.run = _section_test(kind, test.pc + 1, len(self.insts))

    def _vector_region(self, op: Operation) -> None:
        """The instructions of a region follow its head; a second one marks the end."""
        block = op.regions[0].blocks[0]
        captured = [self.operand_slot(o) for o in op.bound.get("values") or ()]
        if captured:
            arguments = [self.slot(v) for v in block.values]
            self._emit(Kind.SCALAR, op, _copier(captured, arguments))
        head = self._emit(Kind.REGION, op, pipe="V")
        outer, self._in_vector_region = self._in_vector_region, True
        self._places = places_of(op) if self.values else {}
        self._ops(block.ops)
        self._in_vector_region = outer
        end = self._emit(Kind.ACTION, op, _nothing)
        head.end = end.pc

    def _call(self, op: Operation) -> None:
        values = [self.operand_slot(o) for o in op.bound["values"]]
        results = [self.slot(v) for v in op.results]
        callee = op.bound["callee"]
        kind = self.resolved.functions[callee].kernel_kind
        # Cores of the other kind pass by a kernel of one kind.
        test = self._emit(Kind.BRANCH, op) if kind in ("cube", "vector") else None
        self._calls.append((len(self.insts), callee))
        self._emit(Kind.SCALAR, op, operands=(("values", tuple(values)),))
        self._emit(Kind.BRANCH, op)
        self._emit(Kind.SCALAR, op, operands=(("results", tuple(results)),))
        if test is not None:
            test.run = _section_test(str(kind), test.pc + 1, len(self.insts))

    def _patch_call(self, at: int, name: str) -> None:
        callee = self.functions[name]
        enter, jump, leave = self.insts[at : at + 3]
        enter.run = _copier(list(enter.operands[0][1]), callee.arg_slots)  # type: ignore[arg-type]
        jump.run = _call(callee.pc, at + 2)
        leave.run = _copier(callee.result_slots, list(leave.operands[0][1]))  # type: ignore[arg-type]

    def _return(self, op: Operation) -> None:
        self._emit_return(op, [self.operand_slot(o) for o in op.bound["values"]])

    def _emit_return(self, op: Operation, values: list[int]) -> None:
        results = self._current.result_slots  # type: ignore[union-attr]
        if values:
            self._emit(Kind.SCALAR, op, _copier(values, results))
        self._emit(Kind.BRANCH, op, _return)

    def _reinterpret(self, op: Operation) -> None:
        source = self.operand_slot(op.bound["source"])
        result = self.slot(op.results[0])
        parts = {k: self._slots_of(op.bound.get(k)) or () for k in ("offset", "sizes", "strides")}
        type_ = op.results[0].type
        self._emit(Kind.SCALAR, op, _reinterpreter(source, result, parts, type_))


def _has_kernel(op: Operation) -> bool:
    """True for a variant that a pipe executes, of an operation that can also make a handle."""
    return op.variant is not None and f"{op.name}:{op.variant.name}" in KERNELS


def _element(type_: Any) -> Any:
    return type_.dtype if isinstance(type_, ScalarType) else dtype("i64")


def _ends(ops: Any) -> bool:
    return bool(ops) and ops[-1].name == "func.return"


def static_attributes(op: Operation) -> dict[str, Any]:
    """Return the attributes of an op's row with their values or defaults."""
    definition = op.definition
    return {a.name: attribute(op, a) for a in definition.attrs.values()} if definition else {}


def pipe_of(op: Operation, target: str) -> str:
    """Return the pipe that executes an operation: MTE2, V, …; `ALL` for a barrier of all pipes."""
    pipes = op.definition.pipes if op.definition is not None else ()
    names = environment(op, target) if len(pipes) > 1 else {}
    chosen = next(p.pipe for p in pipes if p.when is None or evaluate(p.when, names))
    if chosen.startswith("@"):
        operand = op.bound[chosen[1:]]
        return pipe_word(operand.const)
    return chosen


_FREES = {"pto.tfree_from_aic": "V", "pto.tfree_from_aiv": "MTE1"}


def issue_pipe(op: Operation, target: str) -> str:
    """Return the pipe in whose queue an operation waits. The scalar unit itself waits at barriers
    of all pipes, and on A2/A3 at flags from other cores. A free waits for what its core's pipe has
    still to read."""
    pipe = _FREES.get(op.name) or pipe_of(op, target)
    if pipe == "ALL" or (op.name == "pto.sync.wait" and target == "a2a3"):
        return "S"
    return pipe


def _nothing(core: Any) -> None:
    """The end of a vector region."""


# -- instruction bodies ---------------------------------------------------------------------------


def _getter(slots: list[int]) -> Callable[[list[Any]], Any]:
    if not slots:
        return lambda values: ()
    return itemgetter(*slots)


def _scalar_runner(
    function: Callable[..., Any], sources: list[int], results: list[int]
) -> Callable[[list[Any]], None]:
    if len(results) != 1:

        def several(slots: list[Any]) -> None:
            values = function(*[slots[s] for s in sources])
            for slot, item in zip(results, values, strict=True):
                slots[slot] = item

        return several
    result = results[0]
    if len(sources) == 1:
        (only,) = sources

        def one(slots: list[Any]) -> None:
            slots[result] = function(slots[only])

        return one
    if len(sources) == 2:
        first, second = sources

        def two(slots: list[Any]) -> None:
            slots[result] = function(slots[first], slots[second])

        return two

    def many(slots: list[Any]) -> None:
        slots[result] = function(*[slots[s] for s in sources])

    return many


def _copier(sources: list[int], targets: list[int]) -> Callable[[list[Any]], None]:
    """Assign several slots at once, as if in parallel."""
    pairs = list(zip(sources, targets, strict=False))
    if not pairs:
        return lambda slots: None
    if len(pairs) == 1:
        ((source, target),) = pairs

        def copy_one(slots: list[Any]) -> None:
            slots[target] = slots[source]

        return copy_one

    def copy(slots: list[Any]) -> None:
        values = [slots[s] for s, _ in pairs]
        for (_, target), value in zip(pairs, values, strict=True):
            slots[target] = value

    return copy


def _loop_start(step: int, sources: list[int], targets: list[int]) -> Callable[[list[Any]], None]:
    copy = _copier(sources, targets)

    def start(slots: list[Any]) -> None:
        if slots[step] <= 0:
            raise OpFault("PTO6006", f"the step of scf.for is {slots[step]}; it must be positive")
        copy(slots)

    return start


def _advance(
    variable: int, step: int, yielded: list[int], carried: list[int]
) -> Callable[[list[Any]], None]:
    copy = _copier(yielded, carried)
    if not carried:

        def advance(slots: list[Any]) -> None:
            slots[variable] += slots[step]

        return advance

    def advance_and_carry(slots: list[Any]) -> None:
        copy(slots)
        slots[variable] += slots[step]

    return advance_and_carry


def _loop_test(variable: int, upper: int, body: int, after: int) -> Callable[[list[Any]], int]:
    return lambda slots: body if slots[variable] < slots[upper] else after


def _test(condition: int, then: int, otherwise: int) -> Callable[[list[Any]], int]:
    return lambda slots: then if slots[condition] else otherwise


def _jump(target: int) -> Callable[[list[Any]], int]:
    return lambda slots: target


def _switch(selector: int, cases: dict[int, int], default: int) -> Callable[[list[Any]], int]:
    return lambda slots: cases.get(slots[selector], default)


def _section_test(kind: str, inside: int, behind: int) -> Callable[[list[Any]], int]:
    return lambda slots: inside if slots[SLOT_KIND] in (kind, "any") else behind


def _call(target: int, back: int) -> Callable[[list[Any]], int]:
    def call(slots: list[Any]) -> int:
        slots[SLOT_STACK] = (back, slots[SLOT_STACK])
        return target

    return call


def _return(slots: list[Any]) -> int:
    """The next pc, or -1 when the entry function returns."""
    stack = slots[SLOT_STACK]
    if stack is None:
        return -1
    slots[SLOT_STACK] = stack[1]
    return stack[0]


def _reinterpreter(
    source: int, result: int, parts: dict[str, tuple[int, ...]], type_: Any
) -> Callable[[list[Any]], None]:
    def run(slots: list[Any]) -> None:
        base = slots[source]
        if not isinstance(base, tuple):  # a local buffer keeps its tile
            slots[result] = base
            return
        spec, buffer, at = base
        offset = slots[parts["offset"][0]] if parts["offset"] else 0
        sizes = tuple(slots[s] for s in parts["sizes"])
        strides = tuple(slots[s] for s in parts["strides"])
        view = view_spec(*five_dims(sizes, strides), type_.elem, spec.layout)
        slots[result] = (view, buffer, at + operator.index(offset))

    return run
