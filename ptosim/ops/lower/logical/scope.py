"""A function's operations as physical ones: what is logical is written as registers, the rest is
copied. Private functions that take or give logical values are inlined where they are called."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ptosim.ground.ir.core import Block, Operation, Value
from ptosim.ground.ir.lane_layout import CONTIGUOUS, LaneLayout
from ptosim.ground.ir.types import VirtualMaskType
from ptosim.ground.records import dataclass, field
from ptosim.language.build import Builder, copied
from ptosim.language.verify.checks.virtual import reason as unlowered
from ptosim.ops.lower.logical import elementwise, groups, layouts, memory, names, permute
from ptosim.ops.lower.logical.emitter import Emitter, mask_type, refuse, vector_type
from ptosim.ops.lower.logical.layouts import Layouts
from ptosim.ops.lower.logical.lowering import MAKERS, Lowering
from ptosim.ops.lower.logical.masks import Image, predicates
from ptosim.ops.lower.logical.physical import Control, Instruction, Node, Register, instructions
from ptosim.ops.lower.logical.values import Held, in_layout
from ptosim.ops.lower.operands import NotExpandable

FAMILIES = (elementwise, groups, memory, permute, memory)
"""The modules whose operations are registered."""
MaskForm = tuple[LaneLayout, int]


class NotLowered(NotExpandable):
    """An operation that has no instructions, and why."""

    def __init__(self, op: Operation, reason: str) -> None:
        super().__init__(reason)
        self.op = op
        self.reason = reason


@dataclass(slots=True)
class Walker:
    """Lowers operations in program order. `calls` are the functions that calls are inlined from;
    with `estimates` an operation without instructions is counted as one for
    each of its registers instead of refused."""

    low: Lowering
    calls: dict[Operation, Operation] = field(default_factory=dict)
    mask_forms: dict[Value, MaskForm] = field(default_factory=dict)
    estimates: bool = False
    estimated: list[tuple[Operation, str]] = field(default_factory=list)
    renames: ChainMap[str, str] = field(default_factory=lambda: ChainMap({}))
    inlined: int = 0

    @property
    def out(self) -> Emitter:
        """What is written to."""
        return self.low.out

    def walk(self, ops: Sequence[Operation]) -> None:
        """Write operations; the last one of a body that yields is its loop's."""
        for op in ops:
            before, self.out.op = self.out.op, op
            try:
                self._one(op)
            except NotLowered:
                raise
            except NotExpandable as reason:
                raise NotLowered(op, str(reason)) from None
            self.out.op = before

    def _one(self, op: Operation) -> None:
        if names.is_operation(op):
            self._logical(op)
        elif op in self.calls:
            self._call(op)
        elif op.has("vector_region"):  # of an inlined function
            self.walk(op.regions[0].blocks[0].run)
        elif op.has("yields") or op.has("returns"):
            return
        elif any(map(names.is_logical, (*op.operand_values(), *op.results))) or _is_mixed(op):
            self._control(op)
        else:
            self._copied(op)

    # -- logical operations -----------------------------------------------------------------------

    def _logical(self, op: Operation) -> None:
        maker = MAKERS.get(names.word(op))
        mark = len(self.out.body)
        try:
            known = unlowered(op)
            if known is not None:
                raise refuse(known[1])
            if maker is None or names.word(op) not in layouts.KNOWN:
                raise refuse("no instructions are known for it")
            maker(op, self.low)
            self._named_numbers(op)
        except NotExpandable as reason:
            if not self.estimates:
                raise
            del self.out.body[mark:]
            self.estimated.append((op, str(reason)))
            self._estimate(op)

    def _named_numbers(self, op: Operation) -> None:
        """What an operation computes beside vectors and masks has another name now."""
        for value in op.results:
            found = self.low.known.get(value)
            if isinstance(found, Register):
                self.renames[f"%{value.name}"] = found.name

    def _estimate(self, op: Operation) -> None:
        """One instruction for each register of the widest operand or result."""
        values = [v for v in (*op.operand_values(), *op.results) if names.is_vector(v)]
        most = max(
            (CONTIGUOUS.registers(names.lanes_of(v), names.bits_of(v)) for v in values), default=1
        )
        uses = [r for v in op.operand_values() if names.is_vector(v) for r in self._registers(v)]
        made: list[Register] = []
        results = [v for v in op.results if names.is_logical(v)]
        for value in results:
            made += self._fresh(value)
        memory_op = op.traits & {"loads", "stores"}
        name = ("vlds" if "loads" in memory_op else "vsts") if memory_op else "vadd"
        for number in range(most):
            mine = tuple(made[number::most])
            self.out.body.append(Instruction(name, None, tuple(uses[number::most]), mine, op))
        for value in op.results:
            if not names.is_logical(value):
                self.low.known[value] = self.out.register(str(value.type))

    def _registers(self, value: Value) -> list[Register]:
        found = self.low.known.get(value)
        return found.registers if isinstance(found, Held) else []

    def _fresh(self, value: Value) -> list[Register]:
        """Give a logical value registers that nothing has written yet."""
        lanes = names.lanes_of(value)
        if isinstance(value.type, VirtualMaskType):
            layout, bits = self.mask_forms.get(value, (CONTIGUOUS, 32))
            number = layout.registers(lanes, bits)
            made = [self.out.register(mask_type(bits)) for _ in range(number)]
            self.low.known[value] = Image(lanes, layout, bits, made)
            return made
        layout, elem = self.low.layout(value), names.elem_of(value)
        type_ = vector_type(elem)
        number = layout.registers(lanes, names.bits_of(value))
        made = [self.out.register(type_) for _ in range(number)]
        self.low.known[value] = Held(elem, lanes, layout, made)
        return made

    def _taken(self, value: Value, like: Value) -> list[Register]:
        """The registers of a value in the form of another: what a loop hands on."""
        if not names.is_logical(value):
            return [self._number(value)]
        found = self.low.known.get(value)
        if isinstance(found, Held):
            return in_layout(self.out, found, self.low.layout(like))
        layout, bits = self.mask_forms.get(like, (CONTIGUOUS, 32))
        if found is None or isinstance(found, Register):
            raise refuse(f"%{value.name} comes from where no predicates are")
        return predicates(self.out, found, names.lanes_of(value), layout, bits)

    def _number(self, value: Value) -> Register:
        found = self.low.known.get(value)
        if isinstance(found, Register):
            return found
        made = Register(self.renamed(f"%{value.name}"), str(value.type), "scalar")
        self.low.known[value] = made
        return made

    # -- what stays --------------------------------------------------------------------------

    def renamed(self, name: str) -> str:
        """Return what the value of a name is called here."""
        if name in self.renames:
            return self.renames[name]
        base, mark, number = name.partition("#")
        return f"{self.renames[base]}{mark}{number}" if base in self.renames else name

    def _copied(self, op: Operation) -> None:
        self._named(op)
        built = copied(op, self.renamed)
        name = op.name.removeprefix("pto.") if op.name.startswith("pto.") else ""
        uses = tuple(self._number(v) for v in op.operand_values())
        self.out.body.append(Instruction(name, built, uses, (), op))

    def _named(self, op: Operation) -> None:
        """Inside an inlined function results have names of their own."""
        for inner in op.walk() if self.inlined else ():
            for value in (
                *inner.results,
                *(v for r in inner.regions for b in r.blocks for v in b.values),
            ):
                base = f"%{value.name.partition('#')[0]}"
                if not names.is_logical(value):
                    self.renames[base] = self.out.name()

    # -- calls ------------------------------------------------------------------------------------

    def _call(self, op: Operation) -> None:
        called = self.calls[op]
        if self.inlined > 50:
            raise refuse("functions that call each other in a circle are not inlined")
        block = called.regions[0].blocks[0]
        given = op.operand_values()
        before = self.renames
        self.renames = self.renames.new_child()
        for value, argument in zip(given, block.values, strict=True):
            self._pass(value, argument)
        self.inlined += 1
        mark = len(self.out.body)
        self.walk(block.run)
        for line in instructions(self.out.body[mark:]):
            line.site = op
        self.inlined -= 1
        last = block.run[-1]
        # A call can take none of what its function returns.
        returned = list(zip(op.results, last.operand_values(), strict=False))
        for value, inner in returned:
            self._pass(inner, value)
        kept = dict(self.renames.maps[0])
        self.renames = before
        for value, inner in returned:
            if not names.is_logical(inner):
                self.renames[f"%{value.name}"] = kept.get(f"%{inner.name}", f"%{inner.name}")

    def _pass(self, value: Value, to: Value) -> None:
        if names.is_logical(value):
            if value not in self.low.known:
                raise refuse(f"%{value.name} comes from where no registers are")
            self.low.known[to] = self.low.known[value]
        else:
            number = self._number(value)
            self.low.known[to] = number
            self.renames[f"%{to.name}"] = number.name

    # -- loops and branches -----------------------------------------------------------------------

    def _control(self, op: Operation) -> None:
        if not op.regions:
            raise refuse(f"{op.name} of logical values")
        if any(len(region.blocks) > 1 for region in op.regions):
            raise refuse("branches between blocks are not written with registers")
        carries = [v for v in (*op.results, *_starts(op)) if names.is_logical(v)]
        if not carries:
            self._around(op)
        elif op.has("counted"):
            self._loop(op)
        elif op.has("branch") and op.name == "scf.if":
            self._branch(op)
        else:
            raise refuse(f"{op.name} with logical values")

    def _around(self, op: Operation) -> None:
        """Control flow that hands on no logical value: as it is, around new bodies."""
        self._named_head(op)
        control = Control(op, copied(op, self.renamed, inside=False), is_loop=op.has("loop"))
        for region in op.regions:
            body: list[Node] = []
            with self._inside(body):
                self.walk(region.blocks[0].run)
                self._last(region.blocks[0])
            control.bodies.append(body)
        self.out.body.append(control)

    def _named_head(self, op: Operation) -> None:
        if not self.inlined:
            return
        own = [*op.results, *(v for r in op.regions for b in r.blocks for v in b.values)]
        for value in own:
            self.renames[f"%{value.name.partition('#')[0]}"] = self.out.name()

    def _last(self, block: Block) -> None:
        """Copy what ends a body, if it hands on numbers."""
        last = block.ops[-1] if block.ops else None
        if last is not None and last.has("yields") and last.operand_values():
            uses = tuple(self._number(v) for v in last.operand_values())
            built = copied(last, self.renamed)
            self.out.body.append(Instruction("", built, uses, (), last))

    @contextmanager
    def _inside(self, body: list[Node]) -> Iterator[None]:
        before = self.renames
        self.renames = before.new_child()
        with self.out.inside(body):
            yield
        self.renames = before

    def _loop(self, op: Operation) -> None:
        block = op.regions[0].blocks[0]
        variable, carried = block.values[0], block.values[1:]
        starts = [
            r for v, c in zip(_starts(op), carried, strict=True) if v for r in self._taken(v, c)
        ]
        bounds = [self._bound(op, n) for n in ("lower", "upper", "step")]
        counter = self.out.register(str(variable.type))
        body: list[Node] = []
        with self._inside(body):
            self._called(variable, counter)
            arguments = [r for v in carried for r in self._entered(v)]
            self.walk(block.run)
            yields = self._yields(block, op.results)
        results = self._results(op)
        b = Builder()
        carried_in = [(a, s.name) for a, s in zip(arguments, starts, strict=True)]
        with b.loop(counter.name, bounds, carried_in, [r.name for r in results]):
            pass
        self.out.body.append(Control(
            op, b.ops[0], [body], (), tuple(starts), tuple(arguments), [yields], tuple(results),
            True,
        ))  # fmt: skip

    def _bound(self, op: Operation, name: str) -> str:
        found = op.bound[name]
        return self._number(found.value).name if found.value is not None else str(found.const)

    def _called(self, value: Value, register: Register) -> None:
        self.low.known[value] = register
        self.renames[f"%{value.name}"] = register.name

    def _entered(self, value: Value) -> list[Register]:
        if names.is_logical(value):
            return self._fresh(value)
        made = self.out.register(str(value.type))
        self._called(value, made)
        return [made]

    def _yields(self, block: Block, results: Sequence[Value]) -> tuple[Register, ...]:
        last = block.ops[-1] if block.ops else None
        values = last.operand_values() if last is not None and last.has("yields") else []
        found = [r for v, like in zip(values, results, strict=True) for r in self._taken(v, like)]
        built = Builder().typed("scf.yield", found)
        self.out.body.append(Instruction("", built, tuple(found), (), last))
        return tuple(found)

    def _results(self, op: Operation) -> list[Register]:
        return [r for v in op.results for r in self._entered(v)]

    def _branch(self, op: Operation) -> None:
        bodies: list[list[Node]] = []
        yields = []
        for region in op.regions:
            body: list[Node] = []
            with self._inside(body):
                self.walk(region.blocks[0].run)
                yields.append(self._yields(region.blocks[0], op.results))
            bodies.append(body)
        condition = self._bound(op, "condition")
        results = self._results(op)
        b = Builder()
        built = b.branch(condition, results)
        for _ in bodies:
            with b.region(built):
                pass
        self.out.body.append(Control(op, built, bodies, yields=yields, results=tuple(results)))


