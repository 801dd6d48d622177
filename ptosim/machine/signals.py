"""What signals in global memory have been: each value that a notification gave them, and how far
each core has followed them.

Memory holds a signal's last value; who waits may have been let go by an earlier one, and knows no
more than that one told it. The counters of the machine keep the values, so that they are saved and
restored with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.machine.core import Core, Machine

INITIAL = 0
"""The number of a signal's value before the first notification; later ones count from 1."""


def value_of(machine: Machine, number: int, cell: int) -> int | None:
    """Return what a signal is now: the i32 at byte `cell` of a buffer; None where memory has no
    content (a run without values)."""
    word = machine.buffers[number].part(cell, cell + 4)
    return int(word.view(np.int32)[0]) if len(word) == 4 else None


def latest(machine: Machine, number: int, cell: int) -> int:
    """Return the number of the last notification of a signal."""
    return machine.global_counters.get(("signalled", number, cell), INITIAL)


def expect(machine: Machine, number: int, cell: int) -> None:
    """Note a signal's first value, before the first notification."""
    value = value_of(machine, number, cell)
    if value is not None:
        machine.global_counters.setdefault(("signal", number, cell, INITIAL), value)


def note(machine: Machine, core: Core, number: int, cell: int) -> None:
    """A core has just given a signal its present value."""
    counters = machine.global_counters
    entry = counters["signalled", number, cell] = latest(machine, number, cell) + 1
    value = value_of(machine, number, cell)
    if value is not None:
        counters["signal", number, cell, entry] = value
    counters["seen", number, cell, core.index] = entry


def seen(machine: Machine, core: Core, sync: Any) -> list[tuple[int, int]]:
    """Return, for each signal of a wait (an `orders.Signals`), its first byte and the number of the
    earliest value that lets the wait go, from the one on that its core has seen. Where memory was
    written in other ways, none may: then it is the last."""
    return [(c, _first(machine, core, sync, c)) for c in sync.cells]


def _first(machine: Machine, core: Core, sync: Any, cell: int) -> int:
    counters, number = machine.global_counters, sync.number
    last = latest(machine, number, cell)
    compare: Callable[[int, int], bool] = sync.comparison
    at = counters.get(("seen", number, cell, core.index), INITIAL)
    for entry in range(at, last + 1):
        value = counters.get(("signal", number, cell, entry))
        if value is not None and compare(value, sync.value):
            return entry
    return last


def follow(machine: Machine, core: Core, sync: Any) -> None:
    """A wait has gone on: its core has seen the values that let it."""
    for cell, entry in seen(machine, core, sync):
        machine.global_counters["seen", sync.number, cell, core.index] = entry
