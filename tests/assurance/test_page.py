"""The page on how ptosim is tested says what the tree has, and names tests that are there."""

from __future__ import annotations

import re
import tomllib

from tests.assurance.__main__ import PAGE, RUNS, page
from tests.support.paths import TREE


def test_the_page_is_up_to_date() -> None:
    """Else: `python -m tests.assurance --write`, as the gate does; what is counted in the tree changes
    with every file of tests, and is as of when the page was made."""
    held, made = (COUNTED.sub("", text) for text in (PAGE.read_text(encoding="utf-8"), page()))
    assert held == made


COUNTED = re.compile(r"## What the tree has\n.*?(?=\n## )", re.DOTALL)


def test_every_promise_names_tests_that_are_there() -> None:
    promises = tomllib.loads(RUNS.read_text(encoding="utf-8"))["promise"]
    assert all((TREE / test).exists() for promise in promises for test in promise["tests"])
