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
from typing import Any

import pytest

from tests.support import tiers

ALLOCATIONS = 20_000
"""Objects made between two collections; 700 by default."""


def pytest_configure() -> None:
    """Every process of the tests, and every command that one starts, shares compiled modules, also
    where none may be in the tree: to rewrite and compile them anew is two thirds of the collection.
    So do they what Hypothesis keeps of characters and of the constants of modules, which take ten
    seconds to find in a new tree. Commands can be interrupted, also where the suite itself cannot: a shell starts what is in the
    background with SIGINT ignored, and a process hands that on."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    user = getattr(os, "getuid", int)()
    kept = Path(tempfile.gettempdir(), f"ptosim-hypothesis-{user}")
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(kept))
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        sys.pycache_prefix = str(Path(tempfile.gettempdir(), f"ptosim-pyc-{user}"))
        sys.dont_write_bytecode = False
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


@pytest.hookimpl(wrapper=True)  # around what makes the cases
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Each case goes to its tier."""
    yield
    tiers.choose(metafunc)


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each test without cases goes to its tier."""
    tiers.choose_single(items)


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of time go by a clock that is a second later at each look at it."""
    from tests.support.clock import ticking  # which loads the debugger

    ticking(monkeypatch)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs one command line in this process and returns its exit code and texts."""
    from tests.support.command import in_process  # which loads the commands

    return in_process(capsys, monkeypatch)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """The tests themselves stay until the end: what is made for them is never gone through."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(ALLOCATIONS, 10, 10)
        gc.callbacks.append(_kept)
        gc.enable()


_collected: list[int] = []
"""Whole collections since the last test."""


def _kept(phase: str, found: dict[str, int]) -> None:
    if phase == "stop" and found["generation"] == 2:
        _collected.append(1)


def pytest_runtest_logfinish() -> None:
    """What outlives a whole collection (reports, tables that are kept) stays too: with twenty
    thousand tests behind it each further one would take seconds. Between tests, because who
    collects in one may ask afterwards who refers to what (Hypothesis does)."""
    if _collected:
        _collected.clear()
        gc.freeze()
