"""When effects happen: in program order (here), or when pipes retire (`retire.py`).

In program order effects of a core happen as the program says wherever that leads on. Cores run one
at a time, the lowest-numbered one that can go on; one whose next operation waits for an event gives
way to the next. Only where no core can go on in order does an operation that waits hold nothing but
its pipe: what is issued to that pipe afterwards queues after it, other pipes and the scalar unit go
on until they have signalled, and the queue moves when the event comes. So a run is deterministic,
and it ends for every program: with its results, or where nothing can move any more."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from ptosim.engine.core.bound import Bound, Inst, Kind
from ptosim.engine.core.runners import Host
from ptosim.ground.diagnostics.model import Diagnostic, Label, Sink, Trap, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.targets import Pace
from ptosim.ground.source import Source, Span
from ptosim.machine.core import Core, Machine
from ptosim.machine.effects.storage import flag_key
from ptosim.machine.tile import TileRef
from ptosim.ops.base.orders import WITHIN_CORE, Alloc, Push, WaitFlag, who_is_missing


class ProgramOrder:
    """Effects happen when an operation is issued."""

    def __init__(self) -> None:
        self.has_released = False
        """True if a pipe has waited where no core could go on in order. In a launch of several
        blocks the others would have gone on there."""

    def run(self, engine: Host) -> None:
        """Execute every core to its end. Raises Trap where the program cannot go on."""
        while (core := self.next_core(engine)) is not None:
            if engine.executed >= engine.meter.due:
                engine.look(core)
            if engine.is_observed:
                engine.step(core)
                continue
            while engine.execute(core, engine.meter.due - engine.executed):
                engine.look(core)

    def next_core(self, engine: Host) -> Core | None:
        """Return the lowest-numbered core that can go on, first of those whose pipes wait for
        nothing; None when all have ended. Raises Trap if some have not and none can."""
        ahead: Core | None = None
        waiting: list[Core] = []
        for core in engine.machine.cores:
            if core.halted:
                continue
            if (core.stalled is None and core.pc >= 0) or engine.resume(core):
                if not core.queues:
                    return core
                ahead = ahead or core
            elif not core.halted:
                waiting.append(core)
        if ahead is not None or not waiting:
            return ahead
        return engine.domain.released(engine, waiting) or self._released(engine, waiting)

    def _released(self, engine: Host, waiting: list[Core]) -> Core:
        """No core can go on in order: let the first that may leave its waiting operation in the
        queue of its pipe. Raises Trap if none may."""
        self.has_released = True
        for core in waiting:
            if core.stalled is not None and core.stalled[1].binding.polls:
                engine.go_on(core)
                return core
            if core.stalled is not None and not engine.in_order and core.stalled[0].pipe != "S":
                core.queues[core.stalled[0].pipe] = deque([core.stalled])
                core.stalled = None
                return core
        raise deadlock(engine.machine, engine.resolved.module.source, engine.sink)

    def issue(self, engine: Host, core: Core, inst: Inst, bound: Bound) -> bool:
        """Commit an instruction, or queue it where its pipe waits. False if its core gives way to
        others: it waits, or has signalled while a pipe of its own waits."""
        engine.issuing(core, inst, bound)
        queue = core.queues.get(inst.pipe)
        if queue is not None:
            queue.append((inst, bound))
            return True
        if bound.guard is None or bound.guard():
            engine.commit(core, inst, bound)
            return bound.binding.sync is None or not core.queues
        core.stalled = (inst, bound)
        return False

    def progress(self, engine: Host) -> None:
        """Move every queue whose head need not wait any more."""
        moved = True
        while moved:
            moved = False
            for core in [c for c in engine.machine.cores if c.queues]:
                for pipe in list(core.queues):
                    moved = self._drain(engine, core, pipe) or moved

    def _drain(self, engine: Host, core: Core, pipe: str) -> bool:
        queue = core.queues[pipe]
        moved = False
        while queue:
            inst, bound = queue[0]
            if bound.guard is not None and not bound.guard():
                return moved
            queue.popleft()
            engine.effect(core, inst, bound)
            moved = True
        del core.queues[pipe]
        return True


def queued(engine: Host, core: Core, inst: Inst, bound: Bound) -> bool:
    """Queue an operation on its pipe; the scalar unit's own take effect at once. False if the
    scalar unit has to wait. For paces whose effects come after the issue."""
    engine.issuing(core, inst, bound)
    if inst.pipe != "S":
        core.queues.setdefault(inst.pipe, deque()).append((inst, bound))
        return True
    if bound.guard is not None and not bound.guard():
        core.stalled = (inst, bound)
        return False
    engine.commit(core, inst, bound)
    return True


# -- who waits for what ----------------------------------------------------------------------------


def deadlock(machine: Machine, source: Source, sink: Sink) -> Trap:
    """Report a run that cannot go on, and return the trap that says where the first pipe waits."""
    sink.emit(deadlock_finding(machine, source))
    _, inst, _ = next(_waits(machine))
    return Trap(list(sink), pc=inst.pc, pipe=inst.pipe)


def deadlock_finding(machine: Machine, source: Source) -> Diagnostic:
    """Return the finding of a run that cannot go on: a place for each waiting pipe, the flags that
    would let it go on, and what is set instead."""
    waits = list(_waits(machine))
    labels = [
        Label(
            Span(source, inst.operation.start, inst.operation.name_end),
            f"{_where(core)} waits here on pipe {inst.pipe} for {bound.binding.sync or 'its turn'}",
        )
        for core, inst, bound in waits
    ]
    first = labels[0]
    waiting = "1 pipe waits" if len(waits) == 1 else f"{len(waits)} pipes wait"
    return finding(
        "PTO5006",
        f"deadlock: {waiting} and nothing can move",
        first.span,
        label=first.text,
        more=labels[1:],
        notes=tuple(_notes(machine, waits, source)),
        help=_cure(waits),
        context={"waits": [_fact(core, inst, bound) for core, inst, bound in waits]},
    )


def _waits(machine: Machine) -> Iterator[tuple[Core, Inst, Any]]:
    for core in machine.cores:
        if core.stalled is not None:
            yield core, *core.stalled
        for queue in core.queues.values():
            yield core, *queue[0]


def _where(core: Core) -> str:
    of = f"rank {core.rank} " if core.has_ranks else ""
    if core.kind == "any":
        return f"{of}block {core.block}"
    suffix = f" {core.sub_block}" if core.kind == "vector" else ""
    return f"{of}block {core.block} {core.kind}{suffix}"


def _cure(waits: list[tuple[Core, Inst, Any]]) -> str:
    """Return what lets the run go on; a push waits where pops are not followed by frees."""
    for core, _, bound in waits:
        sync = bound.binding.sync
        if isinstance(sync, (Alloc, Push)):
            producer = "aic" if sync.direction == "c2v" else "aiv"
            end = core.cluster.fifos.ends.get((core.index, sync.key))
            ring = f"the ring of {end.slot_num} slots is full" if end else "the ring is full"
            free = f"`pto.tfree_from_{producer} {{split = 0}}`"
            return f"{ring}: after each pop the consumer needs {free}"
        missing = who_is_missing(sync, bound.binding.awaits, core.cluster.counters)
        if missing is not None:
            return missing
    return "signal each flag before, or independently of, the wait for it"


def _notes(
    machine: Machine, waits: list[tuple[Core, Inst, Any]], source_text: Source
) -> Iterator[str]:
    for core, inst, bound in waits:
        sync = bound.binding.sync
        if isinstance(sync, WaitFlag):
            source, target, number = sync
            others = sorted(
                f"EVENT_ID{k[2]}" for k, n in core.flags.items() if n and k[:2] == (source, target)
            )
            held = f"; set and not waited for: {', '.join(others)}" if others else ""
            yield (
                f"no set_flag[PIPE_{source}, PIPE_{target}, EVENT_ID{number}] is left to come{held}"
            )
            yield from _setters(inst.operation, source_text)
    for core in machine.cores:
        queued = sum(len(queue) - 1 for queue in core.queues.values())
        if queued:
            yield f"{_where(core)}: {queued} issued operations queue after the waits"


def _setters(wait: Operation, source: Source) -> Iterator[str]:
    """Say of a flag that only bodies of loops or branches set, where the wait is not, what happens
    if they are not executed."""
    around = set(_around(wait))
    sets = [
        op for op in wait.function.walk()
        if op.has("flag") and op.has("signals") and flag_key(op) == flag_key(wait)
    ] if wait.function is not None and wait.has("flag") else []  # fmt: skip
    inside = [next((o for o in _around(op) if o not in around), None) for op in sets]
    if not sets or None in inside:
        return
    for op, region in zip(sets, inside, strict=True):
        assert region is not None
        line, _ = source.line_column(op.start)
        what = (
            "the loop around it makes no round" if region.has("loop") else "its branch is not taken"
        )
        yield f"the '{op.name}' for it in line {line} does not happen where {what}"


def _around(op: Operation) -> list[Operation]:
    """The operations that an operation is in, the outermost first, its function left out."""
    found: list[Operation] = []
    while op.parent is not None and op.parent is not op.function:
        op = op.parent
        found.insert(0, op)
    return found


def _fact(core: Core, inst: Inst, bound: Any) -> dict[str, Any]:
    sync = bound.binding.sync
    return {
        "core": core.index,
        "pipe": inst.pipe,
        "op": inst.op.name if inst.op is not None else None,
        "sync": [sync.kind, *sync] if sync is not None else None,
    }


# Effects when pipes retire: every operation takes effect at the end of a rough duration, not when
# it is issued.
#
# Pipes work at their own pace, so a program with a missing flag computes what a board would
# compute: old bytes where a load was not waited for, new ones where a buffer was refilled too
# early. A program whose accesses are all ordered gives the same bytes as in program order. Where
# synchronisation is automatic they are: a core then issues nothing before what it issued last has
# retired. Durations are assumed (they only have to make loads slow and vector work fast); cycles
# are the timing model's business.


class Retirement:
    """Effects happen when pipes retire what was issued to them."""

    def run(self, engine: Host) -> None:
        """Execute every core to its end. Raises Trap where the program cannot go on."""
        self._order = itertools.count()
        self._now = {core.index: 0 for core in engine.machine.cores}
        self._ends: list[tuple[int, int, Core, str]] = []
        self._busy: set[tuple[int, str]] = set()
        # Cores with a queue whose head waits for another core, and whose scalar unit does.
        self._waiting: set[int] = set()
        self._stalled: set[int] = set()
        self._acting = 0  # the core whose effect is the last one
        self._able = [(0, core.index) for core in engine.machine.cores]  # with stale entries
        while self._advance(engine):
            pass

    def _advance(self, engine: Host) -> bool:
        """One instruction of the scalar unit that is least far, or one retirement, whichever
        comes first."""
        core = self._ready_core(engine)
        if self._ends and (core is None or self._ends[0][0] <= self._now[core.index]):
            self._retire(engine)
            return True
        if core is None:
            return self._finish(engine)
        if engine.executed >= engine.meter.due:
            engine.look(core)
        self._now[core.index] += 1
        self._acting = core.index
        inst = engine.step(core)
        self._goes_on(core)
        if inst is None or inst.kind not in (Kind.SCALAR, Kind.BRANCH):
            self._wake(engine)
        return True

    def _ready_core(self, engine: Host) -> Core | None:
        """The core that is least far of those that can go on. One that cannot is looked at again
        when something of its own retires, or, where it waits for others, after each effect: to look
        at all of them each time would take the square of the number of blocks."""
        while self._able:
            now, index = self._able[0]
            core = engine.machine.cores[index]
            if now == self._now[index] and self._can_go_on(engine, core):
                return core
            heapq.heappop(self._able)
            if core.stalled is not None and _needs_others(core.stalled[1]):
                self._stalled.add(index)
        return None

    def _can_go_on(self, engine: Host, core: Core) -> bool:
        if core.halted or core.pc < 0:
            return False
        if core.stalled is not None and not core.stalled[1].guard():
            return False
        depth = 1 if engine.in_order else engine.machine.definition.queue_depth
        return all(len(q) < depth for q in core.queues.values())

    def _goes_on(self, core: Core) -> None:
        heapq.heappush(self._able, (self._now[core.index], core.index))

    def _wake(self, engine: Host) -> None:
        """After an effect: the scalar units that need not wait any more."""
        for core in [engine.machine.cores[index] for index in self._stalled]:
            if core.stalled is None or core.stalled[1].guard():
                self._stalled.discard(core.index)
                self._goes_on(core)

    def _finish(self, engine: Host) -> bool:
        cores = engine.machine.cores
        for core in cores:
            if core.stalled is None and not core.queues:
                core.halted = True
        if all(core.halted for core in cores):
            return False
        for core in cores:
            if core.stalled is not None and core.stalled[1].binding.polls:
                self._acting = core.index
                engine.go_on(core)
                self._goes_on(core)
                self._wake(engine)
                return True
        raise deadlock(engine.machine, engine.resolved.module.source, engine.sink)

    # -- pipes ------------------------------------------------------------------------------------

    def issue(self, engine: Host, core: Core, inst: Inst, bound: Bound) -> bool:
        """Queue an operation on its pipe; the scalar unit's own take effect at once."""
        if not queued(engine, core, inst, bound):
            return False
        if inst.pipe != "S":
            self._start(core, inst.pipe)
        return True

    def progress(self, engine: Host) -> None:
        """An event came: whatever waits at the head of a pipe may begin."""
        waiting, self._waiting = sorted({*self._waiting, self._acting}), set()
        for core in [engine.machine.cores[index] for index in waiting]:
            for pipe in list(core.queues):
                self._start(core, pipe)

    def _start(self, core: Core, pipe: str) -> None:
        queue = core.queues.get(pipe)
        if not queue or (core.index, pipe) in self._busy:
            return
        inst, bound = queue[0]
        if bound.guard is not None and not bound.guard():
            if _needs_others(bound):
                self._waiting.add(core.index)
            return
        self._busy.add((core.index, pipe))
        end = self._now[core.index] + _duration(core.machine_def.retire, inst.pipe, bound)
        heapq.heappush(self._ends, (end, next(self._order), core, pipe))

    def _retire(self, engine: Host) -> None:
        """The operation that ends next takes effect, and its pipe goes on."""
        end, _, core, pipe = heapq.heappop(self._ends)
        self._busy.discard((core.index, pipe))
        self._now[core.index] = max(self._now[core.index], end)
        self._acting = core.index
        queue = core.queues[pipe]
        inst, bound = queue[0]
        if bound.guard is None or bound.guard():
            queue.popleft()
            if not queue:
                del core.queues[pipe]
            engine.effect(core, inst, bound)
            self.progress(engine)
        elif _needs_others(bound):  # another pipe was first
            self._waiting.add(core.index)
        self._goes_on(core)
        self._wake(engine)


def _needs_others(bound: Bound) -> bool:
    """False for what waits for its own core alone."""
    binding = bound.binding
    return bool(binding.awaits) or not isinstance(binding.sync, WITHIN_CORE)


def _duration(paces: Mapping[str, Pace], pipe: str, bound: Any) -> int:
    binding = getattr(bound, "binding", None)
    if binding is None or binding.sync is not None:
        return 1
    tiles = [v for v in binding.values.values() if isinstance(v, TileRef)]
    largest = max((t.type.dtype.bytes_for(t.v_row * t.v_col) for t in tiles), default=0)
    pace = paces.get(pipe) or paces["other"]
    return pace.latency + largest // pace.rate
