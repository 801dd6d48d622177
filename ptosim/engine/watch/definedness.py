"""Which elements of the outputs were written with values: what is left of the bytes' history at the
end of a run.

Whoever reads bytes without a value is reported once; what it computes of them has none either, and
is not reported again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ptosim.engine.watch.shadow import ORIGIN, Footprint, Shadow
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import DType
from ptosim.ground.records import NamedTuple
from ptosim.machine.effects.account import DEFINED, TAINTED
from ptosim.machine.effects.intervals import EMPTY, intervals
from ptosim.machine.effects.strided import MAX_RUNS, runs_of

MOST_BYTES = 1 << 22
"""Of an operand, looked at one by one: of a larger one all that is computed of it has no value."""
_ALIKE = ("elementwise", "tile_scalar", "memory")
"""Families whose results have the elements of their sources, in their order."""


def without_values(print_: Footprint) -> np.ndarray | None:
    """Return which bytes of an operand have no value, ascending; None for too many."""
    if print_.bytes > MOST_BYTES:
        return None
    return print_.shadow.states(_places(print_)) != DEFINED


def taint(op: Operation | None, sources: list[np.ndarray | None], written: Footprint) -> None:
    """Say of what an operation wrote that it has no value where its sources have none."""
    found = [s for s in sources if s is not None and s.size == written.bytes]
    family = op.definition.family if op is not None and op.definition is not None else ""
    parts = written.parts
    if family in _ALIKE and len(found) == len(sources):
        chosen = _places(written)[np.logical_or.reduce(found)]
        runs = runs_of(chosen, 1) if len(chosen) else ()
        parts = runs if len(runs) < MAX_RUNS else parts
    if parts:
        for atom in Footprint(written.shadow, parts, written.name, None).atoms():
            atom.defined = TAINTED


def _places(print_: Footprint) -> np.ndarray:
    rows = intervals(print_.parts)
    sizes = rows[:, 1] - rows[:, 0]
    starts = np.repeat(rows[:, 0] - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes)
    return starts + np.arange(int(sizes.sum()))


# -- at the end of a run ---------------------------------------------------------------------------


class _Piece(NamedTuple):
    """A map of some bytes: the first one, the bytes of a unit, the label of each unit, and by label
    whether it was written with a value."""

    base: int
    unit: int
    labels: np.ndarray
    written: np.ndarray


class _Part(NamedTuple):
    """What is known of a buffer, as pieces or as the ranges of bytes that were written; the bytes
    of an argument in it, its elements and shape."""

    pieces: list[_Piece]
    ranges: np.ndarray
    offset: int
    size: int
    elem: DType
    shape: tuple[int, ...]


class Definedness(Mapping[str, np.ndarray]):
    """Boolean arrays by the names of arguments in global memory, made when they are asked for: True
    where every byte of an element was written with a value."""

    def __init__(self) -> None:
        self._parts: dict[str, _Part] = {}

    def add(
        self,
        name: str,
        shadow: Shadow,
        place: tuple[int, int],
        elem: DType,
        shape: tuple[int, ...],
    ) -> None:
        """Keep what is known of an argument: `place` is its first byte and its bytes."""
        self._parts[name] = _Part(list(_pieces(shadow)), EMPTY, *place, elem, shape)

    def add_ranges(
        self,
        name: str,
        ranges: np.ndarray,
        place: tuple[int, int],
        elem: DType,
        shape: tuple[int, ...],
    ) -> None:
        """Do the same for a buffer of which these ranges of bytes were written with values."""
        self._parts[name] = _Part([], ranges, *place, elem, shape)

    def __getitem__(self, name: str) -> np.ndarray:
        pieces, ranges, offset, size, elem, shape = self._parts[name]
        of_bytes: np.ndarray = np.zeros(offset + size, bool)
        for base, unit, labels, written in pieces:
            known = np.repeat(written[labels], unit)[: max(offset + size - base, 0)]
            of_bytes[base : base + len(known)] = known
        for low, high in ranges.tolist():
            of_bytes[low:high] = True
        of_bytes = of_bytes[offset:]
        if elem.bits < 8:
            of_bytes = np.repeat(of_bytes, 8 // elem.bits)
        else:
            of_bytes = np.logical_and.reduce(of_bytes.reshape(-1, elem.bits // 8), axis=1)
        return of_bytes[: int(np.prod(shape))].reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def _pieces(shadow: Shadow) -> Iterator[_Piece]:
    for base, region in shadow.regions():
        written = [a.write is not ORIGIN and a.defined == DEFINED for a in region.atoms]
        yield _Piece(base, region.unit, region.labels, np.array(written, bool))
