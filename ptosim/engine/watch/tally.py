"""Values of quantising operations: by row, and over all executions of one."""

from __future__ import annotations

import numpy as np

from ptosim.ground.records import NamedTuple
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding

_FEWEST = 32
"""Values that say something of a scale."""
_DISTINCT = 16
"""Different values that are worth more than a few codes."""
_ALL, _EVERY = 16, 17
"""Executions of an operation that are counted: so many first ones, then one of so many."""
_PIECE = 8192
"""Values that are looked at together for how many differ."""
_NEAR = 2.5
"""Steps from the code of zero within which five codes are."""


class Codes(NamedTuple):
    """The codes of a result: the lowest, the highest, and that of zero; with ReLU none below it."""

    low: float
    high: float
    zero: float | np.ndarray = 0.0
    has_relu: bool = False


class Tally:
    """The values of one operation, in steps from the code of zero, over all its executions."""

    def __init__(self, op: Binding, by: str, *, may_be_few: bool = False) -> None:
        """`by` is what the scale is chosen with; small numbers `may_be_few` codes."""
        self._op, self._by, self._may_be_few = op, by, may_be_few
        self.begin_again()

    def begin_again(self) -> None:
        """Another block begins."""
        self._executions = self._count = self._outside = 0
        self._farthest = 0.0
        self._distinct: set[float] = set()
        self._is_wrong = False

    def wrong(self) -> None:
        """Its parameters were reported: what comes of them need not be."""
        self._is_wrong = True

    def is_due(self) -> bool:
        """The operation is executed: return whether its values are to be added."""
        self._executions += 1
        return self._executions <= _ALL or self._executions % _EVERY == 0

    def due(self, times: int) -> np.ndarray:
        """The operation is executed so many times: return which of those, from 0, have values that
        are to be added."""
        numbers = np.arange(self._executions + 1, self._executions + times + 1)
        self._executions += times
        return np.flatnonzero((numbers <= _ALL) | (numbers % _EVERY == 0))

    def add(self, values: np.ndarray, steps: np.ndarray, codes: Codes) -> None:
        """Count `values`, which are so many `steps` from the code of zero. Zeros say nothing, nor
        do values on a side where there are no codes, as ReLU has it."""
        if self._add_inside(values, steps, codes):
            return
        with np.errstate(all="ignore"):
            is_one = np.isfinite(steps) & (values != 0)
            is_one &= (steps > 0) | (not codes.has_relu and codes.zero > codes.low)
            is_one &= (steps < 0) | (codes.zero < codes.high)
            places = np.rint(steps + codes.zero)
            outside = is_one & ((places < codes.low) | (places > codes.high))
        self._outside += int(np.count_nonzero(outside))
        farthest = float(np.abs(steps[is_one]).max(initial=0))
        self._counted_in(int(np.count_nonzero(is_one)), farthest, values, is_one)

    def _add_inside(self, values: np.ndarray, steps: np.ndarray, codes: Codes) -> bool:
        """Do it quickly where every value has a code; else return False."""
        zero = np.asarray(codes.zero)
        if codes.has_relu or not steps.size or zero.min() <= codes.low or zero.max() >= codes.high:
            return False
        least, most = steps.min(), steps.max()
        if not (codes.low - 0.25 <= least + zero.min() and most + zero.max() <= codes.high + 0.25):
            return False  # NaN, too
        count = int(np.count_nonzero(values))
        self._counted_in(count, float(max(-least, most, 0)), values, slice(None))
        return True

    def _counted_in(self, count: int, farthest: float, values: np.ndarray, chosen: object) -> None:
        self._count += count
        self._farthest = max(self._farthest, farthest)
        if len(self._distinct) >= _DISTINCT:
            return
        of = values[chosen].reshape(-1)  # type: ignore[index]
        for start in range(0, len(of), _PIECE):
            if len(self._distinct) < _DISTINCT:
                found = np.unique(of[start : start + _PIECE])
                self._distinct |= set(found[found != 0][:_DISTINCT].tolist())

    def tell(self) -> None:
        """Report what the executions so far show of the scale."""
        if self._is_wrong or self._count < _FEWEST:
            return
        if 2 * self._outside > self._count:
            self._op.report(
                "PTO7214",
                f"saturates {self._outside:,} of {self._count:,} values: they are beyond its codes",
                notes=(f"the farthest is {self._farthest:.4g} steps from zero", *self._counted),
                help=f"{self._by}: the largest magnitude belongs to the last code",
            )
        elif not self._may_be_few and self._farthest < _NEAR and self._is_varied:
            used = 2 * round(self._farthest) + 1
            self._op.report(
                "PTO7215",
                f"uses {used} codes at most for {self._count:,} different values: the farthest is "
                f"{self._farthest:.4g} steps from zero",
                notes=self._counted,
                help=f"{self._by}: the largest magnitude belongs to the last code",
            )

    @property
    def _counted(self) -> tuple[str, ...]:
        if self._executions <= _ALL:
            return ()
        return (f"of {self._executions:,} executions the first {_ALL} and each {_EVERY}th count",)

    @property
    def _is_varied(self) -> bool:
        return len(self._distinct) >= _DISTINCT


class Rows(NamedTuple):
    """Values of a tile, and the least and the largest of each row: NaN where one is NaN."""

    values: np.ndarray
    least: np.ndarray
    most: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Rows:
        """Read them as f32 where that holds them exactly, else as f64."""
        is_short = values.dtype.itemsize < 4 or values.dtype == np.float32
        values = values.astype(np.float32 if is_short else np.float64, copy=False)
        return cls(values, *(f(axis=1).astype(np.float64) for f in (values.min, values.max)))

    @property
    def are_finite(self) -> bool:
        """True if no value is NaN or infinite."""
        return bool(self.least.min() > -np.inf and self.most.max() < np.inf)

    @property
    def largest(self) -> np.ndarray:
        """The largest magnitude of each row, of what is finite."""
        if self.are_finite:
            return np.maximum(-self.least, self.most)
        sizes = np.abs(self.values.astype(np.float64))
        return np.where(np.isfinite(sizes), sizes, 0).max(axis=1)


def is_within(
    tile: Tile, scale: np.ndarray, ends: tuple[float, float], limits: tuple[float, float]
) -> bool:
    """True if the f32 values of a tile are finite, and the largest one in steps well within limits;
    `ends` are the least and the largest scale."""
    values, (low, high) = tile.read(), limits
    if values.dtype != np.float32:
        return False
    most = max(float(values.max()), -float(values.min()))
    if 1.01 * low <= most * ends[0] and most * ends[1] <= 0.99 * high:
        return True  # of the row that has the largest, too
    with np.errstate(all="ignore"):
        largest = np.maximum(values.max(axis=1), -values.min(axis=1))
        return bool(1.01 * low <= (largest * scale).max() <= 0.99 * high)


def are_within(
    held: np.ndarray, scale: np.ndarray, tiles: int, limits: tuple[float, float]
) -> bool:
    """True if the values of tiles below one another are finite, and of each the largest in steps is
    within limits: mostly the largest of all and those of first rows say so, rows need not be
    looked at one by one."""
    with np.errstate(all="ignore"):
        largest = np.maximum(-held.min(), held.max()) * scale.max()
        height = len(held) // tiles
        least = (np.abs(held[::height].astype(np.float64)).max(axis=1) * scale[::height]).min()
        if limits[0] <= least and largest <= limits[1]:
            return True
        read = Rows.of(held)
        if not read.are_finite:
            return False
        each = (read.largest * scale).reshape(tiles, height).max(axis=1)
        return bool(limits[0] <= each.min() and each.max() <= limits[1])
