"""What holds of the interpreter while programs execute."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

NEW_OBJECTS = 50_000
"""Objects that execution makes before the cycle collector looks at them."""


@contextmanager
def executing() -> Iterator[None]:
    """Arithmetic reports through its results, not through NumPy's warnings. The cycle collector
    comes rarely: it would walk everything that a program consists of every few hundred operations
    (half of the time of a loop over new addresses), and execution makes next to no cycles."""
    before = gc.get_threshold()
    if 0 < before[0] < NEW_OBJECTS:
        gc.set_threshold(NEW_OBJECTS, *before[1:])
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        gc.set_threshold(*before)
