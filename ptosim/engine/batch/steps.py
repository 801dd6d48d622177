"""What a round does to registers, as steps that are each executed for many rounds at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import ScalarType
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView, Pointer
from ptosim.machine.vector import LogicalMask, Mask, VectorWindow
from ptosim.ops.micro.context import Computed

KNOWN = frozenset((int, bool, Pointer, Mask, LogicalMask, TileRef, GmView))
"""Values that are looked at before rounds are executed; all others are only copied."""


class NotAtOnceError(Exception):
    """The rounds have to be executed one after the other."""


class Register:
    """In the place of what only the execution of a round gives."""

    __slots__ = ()


ONE, MANY = Register(), Register()
"""The same in every round, or one for each."""


def is_series(*values: Any) -> bool:
    return any(isinstance(v, np.ndarray) for v in values)


def is_open(value: Any) -> bool:
    """True for what is not known before the rounds, or differs from round to round."""
    if isinstance(value, Register | np.ndarray):
        return True
    return isinstance(value, Pointer) and isinstance(value.byte, np.ndarray)


def number_of(value: Any) -> Any:
    """The number that grows from round to round: of a pointer its byte."""
    if isinstance(value, Pointer):
        return value.byte
    return value if type(value) is int or isinstance(value, np.ndarray) else None


def is_like(before: Any, value: Any) -> bool:
    """True for two numbers, and for two pointers into one memory."""
    if isinstance(before, Pointer):
        return isinstance(value, Pointer) and value.memory == before.memory
    return type(before) is int and (type(value) is int or isinstance(value, np.ndarray))


def with_number(value: Any, series: np.ndarray) -> Any:
    return value._replace(byte=series) if isinstance(value, Pointer) else series


def of_round(value: Any, at: int) -> Any:
    if isinstance(value, np.ndarray):
        return value[at].item()
    if isinstance(value, Pointer) and isinstance(value.byte, np.ndarray):
        return value._replace(byte=value.byte[at].item())
    return value


def window(on: np.ndarray, size: int, width: int) -> tuple[int, int]:
    """The bytes that active lanes store, if they are neighbours."""
    chosen = np.flatnonzero(on[: size // width])
    if not len(chosen):
        return 0, 0
    first, last = int(chosen[0]), int(chosen[-1])
    if last - first + 1 != len(chosen):
        raise NotAtOnceError
    return first * width, (last + 1) * width


def is_wide(op: Operation) -> bool:
    """True for operations on signed numbers of 32 bits and more, which those computed here are in
    the range of."""
    values = [*op.results, *op.operand_values()]
    types = [v.type for v in values]
    return all(
        isinstance(t, ScalarType) and t.dtype.bits >= 32 and t.dtype.kind == "int" for t in types
    )


# -- steps -----------------------------------------------------------------------------------------


class Values(dict[int, Any]):
    """Slots while rounds are executed at once: those that they have set, and those of the core. It
    takes the place of a core where an instruction looks at slots alone."""

    __slots__ = ("_given",)

    def __init__(self, given: list[Any]) -> None:
        super().__init__()
        self._given = given

    @property
    def slots(self) -> Values:
        """As of a core."""
        return self

    def __missing__(self, slot: int) -> Any:
        return self._given[slot]


Step = Callable[[Values, VectorWindow], None]


def copied(sources: tuple[int, ...], targets: tuple[int, ...]) -> Step:
    """Return the step that copies slots, all at once."""

    def step(values: Values, ub: VectorWindow) -> None:
        taken = [values[s] for s in sources]
        values.update(zip(targets, taken, strict=True))

    return step


def told(slot: int, value: Any) -> Step:
    """Return the step that sets a slot to what was known before the rounds."""

    def step(values: Values, ub: VectorWindow) -> None:
        values[slot] = value

    return step


def computed(what: Computed, rounds: int, *, is_many: bool) -> Step:
    """Return the step that computes registers. `is_many`: an operand differs from round to round,
    so that the others become rows, too."""
    function, sources, before, mask, off = (
        what.function, what.sources, what.before, what.mask, what.off,
    )  # fmt: skip
    targets = what.targets
    (only,) = targets if len(targets) == 1 else (None,)
    spreads = is_many and (len(sources) > 1 or mask is not None)

    def step(values: Values, ub: VectorWindow) -> None:
        for first in before:
            first(values)  # type: ignore[arg-type]
        taken = [values[s] for s in sources]
        if spreads:
            taken = [_spread(t, rounds) for t in taken]
        result = function(*taken)
        if mask is not None:
            inactive = getattr(values[mask], off)
            if inactive is not None:
                result[..., inactive] = 0
        if only is not None:
            values[only] = result
        else:
            values.update(zip(targets, result, strict=True))

    return step


def _spread(value: Any, rounds: int) -> Any:
    if type(value) is np.ndarray and value.ndim == 1:
        return np.broadcast_to(value, (rounds, value.shape[0]))
    return value


Shape = tuple[int, int, int, int]
"""Where rows are: the first byte, bytes from row to row, rows, bytes of a row."""


def loaded(
    spread: Callable[[np.ndarray], Any], targets: tuple[int, ...], shape: Shape, *, keeps: bool
) -> Step:
    """Return the step that loads. `keeps`: the bytes change later in a round, or there is one row
    for all rounds."""
    view = _Rows(shape)
    (only,) = targets if len(targets) == 1 else (None,)

    def step(values: Values, ub: VectorWindow) -> None:
        rows = view.of(ub)
        result = spread(rows.copy() if keeps else rows)
        if only is not None:
            values[only] = result
        else:
            values.update(zip(targets, result, strict=True))

    return step


def stored(
    image: Callable[..., np.ndarray], sources: tuple[int, ...], shape: Shape, part: slice | None
) -> Step:
    """Return the step that stores the bytes of registers, or a part of them."""
    view = _Rows(shape)

    def step(values: Values, ub: VectorWindow) -> None:
        rows = image(*[values[s] for s in sources])
        np.copyto(view.of(ub), rows if part is None else rows[..., part])

    return step


class _Rows:
    """A view of rows of UB, made once for a core."""

    __slots__ = ("_rows", "_shape", "_ub")

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._ub: VectorWindow | None = None
        self._rows: np.ndarray = np.zeros(0, np.uint8)

    def of(self, ub: VectorWindow) -> np.ndarray:
        if self._ub is not ub:
            first, step, count, size = self._shape
            if step == 0:
                self._rows = np.frombuffer(ub.data, np.uint8, size, first)
            elif step == size:
                every = np.frombuffer(ub.data, np.uint8, size * count, first)
                self._rows = every.reshape(count, size)
            else:
                self._rows = _strided(ub.data, self._shape)
            self._ub = ub
        return self._rows


def _strided(data: bytearray, shape: Shape) -> np.ndarray:
    first, step, count, size = shape
    return np.ndarray((count, size), np.uint8, data, first, (step, 1))


def of_last_round(value: Any) -> Any:
    """Return what a slot holds after the last round."""
    if type(value) is np.ndarray:
        return value[-1].copy() if value.ndim == 2 else value
    return value.of_round(-1) if isinstance(value, Mask | LogicalMask) else value
