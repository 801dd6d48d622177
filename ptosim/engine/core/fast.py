"""Executes a core as fast as may be: nobody looks on, and loops that run often are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptosim.engine.batch.batches import Batches
from ptosim.engine.core.compiled import HOT, compile_loop
from ptosim.engine.core.loop_function import Compiled, Loop
from ptosim.engine.core.records import Kind
from ptosim.ground.records import dataclass
from ptosim.machine.core import Core
from ptosim.ops.base.binding import OpFault
from ptosim.ops.scalar.numbers import ScalarFault

if TYPE_CHECKING:
    from ptosim.engine.core.engine import Engine


class Loops:
    """The compiled loops of a program, by the place of their heads, and how often those that are
    not compiled yet went round. Cores share the texts, and have functions of their own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rounds: dict[int, int] = {}
        self._compiled: dict[int, Compiled] = {}
        self.batches = Batches(engine.program)
        self.of: list[dict[int, Loop]] = [{} for _ in engine.machine.cores]

    def round(self, core: Core, head: int) -> Loop | None:
        """Count a round of a loop; return its function on a core once it is worth one."""
        engine = self._engine
        rounds = self._rounds[head] = self._rounds.get(head, 0) + 1
        if rounds < (HOT if engine.timing is None and engine.monitor is None else HOT // 2):
            return None
        made = self._compiled.get(head)
        if made is None:
            made = compile_loop(engine.program, head, core, engine.timing, self.batches)
            self._compiled[head] = made
        loop = self.of[core.index][head] = made.instance(self._engine, core)
        return loop

    def fault(self, head: int, problem: BaseException) -> tuple[Any, int, int]:
        """Return where a compiled loop failed: `Compiled.fault`."""
        return self._compiled[head].fault(problem.__traceback__)


@dataclass(slots=True, eq=False)
class _Progress:
    """How far a core has got: where it is, what was executed, and how much of that without the
    scalar instructions that no issue has told of; the last instruction, and the compiled loop that
    runs (-1: none)."""

    pc: int
    counted: int
    count: int = 0
    inst: Any = None
    head: int = -1


def run_fast(engine: Engine, core: Core, limit: int) -> bool:
    """Execute a core until it ends, waits, or has executed `limit` instructions; True if only that
    stopped it."""
    at = _Progress(core.pc, -engine._scalars[core.index])
    try:
        goes_on = _execute(engine, core, limit, at)
    except BaseException as fault:
        _failed(engine, at, fault)
        if isinstance(fault, OpFault | ScalarFault):
            raise engine._trap(at.inst, fault) from fault
        raise
    finally:
        engine.executed += at.count
        engine.issued += at.count
        engine._scalars[core.index] = at.count - at.counted
        core.pc = at.pc
    if at.pc < 0 and not core.queues:
        core.halted = True
    return goes_on


def _execute(engine: Engine, core: Core, limit: int, at: _Progress) -> bool:  # noqa: C901 - hot loop
    insts, slots, bounds = engine.program.insts, core.slots, core.bounds
    scalar, vector, branch, execute = Kind.SCALAR, Kind.VECTOR, Kind.BRANCH, Kind.EXEC
    queues, timing, loops = core.queues, engine.timing, engine.loops
    issue: Any = engine._issuers[core.index]
    quick = not any(c.queues for c in engine.machine.cores)
    pc, count, counted, inst = at.pc, at.count, at.counted, at.inst
    try:
        while pc >= 0 and count < limit:
            inst = insts[pc]
            kind = inst.kind
            count += 1
            if kind is execute:
                cache = bounds[pc]
                bound = cache.get(inst.getter(slots)) if cache is not None else None
                if bound is None:
                    bound = engine.bind(core, inst)
                if issue is not None:
                    step = bound.cost or timing.prepare(core, inst, bound)  # type: ignore[union-attr]
                    issue(step, count - counted - 1)
                    counted = count
                pc += 1
                if bound.guard is None and not queues:
                    bound.commit()
                elif not engine._issue(core, inst, bound):
                    return False
            elif kind is scalar:
                inst.run(slots)
                pc += 1
            elif kind is branch:
                before, pc = pc, inst.run(slots)
                if pc > before or pc < 0 or loops is None or queues:
                    continue
                at.pc, at.count, at.counted = pc, count, counted
                goes_on = _round(loops, core, limit, at, quick=quick)
                pc, count, counted = at.pc, at.count, at.counted
                if not goes_on:
                    return False
            elif kind is vector:
                inst.run(core)
                counted += 1
                pc += 1
            else:
                pc, counted = _other(engine, core, inst, count, counted)
        return pc >= 0
    finally:
        at.pc, at.count, at.counted, at.inst = pc, count, counted, inst


def _round(loops: Loops, core: Core, limit: int, at: _Progress, *, quick: bool) -> bool:
    """Execute rounds of the loop that a core has gone back to the head of, if it is compiled or its
    rounds may be executed at once; False if the core waits or gives way."""
    head, slots, room = at.pc, core.slots, limit - at.count
    loop = loops.of[core.index].get(head)
    if loop is None and loops.batches.at(head) is not None:
        done, scalars = loops.batches.run(core, head, slots, room)
        at.count += done
        at.counted += done - scalars
        if done:
            return True
    loop = loop or loops.round(core, head)
    if loop is None:
        return True
    at.head = head
    at.pc, done, scalars, goes_on = loop(slots, room, at.count - at.counted, quick)
    at.head = -1
    at.count += done
    at.counted = at.count - scalars
    return goes_on


def _failed(engine: Engine, at: _Progress, fault: BaseException) -> None:
    """Note how far a core got with an instruction that failed."""
    if at.head >= 0 and engine.loops is not None:
        place, done, scalars = engine.loops.fault(at.head, fault)
        at.count += done
        at.counted = at.count - scalars - 1
        at.pc, at.inst = (place.following, place.inst) if place is not None else (at.head, at.inst)
    at.counted = min(at.counted + 1, at.count)  # what did not happen takes no time


def _other(engine: Engine, core: Core, inst: Any, count: int, counted: int) -> tuple[int, int]:
    """Execute the head of a vector region, or what the scalar unit does to the core itself. Returns
    the next pc, and `count` without scalars that no issue has told of."""
    timing, pc = engine.timing, inst.pc
    issue: Any = engine._issuers[core.index]
    if inst.kind is Kind.REGION:
        if timing is not None:
            issue(timing.region(core, inst), count - counted - 1)
            counted = count
        return engine._enter(core, inst), counted
    inst.run(core)
    if timing is None or pc in timing.ends:
        return pc + 1, count
    if pc in timing.timed:
        issue(timing.action(core, inst), count - counted - 1)
        return pc + 1, count
    return pc + 1, counted + 1
