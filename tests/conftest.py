"""What all tests share: how their processes keep memory and compiled modules.

Programs of tests are small and die at once, but each is full of cycles, and what pytest holds of
twelve thousand tests would be walked again and again: a fifth of the suite went to the collector."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from pathlib import Path

import pytest

ALLOCATIONS = 20_000
"""Objects made between two collections; 700 by default."""


def pytest_configure() -> None:
    """Commands that tests start share compiled modules, also where none may be in the tree; and they
    can be interrupted, also where the suite itself cannot: a shell starts what is in the background
    with SIGINT ignored, and a process hands that on."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        user = getattr(os, "getuid", int)()
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir(), f"ptosim-pyc-{user}"))


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave `n` cases of each test that is marked `sampled(n)` in the fast tier."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for group in cases.values():
        kept = group[0].get_closest_marker("sampled").args[0]
        places = {index * len(group) // kept for index in range(kept)}
        for place, item in enumerate(group):
            if place not in places:
                item.add_marker("slow")


def pytest_collection_finish() -> None:
    """The tests themselves stay until the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS, 10, 10)
