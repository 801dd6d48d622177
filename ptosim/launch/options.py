"""Options of a run, and how arguments are given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ptosim.engine.watch.options import parse as parse_sanitize
from ptosim.ground.errors import UsageError
from ptosim.ground.limits import MAX_INSTRUCTIONS, Limits, current
from ptosim.ground.records import NamedTuple, dataclass

NORMAL = "normal"
HARD = ("hard", "cancel", "ties", "special", "extreme")
"""What arguments that are left out are drawn as; the kinds are those of `launch/hard.py`."""


class Redraw(NamedTuple):
    """An argument that nobody chose for this run: hard data may take the place of its array."""

    value: Any


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run; see `Program.run`."""

    block_num: int = 1
    sanitize: str = "all"
    timing: bool = True
    commit: str = "program"
    uninit: str = "poison"
    seed: int = 0
    inputs: str = NORMAL
    max_instructions: int | None = None
    ranks: int = 1
    in_place: bool = False
    """The arrays of arguments are the run's: it works in them, and outputs are these arrays."""
    jobs: int = 1
    """Processes in which independent blocks may be executed."""
    schedule: int = 0
    """The order of blocks and pipes: see `engine/core/schedule.py`."""

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("commit", self.commit, ("program", "retire")),
            ("uninit", self.uninit, ("poison", "zero", "random")),
            ("inputs", self.inputs, (NORMAL, *HARD)),
        ):
            if value not in allowed:
                raise UsageError(f"{name} does not take `{value}`", help=f"one of {allowed}")
        parse_sanitize(self.sanitize)
        if self.block_num < 1:
            raise UsageError(f"block_num is {self.block_num}; at least one block runs")
        if self.schedule < 0:
            raise UsageError(f"schedule is {self.schedule}; schedules are numbers from 0 on")
        if self.schedule and self.commit != "program":
            raise UsageError(
                f"a schedule says when effects happen, and so does commit `{self.commit}`",
                help="leave out one of them",
            )
        if self.ranks < 1:
            raise UsageError(f"ranks is {self.ranks}; at least one device runs")
        Limits(self.max_instructions)

    @property
    def most_instructions(self) -> int:
        """Instructions after which a run is stopped: those of the options, else those of the limits
        in force, else the usual number."""
        return self.max_instructions or current().instructions or MAX_INSTRUCTIONS


Args = Mapping[str, Any] | Sequence[Any] | None
"""Arguments by name (of one rank `name@rank`), in the order of the entry, or one mapping for each
rank; what is left out is generated or unknown."""

FEWEST = 4
"""Blocks for which it is worth to execute them independently in one process."""


def wants(options: RunOptions, observers: Sequence[Any]) -> bool:
    """True for a launch whose blocks may be worth executing independently."""
    count = options.block_num * options.ranks
    fewest = 2 if options.jobs > 1 else FEWEST
    in_turn = options.commit == "program" and not options.schedule
    return count >= fewest and in_turn and not observers


def available_cores() -> int:
    """Return how many cores of the machine this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
