"""Vector regions: what their loads and stores reach, taken from the log of UB when a region ends.

A region is one unit of the vector pipe. Its accesses are noted for each instruction, so a finding
names the load or the store; that a load finds values is checked in the order of execution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Inst, Kind
from ptosim.engine.watch.access import Access, Agent, Fed, loads_used_whole, stores_fed
from ptosim.engine.watch.definedness import Trail, without_values
from ptosim.engine.watch.marks import Marks
from ptosim.engine.watch.shadow import Entry, Footprint, Shadow
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import REGISTER_BYTES, PtrType
from ptosim.ground.isa.targets import Alignment, alignment_of
from ptosim.ground.records import NamedTuple, replace
from ptosim.machine.core import Core
from ptosim.machine.effects.account import DEFINED, TAINTED
from ptosim.machine.effects.storage import allocation_of, written_name
from ptosim.machine.effects.strided import MAX_RUNS, Strided, runs_of
from ptosim.machine.vector import VectorWindow

NONE = np.zeros(0, np.int64)


def entries_of(ub: VectorWindow) -> np.ndarray:
    return np.array(ub.log, np.int64)


class Runs(NamedTuple):
    """Runs of bytes that were accessed, and by which access, counted from 0."""

    numbers: np.ndarray
    codes: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray


NO_RUNS = Runs(NONE, NONE, NONE, NONE)


class Lost(NamedTuple):
    """Loads of an instruction that found the same of their bytes without a value: where they are
    among all runs, which bytes, and how they came there."""

    code: int
    places: np.ndarray
    bytes: np.ndarray
    trail: Trail = Trail(())


def in_order(ub: VectorWindow) -> Runs:
    """Every run in the order of execution."""
    log = entries_of(ub)
    numbers = np.arange(len(log))
    single = log >= 0
    found = [Runs(numbers[single], *_unpacked(log[single]))]
    for number in numbers[~single].tolist():
        code, starts, size = ub.parts[-1 - int(log[number])]
        same = np.ones(len(starts), np.int64)
        found.append(Runs(same * number, same * code, np.asarray(starts), same * size))
    runs = Runs(*(np.concatenate(column) for column in zip(*found, strict=True)))
    order = np.argsort(runs.numbers, kind="stable")
    return Runs(*(column[order] for column in runs))


def _unpacked(log: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return log >> 32, log & 0xFFFFF, log >> 20 & 0xFFF


def by_size(runs: Runs, places: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Some runs by how many bytes they have."""
    sizes = runs.sizes[places]
    for size in np.unique(sizes).tolist():
        yield size, places[sizes == size]


def between(
    runs: Runs, chosen: np.ndarray, loads: np.ndarray, numbers: np.ndarray, *, later: bool
) -> np.ndarray:
    """Those of the chosen runs that follow one of some loads: up to the next execution of the load,
    all of which are numbered, or any later one."""
    after = runs.numbers[loads]
    following = np.searchsorted(numbers, after, "right")
    last = runs.numbers[-1:]
    end = last if later else np.concatenate((numbers, last))[following]
    first, behind = (np.searchsorted(runs.numbers[chosen], n, "right") for n in (after, end))
    edges = np.zeros(len(chosen) + 1, np.int64)
    np.add.at(edges, first, 1)
    np.add.at(edges, np.broadcast_to(behind, first.shape), -1)
    return chosen[np.cumsum(edges[:-1]) > 0]


def alike(code: int, runs: Runs, poor: np.ndarray, loads: np.ndarray) -> Iterator[Lost]:
    """Loads of an instruction by which of their bytes have no value, where no store has been."""
    for size, some in by_size(runs, loads):
        rows = poor[runs.starts[some][:, None] + np.arange(size)]
        is_all = rows.all(1)
        if is_all.any():
            yield Lost(code, some[is_all], np.arange(size))
        if not is_all.all():
            patterns, which = np.unique(rows[~is_all], axis=0, return_inverse=True)
            for number, wrong in enumerate(patterns):
                same = some[~is_all][which.ravel() == number]
                yield Lost(code, same, np.flatnonzero(wrong))


