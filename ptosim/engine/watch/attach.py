"""Puts the sanitizers that a run asks for on its engine."""

from __future__ import annotations

from collections.abc import Iterable

from ptosim.engine.core.engine import Engine
from ptosim.engine.watch.monitor import Monitor
from ptosim.engine.watch.options import parse
from ptosim.ground.ir.core import Value


def attach(engine: Engine, text: str, sync: str, inputs: Iterable[Value]) -> Monitor | None:
    """Return the monitor of a run, or None if nothing is to be watched.

    `inputs` are the tiles that have values from the start. Where ptosim itself orders the
    pipes (`sync` is auto and the program has no flags), the order of the text counts as kept."""
    chosen = parse(text)
    if sync == "auto":
        chosen = chosen.without_races()
    if not chosen.is_needed:
        return None
    monitor = Monitor(
        engine.program, engine.insts, engine.resolved, engine.machine, engine.sink, chosen
    )
    given = list(inputs)
    for core in engine.machine.cores:
        for value in given:
            monitor.define(core, core.slots[engine.program.slots[value]], value)
    engine.monitor = monitor
    return monitor
