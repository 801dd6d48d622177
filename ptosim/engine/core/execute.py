"""Executes a core as fast as may be, while nobody looks on at each instruction."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ptosim.engine.core.host import Host
from ptosim.engine.core.records import Kind
from ptosim.ground import collector
from ptosim.ground.records import dataclass
from ptosim.machine.core import Core
from ptosim.ops.base.binding import OpFault
from ptosim.ops.scalar.numbers import ScalarFault


class _Executing(threading.local):
    """How many runs of a thread are under way in one another."""

    depth = 0


_UNDER_WAY = _Executing()


@contextmanager
def executing() -> Iterator[None]:
    """Arithmetic reports through its results, not through NumPy's warnings, and the
    cycle collector comes rarely."""
    before = collector.seldom()
    _UNDER_WAY.depth += 1
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _UNDER_WAY.depth -= 1
        gc.set_threshold(*before)


def is_executing() -> bool:
    """True inside of `executing`: a walk enters it once, not for each instruction."""
    return _UNDER_WAY.depth > 0


# -- instructions ----------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Progress:
    """How far a core has got: where it is, what was executed, and how much of that without the
    scalar instructions that no issue has told of; the last instruction."""

    pc: int
    counted: int
    count: int = 0
    inst: Any = None


def execute(engine: Host, core: Core, limit: int) -> bool:
    """Execute a core until it ends, waits, or has executed `limit` instructions; True if only that
    stopped it."""
    at = _Progress(core.pc, -engine.scalars[core.index])
    try:
        goes_on = _execute(engine, core, limit, at)
    except BaseException as fault:
        at.counted = min(at.counted + 1, at.count)  # what did not happen takes no time
        if isinstance(fault, OpFault | ScalarFault):
            raise engine.trap(at.inst, fault) from fault
        raise
    finally:
        engine.executed += at.count
        engine.issued += at.count
        engine.scalars[core.index] = at.count - at.counted
        core.pc = at.pc
    if at.pc < 0 and not core.queues:
        core.halted = True
    return goes_on


def _execute(engine: Host, core: Core, limit: int, at: _Progress) -> bool:  # noqa: C901 - hot loop
    insts, slots, bounds = engine.insts, core.slots, core.bounds
    scalar, vector, branch, execute = Kind.SCALAR, Kind.VECTOR, Kind.BRANCH, Kind.EXEC
    queues, timing, batches = core.queues, engine.timing, engine.batches
    heads = batches.known if batches is not None else {}
    issue: Any = engine.issuers[core.index]
    quick = not any(c.queues for c in engine.machine.cores)  # and so it stays: nobody else moves
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
                guard = bound.guard
                if not queues and (guard is None or (quick and bound.at_once and guard())):
                    bound.commit()
                elif not engine.pace.issue(engine, core, inst, bound):
                    return False
            elif kind is scalar:
                inst.run(slots)
                pc += 1
            elif kind is branch:
                before, pc = pc, inst.run(slots)
                if 0 <= pc <= before and heads.get(pc, batches) is not None and not queues:
                    done, scalars = batches.run(core, pc, slots, limit - count)  # type: ignore[union-attr]
                    count += done
                    counted += done - scalars
            elif kind is vector:
                inst.run(core)
                counted += 1
                pc += 1
            else:
                pc, counted = _other(engine, core, inst, count, counted)
        return pc >= 0
    finally:
        at.pc, at.count, at.counted, at.inst = pc, count, counted, inst


def _other(engine: Host, core: Core, inst: Any, count: int, counted: int) -> tuple[int, int]:
    """Execute the head of a vector region, or what the scalar unit does to the core itself. Returns
    the next pc, and `count` without scalars that no issue has told of."""
    timing, pc = engine.timing, inst.pc
    issue: Any = engine.issuers[core.index]
    if inst.kind is Kind.REGION:
        if timing is not None:
            issue(timing.region(core, inst), count - counted - 1)
            counted = count
        return engine.enter(core, inst), counted
    inst.run(core)
    if timing is None or pc in timing.ends:
        return pc + 1, count
    if pc in timing.timed:
        issue(timing.action(core, inst), count - counted - 1)
        return pc + 1, count
    return pc + 1, counted + 1
