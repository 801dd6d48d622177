"""Signals in memory and fences, in time.

A notification waits until the pipes that store are done, and then the signal has its value; a wait
ends when the value that let it go is there. Which value that was is known when the wait takes
effect, so that its step comes then: the scalar unit waits there, and issues nothing in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptosim.ground.records import replace
from ptosim.machine import signals
from ptosim.machine.core import Core
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.orders import Fence, Notify, Signals
from ptosim.time.pipes.steps import PIPE_INDEX, Flag, Step


def is_signal(binding: Binding) -> bool:
    """True if a bound operation sets signals or looks at them, or is a fence of some pipes."""
    return isinstance(binding.sync, (Notify, Signals, Fence))


def timed(bridge: Any, core: Core, bound: Any, plain: Step) -> Callable[[], object]:
    """Return the effect of a bound signal operation together with what it waits for and gives in
    time; `plain` is its step without that."""
    effect, sync, machine = bound.commit, bound.binding.sync, bridge.machine
    issue = bridge.issuer(core)

    def settle() -> tuple[Flag, ...]:
        """Events of pipes that have done what they were given."""
        flags = []
        for pipe in sync.pipes:
            flag = bridge.model.flag((core.index, "settled", pipe), f"what {pipe} has to do")
            issue(_made(plain, pipe=PIPE_INDEX[pipe], gives=(flag,)), 0)
            flags.append(flag)
        return tuple(flags)

    def fence() -> None:
        effect()
        issue(_made(plain, takes=settle()), 0)

    def notify() -> None:
        effect()
        entries = [(cell, signals.latest(machine, sync.number, cell)) for cell in sync.cells]
        gives = tuple(_signal(bridge, sync.number, *entry) for entry in entries)
        issue(_made(plain, takes=settle(), gives=gives, carry=bridge.carry()), 0)

    def wait() -> None:
        entries = signals.seen(machine, core, sync)
        effect()
        takes = tuple(_signal(bridge, sync.number, *entry) for entry in entries if entry[1])
        if takes:
            issue(_made(plain, takes=takes), 0)

    return {"fence": fence, "notify": notify, "signals": wait}[sync.kind]


def _signal(bridge: Any, number: int, cell: int, entry: int) -> Flag:
    """The event that a signal has got a value; any number of cores may take it."""
    return bridge.model.signals.flag((number, cell), entry)


def _made(plain: Step, **changes: Any) -> Step:
    made = replace(plain, issue=0, is_work=False, **changes)
    made.ranges = plain.ranges
    if made.pipe == plain.pipe:
        made.base = plain
    return made