def left_of(runs: Runs, stores: np.ndarray, poor: np.ndarray, load: int) -> np.ndarray:
    """Which bytes of a load have no value: what the region has stored before has one."""
    start, end = int(runs.starts[load]), int(runs.starts[load] + runs.sizes[load])
    wrong = poor[start:end].copy()
    earlier = stores[runs.numbers[stores] < runs.numbers[load]]
    over = (runs.starts[earlier] < end) & (runs.starts[earlier] + runs.sizes[earlier] > start)
    for store in earlier[over].tolist():
        first = int(runs.starts[store])
        wrong[max(first - start, 0) : max(first + int(runs.sizes[store]) - start, 0)] = False
    return wrong


def in_part(runs: Runs, stores: np.ndarray, poor: np.ndarray, loads: np.ndarray) -> np.ndarray:
    """The bytes without a value of the first of some loads that finds a part without."""
    for at in loads.tolist():
        wrong = left_of(runs, stores, poor, at)
        if 0 < wrong.sum() < len(wrong):
            return int(runs.starts[at]) + np.flatnonzero(wrong)
    return NONE


def sums_of(starts: np.ndarray, ends: np.ndarray, size: int) -> np.ndarray:
    """How many of the bytes before each one are in any of the runs."""
    edges = np.zeros(size + 1, np.int64)
    np.add.at(edges, starts, 1)
    np.add.at(edges, ends, -1)
    return np.concatenate(([0], np.cumsum(np.cumsum(edges[:-1]) > 0)))


MAX_KNOWN = 4096
"""Entries of a log that is kept, with what it was found to say."""
MAX_LOGS = 256
"""Logs that are kept."""
MAX_PARTS = 16
"""Loads of an instruction that are looked at for lanes that a mask may leave out."""
MAX_TRIED = 1024
"""Loads of an instruction that are looked at where the region stores bytes of them itself."""

Log = np.ndarray
Part = tuple[int, np.ndarray, int]


class _Instruction:
    """An instruction of a region that reaches UB. `is_whole`: all bytes that it loads are used."""

    __slots__ = (
        "alignment", "code", "inst", "is_logged", "is_store", "is_whole", "operand", "owner"
    )  # fmt: skip

    def __init__(self, inst: Inst, code: int, is_store: bool, is_whole: bool) -> None:
        self.inst = inst
        self.code = code
        self.is_store = is_store
        self.is_whole = is_whole
        self.alignment = _alignment(inst.op) if inst.op is not None else None
        self.is_logged = inst.op is None or _is_logged_whole(inst.op)
        bound = inst.op.bound if inst.op is not None else {}
        self.operand = "src" if "src" in bound and not is_store else "base"
        self.owner = allocation_of(inst.op, self.operand) if inst.op is not None else None


