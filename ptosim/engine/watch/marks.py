"""The marks of accesses on the bytes that they touch, and what that says: races, reads of
bytes without a value, buffers that were written over."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptosim.engine.core.bound import DecodedProgram, Inst
from ptosim.engine.watch.access import Access, Agent, Clocks, Sanitize, with_count
from ptosim.engine.watch.definedness import (
    Cause,
    Names,
    Trail,
    is_computed,
    keeps_order,
    taint,
    trail_of,
    without_values,
)
from ptosim.engine.watch.ordering import FlagBook, Ordering
from ptosim.engine.watch.report import Reporter
from ptosim.engine.watch.shadow import Atom, Entry, Footprint, Shadow, new_shadow
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import TileType
from ptosim.ground.isa.targets import Alignment
from ptosim.ground.records import NamedTuple, replace
from ptosim.machine.core import CUBE_SPACES, Core, Machine
from ptosim.machine.effects.account import (
    DEFINED,
    PADDING,
    TAINTED,
)
from ptosim.machine.effects.storage import written_name

# Which accesses the assembler orders by flags and barriers of its own, where it inserts them.
#
# It sees conflicts of one function: tiles by constant addresses, global memory by the argument that
# a pointer comes from. Tiles at computed addresses and two arguments never meet for it, so where
# they do the conflict is real. Every function ends with a barrier of all pipes.


class Inserted:
    """Asks of two accesses of one core that conflict whether the assembler orders them."""

    def __init__(self, resolved: ResolvedModule) -> None:
        names = resolved.settings.ordered
        self.functions: set[Operation | None] = {
            f.op for f in resolved.functions.values() if f.name in names
        }
        self._resolved = resolved
        self._reached: dict[Operation, set[Operation]] = {}

    def __bool__(self) -> bool:
        return bool(self.functions)

    def orders(
        self, first: Access, second: Access, print_: Footprint, extent: tuple[int, int]
    ) -> bool:
        """True if flags that the assembler inserts keep the first access before the second, which
        is at `print_`; `extent` is what they share."""
        one, two = first.inst.op, second.inst.op
        if one is None or two is None or first.core is not second.core:
            return False
        home, there = one.function, two.function
        if home not in self.functions:
            return False
        if one.passes is not None and one.passes.modelled is not None:
            return False  # its flags are set by a pipe that does not do it
        if there not in self.functions:  # done at the end of its function
            return home is not None and there is not None and there not in self._calls(home)
        return self._meet(_owner_at(first, print_, extent), print_.owner, print_)

    def _meet(self, one: Value | None, two: Value | None, print_: Footprint) -> bool:
        """True if the assembler knows that two storages share bytes."""
        if one is two or one is None or two is None:
            return True
        if print_.shadow.is_global:
            return not (one.is_argument and two.is_argument)
        return not (is_computed(one) or is_computed(two))

    def _calls(self, function: Operation) -> set[Operation]:
        """The functions that one calls, at any depth, and itself."""
        found = self._reached.get(function)
        if found is None:
            by_name = self._resolved.functions
            found, todo = {function}, [function]
            while todo:
                for op in todo.pop().walk():
                    callee = by_name.get(op.bound.get("callee", "")) if op.has("call") else None
                    if callee is not None and callee.op not in found:
                        found.add(callee.op)
                        todo.append(callee.op)
            self._reached[function] = found
        return found


def _owner_at(access: Access, print_: Footprint, extent: tuple[int, int]) -> Value | None:
    for found in (*access.writes, *access.reads, *(p for p, _ in access.spoils)):
        low, high = found.span
        if found.shadow is print_.shadow and low < extent[1] and extent[0] < high:
            return found.owner
    return None


NOBODY = -1
"""No agent."""


class Noted(NamedTuple):
    """What `note` was asked to check and note."""

    entry: Entry
    agent: Agent
    reads: tuple[Footprint, ...]
    writes: tuple[tuple[Footprint, int | None], ...]
    reader: int
    as_found: bool

    @property
    def prints(self) -> tuple[Footprint, ...]:
        """What was read and written."""
        return (*self.reads, *(print_ for print_, _ in self.writes))


class Marks(Ordering):
    """Checks and notes accesses; what was reported once is not reported again."""

    def __init__(
        self,
        program: DecodedProgram,
        machine: Machine,
        clocks: Clocks,
        report: Reporter,
        chosen: Sanitize,
        target: str,
    ) -> None:
        super().__init__(machine, clocks, FlagBook(report), chosen, target)
        self.program = program
        self.inserted = Inserted(report.resolved)
        self.synchronised = self.inserted.functions
        self.report = report
        self._seen: set[tuple[Any, ...]] = set()
        self.met: set[tuple[int, int, int, int]] = set()
        """Conflicts that nothing orders: core and instruction of the first access and of the
        second."""
        self.names = Names(program)
        self.shadows: dict[tuple[int, Any], Shadow] = {}
        self.times = [[0] * len(program.insts) for _ in machine.cores]
        self.journal: list[Noted] | None = None
        """All that was noted, where somebody compares rounds."""
        self.twins: list[tuple[Entry, Entry, Footprint, Atom, bytes]] = []
        """Writes of the same bytes by two sub-blocks, with what was there before the second."""
        self.tainted: dict[int, tuple[np.ndarray | None, Trail]] = {}
        """Operands of the operation under way that have bytes without values: which, and why."""
        self._causes: dict[tuple[Any, ...], Cause] = {}
        self.unsure: dict[int, Diagnostic] = {}
        """Reads of bytes without a value that may decide nothing, by instruction, as they are to be
        told if they do."""

    def shadow(self, core: Core, where: Any) -> Shadow:
        """Return the shadow of a space of a core, or of a buffer of global memory. A vector core
        that writes to L1 writes to the cube core's."""
        if where in CUBE_SPACES and core.kind == "vector":
            cluster = core.cluster
            cubes = (c for c in self.machine.cores if c.cluster is cluster and c.kind == "cube")
            core = next(cubes, core)
        key = (-1 if isinstance(where, int) else core.index, where)
        shadow = self.shadows.get(key)
        if shadow is None:
            shadow = self.shadows[key] = new_shadow(self.machine, core, where)
        return shadow

    def count(self, core: Core, inst: Inst) -> int:
        """Return which execution of an instruction by a core this is."""
        times = self.times[core.index]
        times[inst.pc] += 1
        return times[inst.pc]

    def note(  # noqa: C901 - hot, so in one piece
        self,
        entry: Entry,
        agent: Agent,
        reads: tuple[Footprint, ...],
        writes: tuple[tuple[Footprint, int | None], ...],
        reader: int,
        *,
        as_found: bool = False,
    ) -> None:
        """Check and note reads, then writes, each with the state that its bytes get. Reads of bytes
        `as_found` need no value there."""
        if self.journal is not None:
            self.journal.append(Noted(entry, agent, reads, writes, reader, as_found))
        known, index = agent.clock.get, agent.index
        own = index if agent.in_order else NOBODY
        for print_ in reads:
            owner = print_.owner
            is_known = print_.version == print_.shadow.version
            for atom in print_.known if is_known else print_.atoms():
                write = atom.write
                if write[0] != own and known(write[0], 0) < write[1]:
                    self._race("read", atom, write, write[0], entry, print_)
                    known = agent.clock.get
                if atom.defined != DEFINED and (not as_found or _goes_out(atom, entry)):
                    self.undefined(atom, entry, print_)
                if atom.owner is not owner and owner is not None and atom.owner is not None:
                    self._of_another(atom, entry, print_, as_found=as_found)
                atom.reads[reader] = entry
        for print_, state in writes:
            if agent.swaps and print_.shadow.is_global:
                own = NOBODY
            is_known = print_.version == print_.shadow.version
            in_place = read_too(entry[2], print_)
            for atom in print_.known if is_known else print_.atoms():
                write = atom.write
                if write[0] != own and known(write[0], 0) < write[1]:
                    self._race("write", atom, write, write[0], entry, print_)
                    known = agent.clock.get
                if atom.reads:
                    for other, read in atom.reads.items():
                        if other != index and known(other, 0) < read[1]:
                            self._race("overwrite", atom, read, other, entry, print_)
                            known = agent.clock.get
                    atom.reads.clear()
                    atom.taken |= write[2] is None
                if write[2] is None and entry[2].is_atomic:
                    atom.taken = True
                atom.write = entry
                if state is not None:
                    atom.defined = state
                if atom.owner is not print_.owner:
                    lost = None if takes_over(atom, in_place) else atom.owner
                    atom.lost, atom.owner = lost, print_.owner

    def _race(
        self,
        kind: str,
        atom: Atom,
        earlier: Entry,
        agent: int,
        later: Entry,
        print_: Footprint,
    ) -> None:
        """Two accesses conflict, the first of them by `agent`."""
        if not self.chosen.races or _hand_over(earlier[2], later[2]):
            return
        extent = print_.shadow.extent(atom)
        if self.inserted and self.inserted.orders(earlier[2], later[2], print_, extent):
            self._by_inserted(agent, earlier, later)
            return
        one, two = earlier[2], later[2]
        if earlier[0] != later[0]:  # the operations of a pipe stay in their order here
            self.met.add((one.core.index, one.inst.pc, two.core.index, two.inst.pc))
        if kind == "write" and _may_swap(one, two):
            return
        if kind == "write" and _are_twins(earlier[2].core, later[2].core, print_):
            self.twins.append((earlier, later, print_, atom, self._held(print_, atom)))
            return
        self._tell_race(kind, atom, earlier, later, print_)

    def _tell_race(
        self,
        kind: str,
        atom: Atom,
        earlier: Entry,
        later: Entry,
        print_: Footprint,
        *,
        is_equal: bool = False,
    ) -> None:
        if earlier[2] is later[2] and earlier[3] == later[3]:  # steps of one execution
            return
        first, second = earlier[2].inst.pc, later[2].inst.pc
        if print_.shadow.is_global and first == second and earlier[0] == later[0]:
            return  # one store in a loop: as a rule it stores the same again
        kinds = (
            "order" if earlier[0] == later[0] else kind
        )  # one report where one barrier is missing
        key: tuple[Any, ...] = (kinds, first, second, is_equal)
        if earlier[2].core.cluster is later[2].core.cluster:  # one report for all blocks
            key += (earlier[0], later[0])
        if key in self._seen:
            return
        self._seen.add(key)
        extent = print_.shadow.extent(atom)
        if kinds == "order" and kind == "read" and left_out(earlier, later, print_):
            self.report.left_out(earlier, later, print_)
            return
        self.report.race(kind, earlier, later, print_, extent, is_equal=is_equal)

    def settle(self, access: Access) -> None:
        """What can be said only after an operation: of what it computed without values, and of
        what two sub-blocks wrote."""
        if self.tainted:
            sources = [source for source, _ in self.tainted.values()]
            trail = max((t for _, t in self.tainted.values()), key=lambda t: t.cause is not None)
            self.tainted.clear()
            op = access.inst.operation
            for written in access.writes:
                did = "stored" if written.shadow.is_global else "computed"
                way = trail.longer(did, op, written_name(op, written.name))
                taint(op, sources, written, way)
        if self.twins:
            self.judge_twins()

    def judge_twins(self) -> None:
        """Say of sub-blocks that have written the same bytes whether the values are the same."""
        twins, self.twins = self.twins, []
        for earlier, later, print_, atom, before in twins:
            is_equal = self._held(print_, atom) == before
            self._tell_race("write", atom, earlier, later, print_, is_equal=is_equal)

    def _held(self, print_: Footprint, atom: Atom) -> bytes:
        """The content of an atom of global memory or of L1."""
        core, where = next(place for place, s in self.shadows.items() if s is print_.shadow)
        if core < 0:
            data = self.machine.buffers[where].data
        else:
            data = np.frombuffer(self.machine.cores[core].space(where).data, np.uint8)
        return b"".join(data[low:high].tobytes() for low, high in print_.shadow.runs(atom))

    def _by_inserted(self, index: int, earlier: Entry, later: Entry) -> None:
        """A flag that the assembler inserts tells what the agent of the first access knew."""
        source, agent = self.clocks.by_index[index], self.clocks.by_index[later[0]]
        if source is not None and agent is not None:
            agent.learn(with_count(source.clock, index, earlier[1]))

    @staticmethod
    def done_reading(agent: Agent, reader: Agent) -> None:
        """A load of the scalar unit is done before the next instruction is issued."""
        agent.clock = with_count(agent.clock, reader.index, agent.count)

    def misaligned(self, inst: Inst, address: int, need: Alignment, where: str = "UB") -> None:
        """Report an access of a register at an address that the unit cannot take, once for each
        instruction."""
        key = ("misaligned", inst.pc)
        if self.chosen.bounds and key not in self._seen:
            self._seen.add(key)
            self.report.misaligned(inst, address, need, where)

    def undefined(self, atom: Atom, entry: Entry, print_: Footprint) -> Trail:
        """Report a read of bytes without a value, once for each instruction and operand; return how
        they came to have none."""
        if not self.chosen.defined or print_.is_copied:
            return Trail(())
        trail, before = trail_of(atom, print_), self.tainted.get(id(print_))
        if before is not None and before[1].is_stale:
            return before[1]
        if atom.defined != TAINTED:  # else its cause was reported
            key = (entry[2].inst.pc, print_.name, atom.defined)
            cause = self._causes.get(key)
            if cause is None:
                cause = self._causes[key] = self.report.undefined(atom, entry, print_, trail)
            trail = trail._replace(cause=cause)
        elif trail.cause is not None and any(p.shadow.is_global for p in entry[2].writes):
            self.report.went_out(trail, entry[2])
        if before is None:
            is_asked = keeps_order(entry[2].inst.operation)
            self.tainted[id(print_)] = without_values(print_) if is_asked else None, trail
        return trail

    def doubt(self, atom: Atom, entry: Entry, print_: Footprint) -> None:
        """A read of bytes without a value that may decide nothing: keep what is to be said."""
        report = replace(self.report, sink=self.report.sink.like())
        trail = trail_of(atom, print_, is_stale=atom.defined == DEFINED)
        told = report.undefined(atom, entry, print_, trail).told
        if told is not None:
            self.unsure[entry[2].inst.pc] = told

    def _of_another(self, atom: Atom, entry: Entry, print_: Footprint, *, as_found: bool) -> None:
        """Bytes are read that another buffer wrote last. What it overwrote is lost, also under a
        second name of the same place and size, or of a part of it that is read with what is left
        of it; what it left is stale for one that only reuses its bytes."""
        core, owner = entry[2].core, print_.owner
        lost = atom.lost
        if lost is not None and (lost is owner or self._is_name_of(core, print_, lost)):
            self.overwritten(atom, entry, print_)
        elif not as_found and self.is_stale(core, atom, print_):
            self.stale(atom, entry, print_)

    def _is_name_of(self, core: Core, print_: Footprint, lost: Value) -> bool:
        """True for an operand that is a second name of a buffer, or of a part of it while other
        bytes of the operand are still the buffer's."""
        assert print_.owner is not None
        place, whole = self.names.place(core, print_.owner), self.names.place(core, lost)
        if place is None or whole is None or place == whole:
            return place is not None and place == whole
        (start, size), (first, limit) = place, whole
        if size is None or limit is None or not first <= start <= start + size <= first + limit:
            return False
        return any(atom.owner is lost and atom.defined == DEFINED for atom in print_.atoms())

    def is_stale(self, core: Core, atom: Atom, print_: Footprint) -> bool:
        """True for a value that is not the reader's: another buffer left it there."""
        held, owner = atom.owner, print_.owner
        if held is owner or held is None or owner is None or atom.defined != DEFINED:
            return False
        return not print_.shadow.is_global and self.names.are_apart(core, held, owner)

    def stale(self, atom: Atom, entry: Entry, print_: Footprint) -> Trail:
        """Report a read of bytes that another buffer has written since this one did, as
        `undefined` does; one finding for an operand that has both."""
        before = self.tainted.get(id(print_))
        if not self.chosen.defined or print_.is_copied:
            return Trail(())
        if before is not None and before[1].is_stale:
            return before[1]
        trail = before[1] if before is not None else trail_of(atom, print_, is_stale=True)
        if before is None:
            key = (entry[2].inst.pc, print_.name, "stale")
            if key not in self._causes:
                self._causes[key] = self.report.undefined(atom, entry, print_, trail)
            trail = trail._replace(cause=self._causes[key])
        stale = [a for a in print_.atoms() if self.is_stale(entry[2].core, a, print_)]
        is_asked = keeps_order(entry[2].inst.operation)
        self.tainted[id(print_)] = without_values(print_, stale) if is_asked else None, trail
        return trail

    def overwritten(self, atom: Atom, entry: Entry, print_: Footprint) -> None:
        """A buffer is read after another one was written over a part of it. Two names of the same
        bytes are meant; two buffers that overlap in part are not, nor are two inputs."""
        core, pc = entry[2].core, entry[2].inst.pc
        key = ("overwritten", pc, print_.name)
        if not self.chosen.defined or key in self._seen or print_.shadow.is_global:
            return
        if atom.owner is None or atom.lost is None or self._are_names(core, atom):
            return
        self._seen.add(key)
        self.report.overwritten(atom, entry, print_)

    def _are_names(self, core: Core, atom: Atom) -> bool:
        """True if the buffer that wrote last and the one that it overwrote may be two names of one,
        or if it is not known where they are."""
        places = []
        for value in (atom.owner, atom.lost):
            place = self.names.place(core, value)
            if place is None:
                return True
            places.append(place)
        (one, size), (other, limit) = places
        if one != other or atom.write[2] is None:
            return False
        return size == limit or None in (size, limit)


