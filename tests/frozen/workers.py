"""Where the frozen things are computed: in processes of their own, with one thread of BLAS each.

Hashes are not fixed: what depends on the order of a set must not be frozen, it must be mended."""

from __future__ import annotations

import os
import sys

from tests.frozen.things import TREE

PINNED = {
    "OPENBLAS_NUM_THREADS": "1",
    "PTOSIM_THREADS": "1",
}
KEPT = {*PINNED, "PTOSIM_CACHE_DIR"}


def pinned() -> None:
    """Begin this process anew with what is fixed, unless it already has it."""
    os.chdir(TREE)
    ours = [name for name in os.environ if name.startswith("PTOSIM_") and name not in KEPT]
    for name in ours:  # a server, or settings of whoever compares
        del os.environ[name]
    if all(os.environ.get(name) == value for name, value in PINNED.items()):
        return
    os.environ.update(PINNED)
    os.execv(sys.executable, [sys.executable, "-m", "tests.frozen", *sys.argv[1:]])
