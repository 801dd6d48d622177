"""A clock of the test's own, so that how long something takes depends on no machine."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from types import SimpleNamespace

import pytest

from ptosim.debug import budget, walker
from ptosim.engine.core import runners
from ptosim.ground import limits

TICK = 1.0
"""Seconds between two looks at the clock."""
LIMIT = 1000
"""Seconds after which so many looks find a limit of time reached, long before the true clock does."""


def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock of the limits finds it a tick later."""
    ticks: Callable[[], float] = (TICK * number for number in count()).__next__
    clock = SimpleNamespace(monotonic=ticks, perf_counter=ticks, process_time=ticks)
    for module in (limits, runners, budget, walker):
        monkeypatch.setattr(module, "time", clock)
