"""What all tests share: how their processes keep memory and compiled modules.

Programs of tests are small and die at once, but each is full of cycles, and what pytest holds of
twelve thousand tests would be walked again and again: a fifth of the suite went to the collector."""

from __future__ import annotations

import gc
import os
import tempfile
from pathlib import Path

ALLOCATIONS = 20_000
"""Objects made between two collections; 700 by default."""


def pytest_configure() -> None:
    """Commands that tests start share compiled modules, also where none may be in the tree."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        user = getattr(os, "getuid", int)()
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir(), f"ptosim-pyc-{user}"))


def pytest_collection_finish() -> None:
    """The tests themselves stay until the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS, 10, 10)
