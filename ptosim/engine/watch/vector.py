"""Vector regions: what their loads and stores reach, taken from the log of UB when a region ends.

A region is one unit of the vector pipe. Its accesses are noted for each instruction, so a finding
names the load or the store; that a load finds values is checked in the order of execution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.engine.core.bound import Inst, Kind
from ptosim.engine.watch.access import Access
from ptosim.engine.watch.clocks import Agent
from ptosim.engine.watch.definedness import Trail, without_values
from ptosim.engine.watch.shadow import Entry, Footprint, Shadow
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.isa.alignment import Alignment, alignment_of
from ptosim.ground.records import NamedTuple, replace
from ptosim.machine.core import Core
from ptosim.machine.effects.account import DEFINED, TAINTED
from ptosim.machine.effects.row import written_name
from ptosim.machine.effects.storage import allocation_of
from ptosim.machine.effects.strided import MAX_RUNS, Strided, runs_of
from ptosim.machine.vector import VectorWindow

if TYPE_CHECKING:
    from ptosim.engine.watch.monitor import Monitor


# Which loads of a vector region use all bytes that they read.
#
# A load of 256 bytes at the end of an array reads more than there is, and a mask leaves those
# lanes out later. A load uses its register whole if the text shows it: every lane reaches a store
# or a reduction under a mask with all lanes set, or under none.


def loads_used_whole(region: Operation) -> set[Operation]:
    """Return the loads of a region whose every lane is used."""
    users = _users(region)
    _, *ops = region.walk()
    return {
        op
        for op in ops
        if op.has("loads")
        and not op.has("indexed")
        and any(_is_used_whole(value, users) for value in op.results)
    }


def _users(region: Operation) -> dict[Value, list[Operation]]:
    users: dict[Value, list[Operation]] = {}
    _, *ops = region.walk()
    for op in ops:
        for value in op.operand_values():
            users.setdefault(value, []).append(op)
    return users


def _is_used_whole(value: Value, users: dict[Value, list[Operation]]) -> bool:
    waiting, seen = [value], set[Value]()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        for op in users.get(value, ()):
            if _leaves_out(op):
                continue
            if op.has("reduces"):
                return True
            if not op.has("stores") or "align" in op.bound:
                waiting += op.results
            elif not _is_point(op):
                return True
    return False


def _leaves_out(op: Operation) -> bool:
    """True if an operation may leave lanes out, or hands them on in a way that is not followed."""
    mask = getattr(op.bound.get("mask"), "value", None)
    if op.has("picks_lanes"):
        return True
    if mask is None:
        return bool(op.regions) or op.has("yields") or op.has("selects")
    pattern = getattr(mask.owner.bound.get("pattern"), "const", None) if mask.owner else None
    return str(getattr(pattern, "member", pattern)) != "PAT_ALL"


class _Fed(NamedTuple):
    """How a store gets what a load read: in the same lanes, or a round of a loop later."""

    by_lanes: bool
    later: bool


def stores_fed(region: Operation) -> dict[Operation, dict[Operation, _Fed]]:
    """Return for each load of a region the stores of it that what it read takes part in."""
    users = _users(region)
    return {op: _fed_by(op, users) for op in region.walk() if op.has("loads")}


def _fed_by(load: Operation, users: dict[Value, list[Operation]]) -> dict[Operation, _Fed]:
    found: dict[Operation, _Fed] = {}
    known: dict[Value, _Fed] = {}
    waiting = [(value, _Fed(by_lanes=True, later=False)) for value in load.results]
    while waiting:
        value, fed = waiting.pop()
        before = known.get(value)
        if before is not None:
            fed = _Fed(before.by_lanes and fed.by_lanes, before.later or fed.later)
            if fed == before:
                continue
        known[value] = fed
        for op in users.get(value, ()):
            if op.has("stores"):
                found[op] = fed
            waiting += _handed_on(op, fed)
    return found


def _handed_on(op: Operation, fed: _Fed) -> Iterator[tuple[Value, _Fed]]:
    """What an operation makes of a value; a loop gives what it yields to its next round."""
    around = op.parent if op.has("yields") else None
    if around is not None:
        later = fed.later or around.has("loop")
        values = [*around.results]
        if around.has("loop"):
            values += [v for r in around.regions for b in r.blocks for v in b.values]
        for value in values:
            yield value, _Fed(fed.by_lanes, later)
    by_lanes = fed.by_lanes and not (op.has("picks_lanes") or op.has("reduces"))
    for value in op.results:
        yield value, _Fed(by_lanes, fed.later)


def _is_point(op: Operation) -> bool:
    """True for a store of one lane."""
    return "1PT" in str(op.attrs.get("dist", ""))


MAX_KNOWN = 4096
"""Entries of a log that is kept, with what it was found to say."""
MAX_LOGS = 256
"""Logs that are kept."""
MAX_TRIED = 1024
"""Loads of an instruction that are looked at where the region stores bytes of them itself."""

Log = np.ndarray
Part = tuple[int, np.ndarray, int]


class _Instruction:
    """An instruction of a region that reaches UB. `is_whole`: all bytes that it loads are used."""

    __slots__ = ("alignment", "inst", "is_store", "is_whole", "operand", "owner")

    def __init__(self, inst: Inst, is_store: bool, is_whole: bool) -> None:
        self.inst = inst
        self.is_store = is_store
        self.is_whole = is_whole
        self.alignment = _alignment(inst.op) if inst.op is not None else None
        bound = inst.op.bound if inst.op is not None else {}
        self.operand = "src" if "src" in bound and not is_store else "base"
        self.owner = allocation_of(inst.op, self.operand) if inst.op is not None else None


def _alignment(op: Operation) -> Alignment | None:
    """What the addresses of an instruction have to be multiples of. Of a store whose mask may leave
    out the first lane the log does not say where it begins."""
    value = getattr(op.bound.get("mask"), "value", None)
    if op.has("stores") and value is not None and not _from_first_lane(value):
        return None
    word = op.attributes.get("dist")
    dist = str(getattr(word, "member", word) or "NORM")
    return alignment_of(op.name.removeprefix("pto."), dist)


def _from_first_lane(mask: Value) -> bool:
    """True for a mask of a pattern or a count: it begins with the first lane."""
    name = mask.owner.name if mask.owner is not None else ""
    return name.startswith(("pto.pset_", "pto.plt_", "pto.pge_"))


class VectorWatch:
    """Watches the vector regions of a run."""

    def __init__(self, monitor: Monitor, insts: list[Inst]) -> None:
        self.monitor = monitor
        self._tables: dict[int, dict[int, _Instruction]] = {}
        self._inside: set[int] = set()
        self._scalars: list[Access] = []
        self._known: dict[tuple[int, int, bytes], list[tuple[_Instruction, Access]]] = {}
        self._fed: dict[int, dict[Operation, dict[Operation, _Fed]]] = {}
        by_op = {i.op: i for i in insts if i.kind is Kind.VECTOR}
        for head in [i for i in insts if i.kind is Kind.REGION]:
            self._inside.update(range(head.pc, head.end))
            assert head.op is not None
            self._tables[head.pc] = _table(head, by_op, monitor.program.regions[head.op])
            end = insts[head.end]
            insts[head.end] = replace(end, run=self._at_end(head, end.run))
        for core in monitor.machine.cores if self._tables else ():
            if core.kind != "cube":
                if core.ub is None:
                    core.ub = VectorWindow(core.space("vec").data)
                core.ub.watch()

    def holds(self, inst: Inst) -> bool:
        """True for an instruction of a vector region."""
        return inst.pc in self._inside

    def note(self, access: Access) -> None:
        """Keep what a scalar operation of a region does until the region ends."""
        self._scalars.append(access)

    def _at_end(self, head: Inst, run: Callable[[Core], Any] | None) -> Callable[[Core], None]:
        table = self._tables[head.pc]

        def end(core: Core) -> None:
            if run is not None:
                run(core)
            if core.ub is None:
                return
            if self.monitor.is_on:
                self._close(core, head, table)
            core.ub.forget()

        return end

    # -- a region that has ended ------------------------------------------------------------------

    def _close(self, core: Core, head: Inst, table: dict[int, _Instruction]) -> None:
        monitor, ub = self.monitor, core.ub
        agent = monitor.clocks.agent(core, head.pipe)
        monitor.clocks.begin(agent)
        self._close_scalars(agent)
        shadow = monitor.shadow(core, "vec")
        if ub.is_anywhere:  # who can say now which bytes have no value
            shadow.set_states(DEFINED)
            ub.is_anywhere = False
        if not ub.log:
            return
        accesses = self._accesses(core, head, table, shadow)
        entries = []
        is_defined = True
        for row, access in accesses:
            entry = (agent.index, agent.count, access, monitor.count(core, row.inst))
            entries.append((row, entry))
            if access.reads:
                monitor.note(entry, agent, access.reads, (), agent.index, as_found=True)
                is_defined = is_defined and all(
                    a.defined == DEFINED and not monitor.is_stale(core, a, p)
                    for p in access.reads
                    for a in p.atoms()
                )
        lost: list[_Lost] = []
        if not is_defined and monitor.chosen.defined:
            lost = self._undefined(core, shadow, table, dict(entries))
        for _, entry in entries:
            writes = entry[2].writes
            if writes:
                monitor.note(entry, agent, (), tuple((p, DEFINED) for p in writes), agent.index)
        if lost:
            self._spread(core, head, shadow, table, lost)

    def _close_scalars(self, agent: Agent) -> None:
        """Scalar operations of a region belong to the vector unit, in whose order they are done;
        what the region stores itself may be what they load."""
        monitor, accesses = self.monitor, self._scalars
        self._scalars = []
        for access in accesses:
            entry = (agent.index, agent.count, access, monitor.count(access.core, access.inst))
            monitor.note(entry, agent, access.reads, (), agent.index, as_found=True)
            written = tuple((p, DEFINED) for p in access.writes)
            monitor.note(entry, agent, (), written, agent.index)

    def _accesses(
        self, core: Core, head: Inst, table: dict[int, _Instruction], shadow: Shadow
    ) -> list[tuple[_Instruction, Access]]:
        """One access for each instruction."""
        ub = core.ub
        assert ub.log is not None
        key = (core.index, head.pc, ub.log.tobytes() if len(ub.log) <= MAX_KNOWN else b"")
        found = self._known.get(key) if key[2] and not ub.parts else None
        if found is not None:
            return found
        prints: dict[int, list[Strided]] = {}
        for code, starts, size in _grouped(_entries(ub), ub.parts):
            prints.setdefault(code, []).extend(runs_of(starts, size))
            self._check_alignment(table[code], starts)
        found = []
        for code, parts in sorted(prints.items()):
            row = table[code]
            access = Access(core, row.inst)
            inside = tuple(p for p in parts if p.start >= 0 and p.end <= shadow.bytes)
            reached = (Footprint(shadow, inside, row.operand, row.owner),)
            access.reads, access.writes = ((), reached) if row.is_store else (reached, ())
            found.append((row, access))
        if key[2] and not ub.parts:
            if len(self._known) >= MAX_LOGS:
                self._known.clear()
            self._known[key] = found
        return found

    def _check_alignment(self, row: _Instruction, starts: np.ndarray) -> None:
        need = row.alignment
        if need is None or need.bytes < 2:
            return
        wrong = starts[starts % need.bytes != 0]
        if len(wrong):
            self.monitor.misaligned(row.inst, int(wrong[0]), need)

    # -- loads of what nothing has written --------------------------------------------------------

    def _undefined(
        self,
        core: Core,
        shadow: Shadow,
        table: dict[int, _Instruction],
        entries: dict[_Instruction, Entry],
    ) -> list[_Lost]:
        """Report the first load of each instruction that finds bytes without a value; return all of
        them. Where only lanes that a mask may leave out have none, nothing is known to be wrong."""
        found: list[_Lost] = []
        trail = Trail(())
        runs = _in_order(core.ub)
        low, high = int(runs.starts.min()), int((runs.starts + runs.sizes).max())
        runs = runs._replace(starts=runs.starts - low)
        inside, poor, lost = Footprint(shadow, (Strided(low, high - low),), "", None), None, _NONE
        is_store = np.isin(runs.codes, [c for c, row in table.items() if row.is_store])
        ends = runs.starts + runs.sizes
        stores = np.flatnonzero(is_store)
        stored = _sums_of(runs.starts[stores], ends[stores], high - low)
        for code, row in table.items():
            chosen = runs.codes == code
            if row.is_store or not chosen.any():
                continue
            if poor is None or row.owner is not inside.owner:
                inside.owner = row.owner
                stale = [a for a in inside.atoms() if self.monitor.is_stale(core, a, inside)]
                poor = without_values(inside, stale)
                assert poor is not None
                before = np.concatenate(([0], np.cumsum(poor)))
                lost = before[ends] - before[runs.starts]
            least = 1 if row.is_whole else runs.sizes
            for at in np.flatnonzero(chosen & (lost >= least))[:MAX_TRIED].tolist():
                places = np.arange(int(runs.starts[at]), int(ends[at]))
                wrong = poor[places]
                if stored[ends[at]] > stored[runs.starts[at]]:
                    earlier = stores[runs.numbers[stores] < runs.numbers[at]]
                    over = (runs.starts[earlier] < ends[at]) & (ends[earlier] > runs.starts[at])
                    for store in earlier[over].tolist():
                        wrong &= (places < runs.starts[store]) | (places >= ends[store])
                if wrong.sum() >= (1 if row.is_whole else len(places)):
                    if not found or found[-1].code != code:
                        trail = self._report(shadow, row, entries[row], low + places[wrong])
                    found.append(_Lost(code, int(runs.numbers[at]), np.flatnonzero(wrong), trail))
        return found

    def _report(self, shadow: Shadow, row: _Instruction, entry: Entry, places: np.ndarray) -> Trail:
        parts = runs_of(np.unique(places), 1)
        print_ = Footprint(shadow, parts, row.operand, row.owner)
        atom = print_.atoms()[0]
        tell = self.monitor.stale if atom.defined == DEFINED else self.monitor.undefined
        trail = tell(atom, entry, print_)
        self.monitor.tainted.clear()
        return trail

    def _spread(
        self,
        core: Core,
        head: Inst,
        shadow: Shadow,
        table: dict[int, _Instruction],
        lost: list[_Lost],
    ) -> None:
        """What the region stored of bytes without a value has none either: of what a load read, up
        to its next execution, or where a loop hands it on, to the end."""
        fed = self._fed.get(head.pc)
        if fed is None:
            assert head.op is not None
            fed = self._fed[head.pc] = stores_fed(head.op)
        codes = {row.inst.op: code for code, row in table.items()}
        runs = _in_order(core.ub)
        at_code = {code: np.flatnonzero(runs.codes == code) for code in table}
        written: dict[tuple[int, Operation], tuple[Trail, list[np.ndarray]]] = {}
        for one in lost:
            numbers = runs.numbers[at_code[one.code]]
            following = int(np.searchsorted(numbers, one.number, "right"))
            again = numbers[following] if following < len(numbers) else runs.numbers[-1]
            load = table[one.code].inst.op
            for store, how in fed.get(load, {}).items() if load is not None else ():
                chosen = at_code.get(codes.get(store, -1), _NONE)
                end = runs.numbers[-1] if how.later else again
                first, last = np.searchsorted(runs.numbers[chosen], (one.number, end), "right")
                _, places = written.setdefault((one.code, store), (one.trail, []))
                for start, size in zip(
                    runs.starts[chosen[first:last]], runs.sizes[chosen[first:last]], strict=True
                ):
                    lanes = one.bytes[one.bytes < size] if how.by_lanes else np.arange(size)
                    places.append(start + lanes)
        for (_, store), (trail, places) in written.items():
            if places:
                _taint(shadow, np.unique(np.concatenate(places)), trail, store)


_NONE = np.zeros(0, np.int64)


def _sums_of(starts: np.ndarray, ends: np.ndarray, size: int) -> np.ndarray:
    """How many of the bytes before each one are in any of the runs."""
    edges = np.zeros(size + 1, np.int64)
    np.add.at(edges, starts, 1)
    np.add.at(edges, ends, -1)
    return np.concatenate(([0], np.cumsum(np.cumsum(edges[:-1]) > 0)))


class _Lost(NamedTuple):
    """A load that found bytes without a value: its instruction, its place in the log, which of its
    bytes, and how they came there."""

    code: int
    number: int
    bytes: np.ndarray
    trail: Trail


def _taint(shadow: Shadow, places: np.ndarray, trail: Trail, store: Operation) -> None:
    parts = runs_of(places, 1) if len(places) else ()
    if not parts or len(parts) >= MAX_RUNS:
        return
    name = written_name(store, "dst" if "dst" in store.bound else "base")
    way = trail.longer("computed", store, name)
    for atom in Footprint(shadow, parts, name, None).atoms():
        atom.defined, atom.trail = TAINTED, way._replace(stamp=atom.write[2])


def _table(
    head: Inst, by_op: dict[Any, Inst], places: dict[Operation, Any]
) -> dict[int, _Instruction]:
    """The instructions of a region by the code that they have in logs."""
    region = head.op
    assert isinstance(region, Operation)
    whole = loads_used_whole(region)
    return {
        place.code: _Instruction(by_op[op], place.is_store, op in whole)
        for op, place in places.items()
        if op in by_op
    }


def _entries(ub: VectorWindow) -> Log:
    return np.array(ub.log, np.int64)


def _grouped(log: Log, parts: list[Part]) -> Iterator[Part]:
    """Accesses by instruction and size, with their places sorted and each once."""
    single = np.unique(log[log >= 0])
    if len(single):
        keys = single >> 20
        cuts = np.flatnonzero(np.diff(keys)) + 1
        for group in np.split(single, cuts):
            key = int(group[0] >> 20)
            yield key >> 12, group & 0xFFFFF, key & 0xFFF
    merged: dict[tuple[int, int], list[np.ndarray]] = {}
    for code, starts, size in parts:
        merged.setdefault((code, size), []).append(starts)
    for (code, size), starts in merged.items():
        yield code, np.unique(np.concatenate(starts)), size


class _Runs(NamedTuple):
    """Runs of bytes that were accessed, and by which access, counted from 0."""

    numbers: np.ndarray
    codes: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray


def _in_order(ub: VectorWindow) -> _Runs:
    """Every run in the order of execution."""
    log = _entries(ub)
    numbers = np.arange(len(log))
    single = log >= 0
    found = [_Runs(numbers[single], *_unpacked(log[single]))]
    for number in numbers[~single].tolist():
        code, starts, size = ub.parts[-1 - int(log[number])]
        same = np.ones(len(starts), np.int64)
        found.append(_Runs(same * number, same * code, np.asarray(starts), same * size))
    runs = _Runs(*(np.concatenate(column) for column in zip(*found, strict=True)))
    order = np.argsort(runs.numbers, kind="stable")
    return _Runs(*(column[order] for column in runs))


def _unpacked(log: Log) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return log >> 32, log & 0xFFFFF, log >> 20 & 0xFFF
