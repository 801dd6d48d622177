"""Executes a core as fast as may be, while nobody looks on at each instruction."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from ptosim.engine.core.bound import Bound, Inst, Kind
from ptosim.engine.core.runners import Fault, Host
from ptosim.ground import processes
from ptosim.ground.records import dataclass
from ptosim.machine.core import Core
from ptosim.machine.unknown import NeedsValue
from ptosim.ops.base.binding import Binding, OpFault
from ptosim.ops.base.functions import Commit
from ptosim.ops.scalar.numbers import ScalarFault


class _Executing(threading.local):
    """How many runs of a thread are under way in one another."""

    depth = 0


_UNDER_WAY = _Executing()


@contextmanager
def executing() -> Iterator[None]:
    """Arithmetic reports through its results, not through NumPy's warnings, and the
    cycle collector comes rarely."""
    before = processes.seldom()
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


# What a value is while a program executes: the one thing in which runs of a kind differ.
#
# A domain binds instructions to the present values of their operands, and says what happens where a
# value is not known or an instruction cannot be executed. `Numbers` knows all values; `Unknowns`
# (`symbolic.py`) places and scalars; `Shapes` (`timed/shapes.py`) what time depends on.


class Numbers:
    """Values are numbers."""

    has_regions = True
    """The instructions of vector regions are executed; else a region is one unit."""
    has_contents = True
    """What memory holds is known."""
    counted = 0
    """Executions whose values were looked at."""
    is_unsure = False
    """Some of these were not the ones of the run."""

    def bind(self, engine: Host, core: Core, inst: Inst) -> Bound:
        """Return an instruction bound to the present values of its operands."""
        binding = engine.binding(core, inst, engine.values_of(core, inst))
        return Bound(self.watched(binding, inst.semantics(binding)), binding)

    def watched(self, binding: Binding, commit: Commit) -> Commit:
        """Return an effect with what is looked at before it."""
        return commit

    def is_placed(self, inst: Inst, operands: tuple[Any, ...]) -> bool:
        """True if the window of a transfer is at a known place of global memory."""
        return True

    def unbound(self, engine: Host, inst: Inst, need: NeedsValue) -> NoReturn:
        """An instruction cannot be bound without a value that is not known."""
        raise need

    def missing(self, engine: Host, core: Core, inst: Inst, need: NeedsValue) -> int:
        """An instruction looked at a value that is not known; return the next pc."""
        raise need

    def fault(self, engine: Host, core: Core, inst: Inst, fault: Fault) -> int:
        """An instruction cannot be executed; return the next pc. Raises the Trap that says why."""
        raise engine.trap(inst, fault) from fault

    def released(self, engine: Host, waiting: list[Core]) -> Core | None:
        """Return a core that goes on where none can by itself; None if there is none."""
        return None

    def execute(self, engine: Host, core: Core, limit: int) -> bool:
        """Execute a core until it ends, waits, or has executed `limit` instructions; True if only
        that stopped it."""
        return execute(engine, core, limit)

    def stop(self) -> None:
        """The run has ended."""
