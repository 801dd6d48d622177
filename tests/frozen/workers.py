"""Where the frozen things are computed: in processes of their own, with one BLAS and one thread.

Sums of the cube depend on the BLAS until they are exact, so its kind is fixed before NumPy loads."""

from __future__ import annotations

import os
import sys

from tests.frozen.things import TREE

PINNED = {
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENBLAS_NUM_THREADS": "1",
    "PTOSIM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}


def pinned() -> None:
    """Begin this process anew with what is fixed, unless it already has it."""
    os.chdir(TREE)
    if all(os.environ.get(name) == value for name, value in PINNED.items()):
        return
    os.environ.update(PINNED)
    os.execv(sys.executable, [sys.executable, "-m", "tests.frozen", *sys.argv[1:]])
