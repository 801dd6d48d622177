"""Running generated programs on arrays: padding to whole tiles, and cutting back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from ptosim.debug.program import Program
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.ir.core import Module
from ptosim.ground.records import dataclass, field
from ptosim.language.frontend import FrontOptions, check_module

Argument = np.ndarray | int | float


@dataclass(slots=True)
class Ran:
    """A program that was run: its text, arguments, outputs, and its cycles (None if unknown)."""

    text: str
    args: dict[str, Argument]
    outputs: dict[str, np.ndarray]
    cycles: int | None
    findings: list[Diagnostic] = field(default_factory=list)


def run(module: Module, args: Mapping[str, Argument], sanitize: str = "all") -> Ran:
    """Run a module that was built; raises ProgramError if it is wrong. Without sanitizers its
    cycles are counted apart, in the memory that a few rounds of its loops take."""
    program, is_watched = _checked(module), sanitize != "none"
    result = program.run(args, sanitize=sanitize, timing=is_watched)
    if not is_watched:
        result.cycles = program.cost(args=dict(args)).cycles
    return Ran(module.source.text, dict(args), result.outputs, result.cycles, result.findings)


def values(module: Module, args: Mapping[str, Argument]) -> dict[str, np.ndarray]:
    """Run a module that was built for its outputs alone, unwatched: for many runs of one
    program. Raises ProgramError if it is wrong."""
    return _checked(module).run(args, sanitize="none", timing=False).outputs


def timed(module: Module, args: Mapping[str, Argument]) -> Ran:
    """Count the cycles of a module that was built without values: outputs are the arrays that were
    given. Raises ProgramError if it is wrong."""
    cycles = _checked(module).cost(args=dict(args)).cycles
    given = {name: array for name, array in args.items() if isinstance(array, np.ndarray)}
    return Ran(module.source.text, dict(args), given, cycles)


@dataclass(frozen=True, slots=True)
class _Built:
    """A module, which is equal to another one of the same text."""

    text: str
    module: Module = field(compare=False)


def _checked(module: Module) -> Program:
    return _program(_Built(module.source.text, module))


@lru_cache(maxsize=4)
def _program(built: _Built) -> Program:
    return Program.of(check_module(built.module, FrontOptions()), "hw", None, None)


def padded(array: np.ndarray, rows: int, cols: int, fill: float = 0) -> np.ndarray:
    """Return a matrix with rows and columns of `fill` after its own."""
    height, width = array.shape
    if (height, width) == (rows, cols):
        return np.ascontiguousarray(array)
    whole = np.full((rows, cols), fill, array.dtype)
    whole[:height, :width] = array
    return whole


def padded_vector(values: np.ndarray, size: int, fill: float = 1) -> np.ndarray:
    """Return a vector with `fill` after its values."""
    whole = np.full(size, fill, values.dtype)
    whole[: values.size] = values
    return whole
