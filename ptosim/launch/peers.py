"""What stands for the other half of a pair of kernels that is not launched, and for functions that
are only declared (`--peer stub`).

It gives every signal, takes every tile at once, and pushes tiles of the caller or random ones. A
function without a body does nothing, and returns numbers of the caller or zeros."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import DType, ScalarType
from ptosim.language.place.cores import reached_functions
from ptosim.launch.arguments import array_argument, scalar_argument
from ptosim.launch.generated import random_array
from ptosim.launch.prepared import Prepared, RunOptions

Shape = tuple[int, int]


def names_given(resolved: ResolvedModule, launched: Sequence[Function]) -> set[str]:
    """Return the names of the tiles that a half pops, and of what functions without a body return.
    Raises UsageError if both halves are there, or nothing of the launch knows of another half."""
    returned = {n for f in _declared(resolved, launched) for n in _names_of_results(f)}
    if len(launched) > 1:
        both = " and ".join(f"@{f.name}" for f in launched)
        if not _declared(resolved, launched):
            raise UsageError(
                f"{both} are launched together: nothing is missing", help="leave out --peer"
            )
        return returned
    ops = [op for function in reached_functions(resolved, launched) for op in function.ops]
    pops = [op for op in ops if op.definition is not None and op.definition.fifo == "pop"]
    given = [op.results[0] if op.results else op.bound["tile"].value for op in pops]
    return {value.name for value in given} | returned


def _declared(resolved: ResolvedModule, launched: Sequence[Function]) -> list[Function]:
    """The functions without a body that a launch calls."""
    callees = [
        resolved.functions.get(op.bound.get("callee", ""))
        for function in reached_functions(resolved, launched)
        for op in function.ops
    ]
    return [f for f in dict.fromkeys(callees) if f is not None and not f.has_body]


def _names_of_results(function: Function) -> list[str]:
    """`helper`, or `helper.0`, `helper.1` … of several."""
    names = [f"{function.symbol}.{i}" for i in range(len(function.results))]
    return [function.symbol] if len(names) == 1 else names


def returned(prepared: Prepared, options: RunOptions) -> dict[str, tuple[Any, ...]]:
    """Return what functions without a body return: zeros, or what the caller gives. Those that
    return anything but numbers have nothing that stands for them."""
    found: dict[str, tuple[Any, ...]] = {}
    for function in _declared(prepared.resolved, prepared.launched):
        if all(isinstance(type_, ScalarType) for type_ in function.results):
            pairs = zip(_names_of_results(function), function.results, strict=True)
            found[function.name] = tuple(
                scalar_argument(name, type_, options.popped.get(name, 0))
                for name, type_ in pairs
                if isinstance(type_, ScalarType)
            )
    return found


def stub_of(
    prepared: Prepared, options: RunOptions
) -> Callable[[str, int, Shape, DType], np.ndarray] | None:
    """Return what makes the tiles of a launch that the stub pushes: of an array with the elements
    of several tiles one after the other, and from the first one again. None where both halves are
    there, and functions without a body are missing."""
    kinds = {role.kind for role in prepared.roles}
    if {"cube", "vector"} <= kinds:
        if _declared(prepared.resolved, prepared.launched):
            return None
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
