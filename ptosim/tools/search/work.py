"""What all that works on jobs agrees on: a job, how many are handed out, one that was lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptosim.ground.records import dataclass

Work = Callable[[Any], Any]
AHEAD = 2
"""Jobs of each worker that are handed out before results come back: none of them waits, and a
space of millions of points is never in memory. What loky's queue has no room for (twice the workers
and one more) it could not forget when it is closed."""


@dataclass(frozen=True, slots=True)
class Lost:
    """What is known of a job whose process ended twice."""

    reason: str = "PTO7611: the process that worked on it ended, and so did another one"
