"""What shares bytes and must not. Operands of one operation: a result in the place of a source that
is still read, scratch over an operand, scratch of the library over a tile. FIFOs of two blocks:
their slots in global memory.

An element-wise operation may write its result over a source exactly. Where the two meet in part,
or where the library writes before it has read, what comes out is undefined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Inst, Kind
from ptosim.engine.watch.access import READS, SCALAR, Access, Agent
from ptosim.engine.watch.marks import Marks
from ptosim.engine.watch.report import Reporter, hidden_note
from ptosim.engine.watch.shadow import Entry, Footprint
from ptosim.ground.diagnostics.model import Label
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import REGISTER_BYTES
from ptosim.ground.isa.schema import Role
from ptosim.ground.isa.targets import Passes
from ptosim.ground.records import NamedTuple, replace
from ptosim.language.toolchains import block_has_own_slots
from ptosim.machine.core import Core
from ptosim.machine.effects.account import HIDDEN
from ptosim.machine.effects.storage import access_entry, role_of, uses_scratch, written_name
from ptosim.machine.effects.strided import Strided
from ptosim.machine.tile import TileRef

# Whether an operation that works in steps writes bytes that a later step of it still has to read.
#
# A step is a row, and inside a row a repeat: 256 bytes of the wider type, ascending. A reduction
# of columns writes its one row again with each row that it reads. A conversion into fewer bits
# does the last columns of all rows after the rest of all rows (pto-isa headers of A5).


class _Steps(NamedTuple):
    """Rows and first columns of the steps in order, and columns of a step."""

    rows: np.ndarray
    cols: np.ndarray
    width: int
    total: int


def overwrites_early(op: Operation, dst: Any, src: Any) -> bool | None:
    """True if a step writes bytes of `dst` that a later one reads as `src`; None where nothing is
    known of the steps."""
    if not op.has("by_rows") or not isinstance(dst, TileRef) or not isinstance(src, TileRef):
        return None
    sizes = [r.type.dtype.bits // 8 for r in (dst, src)]
    if 0 in sizes or None in (_pitch(dst), _pitch(src)):
        return None
    same = [(r.addr, _pitch(r), size) for r, size in zip((dst, src), sizes, strict=True)]
    if same[0] == same[1] and not src.v_row > dst.v_row:
        return False
    rows = max(dst.v_row, src.v_row)
    steps = _steps(op, dst, rows, max(sizes), narrows=sizes[0] < sizes[1])
    return _meets_earlier(_bytes(dst, steps, sizes[0]), _bytes(src, steps, sizes[1]))


def _pitch(ref: TileRef) -> int | None:
    """Elements from one row to the next; None for a tile that is not laid out by rows."""
    if ref.type.slayout != "none_box":
        return None
    if ref.type.blayout == "row_major":
        return ref.type.cols
    return 1 if ref.type.cols == 1 else None  # a column is a row for each element


def _steps(op: Operation, dst: TileRef, count: int, size: int, *, narrows: bool) -> _Steps:
    width = REGISTER_BYTES // size
    starts = np.arange(0, dst.v_col, width)
    rows, cols = np.repeat(np.arange(count), len(starts)), np.tile(starts, count)
    if op.has("tails_last") and narrows and dst.v_col % width:
        order = np.argsort(cols + width > dst.v_col, kind="stable")
        rows, cols = rows[order], cols[order]
    return _Steps(rows, cols, width, dst.v_col)


def _bytes(ref: TileRef, steps: _Steps, size: int) -> tuple[np.ndarray, np.ndarray]:
    """First and last bytes of each step; one row, or fewer columns, are a broadcast."""
    rows = steps.rows if ref.v_row > 1 else 0 * steps.rows
    line = ref.addr + rows * ((_pitch(ref) or 0) * size)
    if ref.v_col != steps.total:
        return line, line + ref.v_col * size
    ends = np.minimum(steps.cols + steps.width, steps.total)
    return line + steps.cols * size, line + ends * size


def _meets_earlier(
    written: tuple[np.ndarray, np.ndarray], read: tuple[np.ndarray, np.ndarray]
) -> bool:
    order = np.argsort(written[0], kind="stable")
    starts, ends = written[0][order], written[1][order]
    first = np.searchsorted(ends, read[0], "right")
    last = np.searchsorted(starts, read[1], "left")
    now = np.arange(len(read[0]))
    for more in range(int(max((last - first).max(initial=0), 0))):
        at = np.minimum(first + more, len(order) - 1)
        if ((first + more < last) & (order[at] < now)).any():
            return True
    return False


class Overlaps:
    """Looks at each binding once; an operation is reported once for each pair of operands."""

    def __init__(self, report: Reporter, target: str) -> None:
        self._report = report
        self._target = target
        self._seen: set[tuple[int, str, tuple[int, int]]] = set()

    def look(self, access: Access, values: Mapping[str, Any]) -> None:
        """Report the operands of a bound operation that share bytes and must not."""
        op = access.inst.operation
        scratch = (p for p, _ in access.spoils if uses_scratch(op, p.name, self._target))
        written = [*access.writes, *scratch]
        every = [*access.reads, *written]
        for number, one in enumerate(written):
            for other in (*access.reads, *written[number + 1 :]):
                if one.name == other.name or not _meet(one, other):
                    continue
                is_read = any(other is read for read in access.reads)
                if not is_read or self._reads_late(op, one, other, values):
                    self._pair(access, op, one, other)
        for hidden, state in access.spoils:
            if state == HIDDEN:
                for other in every:
                    if _meet(hidden, other) and self._is_new(access, hidden.name, other):
                        self._hidden(access, op, hidden, other)

    def _reads_late(
        self, op: Operation, one: Footprint, other: Footprint, values: Mapping[str, Any]
    ) -> bool:
        """False for a source that each step of the operation has read before its bytes are
        written."""
        is_scratch = role_of(op, one.name) is Role.SCRATCH
        if is_scratch or self._must_differ(op, one, other):
            return True
        return overwrites_early(op, values.get(one.name), values.get(other.name)) is not False

    def _pair(self, access: Access, op: Operation, one: Footprint, other: Footprint) -> None:
        is_scratch = Role.SCRATCH in (role_of(op, one.name), role_of(op, other.name))
        exact = one.parts == other.parts and one.shadow is other.shadow
        if exact and not is_scratch and not self._must_differ(op, one, other):
            return
        if not is_scratch and self._may_nest(op, one, other):
            return
        if _says_so_itself(op) or not self._is_new(access, one.name, other):
            return
        self._emit(access, op, one, other, _what(exact, is_scratch))

    def _must_differ(self, op: Operation, one: Footprint, other: Footprint) -> bool:
        entry = access_entry(op, "apart", self._target)
        return entry is not None and {one.name, other.name} <= set(entry["of"].split())

    def _may_nest(self, op: Operation, one: Footprint, other: Footprint) -> bool:
        """True for a smaller result at the beginning of its source, where the library allows it."""
        entry = access_entry(op, "nested", self._target)
        names = set(entry["of"].split()) if entry is not None else set()
        return {one.name, other.name} <= names and one.span[0] == other.span[0]

    def _is_new(self, access: Access, name: str, other: Footprint) -> bool:
        """False for a pair that was reported, and for a source that an operation names twice."""
        key = access.inst.pc, name, other.span
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _emit(
        self, access: Access, op: Operation, one: Footprint, other: Footprint, why: tuple[str, str]
    ) -> None:
        low, high = max(one.span[0], other.span[0]), min(one.span[1], other.span[1])
        names = written_name(op, one.name), written_name(op, other.name)
        what, rule = why
        self._report.sink.report(
            "PTO6401",
            f"'{op.name}' has {one.name} {names[0]} {what} {other.name} {names[1]}: both use "
            f"{one.shadow.name} [{low:#x}, {high:#x})",
            self._report.span(op),
            label=f"{one.name}: {_range(one)}; {other.name}: {_range(other)}",
            notes=(rule,),
            help=f"give {names[0]} storage of its own",
            context={"operands": [one.name, other.name], "bytes": [low, high]},
        )

    def _hidden(self, access: Access, op: Operation, hidden: Footprint, other: Footprint) -> None:
        name = written_name(op, other.name)
        low, high = hidden.span
        self._report.sink.report(
            "PTO7105",
            f"'{op.name}' uses {hidden.shadow.name} [{low:#x}, {high:#x}) as scratch of its "
            f"own, where its operand {other.name} {name} is",
            self._report.span(op),
            label=f"{other.name}: {_range(other)}",
            more=_made(self._report, other),
            notes=(hidden_note(self._report.machine.definition),),
            help=f"place {name} below {low:#x}, or give the operation a `tmp` tile",
            context={"operand": other.name, "bytes": [low, high]},
        )


def _says_so_itself(op: Operation) -> bool:
    """True for operations whose own function reports operands that share bytes."""
    row = op.definition.access if op.definition is not None else {}
    return row.get("reports_overlap", False)


def _meet(one: Footprint, other: Footprint) -> bool:
    """True if two footprints share a byte."""
    if one.shadow is not other.shadow or one.shadow.is_global:
        return False
    (low, high), (start, end) = one.span, other.span
    if low >= end or start >= high:
        return False
    if one.parts == other.parts:
        return True
    one.atoms()
    mine = {id(atom) for atom in other.atoms()}
    return any(id(atom) in mine for atom in one.atoms())


def _what(exact: bool, is_scratch: bool) -> tuple[str, str]:
    if is_scratch:
        return "in the place of", "the library writes its scratch tile before it has read the rest"
    if exact:
        return "in the place of", "the library's code for this operation writes before it has read"
    return (
        "over a part of",
        "a result may replace a source exactly; where they overlap in part, what is read after the "
        "first write is undefined",
    )


def _made(report: Reporter, print_: Footprint) -> tuple[Label, ...]:
    owner: Any = print_.owner
    if owner is None or owner.owner is None:
        return ()
    return (Label(report.span(owner.owner), "placed here"),)


def _range(print_: Footprint) -> str:
    low, high = print_.span
    return f"{print_.shadow.name} [{low:#x}, {high:#x})"


# Slots of FIFOs in global memory: a FIFO orders its two ends, so nothing is noted of their bytes.
# The FIFO of another block must have other bytes.

Slot = tuple[int, int, int]
"""The number of a buffer, the first byte and the one after the last."""


class Slots:
    """The slots that pushes took, each with the last push of every block."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._users: dict[Slot, dict[tuple[int, int], Entry]] = {}
        self._told: set[int] = set()
        self._is_apart = block_has_own_slots(marks.report.resolved.settings.maker)

    def push(self, entry: Entry, agent: Agent, slot: Slot) -> None:
        """A tile is put into a slot; the first time by a block, its bytes are compared with those
        of all others."""
        if self._is_apart:
            return
        cluster, users = entry[2].core.cluster, self._users.setdefault(slot, {})
        block = (cluster.rank, cluster.block)
        is_new = block not in users
        users[block] = entry
        number, low, high = slot
        for other, by in self._users.items() if is_new else ():
            if other[0] != number or other[1] >= high or other[2] <= low:
                continue
            for whose, earlier in by.items():
                if whose != block and not _knows(agent, earlier):
                    self._tell((earlier, other), (entry, slot))

    def _tell(self, *sides: tuple[Entry, Slot]) -> None:
        """Two blocks push to the same bytes, and nothing orders them."""
        pair = [self._stored(*side) for side in sides]
        (first, _), (second, print_) = pair
        one, two = first[2], second[2]
        self._marks.met.add((one.core.index, one.inst.pc, two.core.index, two.inst.pc))
        number = sides[1][1][0]
        if number not in self._told:  # one finding for all slots: the cause is one
            self._told.add(number)
            extent = max(s[1] for _, s in sides), min(s[2] for _, s in sides)
            self._marks.report.race("write", first, second, print_, extent)

    def _stored(self, entry: Entry, slot: Slot) -> tuple[Entry, Footprint]:
        """A push as an access of its slot."""
        core, (number, low, high) = entry[2].core, slot
        shadow = self._marks.shadow(core, number)
        print_ = Footprint(shadow, (Strided(low, high - low),), "tile", None)
        access = Access(core, entry[2].inst, writes=(print_,))
        return (entry[0], entry[1], access, entry[3]), print_


