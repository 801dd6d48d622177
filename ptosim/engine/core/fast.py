"""Executes a core as fast as may be: nobody looks on, and loops that run often are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptosim.engine.batch.batches import Batches
from ptosim.engine.core.compiled import HOT, Compiled, Loop, compile_loop
from ptosim.engine.core.records import Kind
from ptosim.machine.core import Core
from ptosim.semantics.base.binding import OpFault
from ptosim.semantics.scalar.numbers import ScalarFault

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
        rounds = self._rounds[head] = self._rounds.get(head, 0) + 1
        if rounds < HOT:
            return None
        made = self._compiled.get(head)
        if made is None:
            engine = self._engine
            made = compile_loop(engine.program, head, core, engine.timing, self.batches)
            self._compiled[head] = made
        loop = self.of[core.index][head] = made.instance(self._engine, core)
        return loop

    def fault(self, head: int, problem: BaseException) -> tuple[Any, int, int]:
        """Return where a compiled loop failed: `Compiled.fault`."""
        return self._compiled[head].fault(problem.__traceback__)


def run_fast(engine: Engine, core: Core, limit: int) -> bool:  # noqa: C901 - hot loop
    """Execute a core until it ends, waits, or has executed `limit` instructions; True if only that
    stopped it."""
    insts, slots, bounds = engine.program.insts, core.slots, core.bounds
    scalar, vector, branch, execute = Kind.SCALAR, Kind.VECTOR, Kind.BRANCH, Kind.EXEC
    queues, timing, loops = core.queues, engine.timing, engine.loops
    issue: Any = engine._issuers[core.index]
    compiled = loops.of[core.index] if loops is not None else {}
    batches = loops.batches if loops is not None else Batches(engine.program)
    quick = not any(c.queues for c in engine.machine.cores)
    pc, count, goes_on = core.pc, 0, False
    counted = -engine._scalars[core.index]  # `count` without scalars that no issue has told of
    inst: Any = None
    head = -1  # of the compiled loop that runs
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
                    break
            elif kind is scalar:
                inst.run(slots)
                pc += 1
            elif kind is branch:
                before, pc = pc, inst.run(slots)
                if pc > before or pc < 0 or loops is None or queues:
                    continue
                loop = compiled.get(pc)
                if loop is None and batches.at(pc) is not None:
                    done, scalars = batches.run(core, pc, slots, limit - count)
                    count += done
                    counted += done - scalars
                    if done:
                        continue
                loop = loop or loops.round(core, pc)
                if loop is None:
                    continue
                head = pc
                pc, done, scalars, goes = loop(slots, limit - count, count - counted, quick)
                head = -1
                count += done
                counted = count - scalars
                if not goes:
                    break
            elif kind is vector:
                inst.run(core)
                counted += 1
                pc += 1
            else:
                pc, counted = _other(engine, core, inst, count, counted)
        else:
            goes_on = pc >= 0
    except BaseException as fault:
        if head >= 0 and loops is not None:
            place, done, scalars = loops.fault(head, fault)
            count += done
            counted = count - scalars - 1
            pc, inst = (place.following, place.inst) if place is not None else (head, inst)
        counted = min(counted + 1, count)  # what did not happen takes no time
        if isinstance(fault, OpFault | ScalarFault):
            raise engine._trap(inst, fault) from fault
        raise
    finally:
        engine.executed += count
        engine.issued += count
        engine._scalars[core.index] = count - counted
        core.pc = pc
    if pc < 0 and not queues:
        core.halted = True
    return goes_on


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
