"""What a row says at a date: one place compares `since` and `until`."""

from __future__ import annotations

from typing import Any

import pytest

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.dates import DATES, at_date, check_date, holds
from ptosim.ground.isa.rows import _dates, _make, _Row, isa
from ptosim.ground.isa.schema import OpDef
from ptosim.language.bind import unknown as module
from ptosim.language.bind.unknown import Coming, coming

APRIL, AUGUST = DATES[:2]


@pytest.mark.parametrize(
    ("part", "april", "august"),
    [
        ({}, True, True),
        ({"since": AUGUST}, False, True),
        ({"until": AUGUST}, True, False),
        ({"since": APRIL, "until": AUGUST}, True, False),
        ({"since": APRIL}, True, True),
    ],
)
def test_since_is_the_first_date_and_until_the_first_without(
    part: dict[str, str], april: bool, august: bool
) -> None:
    assert (holds(part, APRIL), holds(part, AUGUST)) == (april, august)


def test_parts_of_lists_are_dated_one_by_one() -> None:
    row = {
        "ins": "src:tile, ~tmp:tile? since 2026-08, old:tile until 2026-08",
        "named": "nburst(n:int, gap:int)? until 2026-08, sizes:list",
        "rules": ["always", {"expr": "now", "since": AUGUST}, {"expr": "then", "until": AUGUST}],
        "variant": [{"name": "a", "rules": [{"expr": "x", "since": AUGUST}]}],
    }
    april, august = at_date(row, APRIL), at_date(row, AUGUST)
    assert april["ins"] == "src:tile, old:tile"
    assert august["ins"] == "src:tile, ~tmp:tile?"
    assert april["named"] == "nburst(n:int, gap:int)?, sizes:list"
    assert august["named"] == "sizes:list"
    assert april["rules"] == ["always", {"expr": "then"}]
    assert august["rules"] == ["always", {"expr": "now"}]
    assert april["variant"] == [{"name": "a", "rules": []}]
    assert august["variant"] == [{"name": "a", "rules": [{"expr": "x"}]}]


TEMPLATES: dict[str, dict[str, Any]] = {
    "base": {"summary": "s.", "status": "exact", "source": "x", "pipe": "V"},
    "gone": {"like": "base", "until": AUGUST},
}


def _at(date: str, **keys: Any) -> OpDef:
    return _make("pto.t", _Row("test", keys, TEMPLATES, _dates(keys, TEMPLATES)), date)


def test_a_row_is_dated_by_its_template() -> None:
    gone = {"like": "gone"}
    row = _Row("test", gone, TEMPLATES, _dates(gone, TEMPLATES))
    assert not row.has(AUGUST)
    assert row.has(APRIL)
    assert _at(APRIL, like="gone").until == AUGUST


def test_attributes_are_dated() -> None:
    keys = {"like": "base", "attrs": "old:int until 2026-08, new:int=1 since 2026-08, both:bool"}
    assert list(_at(APRIL, **keys).attrs) == ["old", "both"]
    assert list(_at(AUGUST, **keys).attrs) == ["new", "both"]


def test_every_row_can_be_made_at_every_date_that_has_it() -> None:
    for date in DATES:
        for name in isa(date).names():
            row = isa(date).get(name)
            assert row is not None, name
            assert holds(row.dates, date), name


def test_another_date_is_a_mistake_of_the_caller() -> None:
    assert check_date(AUGUST) == AUGUST
    with pytest.raises(UsageError, match="unknown date `2026-05`"):
        check_date("2026-05")


def test_a_name_to_come_has_no_row_and_a_star_needs_more_letters(monkeypatch) -> None:
    known = Coming("tile operations", "2026-08")
    monkeypatch.setattr(module, "_names", lambda: ({"tnew": known}, {"new.": known}))
    assert coming("pto.tnew") == coming("tnew") == coming("pto.new.anything") == known
    assert coming("pto.new.") is None
    assert coming("new.anything") is None
    assert coming("pto.tadd") is None
    assert coming("arith.addi") is None
