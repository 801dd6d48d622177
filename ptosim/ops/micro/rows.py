"""What a vector instruction does to the registers of many rounds of a loop at once.

A register that differs from round to round is an array of rows, one that does not has the shape it
always has; lanes are the last axis of both. Masks have lanes of one or the other shape, numbers
and pointers the same value in every round."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.ground.records import NamedTuple

if TYPE_CHECKING:
    from ptosim.machine.core import Core
    from ptosim.ops.micro.hazards import RegionPlace

Run = Callable[["Core"], None]
MOST_OF_ENTRY = 4095
"""Bytes that one entry of the log of accesses can say."""


class Computed(NamedTuple):
    """Results from operands, without memory: what happens in front of it, the function of the
    values in slots, the slots of its results (of several as a tuple); the slot of the mask whose
    inactive lanes become 0, and the name by which the mask has them."""

    function: Callable[..., Any]
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    before: tuple[Run, ...] = ()
    mask: int | None = None
    off: str = ""


class Known(NamedTuple):
    """An instruction on masks and numbers alone, which have one value in all rounds that are
    executed at once: it is executed once, before them. The slots that it reads."""

    run: Run
    reads: tuple[int, ...]


class Counted(NamedTuple):
    """The mask of the lanes that are left, and how many are left after them: `plt`. In the rounds
    that are executed at once the mask is full."""

    full: Any
    lanes: int
    source: int
    target: int
    remaining: int
    run: Run


class Load(NamedTuple):
    """A load: the function of its address, its bytes, what their rows (uint8) become, the slots of
    the results; the place among the instructions of its region. Addresses are multiples of `unit`,
    and `beyond` more bytes are in UB: else there is something to report. `when`: a slot, and what
    it holds where the load is this one."""

    at: Callable[[Any], Any]
    size: int
    spread: Callable[[np.ndarray], Any]
    targets: tuple[int, ...]
    place: RegionPlace
    unit: int = 1
    beyond: int = 0
    pages_of_all: bool = False
    when: tuple[int, int] | None = None

    @property
    def entry(self) -> int:
        """The bytes of an access that is one entry of a log."""
        return self.size if self.size <= MOST_OF_ENTRY else 0


class Store(NamedTuple):
    """A store: the function of its address, its bytes, the rows (uint8) of the registers in slots;
    the slot of the mask, the lanes that the mask has for units of `width` bytes; the bytes of an
    access that is one entry of a log."""

    at: Callable[[Any], Any]
    size: int
    image: Callable[..., np.ndarray]
    sources: tuple[int, ...]
    place: RegionPlace
    mask: int | None = None
    active: Callable[[Any], np.ndarray] | None = None
    width: int = 1
    unit: int = 1
    pages_of_all: bool = False
    when: tuple[int, int] | None = None
    entry: int = 0


Rows = Computed | Known | Counted | Load | Store


def as_rows(run: Callable[[Any], Any]) -> Rows | None:
    """Return what an instruction does to many rounds at once; None for one that is executed round
    by round."""
    return getattr(run, "rows", None)


def with_rows(run: Run, rows: Rows | None) -> Run:
    """Return the instruction with what it does to many rounds at once."""
    run.rows = rows  # type: ignore[attr-defined]
    return run


def bytes_of(register: np.ndarray) -> np.ndarray:
    """Return the bytes of registers as rows of uint8."""
    return np.ascontiguousarray(register).view(np.uint8)
