"""When the signals in memory got their values: events that are given once, and may be taken by
anyone at any time afterwards.

A core that looks at a signal for the first time may be let go by its first value, so the time of
each is kept until the end of the run. An event takes more than a thousand bytes; so once it is
given, only its time, core and record are kept, as columns (`SignalRecords`) in which periods are
folded as in those of a core."""

from __future__ import annotations

from typing import Any, cast

from ptosim.time.pipes.records import Records
from ptosim.time.pipes.steps import Flag, Model, Step
from ptosim.time.pipes.timers import CoreTimer

Signal = tuple[int, int]
"""The number of a buffer, and the first byte of the signal in it."""

REASON = "signal"

MANY = 16
"""Values of a signal after which those that were given become columns: checkpoints of a debugger
have all events that are left."""


class SignalRecords(Records):
    """The values of a signal, from the first notification on, as far as they are columns: `steps`
    are the cores (their pipes) that gave them, `starts` when, `causes` the records that did."""

    __slots__ = ("index",)

    def __init__(self, signal: Signal) -> None:
        super().__init__()
        self.index = signal

    def add(self, when: int, timer: CoreTimer, record: int) -> None:
        """Append the next value."""
        self.steps.append(cast("Step", timer))
        self.starts.append(when)
        self.causes.append(record)

    def of(self, entry: int) -> tuple[int, int, int]:
        """Return when which core gave a value, and the record that did; the first is 1."""
        timer: Any = self.step(entry - 1)
        return self.start(entry - 1), timer.index, self.cause(entry - 1)


class SignalTimes:
    """The signals of a model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.given: dict[Signal, SignalRecords] = {}

    def flag(self, signal: Signal, entry: int) -> Flag:
        """Return the event that a signal has got a value, by its number from 1 on."""
        given = self.given.get(signal)
        if given is None:
            given = self.given[signal] = SignalRecords(signal)
        if entry - given.count > MANY and not entry % MANY:
            self._keep(given)
        if entry <= given.count:
            made = Flag(None, REASON, keeps=True)
            made.times.append(given.of(entry))
            return made
        return self.model.flag(_key(signal, entry), REASON, keeps=True)

    def _keep(self, given: SignalRecords) -> None:
        """Make columns of the values that were given, up to the first one that was not."""
        model = self.model
        while True:
            key = _key(given.index, given.count + 1)
            flag = model.flags.get(key)
            if flag is None or flag.waiters or not flag.times:
                return
            when, core, record = flag.times[0]
            if when.__class__ is not int:  # it moves: the period of a loop is tried
                return
            given.add(when, model.cores[core], record)
            del model.flags[key]

    # -- state -------------------------------------------------------------------------------------

    def save(self) -> dict[Signal, int]:
        """Return how many values of each signal are columns, for `restore`."""
        return {signal: given.count for signal, given in self.given.items()}

    def forget(self) -> None:
        """Drop all events: those of the state that is gone to are put back by `put`."""
        flags = self.model.flags
        for key in [key for key, flag in flags.items() if flag.reason == REASON]:
            del flags[key]

    def put(self, flag: Flag) -> None:
        """Take an event of a saved state back; no other is ever dropped."""
        if flag.reason == REASON and flag.key is not None:
            self.model.flags[flag.key] = flag


def _key(signal: Signal, entry: int) -> tuple[Any, ...]:
    return ("signal", *signal, entry)
