"""Which cases of a table of tests are in which tier."""

from __future__ import annotations

import re

import pytest

from tests.support import changed

FAST_CASES = 3
"""Cases of a test in the fast tier where the test does not say how many."""


def choose(items: list[pytest.Item]) -> None:
    """Of each test that is marked `sampled(n, m)` leave `n` cases in the fast tier and `m` in the
    default one (all, if it does not say); of one without a mark `FAST_CASES`. Cases that a change
    touches are in both. What is deep is slow too, so that `-m "not slow"`, which takes the place of
    the default choice, leaves it out."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("deep") is not None:
            item.add_marker("slow")
        else:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for group in cases.values():
        mark = group[0].get_closest_marker("sampled")
        few, many = (*(mark.args if mark else (FAST_CASES,)), len(group))[:2]
        fast, default = spread(few, len(group)), spread(many, len(group))
        for place, item in enumerate(group):
            if place not in fast and not is_touched(item.nodeid.partition("[")[2]):
                item.add_marker("slow")
                if place not in default:
                    item.add_marker("deep")


def is_touched(case: str) -> bool:
    """True if a word of the case's name is one that a change touches."""
    return not changed.words().isdisjoint(re.findall(r"[\w.]+", case))


def spread(count: int, of: int) -> set[int]:
    """`count` places among `of`, evenly, the first and the last among them: rows are added at the
    end."""
    if count < 2:
        return set(range(count))
    return {index * (of - 1) // (count - 1) for index in range(count)}
