"""What an evaluation of an expression may make: numbers of so many bits, so many elements, bytes
and rounds. Python and NumPy stop at nothing before the memory is full."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.limits import current, resident, size_text
from ptosim.ground.records import dataclass
from ptosim.machine.pages import has_numbers

MOST_BITS = 1 << 16
"""Of an integer."""
MOST_ELEMENTS = 1 << 22
"""Of what a step makes that is larger than what it is made of."""
MOST_IN_ALL = 1 << 24
"""Of what all such steps of an evaluation make, rounds of its comprehensions among them."""
MOST_STEPS = 1 << 30
"""Multiplications of a product of matrices."""
MOST_BYTES = 1 << 29
"""By which an evaluation may grow the process while it repeats a step."""
_LOOK = 0.02
"""Seconds between two looks at the limits."""


# -- what an evaluation uses -----------------------------------------------------------------------


@dataclass(slots=True)
class _Use:
    """What one evaluation has made so far, and what the process had when it began to loop."""

    elements: int = 0
    memory: int | None = None

    def spend(self, count: int) -> None:
        """Make so many elements more. Raises UsageError where they are too many in all."""
        self.elements += count
        if self.elements > MOST_IN_ALL:
            raise UsageError(
                f"an expression makes {MOST_IN_ALL:,} elements at most, one by one or at once",
                help="NumPy goes through an array in one step, as in `(%x > 2).sum()`",
            )


_use: ContextVar[_Use] = ContextVar("use")


@contextmanager
def one_evaluation() -> Iterator[None]:
    """Count what is made inside as that of one expression."""
    token = _use.set(_Use())
    try:
        yield
    finally:
        _use.reset(token)


def rounds(values: Iterable[Any]) -> Iterator[Any]:
    """Go through what a comprehension goes through, with a look at the limits now and then: nothing
    else in an expression repeats. Raises LimitError beyond those that hold, UsageError where too
    much has been made."""
    use = _use.get()
    if use.memory is None:
        use.memory = resident()
    looked = time.monotonic()
    for value in values:
        use.spend(1)
        now = time.monotonic()
        if now - looked > _LOOK:
            looked = now
            current().look()
            if resident() - use.memory > MOST_BYTES:
                raise UsageError(f"an expression takes {size_text(MOST_BYTES)} at most")
        yield value


def check_bits(count: int) -> None:
    """Raise UsageError for a whole number of so many bits that is not to be made."""
    if count > MOST_BITS:
        raise UsageError(f"a number of {count:,} bits is too large here")


def check_elements(count: int) -> None:
    """Count what a step makes. Raises UsageError where it is too much, at once or in all."""
    if count > MOST_ELEMENTS:
        raise UsageError(f"{count:,} elements are too many here")
    _use.get().spend(count)


# -- what a value is made of -----------------------------------------------------------------------


def weight(value: Any) -> int:
    """Return how many elements a value is written with, those of lists in lists each time that they
    are written; more than `MOST_ELEMENTS` are not counted on."""
    return _weight(value, {})


def _weight(value: Any, known: dict[int, int]) -> int:
    """`known` has the weights of lists by identity: one that stands in itself a million times, list
    by list, is counted once."""
    if isinstance(value, (str, bytes)):
        return max(len(value), 1)
    if isinstance(value, np.ndarray):
        return max(value.size, 1)
    if not isinstance(value, (list, tuple, set, dict)):
        return 1
    count = known.get(id(value))
    if count is None:
        count = known[id(value)] = _weight_of_parts(value, known)
    return count


def _weight_of_parts(value: Any, known: dict[int, int]) -> int:
    parts = [part for item in value.items() for part in item] if isinstance(value, dict) else value
    if not any(map(_CONTAINERS.__contains__, set(map(type, parts)))):
        return max(len(parts), 1)
    count = 1
    for part in parts:
        count += _weight(part, known)
        if count > MOST_ELEMENTS:
            break
    return count


_CONTAINERS = frozenset((str, bytes, list, tuple, set, dict, np.ndarray))
ARRAYS = (np.ndarray, np.generic)


def numbers(value: Any) -> int:
    """Return how many numbers NumPy makes an array of. Raises UsageError for what is no number."""
    if isinstance(value, ARRAYS):
        check_type(value.dtype)
        return value.size
    if isinstance(value, (list, tuple)):
        count = weight(value)
        if count > MOST_ELEMENTS:
            raise UsageError(f"more than {MOST_ELEMENTS:,} elements are too many here")
        return len(value) if _are_small(value) else sum(map(numbers, value))
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise UsageError("an array has no numbers of more than 64 bits")
    if not isinstance(value, (int, float, complex)):
        raise UsageError(f"a value of type `{type(value).__name__}` is no number")
    return 1


def _are_small(values: Sequence[Any]) -> bool:
    """True for whole numbers that fit, seen faster than with a look at each."""
    return set(map(type, values)) == {int} and -(1 << 63) <= min(values) <= max(values) < 1 << 64


def is_number(dtype: np.dtype) -> bool:
    """True for the types of numbers: real ones, and the complex ones of NumPy."""
    return dtype.kind == "c" or has_numbers(dtype)


def check_type(dtype: np.dtype) -> None:
    """Raise UsageError for a type of elements that are no numbers."""
    if not is_number(dtype):
        raise UsageError(f"`{dtype}` is no type of numbers")
