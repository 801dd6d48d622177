"""What all tests share: how their processes keep memory and compiled modules.

Programs of tests are small and die at once, but each is full of cycles, and what pytest holds of
twelve thousand tests would be walked again and again: a fifth of the suite went to the collector."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ALLOCATIONS = 20_000
"""Objects made between two collections; 700 by default."""
FAST_CASES = 4
"""Cases of a test in the fast tier, evenly spread, where the test does not say how many."""


def pytest_configure() -> None:
    """Every process of the tests, and every command that one starts, shares compiled modules, also
    where none may be in the tree: to rewrite and compile them anew is two thirds of the collection.
    Commands can be interrupted, also where the suite itself cannot: a shell starts what is in the
    background with SIGINT ignored, and a process hands that on."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        user = getattr(os, "getuid", int)()
        sys.pycache_prefix = str(Path(tempfile.gettempdir(), f"ptosim-pyc-{user}"))
        sys.dont_write_bytecode = False
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of each test that is marked `sampled(n, m)` leave `n` cases in the fast tier and `m` in the
    default one (all, if it does not say); of one without a mark `FAST_CASES`. What is deep is slow
    too, so that `-m "not slow"`, which takes the place of the default choice, leaves it out."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("deep") is not None:
            item.add_marker("slow")
        else:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for group in cases.values():
        mark = group[0].get_closest_marker("sampled")
        few, many = (*(mark.args if mark else (FAST_CASES,)), len(group))[:2]
        fast, default = _spread(few, len(group)), _spread(many, len(group))
        for place, item in enumerate(group):
            if place not in fast:
                item.add_marker("slow")
                if place not in default:
                    item.add_marker("deep")


def _spread(count: int, of: int) -> set[int]:
    """`count` places among `of`, evenly."""
    return {index * of // count for index in range(count)}


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of time go by a clock that is a second later at each look at it."""
    from tests.support.clock import ticking  # which loads the debugger

    ticking(monkeypatch)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """The tests themselves stay until the end: what is made for them is never gone through."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(ALLOCATIONS, 10, 10)
        gc.enable()