def _alignment(op: Operation) -> Alignment | None:
    """What the addresses of an instruction have to be multiples of."""
    word = op.attributes.get("dist") or getattr(op.bound.get("dist"), "const", None)
    dist = str(getattr(word, "member", word) or "NORM")
    place = getattr(op.bound.get("base") or op.bound.get("src"), "type", None)
    bits = place.elem.bits if isinstance(place, PtrType) else 8
    return alignment_of(op.name.removeprefix("pto."), dist, max(bits // 8, 1))


def misplaced(op: Operation, ub: VectorWindow) -> str:
    """Return what is wrong with an address of an instruction whose accesses are in a log."""
    need = _alignment(op) if _is_logged_whole(op) else None
    starts = in_order(ub).starts if need is not None and need.bytes > 1 and ub.log else ()
    wrong = next((s for s in map(int, starts) if need is not None and s % need.bytes), None)
    if need is None or wrong is None:
        return ""
    return f"address {wrong:#x} of UB is no multiple of {need.bytes}"


def _is_logged_whole(op: Operation) -> bool:
    """False for a store whose mask may leave out the first lane: the log does not say where it
    begins. One of a pattern or a count begins with that lane."""
    mask = getattr(op.bound.get("mask"), "value", None)
    name = mask.owner.name if mask is not None and mask.owner is not None else ""
    is_from_first = name.startswith(("pto.pset_", "pto.plt_", "pto.pge_"))
    return mask is None or is_from_first or not op.has("stores")


class VectorWatch:
    """Watches the vector regions of a run."""

    def __init__(self, monitor: Marks, insts: list[Inst]) -> None:
        self.monitor = monitor
        self._tables: dict[int, dict[int, _Instruction]] = {}
        self._inside: set[int] = set()
        self._scalars: list[Access] = []
        self._known: dict[tuple[int, int, bytes], list[tuple[_Instruction, Access]]] = {}
        self._fed: dict[int, dict[Operation, dict[Operation, Fed]]] = {}
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

    def look_at_element(self, access: Access) -> None:
        """An access of the scalar unit of A5, anywhere, begins at a multiple of its element."""
        name = access.inst.operation.name.removeprefix("pto.")
        for print_ in (*access.reads, *access.writes):
            need, start = alignment_of(name, "", print_.bytes), print_.span[0]
            if need is not None and start % need.bytes:
                shadow = print_.shadow
                where = f"`{shadow.name}`" if shadow.is_global else "UB"
                self.monitor.misaligned(access.inst, start, need, where)

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
        for code, start in ub.odd.items():
            self._check_alignment(table[code], np.array([start]))
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
        crossed = self._crossed(core, shadow, table, accesses)
        runs, lost = NO_RUNS, []
        if not is_defined and monitor.chosen.defined:
            runs = in_order(ub)
            lost = self._undefined(core, shadow, table, dict(entries), runs)
        for _, entry in entries:
            writes = entry[2].writes
            if writes:
                monitor.note(entry, agent, (), tuple((p, DEFINED) for p in writes), agent.index)
        if lost:
            self._spread(head, shadow, table, lost, runs)
        self._tell_crossed(shadow, crossed, dict(entries))

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
        for code, starts, size in _grouped(entries_of(ub), ub.parts):
            prints.setdefault(code, []).extend(runs_of(starts, size))
            if table[code].is_logged or size == REGISTER_BYTES:
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

    # -- buffers that the region stores over ------------------------------------------------------

    def _crossed(
        self,
        core: Core,
        shadow: Shadow,
        table: dict[int, _Instruction],
        accesses: list[tuple[_Instruction, Access]],
    ) -> dict[_Instruction, np.ndarray]:
        """Return the loads of bytes that another buffer has stored over in the region without
        having read them: which bytes of a content that was there before."""
        over = self._over(core, accesses)
        found: dict[_Instruction, list[np.ndarray]] = {}
        every = np.arange(shadow.bytes if over else 0)
        held = {
            row.owner: shadow.belong(every, [a for a in shadow.atoms if a.owner is row.owner])
            for row in over
        }
        last = np.full(len(every), -1)
        taken = {table[code].owner: np.zeros(len(every), bool) for c in over.values() for code in c}
        own = {o: [c for c, row in table.items() if row.owner is o] for o in taken}
        for code, start, size in zip(*in_order(core.ub)[1:], strict=True) if over else ():
            row, part = table[int(code)], slice(int(start), int(start + size))
            if row.is_store:
                last[part] = code
                continue
            for other in over.get(row, ()):
                wrong = held[row.owner][part] & (last[part] == other)
                wrong &= ~taken[table[other].owner][part]
                found.setdefault(row, []).append(part.start + np.flatnonzero(wrong))
            if row.owner in taken:
                taken[row.owner][part] |= ~np.isin(last[part], own[row.owner])
        places = {row: np.unique(np.concatenate(parts)) for row, parts in found.items()}
        return {row: of for row, of in places.items() if len(of)}

    def _tell_crossed(
        self, shadow: Shadow, crossed: dict[_Instruction, np.ndarray], entries: dict[Any, Entry]
    ) -> None:
        for row, places in crossed.items():
            print_ = Footprint(shadow, runs_of(places, 1), row.operand, row.owner)
            for atom in print_.atoms():
                if atom.lost is row.owner:
                    self.monitor.overwritten(atom, entries[row], print_)

    def _over(
        self, core: Core, accesses: list[tuple[_Instruction, Access]]
    ) -> dict[_Instruction, list[int]]:
        """Return for loads the codes of stores that a buffer at another place makes among them."""
        if len({row.owner for row, _ in accesses}) < 2:
            return {}
        loads, stores = (
            [
                (row, (*a.reads, *a.writes)[0])
                for row, a in accesses
                if row.is_store == k and (a.reads or a.writes)
            ]
            for k in (False, True)
        )
        over: dict[_Instruction, list[int]] = {}
        for row, print_ in stores:
            for load, other in loads:
                (low, high), (start, end) = print_.span, other.span
                if load.owner is row.owner or low >= end or start >= high:
                    continue
                places = self._place(core, row), self._place(core, load)
                if None not in places and places[0] != places[1]:
                    over.setdefault(load, []).append(row.code)
        return over

    def _place(self, core: Core, row: _Instruction) -> tuple[int, int | None] | None:
        return self.monitor.names.place(core, row.owner) if row.owner is not None else None

    # -- loads of what nothing has written --------------------------------------------------------

    def _undefined(
        self,
        core: Core,
        shadow: Shadow,
        table: dict[int, _Instruction],
        entries: dict[_Instruction, Entry],
        runs: Runs,
    ) -> list[Lost]:
        """Report the first load of each instruction that finds bytes without a value; return all of
        them. Where only lanes that a mask may leave out have none, nothing is known to be wrong."""
        found: list[Lost] = []
        low, high = int(runs.starts.min()), int((runs.starts + runs.sizes).max())
        runs = runs._replace(starts=runs.starts - low)
        inside, poor, lost = Footprint(shadow, (Strided(low, high - low),), "", None), None, NONE
        is_store = np.isin(runs.codes, [c for c, row in table.items() if row.is_store])
        ends = runs.starts + runs.sizes
        stores = np.flatnonzero(is_store)
        stored = sums_of(runs.starts[stores], ends[stores], high - low)
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
            if not row.is_whole and row.inst.pc not in self.monitor.unsure:
                some = np.flatnonzero(chosen & (lost > 0))[:MAX_PARTS]
                places = low + in_part(runs, stores, poor, some)
                self._doubt(shadow, row, entries[row], places)
            tried = np.flatnonzero(chosen & (lost >= least))[:MAX_TRIED]
            met = stored[ends[tried]] > stored[runs.starts[tried]]
            same = list(alike(code, runs, poor, tried[~met]))
            for at in tried[met]:
                wrong = left_of(runs, stores, poor, int(at))
                if wrong.sum() >= (1 if row.is_whole else len(wrong)):
                    same.append(Lost(code, np.array([at]), np.flatnonzero(wrong)))
            if same:
                first = min(same, key=lambda one: one.places[0])
                at = low + runs.starts[first.places[0]] + first.bytes
                trail = self._report(shadow, row, entries[row], at)
                found += [one._replace(trail=trail) for one in same]
        return found

    def _doubt(self, shadow: Shadow, row: _Instruction, entry: Entry, places: np.ndarray) -> None:
        """A load finds lanes without a value that a mask may leave out."""
        if not len(places):
            return
        parts = runs_of(places, 1)
        print_ = Footprint(shadow, parts, row.operand, row.owner)
        self.monitor.doubt(shadow.at(int(places[0])), entry, print_)

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
        head: Inst,
        shadow: Shadow,
        table: dict[int, _Instruction],
        lost: list[Lost],
        runs: Runs,
    ) -> None:
        """What the region stored of bytes without a value has none either: of what a load read, up
        to its next execution, or where a loop hands it on, to the end."""
        fed = self._fed.get(head.pc)
        if fed is None:
            assert head.op is not None
            fed = self._fed[head.pc] = stores_fed(head.op)
        codes = {row.inst.op: code for code, row in table.items()}
        at_code = {code: np.flatnonzero(runs.codes == code) for code in table}
        for code, same in groupby(lost, key=lambda one: one.code):
            load, some = table[code].inst.op, list(same)
            numbers = runs.numbers[at_code[code]]
            for store, how in fed.get(load, {}).items() if load is not None else ():
                chosen = at_code.get(codes.get(store, -1), NONE)
                is_one = np.zeros(int((runs.starts + runs.sizes).max()), np.bool_)
                for one in some:
                    fed_by = between(runs, chosen, one.places, numbers, later=how.later)
                    for size, at in by_size(runs, fed_by):
                        lanes = one.bytes[one.bytes < size] if how.by_lanes else np.arange(size)
                        is_one[np.unique(runs.starts[at])[:, None] + lanes] = True
                _taint(shadow, np.flatnonzero(is_one), some[0].trail, store)


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
        place.code: _Instruction(by_op[op], place.code, place.is_store, op in whole)
        for op, place in places.items()
        if op in by_op
    }


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