def read_too(access: Access, print_: Footprint) -> list[Footprint]:
    """What an operation reads of the buffer that it writes at `print_`."""
    owner, shadow = print_.owner, print_.shadow
    return [p for p in access.reads if p.owner is owner and p.shadow is shadow]


def takes_over(atom: Atom, in_place: list[Footprint]) -> bool:
    """True for an operation in place on a part of what another buffer had there: a name of a part,
    by its address, which changes the whole. `in_place` is what it reads there."""
    return any(atom in p.atoms() for p in in_place)


def _goes_out(atom: Atom, entry: Entry) -> bool:
    """True for what follows the data in a block of a load, where it is copied out of the chip."""
    op = entry[2].inst.op
    return atom.defined == PADDING and op is not None and op.has("copies_out")


def _hand_over(earlier: Access, later: Access) -> bool:
    """True for a product and a move of its accumulator that pass it on block by block: the unit
    flag of both is the order between them (PTO micro-instruction specification, AccPhase)."""
    ops = earlier.inst.op, later.inst.op
    return all(op is not None and op.bound.get("unit_flag") is not None for op in ops)


def _are_twins(one: Core, two: Core, print_: Footprint) -> bool:
    """True for two vector cores of one block that write global memory, or L1 of their cube core:
    programs that do not ask which one they are store everything twice."""
    return one is not two and one.cluster is two.cluster and one.kind == two.kind == "vector"


_SIXTEEN_REPEATS = 3840
"""Bytes that fewer than 16 repeats of 256 bytes reach."""


def left_out(earlier: Entry, later: Entry, print_: Footprint) -> bool:
    """True where the assembler leaves out the barrier between two vector operations of A2/A3: the
    second reads exactly the contiguous bytes that the first writes in 16 repeats or more, the type
    says how many are valid, neither uses scratch, and both are in one round of their loops."""
    one, two = earlier[2], later[2]
    if one.inst.pc >= two.inst.pc or earlier[3] != later[3] or one.spoils or two.spoils:
        return False
    low, high = print_.span
    if high - low != print_.bytes or print_.bytes <= _SIXTEEN_REPEATS:
        return False
    type_ = getattr(two.inst.operation.bound.get(print_.name), "type", None)
    if isinstance(type_, TileType) and None in (type_.v_row, type_.v_col):
        return False
    if any(p.shadow is print_.shadow and _share(p.span, print_.span) for p in two.writes):
        return False
    return any(p.shadow is print_.shadow and p.parts == print_.parts for p in one.writes)


def _share(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _may_swap(first: Access, second: Access) -> bool:
    """Atomic additions come to the same sum in any order."""
    return first.is_atomic and second.is_atomic
