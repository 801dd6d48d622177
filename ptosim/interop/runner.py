"""Running generated programs on arrays: padding to whole tiles, and cutting back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptosim.api import load


@dataclass(slots=True)
class Ran:
    """A program that was run: its text, arguments, outputs, and its cycles (None if unknown)."""

    text: str
    args: dict[str, Any]
    outputs: dict[str, np.ndarray]
    cycles: int | None
    findings: list = field(default_factory=list)


def run(text: str, args: Mapping[str, np.ndarray]) -> Ran:
    """Load and run a generated module; raises ProgramError if it is wrong."""
    result = load(text, filename="<generated>").run(args)
    return Ran(text, dict(args), result.outputs, result.cycles, result.findings)


def padded(array: np.ndarray, rows: int, cols: int, fill: float = 0) -> np.ndarray:
    """Return a matrix with rows and columns of `fill` behind it."""
    height, width = array.shape
    if (height, width) == (rows, cols):
        return np.ascontiguousarray(array)
    whole = np.full((rows, cols), fill, array.dtype)
    whole[:height, :width] = array
    return whole


def padded_vector(values: np.ndarray, size: int, fill: float = 1) -> np.ndarray:
    """Return a vector with `fill` behind it."""
    whole = np.full(size, fill, values.dtype)
    whole[: values.size] = values
    return whole
