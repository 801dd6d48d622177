"""Whether blocks are worth executing independently, and in how many processes; without what does
it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ptosim.launch.options import RunOptions

FEWEST = 4
"""Blocks for which it is worth it in one process."""


def wants(options: RunOptions, observers: Sequence[Any]) -> bool:
    """True for a launch whose blocks may be worth executing independently."""
    count = options.block_num * options.ranks
    fewest = 2 if options.jobs > 1 else FEWEST
    return count >= fewest and options.commit == "program" and not observers


def available_cores() -> int:
    """Return how many cores of the machine this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
