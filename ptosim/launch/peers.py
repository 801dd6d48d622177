"""What stands for the other half of a pair of kernels that is not launched (`--peer stub`).

It gives every signal, takes every tile at once, and pushes tiles of the caller or random ones."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import DType
from ptosim.language.place.cores import reached_functions
from ptosim.launch.arguments import array_argument
from ptosim.launch.generated import random_array
from ptosim.launch.prepared import Prepared, RunOptions

Shape = tuple[int, int]


def names_of_pops(resolved: ResolvedModule, launched: Sequence[Function]) -> set[str]:
    """Return the names of the tiles that a half pops. Raises UsageError if both halves are there,
    or nothing of the launch knows of another half."""
    if len(launched) > 1:
        both = " and ".join(f"@{f.name}" for f in launched)
        raise UsageError(
            f"{both} are launched together: nothing is missing", help="leave out --peer"
        )
    ops = [op for function in reached_functions(resolved, launched) for op in function.ops]
    pops = [op for op in ops if op.definition is not None and op.definition.fifo == "pop"]
    given = [op.results[0] if op.results else op.bound["tile"].value for op in pops]
    return {value.name for value in given}


def stub_of(
    prepared: Prepared, options: RunOptions
) -> Callable[[str, int, Shape, DType], np.ndarray]:
    """Return what makes the tiles of a launch that the stub pushes: of an array with the elements
    of several tiles one after the other, and from the first one again."""
    kinds = {role.kind for role in prepared.roles}
    if {"cube", "vector"} <= kinds:
        raise UsageError(
            "the launch has cube and vector cores: nothing is missing", help="leave out --peer"
        )

    def tile(name: str, number: int, shape: Shape, elem: DType) -> np.ndarray:
        count = shape[0] * shape[1]
        if name not in options.popped:
            place = zlib.crc32(f"{name}/{number}".encode())
            return random_array(elem, shape, np.random.default_rng((options.seed, place)))
        flat = array_argument(name, elem, options.popped[name]).reshape(-1)
        if not flat.size or flat.size % count:
            raise UsageError(
                f"argument `{name}` has {flat.size} elements; tiles that are popped have {count}",
                help=f"give a multiple of {count}: one tile after the other",
            )
        first = number * count % flat.size
        return flat[first : first + count].reshape(shape)

    return tile
