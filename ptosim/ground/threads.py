"""How many threads a product of matrices runs on: `PTOSIM_THREADS`, one unless it is set.

Without NumPy, because BLAS reads its own variables when NumPy is loaded."""

from __future__ import annotations

import os
from functools import cache

from ptosim.ground.errors import UsageError
from ptosim.ground.whole_numbers import whole

VARIABLE = "PTOSIM_THREADS"
OF_BLAS = (
    "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
"""What the usual libraries read when they are loaded."""


@cache
def wanted_threads() -> int:
    """Return the threads of a product. Raises UsageError for what is no positive number."""
    word = os.environ.get(VARIABLE, "1")
    number = whole(word)
    if not number:
        raise UsageError(f"{VARIABLE} is `{word}`", help="give the number of threads: 1 or more")
    return number


def tell_blas() -> None:
    """Tell BLAS how many threads to have, if it is not loaded yet and nobody has told it. Raises
    UsageError for a variable that is no positive number."""
    threads = str(wanted_threads())
    for name in OF_BLAS:
        if VARIABLE in os.environ:
            os.environ[name] = threads
        else:
            os.environ.setdefault(name, threads)
