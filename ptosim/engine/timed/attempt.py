"""A period of a loop that is executed on moving numbers, to see whether it repeats."""

from __future__ import annotations

from array import array
from typing import Any

from ptosim.engine.timed.periods import Moment
from ptosim.ground.records import dataclass
from ptosim.time.pipes.probe import ProbedOrder


@dataclass(slots=True, eq=False)
class Attempt:
    """A period that is executed on moving numbers."""

    core: int
    number: int
    rounds: int
    start: Moment
    time_steps: list[int]
    code_steps: list[int]
    fifos: dict[Any, tuple[int, ...]]
    values: dict[int, list[Any]]
    places: list[int]  # where the columns of each core were
    stalled: list[dict[str, list[int]]]
    starts: list[array[int]]
    probes: list[ProbedOrder]
    visits: int = 0
