"""When an engine looks at its limits: after slices of instructions that take a fraction of a second
each, so that an instruction costs nothing for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from ptosim.ground import progress
from ptosim.ground.errors import BudgetError
from ptosim.ground.limits import current

UNLIMITED = sys.maxsize
FIRST = 64
"""Instructions of the first slice; one may take a tenth of a second."""
UNTIMED = 1 << 18
"""The same where only the number of instructions is limited."""
LONGEST = 1 << 20
SECONDS = 0.05
"""What a slice should take."""


class Meter:
    """The limits of one run of an engine. `due` is the number of executed instructions at which to
    look again."""

    __slots__ = ("_budget", "_clock", "_most", "_size", "_watch", "due")

    def __init__(self, limit: int = UNLIMITED) -> None:
        self._budget = current()
        own = self._budget.instructions
        self._most = limit if own is None else min(limit, own)
        self._watch = progress.current()
        is_looked_at = self._budget.is_limited or self._watch is not None
        self._size = FIRST if is_looked_at else UNTIMED
        if self._watch is not None:
            self._watch.begin()
        self._clock = time.monotonic()
        self.due = min(self._most, self._size)

    def look(self, executed: int, place: Callable[[], str]) -> None:
        """Raise LimitError if a limit is reached, with the place where the program is; else say
        when to look again."""
        if executed >= self._most:
            where = place()
            raise BudgetError(
                f"PTO0014: the program has not ended after {self._most:,} instructions"
                f"{f'; it stopped at {where}' if where else ''}",
                help="look for a loop that does not end, or raise --max-instructions",
            )
        self._budget.look(place)
        if self._watch is not None:
            self._watch.tell(executed, place)
        now = time.monotonic()
        took, self._clock = now - self._clock, now
        if took < SECONDS / 2:
            self._size = min(self._size * 2, LONGEST)
        elif took > SECONDS * 2:
            self._size = max(self._size // 4, 1)
        self.due = min(self._most, executed + self._size)
