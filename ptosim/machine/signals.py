"""What signals in global memory have been: each value that a notification gave them, and how far
each core has followed them.

Memory holds a signal's last value; who waits may have been let go by an earlier one, and knows no
more than that one told it. The counters of the machine keep the values, so that they are saved and
restored with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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
    if value is not None and ("runs", number, cell) not in machine.global_counters:
        _keep(machine, number, cell, INITIAL, value)


def note(machine: Machine, core: Core, number: int, cell: int) -> None:
    """A core has just given a signal its present value."""
    counters = machine.global_counters
    entry = counters["signalled", number, cell] = latest(machine, number, cell) + 1
    value = value_of(machine, number, cell)
    if value is not None:
        _keep(machine, number, cell, entry, value)
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
    for run in _runs(machine, number, cell, at):
        begin = max(at, run.first)
        for entry in range(begin, min(last + 1, run.end, begin + run.length)):
            if compare(run.of(entry), sync.value):
                return entry
    return last


class Run(NamedTuple):
    """Values of a signal one after the other that rise by one step: the number of the first, that
    value, the step, and how many they are; and how many times the same values come in all, as those
    of a signal that is set and put back do."""

    first: int
    value: int
    step: int
    length: int
    times: int = 1

    @property
    def end(self) -> int:
        """The number after the last one."""
        return self.first + self.length * self.times

    def of(self, entry: int) -> int:
        """Return the value of a number."""
        return self.value + self.step * ((entry - self.first) % self.length)


def _keep(machine: Machine, number: int, cell: int, entry: int, value: int) -> None:
    """Note that a signal's value of a number is this: in the last run, if it goes on with it. A run
    that has ended and is like the one before it is kept with that."""
    counters = machine.global_counters
    many = counters.get(("runs", number, cell), 0)
    last: Run | None = counters.get(("run", number, cell, many))
    if last is not None and entry == last.end:
        step = last.step if last.length > 1 else value - last.value
        if value == last.value + step * last.length:
            counters["run", number, cell, many] = Run(last.first, last.value, step, last.length + 1)
            return
        before: Run | None = counters.get(("run", number, cell, many - 1))
        if before is not None and last == before._replace(first=before.end, times=1):
            many -= 1
            counters["run", number, cell, many] = before._replace(times=before.times + 1)
    counters["runs", number, cell] = many + 1
    counters["run", number, cell, many + 1] = Run(entry, value, 0, 1)


def _runs(machine: Machine, number: int, cell: int, at: int) -> list[Run]:
    """Return the runs of a signal from the one on that has a value, in their order."""
    counters, found = machine.global_counters, []
    for n in range(counters.get(("runs", number, cell), 0), 0, -1):
        run: Run = counters["run", number, cell, n]
        found.append(run)
        if run.first <= at:
            break
    return found[::-1]


def follow(machine: Machine, core: Core, sync: Any) -> None:
    """A wait has gone on: its core has seen the values that let it."""
    for cell, entry in seen(machine, core, sync):
        machine.global_counters["seen", sync.number, cell, core.index] = entry
