"""The engine with a timing model beside it: every instruction is issued to the pipes as it is
executed."""

from __future__ import annotations

from typing import Any

from ptosim.engine.core.engine import Engine
from ptosim.engine.core.meter import UNLIMITED
from ptosim.engine.timed import waves
from ptosim.engine.timed.timing_bridge import TimingBridge
from ptosim.machine.core import Core
from ptosim.time.pipes.folds import fold, fold_signals


class TimedEngine(Engine):
    """Executes and times in lock-step. Values never depend on time."""

    @property
    def bridge(self) -> TimingBridge:
        """The timing model beside the engine."""
        assert isinstance(self.timing, TimingBridge)
        return self.timing

    at_once = 0  # blocks that run at a time; 0: all
    folds = False  # True: of a long run periods of records are kept

    def look(self, core: Core) -> None:
        """Look at the limits, and at how many records there are."""
        super().look(core)
        if self.folds:
            self.fold()

    def fold(self) -> None:
        """Keep periods of records once, if there are many new ones."""
        if self.bridge.model.retired is None:
            for timer in self.bridge.model.cores:
                fold(timer)
            fold_signals(self.bridge.model.signals)

    def in_waves(self, at_once: int) -> None:
        """Let only so many blocks run at a time; before anything is executed."""
        self.at_once = at_once
        waves.begin(self.bridge, at_once)

    def run(self, limit: int = UNLIMITED) -> None:
        """Execute every core to its end, then place what competes for bandwidth."""
        try:
            super().run(limit)
            if self.at_once:
                waves.end(self.bridge, self.at_once)
        finally:  # where a run stops, its time until then counts
            self.bridge.model.settle()
            self.bridge.model.drain_retired()

    # -- state ------------------------------------------------------------------------------------

    def save_time(self) -> Any:
        """Return the state of the pipes in time, for `restore_time`."""
        return self.bridge.save(), list(self._scalars)

    def restore_time(self, state: Any, *, forget: bool = False) -> None:
        """Take the pipes to another state of this run; `forget` what came after an earlier one."""
        pipes, scalars = state
        self.bridge.restore(pipes, forget=forget)
        self._scalars = list(scalars)

    def cycle(self, core: Core) -> int:
        """Return the cycle at which everything that a core has executed so far is done."""
        timer = self.bridge.model.cores[core.index]
        issued = timer.clock + self._scalars[core.index] * self.bridge.model.scalar_cycles
        return max(issued, *timer.done)
