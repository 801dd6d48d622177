"""Watches every operation take effect: is it ordered after what it conflicts with, does it read
what was written, are flags used in pairs.

The monitor wraps the effect of a binding when the engine makes it, so a run without sanitizers pays
nothing, and one with them a few steps for each operand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from ptosim.engine.core.bound import Bound, DecodedProgram, Inst, Kind, Moved
from ptosim.engine.core.engine import Engine
from ptosim.engine.watch.access import (
    READS,
    SCALAR,
    Access,
    Agent,
    Clocks,
    Sanitize,
    access_of,
    footprint,
    may_quantise,
    noted,
    parse,
)
from ptosim.engine.watch.definedness import Passed, copier
from ptosim.engine.watch.lines import LINE, Line, ScalarLines
from ptosim.engine.watch.marks import Marks
from ptosim.engine.watch.overlaps import ControlBook, Overlaps, Slots, Staged
from ptosim.engine.watch.report import Reporter
from ptosim.engine.watch.vector import VectorWatch
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.records import replace
from ptosim.machine.core import Core, Machine
from ptosim.machine.effects.account import (
    DEFINED,
    acts_on_memory,
    effects_after,
    effects_of_action,
    reached_by,
)
from ptosim.machine.effects.storage import source_pipe
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView, Pointer
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.orders import Fence, Pop, Push, SetFlag, WaitFlag

if TYPE_CHECKING:
    from ptosim.engine.watch.quantisation import QuantBook

Effect = Callable[[], object]


class Monitor(Marks):
    """The sanitizers of one run."""

    def __init__(
        self,
        program: DecodedProgram,
        insts: list[Inst],
        resolved: ResolvedModule,
        machine: Machine,
        sink: Sink,
        chosen: Sanitize,
        *,
        ordered: bool = False,
    ) -> None:
        """`insts` are what an engine executes of the program: what is to be watched is put there
        in copies. In cores that are `ordered` no pipe is ahead of the text."""
        pipes = {i.pipe for i in program.insts if i.kind in (Kind.EXEC, Kind.REGION)}
        for op in (i.op for i in program.insts if i.op is not None):
            pipes |= op.passes.pipes if op.passes is not None else set()
        clocks = Clocks(machine.cores, pipes, resolved.target, ordered=ordered)
        report = Reporter(resolved, machine, sink, clocks)
        super().__init__(program, machine, clocks, report, chosen, resolved.target)
        self.overlaps = Overlaps(self.report, self.target)
        self.control = ControlBook(self.report, insts, self.target)
        self.lines = ScalarLines(self.report)
        self.quant = _quant_book(program, chosen)
        self.passed = Passed()
        self.slots = Slots(self)
        self.has_scalar_stores = any(
            i.op is not None and i.op.has("writes_memory") for i in program.insts
        )
        self.vector = VectorWatch(self, insts)
        for core in machine.cores:
            core.simt.watched = chosen.races or chosen.defined
        self._watch_actions(insts)

    # -- what the engine calls --------------------------------------------------------------------

    def bind(self, core: Core, inst: Inst, bound: Bound) -> None:
        """Wrap the effect of a new binding."""
        first = bound.first if isinstance(bound, Moved) else bound
        binding = first.binding
        commit, agent = bound.commit, self.clocks.agent(core, inst.pipe)
        if binding.sync is not None or binding.signals or binding.awaits:
            touches = self.library_events(core, inst)
            ordered = self._ordering(core, inst, agent, binding, commit)
            bound.commit = ordered if touches is None else _in_turn(touches, ordered)
            return
        if binding.done is not None:
            if binding.touches is None and self.chosen.defined:
                self.overlaps.look(access_of(core, inst, binding, self.shadow), binding.values)
            bound.commit = self._afterwards(core, inst, agent, binding, commit)
            return
        access = self._access(core, inst, bound, first)
        mode, commit = self.control.around(core, inst, commit)
        if self.watched_lines is not None and self.lines.contents:
            commit = self.lines.past(access, commit)
        others = (
            *self._others(core, inst, binding, access),
            *self._on_lines(core, inst, binding, access),
        )
        if mode is not None:
            others = (*others, mode)
        if others or not self._is_usual(agent, access, inst):
            check = self._check(agent, access, inst)
            bound.commit = self._watched(check, others, commit, binding, access)
        else:
            bound.commit = self._usual(agent, access, inst, commit, binding)

    def _others(
        self, core: Core, inst: Inst, binding: Binding, access: Access
    ) -> tuple[Callable[[], None], ...]:
        """What else is looked at each time that a binding takes effect; nothing for most."""
        numbers = self._with_values(self.quant.check_of(binding) if self.quant else None)
        touches = self.library_events(core, inst)
        told = partial(self.report.went_out, access=access)
        spreads = copier(binding, access, self.shadow, self.is_stale, told)
        return tuple(c for c in (numbers, touches, spreads) if c is not None)

    def _with_values(self, check: Callable[[], None] | None) -> Callable[[], None] | None:
        """A check of values, left out where some that the operation reads were reported to be
        none."""
        if check is None:
            return None

        def checked() -> None:
            if not self.tainted:
                check()

        return checked

    @property
    def watched_lines(self) -> ScalarLines | None:
        """The lines that scalar units cache, if they store and races are looked at."""
        return self.lines if self.has_scalar_stores and self.chosen.races else None

    def _on_lines(
        self, core: Core, inst: Inst, binding: Binding, access: Access
    ) -> tuple[Callable[[], None], ...]:
        """What a transfer, or an operation on the cache, does to lines that scalar units cache."""
        if self.watched_lines is None:
            return ()
        if inst.op is not None and inst.op.has("writes_back"):
            line = self._line_of(core, binding)
            return (lambda: self.lines.cleaned(core, line),)
        is_moved = any(p.shadow.is_global for p in (*access.reads, *access.writes))
        agent = self.clocks.agent(core, inst.pipe)
        return (lambda: self.lines.moved(access, agent),) if is_moved else ()

    def _line_of(self, core: Core, binding: Binding) -> Line | None:
        """The line that an operation on the cache is about; None: all of them."""
        place, extent = binding.values.get("address"), binding.values.get("extent")
        place = place.start if isinstance(place, GmView) else place
        is_whole = str(getattr(extent, "member", extent)).startswith("ENTIRE")
        if is_whole or not isinstance(place, Pointer) or not place.is_global:
            return None
        return self.shadow(core, place.memory).name, place.byte // LINE

    def _watched(
        self,
        check: Callable[[], None],
        others: tuple[Callable[[], None], ...],
        commit: Effect,
        binding: Binding,
        access: Access,
    ) -> Effect:
        """An effect with what is looked at before it."""

        def watched() -> None:
            if self.is_on:
                check()
                for other in others:
                    other()
            commit()
            if self.tainted or self.twins:
                self.settle(access)

        return watched

    def _is_usual(self, agent: Agent, access: Access, inst: Inst) -> bool:
        """True for an operation of which nothing is known but what it reads, and then writes."""
        op = inst.op
        if op is not None and (op.passes is not None or source_pipe(op, self.target) is not None):
            return False
        return agent.pipe != SCALAR and not access.found

    def _usual(
        self, agent: Agent, access: Access, inst: Inst, commit: Effect, binding: Binding
    ) -> Effect:
        """What `_watched` does with `_check`, in one piece."""
        begin, note, scalar, index = self.clocks.begin, self.note, agent.scalar, agent.index
        reads, writes, pc = access.reads, access.all_writes, inst.pc
        times = self.times[access.core.index]

        def watched() -> None:
            if self.is_on:
                if agent.pending or agent.seen is not scalar.clock:
                    begin(agent)
                else:  # it knows already what the scalar unit knows
                    agent.count += 1
                times[pc] = time = times[pc] + 1
                note((index, agent.count, access, time), agent, reads, writes, index)
            commit()
            if self.tainted or self.twins:
                self.settle(access)

        return watched

    def _ordering(
        self, core: Core, inst: Inst, agent: Agent, binding: Binding, commit: Effect
    ) -> Effect:
        """The effect of an operation that orders others."""
        if isinstance(binding.sync, (SetFlag, WaitFlag)) and agent.pipe != SCALAR:
            times = self.times[core.index]
            return self.flagged((core, inst, agent), binding.sync, commit, times)
        check = self._pushed(core, inst, agent, binding)
        pops = isinstance(binding.sync, Pop)

        def ordered() -> None:
            if self.is_on:
                check()
                self.synchronise(core, inst, agent, binding)
                if isinstance(binding.sync, Fence):
                    self.lines.fenced(core)
            commit()
            self._define_made(binding)
            if binding.made and self.is_on and agent.pipe != SCALAR:
                self._copied(core, inst, agent, binding)
            if pops and self.is_on:
                self._popped(binding)

        return ordered

    def _pushed(self, core: Core, inst: Inst, agent: Agent, binding: Binding) -> Callable[[], None]:
        """What begins an operation that orders others: a push takes its tile first, as it is: what
        has no value has none in the slot either, and who reads it there is told."""
        if not isinstance(binding.sync, Push):
            return self._check(agent, Access(core, inst), inst)
        access = access_of(core, inst, binding, self.shadow)
        access.found, access.reads = (*access.found, *access.reads), ()
        check, times = self._check(agent, access, inst), self.times[core.index]
        slot = binding.slot if self.chosen.races else None

        def pushed() -> None:
            check()
            entry = (agent.index, agent.count, access, times[inst.pc])
            self.passed.push(binding, entry, self.is_stale)
            if slot is not None:
                self.slots.push(entry, agent, slot())

        return pushed

    def _popped(self, binding: Binding) -> None:
        """The tile that a pop hands out has the values that the push had."""
        push, lost = self.passed.pop(binding)
        if push is None or lost is None:
            return
        for core, ref in binding.made:
            self.passed.fill(push, lost, ref, self.shadow(core, ref.type.loc))

    def _afterwards(
        self, core: Core, inst: Inst, agent: Agent, binding: Binding, commit: Effect
    ) -> Effect:
        """The effect of an operation that says what it reached when it is done."""

        def watched() -> None:
            commit()
            if not self.is_on:
                return
            known = agent.pending[0] if agent.pending else None
            for number, effects in enumerate(effects_after(binding)):
                if number and known is not None:  # one operation, issued once
                    agent.pending.appendleft(known)
                self._check(agent, noted(core, inst, effects, self.shadow), inst)()

        return watched

    def _access(self, core: Core, inst: Inst, bound: Bound, first: Bound) -> Access:
        """Return what a binding touches; operands that share bytes are reported the first time."""
        if isinstance(bound, Moved) and first.access is not None:
            return first.access.moved(bound.distance)
        binding, earlier = bound.binding, bound.access
        if earlier is not None:  # of another run
            access = earlier.on(core, inst, self.shadow)
        else:
            access = access_of(core, inst, binding, self.shadow)
        if binding.touches is not None:
            return access
        if self.chosen.defined:
            self.overlaps.look(access, binding.values)
        if first is bound:
            first.access = access
        return access

    def enter_later(self, core: Core, inst: Inst) -> None:
        """A vector region is issued to a pipe that waits."""
        if self.is_on:
            self.clocks.issue(self.clocks.agent(core, inst.pipe))

    def issue(self, core: Core, inst: Inst, bound: Bound) -> None:
        """An operation goes to a pipe that waits, or waits itself."""
        if not self.is_on:
            return
        agent = self.clocks.agent(core, inst.pipe)
        self.clocks.issue(agent)
        binding = bound.binding
        if binding.signals and binding.awaits:  # a meeting: arrive first, leave later
            for key in binding.signals:
                self.clocks.give(agent, key)

    def define(self, core: Core, ref: TileRef, owner: Value | None = None) -> None:
        """The bytes of a tile have values: those of the input `owner`, or of a FIFO's slot."""
        reached = reached_by(core, "", ref)
        found = footprint(reached, None, self.shadow) if reached is not None else None
        for atom in found.atoms() if found is not None else ():
            atom.defined = DEFINED
            if owner is not None:
                atom.lost, atom.owner = atom.owner, owner
                self.names.inputs.add(owner)

    def _define_made(self, binding: Binding) -> None:
        for core, ref in binding.made:
            self.define(core, ref)

    def _copied(self, core: Core, inst: Inst, agent: Agent, binding: Binding) -> None:
        """A pop on A2/A3 has copied the oldest tile of a FIFO: its pipe writes like any other."""
        for owner, ref in binding.made:
            reached = reached_by(owner, "tile", ref)
            found = footprint(reached, None, self.shadow) if reached is not None else None
            if found is None:
                continue
            access = Access(core, inst)
            access.writes = (found,)
            entry = (agent.index, agent.count, access, self.times[core.index][inst.pc])
            self.note(entry, agent, (), ((found, DEFINED),), agent.index)

    def finish(self) -> None:
        """The program has ended: report what is left over."""
        for push in self.passed.left():
            told = self.stale if push.trail.is_stale else self.undefined
            told(push.atom, push.entry, push.print_)
        self.tainted.clear()
        if self.chosen.flags:
            self.flags.finish()
        if self.quant is not None:
            self.quant.finish()

    def release(self) -> None:
        """The run is over: let go of who accessed what."""
        for shadow in self.shadows.values():
            shadow.release()
        self.shadows.clear()
        self.lines.contents = {}

    def begin_again(self) -> None:
        """Another block begins on the same cores; see `again.begin_again`."""
        self.flags.begin_again()
        self.control.begin_again()
        self.lines.begin_again()
        if self.quant is not None:
            self.quant.begin_again()
        for times in self.times:
            times[:] = [0] * len(times)

    # -- memory -----------------------------------------------------------------------------------

    def _check(self, agent: Agent, access: Access, inst: Inst) -> Callable[[], None]:
        """Return the check of one binding; everything it needs is at hand."""
        if inst.op is not None and inst.op.passes is not None:
            return Staged(self, agent, access, inst.op.passes, self.times[access.core.index]).check
        begin, note, scalar, index = self.clocks.begin, self.note, agent.scalar, agent.index
        reads, found, writes, pc = access.reads, access.found, access.all_writes, inst.pc
        times = self.times[access.core.index]
        reader = self.clocks.agent(access.core, READS) if agent.pipe == SCALAR else agent
        op = inst.op
        loader = source_pipe(op, self.target) if op is not None else None
        source = self.clocks.agent(access.core, loader) if loader is not None else None

        def check() -> None:
            if agent.pending or agent.seen is not scalar.clock:
                begin(agent)
            else:  # it knows already what the scalar unit knows
                agent.count += 1
            times[pc] = time = times[pc] + 1
            entry = (index, agent.count, access, time)
            if source is not None:
                self._loaded(agent, source, access, time)
            if found:
                note(entry, agent, found, (), reader.index, as_found=True)
            note(entry, agent, () if source is not None else reads, writes, reader.index)
            if reader is not agent:
                self.done_reading(agent, reader)

        return check

    def _loaded(self, agent: Agent, source: Agent, access: Access, time: int) -> None:
        """The first half of a copy through tiles: another pipe than the operation's own reads, and
        fills the tiles. The operation orders the halves itself."""
        source.learn(agent.seen if agent.seen is not None else agent.clock)
        source.count += 1
        entry = (source.index, source.count, access, time)
        self.note(entry, source, access.reads, access.spoils, source.index)
        agent.learn(source.message())

    # -- operations that the scalar unit executes itself ------------------------------------------

    def _watch_actions(self, insts: list[Inst]) -> None:
        for inst in list(insts):
            op = inst.op
            if inst.kind is not Kind.ACTION or op is None:
                continue
            if acts_on_memory(op, self.target):
                insts[inst.pc] = replace(inst, run=self._action(inst, op, inst.run))

    def _action(self, inst: Inst, op: Operation, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The function of an operation, watched. In a vector region it belongs to the vector
        unit."""
        slots = self.program.slots
        operands = {
            name: (slots.get(operand.value) if operand.value is not None else None, operand.const)
            for name, operand in op.bound.items()
            if isinstance(operand, Operand)
        }

        is_cached = self.watched_lines is not None and not op.has("atomic_update")
        owners: dict[str, Value | None] = {}

        def watched(core: Core) -> None:
            if not self.is_on:
                run(core)
                return
            held = core.slots
            values = {n: const if s is None else held[s] for n, (s, const) in operands.items()}
            found = effects_of_action(core, op, values, self.target)
            found.owners = owners
            access = noted(core, inst, found, self.shadow)
            if self.vector.holds(inst):
                run(core)
                self.vector.note(access)
                return
            agent = self.clocks.agent(core, inst.pipe)
            with self.lines.scalar(access, agent) if is_cached else nullcontext():
                run(core)
            self._check(agent, access, inst)()
            if self.target == "a5":
                self.vector.look_at_element(access)

        return watched


# -- its engine ------------------------------------------------------------------------------------


def _in_turn(first: Callable[[], None], then: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        first()
        return then()

    return run


def _quant_book(program: DecodedProgram, chosen: Sanitize) -> QuantBook | None:
    """What watches quantising operations, where it is wanted and the program has some."""
    if not chosen.quant or not any(i.op and may_quantise(i.op) for i in program.insts):
        return None
    from ptosim.engine.watch.quantisation import QuantBook

    return QuantBook()


def attach(engine: Engine, text: str, inputs: Iterable[Value], *, ordered: bool) -> Monitor | None:
    """Return the monitor of a run, or None if nothing is to be watched.

    `inputs` are the tiles that have values from the start. In functions into which the assembler
    inserts flags, what it orders counts as ordered (`Inserted`); `ordered` says that this is so of
    all that is launched, and that nothing is at a place that the assembler does not know. Nothing
    orders cores but what the program says."""
    chosen = parse(text)
    if ordered:
        chosen = chosen.without_flags()
    if not engine.domain.has_contents:
        chosen = replace(chosen, quant=False)
    if not chosen.is_needed:
        return None
    parts = engine.program, engine.insts, engine.resolved, engine.machine, engine.sink
    monitor = Monitor(*parts, chosen, ordered=ordered)
    if engine.domain.has_contents:
        monitor.lines.contents = {buffer.name: buffer for buffer in engine.machine.buffers}
    given = list(inputs)
    for core in engine.machine.cores:
        for value in given:
            monitor.define(core, core.slots[engine.program.slots[value]], value)
    engine.monitor = monitor
    return monitor
