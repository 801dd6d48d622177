"""What a round does to registers, as steps that are each executed for many rounds at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.machine.logical import LogicalMask
from ptosim.machine.vector import Mask, VectorWindow
from ptosim.ops.micro.rows import Computed


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
