"""Values of the level of logical vectors: predicates of any length, and values of two readings.

A logical vector is a NumPy array of its lanes, one entry a lane, and nothing ever writes into one
after it was made. Integers without a sign in their type are unsigned there."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ptosim.ground.ir.types import DType
from ptosim.ground.records import NamedTuple
from ptosim.machine.storage import view_dtype


class LogicalMask:
    """A predicate: `on` are its lanes as booleans, `off` the inactive ones, None where every lane
    is active. What is missing is made when it is asked for."""

    __slots__ = ("off", "on")

    on: np.ndarray
    off: np.ndarray | None

    def __init__(self, on: np.ndarray) -> None:
        self.on = on

    def __getattr__(self, name: str) -> Any:
        # Called only for a slot that is not filled yet.
        if name != "off":
            raise AttributeError(name)
        value = None if self.on.all() else ~self.on
        object.__setattr__(self, "off", value)
        return value

    def __len__(self) -> int:
        return self.on.shape[-1]

    def of_round(self, at: int) -> LogicalMask:
        """Return the mask of one round of those of many, whose lanes are rows."""
        return self if self.on.ndim == 1 else LogicalMask(self.on[at].copy())

    def __repr__(self) -> str:
        return f"LogicalMask({int(self.on.sum())} of {len(self.on)})"


class Twofold(NamedTuple):
    """A value where an open choice matters: as the run computes it, as the other reading of the
    choice does, and the text that names what made the two differ."""

    first: Any
    second: Any
    origin: str


@lru_cache(maxsize=256)
def first_lanes(count: int, active: int) -> LogicalMask:
    """Return the mask of the first `active` of `count` lanes."""
    return LogicalMask(np.arange(count) < active)


@lru_cache(maxsize=64)
def lane_dtype(elem: DType) -> np.dtype:
    """Return the NumPy type of lanes: signed only where the type has a sign (`si32`); floats of 8
    bits and less are codes, pairs of bf16 their 32 bits."""
    lanes = view_dtype(elem)
    if elem.is_integer and lanes.kind == "i" and not elem.name.startswith("si"):
        return np.dtype(f"u{lanes.itemsize}")
    return lanes