def _starts(op: Operation) -> list[Value | None]:
    return [o.value for o in op.bound.get("init", ()) or ()]


def _is_mixed(op: Operation) -> bool:
    """True for control flow with logical operations, or calls, inside."""
    return bool(op.regions) and any(
        names.is_operation(o) or any(map(names.is_logical, o.operand_values()))
        for o in op.walk()[1:]
    )


def mask_forms(ops: Sequence[Operation], layouts: Layouts) -> dict[Value, MaskForm]:
    """Return for each mask the layout and lane width of the first vector that it goes with."""
    found: dict[Value, MaskForm] = {}
    for op in ops:
        vectors = [v for v in (*op.operand_values(), *op.results) if names.is_vector(v)]
        for value in op.operand_values():
            if isinstance(value.type, VirtualMaskType) and vectors and value not in found:
                form = layouts.of(vectors[0])
                lanes = names.lanes_of(vectors[0])
                if lanes == value.type.lanes:
                    found[value] = (form, names.bits_of(vectors[0]))
    return _carried_alike(ops, found)


def _carried_alike(ops: Sequence[Operation], found: dict[Value, MaskForm]) -> dict[Value, MaskForm]:
    """A loop hands on each mask in one form: its argument's, else its result's."""
    for op in ops:
        if not op.regions or not any(isinstance(v.type, VirtualMaskType) for v in op.results):
            continue
        shift = 1 if op.has("counted") else 0
        arguments = op.regions[0].blocks[0].values[shift:] if op.has("loop") else []
        for k, value in enumerate(op.results):
            if not isinstance(value.type, VirtualMaskType):
                continue
            mine = arguments[k] if k < len(arguments) else value
            form = found.get(mine) or found.get(value) or (CONTIGUOUS, 32)
            found[mine] = found[value] = form
    return found