def _knows(agent: Agent, entry: Entry) -> bool:
    return agent.index == entry[0] or agent.clock.get(entry[0], 0) >= entry[1]


# Modes in the control register that an operation clears before another one wants them.

_READERS = ("M", "FIX")
"""Pipes whose operations go by the register: the cube and its output path."""
_BITS = {46: "HF32", 47: "TF32", 48: "infinity", 59: "wrap", 60: "wrap"}

Check = Callable[[], None]
Effect = Callable[[], object]


class ControlBook:
    """What each core's program has set in its control register, and what was lost since."""

    def __init__(self, report: Reporter, insts: list[Inst], target: str) -> None:
        self._report = report
        self._target = target
        self._setters: dict[int, Inst] = {}
        self._lost: dict[int, tuple[Inst, int]] = {}
        self._seen: set[int] = set()
        for inst in list(insts):
            if inst.kind is Kind.ACTION and self._sets(inst):
                insts[inst.pc] = replace(inst, run=self._setting(inst, inst.run))

    def around(self, core: Core, inst: Inst, commit: Effect) -> tuple[Check | None, Effect]:
        """Return what is to be looked at before an operation takes effect (None for most), and its
        effect."""
        entry = access_entry(inst.op, "ctrl", self._target) if inst.op is not None else None
        if entry is not None and "keeps" in entry:
            return (lambda: self._clear(core, inst, entry["keeps"])), commit
        if entry is not None:

            def setting() -> None:
                commit()
                self._set(core, inst)

            return None, setting
        if inst.pipe in _READERS:
            return (lambda: self._use(core, inst)), commit
        return None, commit

    def state(self) -> tuple[object, ...]:
        """Return what is set and what was lost, to be compared."""
        setters = tuple((core, inst.pc) for core, inst in self._setters.items())
        return setters, tuple((core, inst.pc, bits) for core, (inst, bits) in self._lost.items())

    def begin_again(self) -> None:
        """No mode is set, as at first."""
        self._setters.clear()
        self._lost.clear()

    def _sets(self, inst: Inst) -> bool:
        entry = access_entry(inst.op, "ctrl", self._target) if inst.op is not None else None
        return entry is not None and entry.get("sets", False)

    def _setting(self, inst: Inst, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def watched(core: Core) -> None:
            run(core)
            self._set(core, inst)

        return watched

    def _set(self, core: Core, inst: Inst) -> None:
        self._setters[core.index] = inst
        self._lost.pop(core.index, None)

    def _clear(self, core: Core, inst: Inst, keeps: int) -> None:
        lost = core.registers["ctrl"] & ~(1 << keeps)
        if lost and core.index in self._setters:
            self._lost[core.index] = inst, lost

    def _use(self, core: Core, inst: Inst) -> None:
        found = self._lost.pop(core.index, None)
        if found is None or inst.pc in self._seen:
            return
        self._seen.add(inst.pc)
        clearing, bits = found
        setter = self._setters[core.index]
        names = sorted({_BITS.get(n, f"bit {n}") for n in range(64) if bits >> n & 1})
        span = self._report.span
        self._report.sink.report(
            "PTO7106",
            f"'{inst.operation.name}' runs without the mode that was set ({', '.join(names)}): "
            f"'{clearing.operation.name}' has cleared the control register",
            span(inst.operation),
            more=(
                Label(span(clearing.operation), "leaves bit 50 set and no other"),
                Label(span(setter.operation), "the mode is set here"),
            ),
            notes=("a microscaling TQUANT on A5 writes the control register as a whole",),
            help="set the mode again after it, or quantise first",
            context={"bits": bits},
        )


# Operations whose library code goes through several pipes, or through another than their row's:
# each step is an access of its pipe, and the orders that the code keeps itself are kept.

Writes = tuple[tuple[Footprint, int | None], ...]


class _Part(NamedTuple):
    agent: Agent
    reads: tuple[Footprint, ...]
    writes: Writes
    after: tuple[Agent, ...]


class Staged:
    """The check of one binding of such an operation."""

    def __init__(
        self, marks: Marks, agent: Agent, access: Access, passes: Passes, times: list[int]
    ) -> None:
        """`times` counts the executions of each instruction by the core."""
        self._marks, self._agent, self._access, self._times = marks, agent, access, times
        clocks, core = marks.clocks, access.core
        self._before = [clocks.agent(core, pipe) for pipe in passes.before]
        self._parts: list[_Part] = []
        named_reads = frozenset[str]().union(*(s.reads for s in passes.steps))
        named_writes = frozenset[str]().union(*(s.writes for s in passes.steps))
        for number, step in enumerate(passes.steps):
            rest = not number
            reads = tuple(
                p
                for p in (*access.reads, *access.found)
                if p.name in step.reads or (rest and p.name not in named_reads)
            )
            writes = tuple(
                pair
                for pair in access.all_writes
                if pair[0].name in step.writes or (rest and pair[0].name not in named_writes)
            )
            after = tuple(clocks.agent(core, pipe) for pipe in step.after)
            self._parts.append(_Part(clocks.agent(core, step.pipe), reads, writes, after))

    def check(self) -> None:
        """Check and note the steps one after the other."""
        clocks, agent = self._marks.clocks, self._agent
        clocks.begin(agent)
        pc = self._access.inst.pc
        self._times[pc] += 1
        for part in self._parts:
            if part.agent is not agent:
                if part.agent.pipe != SCALAR:
                    part.agent.learn(agent.scalar.clock if agent.seen is None else agent.seen)
                part.agent.count += 1
            for other in part.after:
                part.agent.learn(other.message())
            self._note(part, self._times[pc])
        last = self._parts[-1].agent
        for other in self._before:
            other.learn(last.message())

    def _note(self, part: _Part, time: int) -> None:
        agent = part.agent
        entry = (agent.index, agent.count, self._access, time)
        is_scalar = agent.pipe == SCALAR
        reader = self._marks.clocks.agent(self._access.core, READS) if is_scalar else agent
        self._marks.note(entry, agent, part.reads, part.writes, reader.index)
        if is_scalar:
            self._marks.done_reading(agent, reader)
