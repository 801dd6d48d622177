"""How often each instruction of a vector region is executed, told from its control flow alone.

Where a region has only loops whose bounds it does not compute itself, the bounds say everything;
otherwise its scalar instructions are executed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ptosim.engine.core.bound import DecodedProgram, Inst, Kind
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.types import PtrType, VRegType
from ptosim.ground.records import NamedTuple
from ptosim.ground.source import Source
from ptosim.machine.affine import NeedsValue
from ptosim.ops.lower.logical.physical import (
    VIEWS,
    Control,
    Instruction,
    Node,
    Register,
    Scope,
    instructions,
)
from ptosim.ops.lower.logical.program import Pressure, pressure
from ptosim.time.laws.casts import cast_class
from ptosim.time.laws.shapes import Registers, VectorStep, VectorWork

# Vector regions of logical operations: what they take is what the instructions take that they
# become. Nothing here executes those instructions.

Times = Callable[[Operation], int]


class Entry(NamedTuple):
    """How often a loop is entered, and whether it counts elements: then it goes through a run of
    memory (rows are counted one by one)."""

    rows: int = 1
    run: bool = False


ONCE = Entry()


class LogicalRegion:
    """The instructions of a region, each with the operation that says how often it is executed.
    `limits` are the registers of the machine, by kind."""

    def __init__(self, scope: Scope, source: Source, limits: dict[str, int]) -> None:
        self.scope = scope
        self.source = source
        self.limits = limits
        self.pressure: Pressure = pressure(scope.nodes, limits)
        self.steps: list[VectorStep] = []
        self.counted: list[Operation | None] = []
        self._makers: dict[Register, int] = {}
        self._around: list[Operation | None] = []  # the innermost loop of each step
        self._loops: list[Operation] = []
        self._read(scope.nodes, ())
        self._spill()

    @property
    def registers(self) -> Registers:
        """The peak of each kind of register, what the machine has, and what does not fit."""
        found = self.pressure
        return Registers(
            found.peak["vector"], found.peak["mask"], self.limits["vector"], self.limits["mask"],
            sum(map(len, found.spilled.values())),
        )  # fmt: skip

    @property
    def is_exact(self) -> bool:
        """True if every operation has instructions of its own."""
        return not self.scope.estimated

    def work(self, times: Times, rows: Mapping[Operation, Entry]) -> tuple[VectorStep, ...]:
        """Return the steps with their executions, and how often their loops are entered; constants
        are made once."""
        return tuple(
            step._replace(
                times=1 if op is None else times(op),
                **(ONCE if around is None else rows.get(around, ONCE))._asdict(),
            )
            for step, op, around in zip(self.steps, self.counted, self._around, strict=True)
        )

    def _read(self, nodes: list[Node], loops: tuple[int, ...]) -> None:
        for node in nodes:
            if isinstance(node, Instruction):
                self._line(node, loops)
            else:
                self._control(node, loops)

    def _line(self, line: Instruction, loops: tuple[int, ...]) -> None:
        if not line.name or line.name in VIEWS or line.name == "addptr":
            for made in line.results:
                if made.alias is not None and made.whole in self._makers:
                    self._makers[made] = self._makers[made.whole]
            return
        op = line.op
        where = self.source.line_column(op.start)[0] if op is not None else 0
        sources = {self._makers[r.whole] for r in line.uses if r.whole in self._makers}
        here = () if line.hoisted else loops
        step = VectorStep(
            line.name, line.bits, 0, tuple(sorted(sources)), where, here[-1] if here else -1,
            integer=line.integer, of=op.name.removeprefix("pto.") if op is not None else "",
            outer=here[0] if here else -1,
        )  # fmt: skip
        self._around.append(self._loops[here[-1]] if here else None)
        self._makers.update(dict.fromkeys((r.whole for r in line.results), len(self.steps)))
        self.steps.append(step)
        self.counted.append(None if line.hoisted else line.site or op)

    def _control(self, node: Control, loops: tuple[int, ...]) -> None:
        if node.is_loop:
            loops = (*loops, len(self._loops))
            self._loops.append(node.op)
        first = len(self.steps)
        for body in node.bodies:
            self._read(body, loops)
        if node.is_loop and node.yields:
            self._carry(node, first)
        for given in node.yields[-1:]:
            for result, register in zip(node.results, given, strict=True):
                if register.whole in self._makers:
                    self._makers[result] = self._makers[register.whole]

    def _carry(self, node: Control, first: int) -> None:
        """Say which instruction of the iteration before makes what a loop carries."""
        made = {
            argument: self._makers[given.whole]
            for argument, given in zip(node.arguments, node.yields[0], strict=True)
            if given.whole in self._makers
        }
        number = first
        for line in instructions(node.bodies[0]):
            if number >= len(self.steps):
                break
            if not line.name or line.name in VIEWS or line.name == "addptr":
                continue
            carried = {made[r.whole] for r in line.uses if r.whole in made}
            self.steps[number] = self.steps[number]._replace(carried=tuple(sorted(carried)))
            number += 1

    def _spill(self) -> None:
        """A store for each register that does not fit, and a load for each of its readers."""
        for kind, lives in self.pressure.spilled.items():
            store, load = ("vsts", "vlds") if kind == "vector" else ("psts", "plds")
            for life in lives:
                writer = life.writer.op if life.writer is not None else None
                self._add(store, writer)
                for reader in life.readers:
                    self._add(load, reader.site or reader.op)

    def _add(self, name: str, op: Operation | None) -> None:
        where = self.source.line_column(op.start)[0] if op is not None else 0
        self.steps.append(VectorStep(name, 32, 0, (), where, -1, of="spill"))
        self._around.append(None)
        self.counted.append(op)


MAX_STEPS = 10_000_000


class RegionPlan:
    """What is known of a vector region before it is executed."""

    def __init__(
        self,
        program: DecodedProgram,
        region: Inst,
        source: Source,
        logical: LogicalRegion | None = None,
    ) -> None:
        assert region.op is not None
        self.logical = logical
        self.program = program
        self.region = region
        self.insts = [
            i
            for i in program.insts[region.pc + 1 : region.end]
            if i.kind not in (Kind.SCALAR, Kind.BRANCH)
        ]
        self._loops = dict(_walk(region.op, ()))
        self._steps = _steps_of(self.insts, self._loops, source)
        self._bounds = _bounds(program, region.op)
        self._known: dict[tuple[Any, ...], VectorWork] = {}

    @property
    def is_counted(self) -> bool:
        """True if the bounds of its loops say how often everything is executed."""
        return self._bounds is not None

    def work(self, slots: list[Any]) -> VectorWork:
        """Return what the region executes on these values. Where control flow depends on vector
        data, every instruction counts once and the result says that it is not exact."""
        if self._bounds is None:
            counts, exact = _executed(self.program, self.region, slots)
            return self._made(counts, exact, {})
        values = tuple(slots[s] for trio in self._bounds.values() for s in trio)
        work = self._known.get(values)
        if work is None:
            try:
                work = self._made(*self._counted(slots))
            except (TypeError, NeedsValue):
                work = self._made(Counter(i.pc for i in self.insts), False, {})
            self._known[values] = work
        return work

    def _made(self, counts: Counter[int], exact: bool, rows: dict[Operation, Entry]) -> VectorWork:
        """The work of so many executions of each instruction; `rows` says how often each loop is
        entered, where that is known."""
        if self.logical is not None:
            steps = self.logical.work(self._times_of(counts), rows)
            return VectorWork(steps, exact and self.logical.is_exact, self.logical.registers)
        steps = tuple(
            step._replace(times=counts[inst.pc], **self._entry(inst, rows)._asdict())
            for inst, step in zip(self.insts, self._steps, strict=True)
        )
        return VectorWork(steps, exact)

    def _entry(self, inst: Inst, rows: dict[Operation, Entry]) -> Entry:
        around = self._loops.get(inst.operation, ())
        return rows.get(around[-1], ONCE) if around else ONCE

    def _times_of(self, counts: Counter[int]) -> Callable[[Operation], int]:
        """Return how often an operation is executed, from the counts of instructions."""
        found: Counter[Operation] = Counter()
        for inst in self.insts:
            found[inst.operation] += counts[inst.pc]
        trips: Counter[Operation] = Counter()
        for inst in self.insts:
            for loop in self._loops.get(inst.operation, ()):
                trips[loop] = max(trips[loop], found[inst.operation])

        def times(op: Operation) -> int:
            if op in found:
                return found[op]
            around = self._loops.get(op, ())
            return trips[around[-1]] if around else 1

        return times

    def _counted(self, slots: list[Any]) -> tuple[Counter[int], bool, dict[Operation, Entry]]:
        """Executions from the trips of the loops around each instruction, and how often each loop
        is entered."""
        assert self._bounds is not None
        trips = {loop: _trips(*(slots[s] for s in b)) for loop, b in self._bounds.items()}
        counts: Counter[int] = Counter()
        rows: dict[Operation, Entry] = {}
        for inst in self.insts:
            times = 1
            for loop in self._loops.get(inst.operation, ()):  # none of a function that it calls
                rows[loop] = Entry(times, slots[self._bounds[loop][-1]] > 1)
                times *= trips[loop]
            counts[inst.pc] = times
        return counts, True, rows


def _trips(lower: int, upper: int, step: int) -> int:
    return max(-((lower - upper) // step), 0) if step > 0 else 0


def _walk(op: Operation, loops: tuple[Operation, ...]) -> Iterator[tuple[Operation, tuple]]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield inner, loops
                yield from _walk(inner, (*loops, inner) if inner.has("counted") else loops)


def _bounds(program: DecodedProgram, region: Operation) -> dict[Operation, tuple] | None:
    """The slots of the bounds of each loop; None if the region computes one itself or has other
    control flow."""
    made: set[Value] = set()
    found: dict[Operation, tuple] = {}
    for op, _ in _walk(region, ()):
        if op.regions and not op.has("counted"):
            return None
        if not op.has("constant"):
            made.update(op.results)
        for inner in op.regions:
            for block in inner.blocks:
                made.update(block.values)
        if op.has("counted"):
            operands = [op.bound[name] for name in ("lower", "upper", "step")]
            values = [getattr(o, "value", None) for o in operands]
            if any(v is None or v not in program.slots or v in made for v in values):
                return None
            found[op] = tuple(program.slots[v] for v in values if v is not None)
    return found


def _executed(program: DecodedProgram, region: Inst, slots: list[Any]) -> tuple[Counter[int], bool]:
    """Executions of each instruction, from executing the scalar ones."""
    values = list(slots)
    counts: Counter[int] = Counter()
    pc = region.pc + 1
    try:
        for _ in range(MAX_STEPS):
            if pc == region.end:
                break
            inst = program.insts[pc]
            if inst.kind is Kind.BRANCH:
                pc = inst.run(values)
                continue
            if inst.kind is Kind.SCALAR:
                inst.run(values)
            else:
                counts[pc] += 1
            pc += 1
    except (TypeError, NeedsValue):
        insts = program.insts[region.pc + 1 : region.end]
        return Counter(i.pc for i in insts if i.kind is Kind.VECTOR), False
    return counts, True


# -- dependences ----------------------------------------------------------------------------------


def _steps_of(
    insts: Sequence[Inst], loops: dict[Any, tuple[Operation, ...]], source: Source
) -> list[VectorStep]:
    """The instructions with what they take from each other, not yet counted."""
    makers: dict[Any, int] = {}
    numbers: dict[Operation, int] = {}
    yielded = {
        r: v for op in dict.fromkeys(o for a in loops.values() for o in a) for r, v in _results(op)
    }
    steps = []
    for number, inst in enumerate(insts):
        op = inst.op
        assert op is not None
        around = loops.get(op, ())
        outer = numbers.setdefault(around[0], len(numbers)) if around else -1
        loop = numbers.setdefault(around[-1], len(numbers)) if around else -1
        given = [yielded.get(v, v) for v in op.operand_values()]
        sources = tuple(sorted({makers[v] for v in given if v in makers}))
        name = op.name.removeprefix("pto.")
        line, _ = source.line_column(op.start)
        step = VectorStep(
            name, _bits(op), 0, sources, line, loop, integer=_of_integers(op), outer=outer,
            cast=_cast(op) if name == "vcvt" else "",
        )  # fmt: skip
        steps.append(step)
        # An updated pointer is an address: it is there at issue, no result to wait for.
        made = [r for r in op.results if not isinstance(r.type, PtrType)]
        makers.update(dict.fromkeys(made, number))
    carried = _carried(loops, makers)
    ops = [inst.op for inst in insts if inst.op is not None]
    return [
        step._replace(
            carried=tuple(sorted({carried[v] for v in op.operand_values() if v in carried}))
        )
        for op, step in zip(ops, steps, strict=True)
    ]


def _results(loop: Operation) -> Iterator[tuple[Value, Value]]:
    """Each result of a loop, and what its last iteration yields for it."""
    if not loop.has("counted"):
        return
    block = loop.regions[0].blocks[0]
    last = block.ops[-1] if block.ops else None
    if last is None or not last.has("yields"):
        return
    for result, operand in zip(loop.results, last.bound["values"], strict=False):
        if operand.value is not None:
            yield result, operand.value


def _carried(loops: dict[Any, tuple[Operation, ...]], makers: dict[Any, int]) -> dict[Value, int]:
    """The instruction of the iteration before that makes each value which a loop carries."""
    found: dict[Value, int] = {}
    for op in loops:
        if not op.has("counted"):
            continue
        block = op.regions[0].blocks[0]
        last = block.ops[-1] if block.ops else None
        if last is None or not last.has("yields"):
            continue
        for value, operand in zip(block.values[1:], last.bound["values"], strict=False):
            if operand.value in makers:
                found[value] = makers[operand.value]
    return found


def _cast(op: Operation) -> str:
    """The class of a conversion of registers; nothing if there are not one to and one from."""
    given = [v.type.elem for v in op.operand_values() if isinstance(v.type, VRegType)]
    made = [v.type.elem for v in op.results if isinstance(v.type, VRegType)]
    return cast_class(given[0], made[0]) if len(given) == len(made) == 1 else ""


def _of_integers(op: Operation) -> bool:
    """True if every register of an instruction has lanes of integers."""
    types = [v.type for v in (*op.results, *op.operand_values())]
    return all(t.elem.is_integer for t in types if isinstance(t, VRegType))


def _bits(op: Operation) -> int:
    """Bits of the widest element among the vector results and operands."""
    types = [v.type for v in (*op.results, *op.operand_values())]
    return max((t.elem.bits for t in types if isinstance(t, VRegType)), default=32)
