"""From functions to a flat instruction stream: values get slots, control flow becomes branches.

Functions cannot recurse, so each has its own slots and a call only copies values and pushes the
return address."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ptosim.engine.core import runners
from ptosim.engine.core.bound import DecodedFunction, DecodedProgram, Depth, Inst, Kind, Slots
from ptosim.engine.core.control_flow import ControlFlow, in_effect
from ptosim.ground.diagnostics.model import Diagnostic, Sink, finding
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import ScalarType, TileType, VectorType, ViewType
from ptosim.ground.isa.dates import Profile
from ptosim.ground.isa.schema import EXECUTED, Status, dtype
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Span
from ptosim.language.place.planner import Placed, Placement
from ptosim.language.place.sides import has_registers
from ptosim.language.verify.operands import memref_for_tile
from ptosim.machine.affine import Unknown
from ptosim.machine.core import Machine
from ptosim.machine.gm import five_dims, view_spec
from ptosim.machine.tile import tile_ref
from ptosim.machine.values import GmView
from ptosim.ops.base import functions as families
from ptosim.ops.base.functions import KERNELS, STATE, SUPPORT, VALUES, VECTORS, kernel_of
from ptosim.ops.base.orders import Looks, ValueContext
from ptosim.ops.micro.context import VectorContext, instruction
from ptosim.ops.micro.hazards import RegionPlace
from ptosim.ops.scalar import numbers, tensors

if TYPE_CHECKING:
    from ptosim.engine.simt.launch import Launches

Report = Callable[..., None]
"""Reports a finding: operation, code, message, and a cure if there is one."""


@dataclass(eq=False)
class Decoder:
    """Decodes the functions that entries reach. Operations that cannot be executed are reported,
    unless the program runs without values."""

    resolved: ResolvedModule
    placement: Placement
    machine: Machine
    profile: Profile
    report: Report
    sink: Sink
    depth: Depth
    insts: list[Inst] = field(default_factory=list)
    slots: Slots = field(default_factory=Slots)
    functions: dict[str, DecodedFunction] = field(default_factory=dict)
    current: DecodedFunction = field(init=False)
    in_vector_region: bool = False
    # Of the instructions of the vector region.
    places: dict[Operation, RegionPlace] = field(default_factory=dict)
    regions: dict[Operation, dict[Operation, RegionPlace]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.flow = ControlFlow(self)
        self._structured: dict[str, Callable[[Operation], None]] = {
            **self.flow.handlers,
            "pto.simt_launch": lambda op: self.launches.launch(op),
            "pto.section.simt": lambda op: self.launches.section(op),
            "arith.cmpi": self._compare_integers,
            "arith.cmpf": self._compare_floats,
            "arith.select": self._select,
        }

    @cached_property
    def launches(self) -> Launches:
        """What decodes launches of threads; few programs have any, and it is ten modules."""
        from ptosim.engine.simt.launch import Launches

        return Launches(self)

    def run(self, entries: Sequence[Function]) -> DecodedProgram:
        """Return the decoded program."""
        families.load({name for op in self.resolved.ops for name in _functions_of(op)})
        for entry in entries:
            self._function(entry)
        pending = True
        while pending:
            pending = False
            for _, name in list(self.flow.calls):
                if name not in self.functions:
                    self._function(self.resolved.functions[name])
                    pending = True
        for at, name in self.flow.calls:
            self.flow.patch_call(at, name)
        return DecodedProgram(
            self.insts,
            self.slots.initial,
            self.functions,
            self._entry_tiles(entries[0]),
            self.slots.of,
            self.regions,
        )

    def _entry_tiles(self, entry: Function) -> dict[str, tuple[int, TileType, int]]:
        values = list(entry.args)
        if entry.implicit:
            values += [v for op in entry.body for v in op.results]
        return {
            v.name: (self.slots.value(v), v.type, self.placement.values[v])
            for v in values
            if isinstance(v.type, TileType) and v in self.placement.values
        }

    # -- functions ------------------------------------------------------------------------------

    def _function(self, function: Function) -> None:
        decoded = DecodedFunction(
            function, len(self.insts), [self.slots.value(v) for v in function.args]
        )
        decoded.result_slots = [self.slots.new(None) for _ in function.results]
        self.functions[function.name] = decoded
        self.current = decoded
        for value in function.args:
            self._place_argument(value)
        self.in_vector_region = function.in_region
        self.flow.region(function.op.regions[0], [])
        self.in_vector_region = False
        if not self.insts or self.insts[-1].kind is not Kind.BRANCH or not _ends(function.body):
            self.flow.emit_return(function.op, [])

    def _place_argument(self, value: Value) -> None:
        addr = self.placement.values.get(value)
        if addr is not None and isinstance(value.type, TileType):
            type_ = value.type
            rows = type_.rows if type_.v_row is None else type_.v_row
            cols = type_.cols if type_.v_col is None else type_.v_col
            self.slots.initial[self.slots.value(value)] = tile_ref(type_, addr, rows, cols)

    def ops(self, ops: Any) -> None:
        for op in in_effect(ops):
            self._operation(op)

    # -- operations -----------------------------------------------------------------------------

    def emit(self, kind: Kind, op: Operation | None, run: Any = None, **details: Any) -> Inst:
        inst = Inst(len(self.insts), kind, op, run, **details)
        self.insts.append(inst)
        return inst

    def _operation(self, op: Operation) -> None:
        if self.in_vector_region and not _is_of_region(op):
            text = f"'{op.name}': what it does inside a vector region is not known"
            span = Span(self.resolved.module.source, op.start, op.name_end)
            outside = "move it in front of the region or after it"
            self.refuse(finding("PTO8002", text, span, help=outside), has_no_time=True)
        handler = self._structured.get(op.name)
        if handler is not None:
            handler(op)
        elif op.name in numbers.MAKERS:
            self._scalar(op)
        elif op.name in VALUES and not _has_kernel(op):
            self._value(op)
        elif op.meaning in VECTORS:
            self._vector(op)
        else:
            self._execute(op)

    def _scalar(self, op: Operation) -> None:
        if tensors.on_tensors(op):
            self._tensors(op)
            return
        operands = [o for o in op.bound.values() if isinstance(o, Operand)]
        types = _element(operands[0].type), _element(op.results[0].type)
        function = numbers.MAKERS[op.name](*types)
        self._emit_scalar(op, function, operands)

    def _tensors(self, op: Operation) -> None:
        reason = tensors.not_computed(op)
        if reason is None:
            operands = [o for o in op.bound.values() if isinstance(o, Operand)]
            self._emit_scalar(op, tensors.function_of(op), operands)
            return
        span = Span(self.resolved.module.source, op.start, op.name_end)
        self.refuse(finding("PTO8002", f"'{op.name}': {reason}", span))
        self._unknown_results(op)

    def _emit_scalar(
        self, op: Operation, function: Callable[..., Any], operands: list[Operand]
    ) -> None:
        sources = [self.slots.operand(o) for o in operands]
        results = [self.slots.value(v) for v in op.results]
        if not tensors.on_tensors(op):
            function = tensors.by_lane(op, function)
        runner = runners.scalar_runner(function, sources, results)
        self.emit(Kind.SCALAR, op, runner, operands=(("results", tuple(results)),))

    def _compare_integers(self, op: Operation) -> None:
        if tensors.on_tensors(op):
            self._tensors(op)
            return
        lhs, word = op.bound["lhs"], str(op.bound["predicate"].const)
        function = numbers.compare_integers(word, _element(lhs.type))
        self._emit_scalar(op, function, [lhs, op.bound["rhs"]])

    def _compare_floats(self, op: Operation) -> None:
        if tensors.on_tensors(op):
            self._tensors(op)
            return
        # `true` and `false` are predicates too.
        function = numbers.compare_floats(str(op.bound["predicate"].const).lower())
        self._emit_scalar(op, function, [op.bound["lhs"], op.bound["rhs"]])

    def _select(self, op: Operation) -> None:
        # Between two tensors as wholes one number decides.
        if isinstance(op.bound["condition"].type, VectorType) and tensors.on_tensors(op):
            self._tensors(op)
            return
        names = ("condition", "true_value", "false_value")
        self._emit_scalar(op, lambda c, a, b: a if c else b, [op.bound[n] for n in names])

    def _value(self, op: Operation) -> None:
        if self._refused(op):
            self._unknown_results(op)
            return
        context = ValueContext(
            op,
            {name: self.slots.bound(bound) for name, bound in op.bound.items()},
            tuple(self.slots.value(v) for v in op.results),
            self.profile,
            lambda code, message, help=None: self.report(op, code, message, help),
            self.machine,
            self.resolved.layouts.get(op),
            self.placement.values.get(op.results[0]) if op.results else None,
            self.resolved.popped_as.get(op),
        )
        self.emit(Kind.ACTION, op, self._without_content(op, VALUES[op.name](context)))

    def _without_content(self, op: Operation, run: runners.Action) -> runners.Action:
        """An access of memory by the scalar unit, as far as the depth of the run goes."""
        reads = "reads_memory" in op.traits
        if self.depth is Depth.VALUES or not (reads or "writes_memory" in op.traits):
            return run
        if self.machine.looked is not None and isinstance(run, Looks):
            return run
        results = self._unknown_results(op)
        if self.depth is Depth.SHAPES:
            return runners.no_action
        if reads:
            return runners.reader(run, *results)
        places = [self.slots.bound(op.bound[name]) for name in ("ptr", "offset")]
        return runners.writer(run, tuple(places))

    def _unknown_results(self, op: Operation) -> tuple[tuple[int, ...], Unknown]:
        """Let the results that data decide be unknown until something gives them a value."""
        line, _ = self.resolved.module.source.line_column(op.start)
        unknown = Unknown(f"data that '{op.name}' reads in line {line}")
        results = [v for v in op.results if not isinstance(v.type, TileType)]
        slots = tuple(self.slots.value(v) for v in results)
        for value, slot in zip(results, slots, strict=True):
            handed_out = self.depth is Depth.SHAPES and _handed_out(value)
            self.slots.initial[slot] = handed_out or unknown
        return slots, unknown

    def _vector(self, op: Operation) -> None:
        maker = self._executable(op, VECTORS[op.meaning])
        if self.depth is Depth.SHAPES or (maker is None and self.depth is Depth.PLACES):
            self._unknown_results(op)
            self.emit(Kind.VECTOR, op, runners.no_action, pipe="V")
            return
        if maker is None:
            return
        if not self.in_vector_region and has_registers(op):
            self.sink.report(
                "PTO3020",
                f"'{op.name}' op needs a vector region around it",
                Span(self.resolved.module.source, op.start, op.name_end),
                help="put it into `pto.vecscope { … }`",
            )
            return
        slots = {name: self.slots.bound(bound) for name, bound in op.bound.items()}
        slots |= self._results(op)
        context = VectorContext(
            op,
            slots,
            tuple(self.slots.value(v) for v in op.results),
            self.profile,
            lambda code, message, help=None: self.report(op, code, message, help),
            self.slots.new,
            self.places.get(op) or RegionPlace(),
            self._in_doubt,
        )
        if self.depth is Depth.PLACES:
            maker = partial(instruction, maker, self._unknown_results(op)[1])
        self.emit(Kind.VECTOR, op, maker(context), pipe="V")

    @cached_property
    def _in_doubt(self) -> bool:
        """True if a logical mask of the program is dropped, wherever its values then go."""
        from ptosim.ops.vmi.mask_readings import has_dropped  # asked inside vector regions only

        return has_dropped(op for f in self.resolved.functions.values() for op in f.ops)

    def _results(self, op: Operation) -> dict[str, Any]:
        """The slots of the results by the names of the row; of any number of one name a tuple."""
        outs = op.variant.outs if op.variant is not None else ()
        if outs and outs[0].variadic:
            return {outs[0].name: tuple(self.slots.value(v) for v in op.results)}
        return {n: self.slots.value(v) for n, v in op.result_values.items()}

    def _execute(self, op: Operation) -> None:
        kernel = self._kernel(op)
        if kernel is None and self.depth is Depth.VALUES:
            return
        if self.depth is not Depth.VALUES:
            self._unknown_results(op)
        operands = self._exec_operands(op)
        slots = [s for _, s in operands]
        flat = [s for entry in slots for s in (entry if isinstance(entry, tuple) else (entry,))]
        self.emit(
            Kind.EXEC,
            op,
            getter=runners.getter(flat),
            operands=tuple(operands),
            semantics=kernel,
            # In a vector region an operation is a part of it and has no queue of its own.
            pipe="S" if self.in_vector_region else op.queue,
            window=_window(op, operands),
            attrs=op.attributes,
        )

    def _kernel(self, op: Operation) -> Any:
        variant = op.variant.name if op.variant is not None else ""
        return self._executable(op, kernel_of(op.name, variant))

    def _executable(self, op: Operation, kernel: Any) -> Any:
        """Return the function of an operation, None (reported) if it is not executed."""
        definition = op.definition
        status = definition.status[self.resolved.target] if definition else Status.ABSENT
        span = Span(self.resolved.module.source, op.start, op.name_end)
        if kernel is None or status not in EXECUTED:
            self.refuse(
                finding(
                    "PTO8001",
                    f"'{op.name}' cannot be executed on {self.resolved.target} in this version",
                    span,
                    notes=(
                        f"status of the operation: {status}",
                        *(definition.notes if definition else ()),
                    ),
                    help=_of_threads(op)
                    or "`ptosim ops` lists what is executed; `ptosim check` accepts the program",
                ),
                has_no_time=status is Status.ABSENT,
            )
            return None
        return None if self._refused(op) else kernel

    def _refused(self, op: Operation) -> bool:
        """Report an operation whose types or modes are not executed."""
        refuse, other = SUPPORT.get(op.meaning), memref_for_tile(op)
        reason = f"`{other}` is a memref and no tile" if other is not None else None
        if reason is None and refuse is not None:
            reason = refuse(op, self.profile)
        if reason is not None:
            span = Span(self.resolved.module.source, op.start, op.name_end)
            self.refuse(finding("PTO8002", f"'{op.name}': {reason}", span))
        return reason is not None

    def refuse(self, finding: Diagnostic, *, has_no_time: bool = False) -> None:
        """Report what is not executed; a run without values goes on without it, unless it is to say
        how long it takes and the target does not have it."""
        if self.depth is Depth.VALUES or (has_no_time and self.depth is Depth.SHAPES):
            self.sink.emit(finding)

    def _exec_operands(self, op: Operation) -> list[tuple[str, Any]]:
        """Every operand of the row with its slots; results are the destinations that are not
        written, scratch of the simulator for tiles that are left out."""
        operands: list[tuple[str, Any]] = list(STATE.get(op.name, ()))
        for name, value in op.result_values.items():
            operands.append((name, self._result_slot(value)))
        for name, bound in op.bound.items():
            clauses = list(self.slots.clause(name, bound))
            slots = None if clauses else self.slots.bound(bound)
            if slots is not None:
                clauses.append((name, slots))
            operands.extend(clauses)
        for name in op.scratch or ():
            placed = self.placement.scratch.get((op, name))
            if placed is not None:
                operands.append((name, self.slots.new(_scratch_tile(placed))))
        return operands

    def _result_slot(self, value: Value) -> int:
        slot = self.slots.value(value)
        addr = self.placement.values.get(value)
        if addr is not None and isinstance(value.type, TileType):
            self._place_argument(value)
        return slot


def _scratch_tile(placed: Placed) -> Any:
    width = -(-placed.bytes // 32) * 32
    return tile_ref(TileType(placed.space, dtype("ui8"), 1, width, 1, width), placed.addr, 1, width)


def _is_of_region(op: Operation) -> bool:
    """False for what the vector unit executes on its own, such as sorts and launches of threads."""
    if op.queue != "V" or has_registers(op) or op.has("vector_region"):
        return True
    from ptosim.ground.isa.costs import vector_entries  # a program without registers asks not

    return op.name.removeprefix("pto.") in vector_entries()


def _has_kernel(op: Operation) -> bool:
    """True for a variant that a pipe executes, of an operation that can also make a handle."""
    return op.variant is not None and f"{op.name}:{op.variant.name}" in KERNELS


def _window(op: Operation, operands: list[tuple[str, Any]]) -> int | None:
    """Return the place of the only view among the values of an operation on views and tiles."""
    if any(isinstance(slot, tuple) for _, slot in operands):
        return None
    views = [
        at for at, (name, _) in enumerate(operands)
        if isinstance(getattr(op.bound.get(name), "type", None), ViewType)
    ]  # fmt: skip
    return views[0] if len(views) == 1 and len(operands) > 1 else None


def _element(type_: Any) -> Any:
    if isinstance(type_, VectorType):
        return type_.elem
    return type_.dtype if isinstance(type_, ScalarType) else dtype("i64")


def _ends(ops: Any) -> bool:
    return bool(ops) and "returns" in ops[-1].traits


def _handed_out(value: Value) -> GmView | None:
    """A view of the shape that its type says in full, at a place that is not known: that of a slot
    in global memory which a FIFO hands out."""
    type_ = value.type
    sizes = type_.dims if isinstance(type_, ViewType) else ()
    known = tuple(d for d in sizes if d is not None)
    if not isinstance(type_, ViewType) or not known or len(known) < len(sizes):
        return None
    strides = tuple(math.prod(known[at + 1 :]) for at in range(len(known)))
    spec = view_spec(*five_dims(known, strides), type_.elem, "nd")
    place = Unknown(f"the slot of `%{value.name}`")
    return GmView(spec, place, place)  # type: ignore[arg-type]


def _of_threads(op: Operation) -> str | None:
    """How the function of an operation of threads is launched; None for another operation."""
    if op.definition is None or not op.definition.family.startswith("micro_simt"):
        return None
    return (
        "only threads execute it: launch its function from a kernel, "
        "`pto.simt_launch @threads<<<%c32, %c1, %c1>>>(…)`, and run that"
    )


def _functions_of(op: Operation) -> Iterator[str]:
    """The names under which modules can have functions of an operation."""
    for name in {op.name, op.meaning}:
        yield name
        if op.variant is not None:
            yield f"{name}:{op.variant.name}"
