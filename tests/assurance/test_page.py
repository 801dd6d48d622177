"""The page on how ptosim is tested says what the tree has, and names tests that are there."""

from __future__ import annotations

import tomllib

from tests.assurance.__main__ import PAGE, RUNS, page
from tests.support.paths import TREE


def test_the_page_is_up_to_date() -> None:
    """Else: `python -m tests.assurance --write`."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_promise_names_tests_that_are_there() -> None:
    promises = tomllib.loads(RUNS.read_text(encoding="utf-8"))["promise"]
    assert all((TREE / test).exists() for promise in promises for test in promise["tests"])
