"""What holds of the interpreter while programs execute."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ptosim.ground import collector


@contextmanager
def executing() -> Iterator[None]:
    """Arithmetic reports through its results, not through NumPy's warnings, and the
    cycle collector comes rarely."""
    before = collector.seldom()
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        gc.set_threshold(*before)
