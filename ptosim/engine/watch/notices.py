"""What the notifications of signals in memory told: whoever is let go by one knows what it knew.

A wait may be let go by any value that its core has not seen yet, an early one too, so each is kept
until every core that goes on knows what it told."""

from __future__ import annotations

from collections.abc import Iterable

from ptosim.engine.watch.clocks import Agent, Clock, Clocks, joined
from ptosim.ground.records import dataclass
from ptosim.machine.core import Core

Cell = tuple[int, int]
"""The number of a buffer, and the first byte of the signal in it."""


@dataclass(slots=True, eq=False)
class _Told:
    """One notification: who gave it, as how many-th of its operations, and what it told."""

    agent: int
    count: int
    message: Clock


class Notices:
    """The notifications of a run by signal and number, the oldest first."""

    def __init__(self, cores: Iterable[Core], clocks: Clocks) -> None:
        self._scalars = [clocks.scalar(core) for core in cores]
        self._told: dict[Cell, dict[int, _Told]] = {}

    def publish(self, agent: Agent, cell: Cell, entry: int, *, adds: bool) -> None:
        """A signal gets a value; what is added to one tells what the value before told, too."""
        told = self._told.setdefault(cell, {})
        message, before = agent.message(), told.get(entry - 1) if adds else None
        if before is not None:
            message = joined(message, before.message)
        told[entry] = _Told(agent.index, agent.count, message)
        self._forget_known(told)

    def acquire(self, agent: Agent, cell: Cell, entry: int) -> None:
        """A wait is let go by a value of a signal."""
        told = self._told.get(cell, {}).get(entry)
        if told is not None:
            agent.learn(told.message)

    def forget(self) -> None:
        """The cores begin another block."""
        self._told.clear()

    def _forget_known(self, told: dict[int, _Told]) -> None:
        """Drop the oldest as long as all know what they told: whoever knows that an agent has come
        so far has it from a message of that agent, and all that it knew with it."""
        while told:
            oldest = next(iter(told))
            if not self._is_known(told[oldest]):
                return
            del told[oldest]

    def _is_known(self, one: _Told) -> bool:
        """True if all cores that go on know it. One that does not comes first the next time."""
        scalars = self._scalars
        for at, scalar in enumerate(scalars):
            if scalar.clock.get(one.agent, 0) < one.count and not scalar.core.halted:
                scalars[0], scalars[at] = scalar, scalars[0]
                return False
        return True
