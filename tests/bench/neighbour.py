"""A busy neighbour: what shares cores, caches and memory with the measures."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_WORK = """
import os
import numpy as np
a, bench = np.zeros(1 << 22), os.getppid()
while os.getppid() == bench:  # a bench that is killed takes them along
    a += 1
"""


@contextmanager
def busy() -> Iterator[None]:
    """Keep every core at work with arrays larger than its caches meanwhile."""
    neighbours = [
        subprocess.Popen([sys.executable, "-c", _WORK]) for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for one in neighbours:
            one.kill()
            one.wait()
