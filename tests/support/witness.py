"""What the runs of tests really show of an operation: kinds of data, shapes, places and switches, and
what came out.

`with Witness() as seen:` around calls of test functions. `seen.kinds[op, target]` is then the set of
words below, taken from the arguments, the types and the switches of every program that ran;
`seen.outputs` lists the outputs of the runs in their order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any, Self

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.debug.program import Program
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.ir.types import TileType

KINDS = (
    "negative", "tied", "nan", "zeros", "infinite", "extreme",  # of data
    "tail", "empty", "dynamic",  # of shapes
    "in-place", "stopped",
)  # fmt: skip
FLOAT_KINDS = frozenset(("nan", "zeros", "infinite"))
_ALIASES = frozenset(("pto.treshape", "pto.bitcast", "pto.talias"))


class Witness:
    """Collects while it is entered."""

    def __init__(self) -> None:
        self.kinds: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.outputs: list[dict[str, np.ndarray]] = []
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Self:
        plain = Program.run

        def run(program: Program, args: Any = None, **options: Any) -> ptosim.Result:
            found = set(situations(program, args))
            for observer in options.get("observers", ()):
                found |= set(_written(observer))
            try:
                result = plain(program, args, **{"timing": False, **options})
            except ptosim.Trap:
                found = {"stopped"}
                raise
            finally:
                self._note(program, found)
            self.outputs.append(result.outputs)
            return result

        self._patch.setattr(Program, "run", run)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def _note(self, program: Program, found: set[str]) -> None:
        for op in program.front.module.walk():
            row = op.definition
            if row is not None:
                kinds = self.kinds[row.mnemonic, program.target]
                kinds |= found | ({"in-place"} if _in_place(op) else set())
                kinds.update(f"{name}={program.profile[name]}" for name in row.switches)


def calls(function: Callable[..., Any], **fixed: Any) -> list[dict[str, Any]]:
    """Arguments of a parametrised test: all, or, where they are many, its first ones and each other
    value of each parameter with the first ones of the rest; only those that agree with `fixed`, as
    far as it has the name."""
    choices = [_choices(m) for m in getattr(function, "pytestmark", ()) if m.name == "parametrize"]
    kept = [[c for c in mark if _agrees(c, fixed)] for mark in choices]
    if not all(kept):
        return []
    if math.prod(map(len, kept)) <= 12:
        return [{k: v for part in parts for k, v in part.items()} for parts in product(*kept)]
    first = [mark[0] for mark in kept]
    found = [first]
    for place, mark in enumerate(kept):
        found += [[*first[:place], other, *first[place + 1 :]] for other in mark[1:]]
    return [{k: v for part in parts for k, v in part.items()} for parts in found]


def _choices(mark: pytest.Mark) -> list[dict[str, Any]]:
    names, values = mark.args[0], mark.args[1]
    listed = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
    single = len(listed) == 1
    rows = [getattr(v, "values", v) if not isinstance(v, dict) else v for v in values]
    return [dict(zip(listed, (row,) if single else row, strict=True)) for row in rows]


def _agrees(choice: dict[str, Any], fixed: dict[str, Any]) -> bool:
    return all(choice.get(name, value) == value for name, value in fixed.items())


# -- kinds -----------------------------------------------------------------------------------------


def situations(program: Program, args: Any) -> Iterator[str]:
    """Words for the types of a program's tiles and for its arguments."""
    dynamic = False
    for op in program.front.module.walk():
        for tile in (v.type for v in op.results if isinstance(v.type, TileType)):
            if tile.v_row is None or tile.v_col is None:
                dynamic = True
                yield "dynamic"
            elif 0 in (tile.v_row, tile.v_col):
                yield "empty"
            elif (tile.v_row, tile.v_col) != (tile.rows, tile.cols):
                yield "tail"
    for value in args.values() if isinstance(args, dict) else args or ():
        if isinstance(value, np.ndarray) and value.ndim:
            yield from data_kinds(value)
        elif dynamic and isinstance(value, int):
            yield "tail" if value else "empty"


def _written(observer: Any) -> Iterator[str]:
    """Words for the data that an observer of a test writes into the memories of a core."""
    values = getattr(observer, "values", ())
    for array in values if isinstance(values, list) else [values]:
        if isinstance(array, np.ndarray):
            yield from data_kinds(array)


def data_kinds(array: np.ndarray) -> Iterator[str]:
    """Words for what an array holds."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if not flat.size or not flat.view(np.uint8).any():
        return
    if flat.dtype.kind in "iu" or "int" in flat.dtype.name:
        limits, low, high = ml_dtypes.iinfo(flat.dtype), int(flat.min()), int(flat.max())
        yield from ("negative",) if low < 0 else ()
        yield from ("extreme",) if high == limits.max or low == limits.min < 0 else ()
    elif flat.dtype.kind in "fV":
        yield from _float_kinds(flat)
    if len(np.unique(flat.view(f"u{flat.itemsize}"))) < flat.size:
        yield "tied"


def _float_kinds(flat: np.ndarray) -> Iterable[str]:
    with np.errstate(all="ignore"):
        wide = flat.astype(np.float64)
    limits = ml_dtypes.finfo(flat.dtype)
    signs, size = np.signbit(wide[wide == 0]), np.abs(wide)
    subnormal = (size > 0) & (size < float(limits.smallest_normal))
    tests = {
        "negative": wide < 0,
        "nan": np.isnan(wide),
        "infinite": np.isinf(wide),
        "zeros": np.array(signs.any() and not signs.all()),
        "extreme": (size == float(limits.max)) | subnormal,
    }
    return [word for word, test in tests.items() if test.any()]


def _in_place(op: Operation) -> bool:
    if op.variant is None:
        return False
    written, read = ({*_roots(op, side)} for side in (op.variant.outs, op.variant.ins))
    return bool(written & read)


def _roots(op: Operation, definitions: Iterable[Any]) -> Iterator[Any]:
    """The tiles whose storage the operands of one side represent."""
    for definition in definitions:
        bound = op.bound.get(definition.name)
        for operand in bound if isinstance(bound, list) else [bound]:
            value = operand.value if isinstance(operand, Operand) else None
            while value is not None and value.owner is not None and value.owner.name in _ALIASES:
                value = next(iter(value.owner.bound.values())).value
            if value is not None and isinstance(value.type, TileType):
                yield value
