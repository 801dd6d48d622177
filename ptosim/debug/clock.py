"""What a walker knows of time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ptosim.debug.locations import number
from ptosim.debug.walker import Walker
from ptosim.engine.timed.timing_bridge import bridge_of
from ptosim.ground.errors import UsageError
from ptosim.machine.core import Core
from ptosim.time.pipes.timers import CoreTimer
from ptosim.time.report.totals import CostReport

NO_TIMING = "no timing: this run counts instructions, not cycles"


def timer(walker: Walker, core: Core) -> CoreTimer | None:
    """Return the pipes of a core in time; None if the run counts no cycles."""
    engine = walker.engine
    return bridge_of(engine).model.cores[core.index] if engine.timing is not None else None


def cycle(walker: Walker, core: Core) -> int:
    """Return the cycle at which everything that a core has executed so far is done; 0 if the run
    counts no cycles."""
    engine = walker.engine
    if engine.timing is None:
        return 0
    return bridge_of(engine).cycle(core, engine.scalars[core.index])


def cycle_in(walker: Walker, text: str, instead: str) -> int:
    """Return the number of `cycle N`. Raises UsageError if the run counts no cycles."""
    if walker.engine.timing is None:
        raise UsageError(NO_TIMING, help=f"`{instead}` goes to a number of instructions")
    found = number(text.removeprefix("cycle").strip(), "cycle")
    if found < 0:
        raise UsageError("the run begins at cycle 0")
    return found


@contextmanager
def settled(walker: Walker) -> Iterator[CostReport]:
    """Give the cost of what has been executed, transfers that compete placed; the run stays as it
    is. Only for a run with timing."""
    engine = walker.engine
    bridge, before = bridge_of(engine), engine.save_time()
    bridge.model.settle()
    try:
        yield CostReport(bridge.model, bridge.table, walker.launch.function.name)
    finally:
        engine.restore_time(before, forget=True)
