"""From where transfers of global memory come: L2, or HBM, whose bandwidth all cores share.

What a core reads for the first time comes from HBM, and so does what it reads again after more than
L2 holds. In a loop in which a window stays where it is, only the first of N rounds reads HBM: a
transfer of it takes 1/N of its bytes from there, and the rest from L2. So every execution of an
operation takes the same time, the mean of all of them. What the program wrote before is in L2 if it
fits. What is written goes on to HBM where it is more than fits.

Each core has the HBM bandwidth of the chip divided by the cores of its kind that run at the same
time. Bytes that several cores read count for each of them: L2 is filled while they wait. Where the
cores together ask for less, nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from math import gcd, inf, prod
from typing import Any

from ptosim.engine.core.bound import DecodedProgram, Inst
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import ViewType
from ptosim.ground.isa.costs import GIB, CostTable
from ptosim.language.same_blocks import (
    Read,
    buffer_name,
    global_reads,
    global_windows,
    loops_around,
    passes_by_l2,
)
from ptosim.language.toolchains import BLOCK, told_by
from ptosim.machine.affine import now
from ptosim.machine.core import Core, Machine
from ptosim.machine.values import GmView
from ptosim.time.chip import at_once
from ptosim.time.laws.cost import SHARED, Cost, Stage
from ptosim.time.laws.shapes import ALIGNED

MIB = 1 << 20


class SharedMemory:
    """L2 and HBM of a launch. `copies`: blocks like each timed one that run at the same time."""

    def __init__(
        self,
        program: DecodedProgram,
        resolved: ResolvedModule,
        machine: Machine,
        table: CostTable,
        copies: int = 1,
    ) -> None:
        self.program = program
        self.resolved = resolved
        self.machine = machine
        self.table = table
        self.copies = copies
        self._parts: dict[tuple[int, int], float] = {}
        self._costs: dict[tuple[int, float, float], Cost] = {}
        self._fitting: dict[tuple[int, Operation], bool] = {}
        self._kept: list[Cost] = []  # costs by identity have to live on
        self._begins: dict[int, int] = {}
        hbm, l2 = table.rows.get("machine.fill"), table.rows.get("machine.l2")
        # A chip that says nothing of them has as much as is asked for.
        self.hbm = hbm["gib_per_second"] * GIB / (table.mhz * 1e6) if hbm else inf
        self.room = l2["mib"] * MIB if l2 else inf

    @property
    def is_shared(self) -> bool:
        """True if transfers took longer because cores share HBM."""
        return bool(self._costs)

    def cost(self, core: Core, inst: Inst, cost: Cost) -> Cost:
        """Return the cost of an execution: with what its bytes from HBM take longer, if they do."""
        moved = cost.moved
        if moved is None or not cost.busy or moved.bytes / cost.busy <= self._share(core):
            return cost
        place = core.index, inst.pc
        part = self._parts.get(place)
        if part is None:
            part = self._parts[place] = self._part(core, inst, cost)
        share = self._share(core)
        key = id(cost), part, share
        found = self._costs.get(key)
        if found is None:
            self._kept.append(cost)
            found = self._costs[key] = self._slower(cost, part, share)
        return found

    def _slower(self, cost: Cost, part: float, share: float) -> Cost:
        moved = cost.moved
        assert moved is not None
        more = part * (moved.bytes / share - cost.busy)
        if round(more) <= 0:
            return cost
        row = self.table["machine.fill"]
        name = SHARED[moved.direction == "write"]
        return cost.longer(Stage(name, more, 0, row.confidence))

    # -- places ------------------------------------------------------------------------------------

    def begins(self, core: Core, inst: Inst) -> int:
        """Return what the addresses at which the windows of an operation begin are a multiple of,
        whatever the block and the round; buffers begin at one of `ALIGNED` bytes."""
        found = self._begins.get(inst.pc)
        if found is None:
            op = inst.operation
            windows = {w for writes in (False, True) for w in global_windows(op, writes=writes)}
            multiples = Multiples(self._counters, lambda value: self._value(core, value))
            found = self._begins[inst.pc] = min(map(multiples.of_window, windows), default=ALIGNED)
        return found

    @cached_property
    def _counters(self) -> Mapping[Value, Operation]:
        ops = (op for f in self.resolved.functions.values() for op in f.ops)
        counted = (op for op in ops if op.has("counted") and op.regions[0].blocks[0].values)
        return {op.regions[0].blocks[0].values[0]: op for op in counted}

    # -- cores -------------------------------------------------------------------------------------

    def _share(self, core: Core) -> float:
        """Bytes of HBM a cycle that a core has."""
        return self.hbm / self._active(core)

    def _active(self, core: Core) -> int:
        """How many cores of the kind of one run at the same time as it, in its wave of blocks."""
        room, blocks, kinds = self._launch
        before = core.cluster.block // room * room
        return min(blocks - before, room) * kinds.count(core.kind)

    @cached_property
    def _launch(self) -> tuple[int, int, list[str]]:
        """The blocks that run at the same time, those of a device, the kinds of cores of each."""
        cores = self.machine.cores
        kinds = [c.kind for c in cores if c.cluster is cores[0].cluster]
        pipes = {inst.pipe for inst in self.program.insts}
        ranks = 1 + max(core.rank for core in cores)
        blocks = len(cores) // len(kinds) // ranks * self.copies
        return at_once(self.machine.definition.cores, kinds, pipes), blocks, kinds

    # -- what comes from where ---------------------------------------------------------------------

    @cached_property
    def _reads(self) -> Mapping[Operation, Read]:
        return global_reads(self.resolved.functions.values())

    @cached_property
    def _held(self) -> Mapping[Operation, Read]:
        return {op: read for op, read in self._reads.items() if not passes_by_l2(op)}

    def _part(self, core: Core, inst: Inst, cost: Cost) -> float:
        """Return which part of its bytes an operation has from HBM, or hands on to it."""
        op = inst.operation
        moved = cost.moved
        assert moved is not None
        if moved.direction == "write":
            rounds = prod(self._rounds(core, loop) or 1 for loop in loops_around(op))
            return float(moved.bytes * rounds * self._active(core) > self.room)
        read = self._reads.get(op)
        if read is None or passes_by_l2(op):
            return 1.0
        size = self._size(core, read)
        if (read.is_later or read.is_made) and (size or 0) <= self.room:
            return 0.0
        part = 1.0
        for loop in read.loops:
            rounds = self._rounds(core, loop)
            if loop in read.stays and rounds and self._fits(core, loop):
                part /= rounds
        return part

    def _fits(self, core: Core, loop: Operation) -> bool:
        """True if L2 holds what a round of a loop reads, as far as that is known."""
        key = core.index, loop
        if key not in self._fitting:
            self._fitting[key] = self._read_in(core, loop) <= self.room
        return self._fitting[key]

    def _read_in(self, core: Core, loop: Operation) -> int:
        """Bytes that all cores of a kind read in a round of a loop."""
        total = 0
        for reads in _working_set(loop, self._held).values():
            whole = self._size(core, reads[0][0])
            touched = sum(self._touched(core, read, inside) for read, inside in reads)
            total += touched if whole is None else min(touched, whole)
        return total

    def _touched(self, core: Core, read: Read, inside: Iterable[Operation]) -> int:
        """Bytes that all cores of a kind read in some loops."""
        type_ = read.window.type
        if not isinstance(type_, ViewType) or not all(isinstance(d, int) for d in type_.dims):
            return self._size(core, read) or 0
        rounds = prod(self._rounds(core, loop) or 1 for loop in inside)
        bits = prod(int(d) for d in type_.dims) * type_.elem.bits  # type: ignore[call-overload]
        return bits // 8 * rounds * self._active(core)

    def _size(self, core: Core, read: Read) -> int | None:
        """Bytes of the view that a window is cut out of; None if that is not known."""
        value = self._value(core, read.base)
        if not isinstance(value, GmView):
            return None
        sizes = [now(size) for size in value.spec.sizes]
        known = all(size.__class__ is int for size in sizes)
        return prod(sizes) * value.spec.dtype.bits // 8 if known else None

    def _rounds(self, core: Core, loop: Operation) -> int | None:
        """Return the rounds of a loop; None where they are not known, or not yet."""
        if not loop.has("counted"):
            return None
        found = []
        for name in ("lower", "upper", "step"):
            operand = loop.bound[name]
            found.append(
                operand.const if operand.value is None else self._value(core, operand.value)
            )
        if any(value.__class__ is not int for value in found):
            return None
        lower, upper, step = found
        return max(-((lower - upper) // max(step, 1)), 1)

    def _value(self, core: Core, value: Any) -> Any:
        if value.const is not None:
            return value.const
        slot = self.program.slots.get(value)
        return now(core.slots[slot]) if slot is not None else None


class Multiples:
    """What numbers of a program are a multiple of, in every block and round: 0 is a multiple of
    everything (0). Followed through the text to constants, arguments, blocks and counters; None of
    what data decide."""

    def __init__(
        self, counters: Mapping[Value, Operation], value_of: Callable[[Value], Any]
    ) -> None:
        self.counters = counters
        self.value_of = value_of
        self.known: dict[Value, int | None] = {}

    def of_window(self, window: Value) -> int:
        """Of a window or a pointer: its first address in bytes, as a power of two; `ALIGNED` where
        data decide it."""
        terms: list[int | None] = []
        value: Value | None = window
        while value is not None and not value.is_argument:
            op = value.owner
            if op is None:
                return ALIGNED
            found: list[int | None] = []
            if op.has("window"):
                steps = _strides(op)
                offsets = op.bound.get("offsets") or ()
                if steps is None or len(steps) != len(offsets):
                    return ALIGNED
                found = [
                    _product(self.of(o), self.of(s)) for o, s in zip(offsets, steps, strict=True)
                ]
                source = op.bound["source"]
            elif op.has("view") or op.has("points_into"):
                if "offset" in op.bound:
                    found.append(self.of(op.bound["offset"]))
                source = op.bound.get("ptr") or op.bound["src"]
            else:
                return ALIGNED
            bits = getattr(getattr(value.type, "elem", None), "bits", 8)
            terms += [term and max(term * bits // 8, 1) for term in found]
            value = source.value
            if value is not None and not hasattr(value.type, "elem"):  # an address is a number
                terms.append(self.of(value))
                break
        return ALIGNED if None in terms else gcd(ALIGNED, *(term or 0 for term in terms))

    def of(self, operand: Any) -> int | None:
        """Of an operand of the text."""
        value = operand.value if isinstance(operand, Operand) else operand
        const = operand.const if value is None and isinstance(operand, Operand) else None
        const = const if value is None else value.const
        if value is None or const is not None:
            return abs(const) if isinstance(const, int) else None
        if value not in self.known:
            self.known[value] = None  # a value that follows from itself is not followed
            self.known[value] = self._of(value)
        return self.known[value]

    def _of(self, value: Value) -> int | None:
        op = value.owner
        if told_by(value) == BLOCK:
            return 1
        if value in self.counters:
            loop = self.counters[value]
            return _common(self.of(loop.bound["lower"]), self.of(loop.bound["step"]))
        if op is None or value.is_argument:  # of the launch
            found = self.value_of(value)
            return abs(found) if found.__class__ is int else None
        if op.has("tells_core"):
            return 1
        rule = _MULTIPLES.get(op.name.rpartition(".")[2])
        if rule is None or op.regions or op.name.partition(".")[0] not in ("arith", "index"):
            return None
        return rule(*(self.of(o) for _, o in op.operands()))


def _strides(window: Operation) -> Any:
    """The strides of the view that a window is cut out of."""
    op: Operation | None = window
    while op is not None and op.has("window"):
        source = op.bound["source"].value
        op = source.owner if source is not None else None
    return (op.bound.get("strides") or ()) if op is not None and op.has("view") else None


def _common(*numbers: int | None) -> int | None:
    return None if None in numbers else gcd(*(n for n in numbers if n is not None))


def _product(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return None if a is b else (a or b)
    return a * b


def _quotient(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return None
    return a // b if b and a % b == 0 else 1


_MULTIPLES: dict[str, Callable[..., int | None]] = {
    "addi": _common, "subi": _common, "add": _common, "sub": _common,
    "muli": _product, "mul": _product, "minsi": _common, "maxsi": _common, "minui": _common,
    "maxui": _common, "remsi": _common, "remui": _common, "divsi": _quotient, "divui": _quotient,
    "floordivsi": _quotient, "select": lambda _, a, b: _common(a, b), "index_cast": _common,
    "index_castui": _common, "extsi": _common, "extui": _common, "trunci": _common,
}  # fmt: skip


def _working_set(
    loop: Operation, reads: Mapping[Operation, Read]
) -> dict[Any, list[tuple[Read, tuple[Operation, ...]]]]:
    """Return what a round of a loop reads, by buffer: the reads, each with the loops inside in
    which its window moves."""
    found: dict[Any, list[tuple[Read, tuple[Operation, ...]]]] = {}
    for read in reads.values():
        if loop not in read.loops or read.is_later:
            continue
        inside = read.loops[: read.loops.index(loop)]
        moving = tuple(each for each in inside if each not in read.stays)
        found.setdefault(buffer_name(read.root), []).append((read, moving))
    return found
