"""Which cases of a table of tests are in which tier."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.support import changed

FAST_CASES = 3
"""Cases of a test in the fast tier where the test does not say how many."""

_OUTSIDE = {"not slow": {"slow", "deep"}, "not deep": {"deep"}}
"""What each choice of a tier leaves out, by the words of its `-m`."""

_SLOW, _DEEP = pytest.mark.slow.mark, pytest.mark.deep.mark


def choose(metafunc: pytest.Metafunc) -> None:
    """Of a test that is marked `sampled(n, m)` leave `n` cases in the fast tier and `m` in the
    default one (all, if it does not say); of one without a mark `FAST_CASES`. Cases that a change
    touches are in both.

    Where `-m` names a tier, the cases outside it are dropped here, before they are made: there are
    eighteen thousand deep ones, and making them is half of what the collection takes in each
    process. The list is pytest's own: nothing public is between a table and its made cases."""
    own = {mark.name for mark in metafunc.definition.iter_markers()}
    cases = metafunc._calls
    if "deep" not in own:
        cases = _in_tiers(cases, metafunc.definition.get_closest_marker("sampled"))
    outside = _OUTSIDE.get(metafunc.config.option.markexpr, set())
    if any("[" in path for path in metafunc.config.args):
        outside = set()  # a case that is asked for by its name is there, if only to be left out
    inside = [c for c in cases if outside.isdisjoint(own | {mark.name for mark in c.marks})]
    metafunc._calls = inside or cases[:1]  # without any it would be a test without parameters


def choose_single(items: list[pytest.Item]) -> None:
    """A test without cases is in the fast tier, unless it is marked `sampled(0)`. What is deep is
    slow too, so that `-m "not slow"`, which takes the place of the default choice, leaves it out."""
    for item in items:
        if item.get_closest_marker("deep") is not None:
            item.add_marker("slow")
        elif not hasattr(item, "callspec"):
            mark = item.get_closest_marker("sampled")
            if mark is not None and not mark.args[0]:
                item.add_marker("slow")


def _in_tiers(cases: list[Any], sampled: pytest.Mark | None) -> list[Any]:
    """The cases, each with the marks of what it is not in; one that is deep of itself is not
    counted."""
    counted = [case for case in cases if all(mark.name != "deep" for mark in case.marks)]
    few, many = (*(sampled.args if sampled else (FAST_CASES,)), len(counted))[:2]
    fast, default = spread(few, len(counted)), spread(many, len(counted))
    marks: dict[int, list[pytest.Mark]] = {}
    for place, case in enumerate(counted):
        if place not in fast and not is_touched(case.id):
            marks[id(case)] = [_SLOW] if place in default else [_SLOW, _DEEP]
    return [replace(case, marks=[*case.marks, *marks.get(id(case), ())]) for case in cases]


def is_touched(case: str) -> bool:
    """True if a word of the case's name is one that a change touches."""
    return not changed.words().isdisjoint(re.findall(r"[\w.]+", case))


def spread(count: int, of: int) -> set[int]:
    """`count` places among `of`, evenly, the first and the last among them: rows are added at the
    end."""
    if count < 2:
        return set(range(count))
    return {index * (of - 1) // (count - 1) for index in range(count)}
