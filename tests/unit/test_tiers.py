"""The fast tier runs what a change touches whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import changed, tiers

ROWS = """
[template.wide]
pipe = "V"
[[op]]
name = "one"
like = "wide"
[[op]]
name = "two"
"""
LAWS = """
[class.binary]
a5 = "function"
[op]
one = { class = "binary", a5 = "vadd" }
two = { class = "unary", a5 = "vsub" }
"""
CODE = """
@arrays("pto.one")
def one(op):
    return 1

TABLE = {"two": 2}
"""


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("", "", set()),
        ('name = "two"', 'name = "two"\npipe = "S"', {"two"}),
        ('pipe = "V"', 'pipe = "S"', {"one"}),
        ('name = "two"', 'name = "three"', {"three"}),
    ],
)
def test_a_row_is_touched_with_its_templates(old: str, new: str, named: set[str]) -> None:
    assert changed.changed_rows(ROWS, ROWS.replace(old, new)) == named


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('a5 = "function"', 'a5 = "rows"', {"one"}),
        ('"unary"', '"binary"', {"two"}),
    ],
)
def test_a_law_is_touched_with_its_class(old: str, new: str, named: set[str]) -> None:
    assert changed.changed_laws(LAWS, LAWS.replace(old, new), LAWS) == named


def test_an_instruction_touches_what_consists_of_it() -> None:
    costs = "[instruction.vadd]\nstart = {}\n"
    assert changed.changed_laws(costs.format(4), costs.format(5), LAWS) == {"one"}


@pytest.mark.parametrize(("line", "named"), [(2, "pto.one"), (4, "pto.one"), (6, "two")])
def test_a_function_is_touched_with_its_name(line: int, named: str) -> None:
    assert changed.named_at(CODE, [line]) == {named}


def test_lines_of_a_difference() -> None:
    assert changed.changed_lines("@@ -3,2 +4,3 @@ def f\n-a\n@@ -9 +11 @@\n") == [4, 5, 6, 11]


def test_words_of_a_case_are_whole(monkeypatch) -> None:
    monkeypatch.setattr(changed, "words", lambda: frozenset({"tadd"}))
    assert [tiers.is_touched(case) for case in ("a5-tadd-f32]", "tadds-f32]", "pto.tadd]")] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("count", "of"), [(0, 5), (1, 5), (2, 5), (4, 5), (4, 400), (7, 3), (3, 1)]
)
def test_both_ends_of_a_table_are_in_the_sample(count: int, of: int) -> None:
    places = {place for place in tiers.spread(count, of) if place < of}
    assert len(places) == min(count, of)
    assert count < 2 or {0, of - 1} <= places


@dataclass
class Case:
    """What the tiers look at of a case that pytest has not made yet."""

    id: str
    marks: list[Any] = field(default_factory=list)


class Table:
    """A test with seven cases, the second of them deep of itself, with marks of its own."""

    def __init__(self, expression: str, *marks: Any, paths: tuple[str, ...] = ("tests",)) -> None:
        options = SimpleNamespace(markexpr=expression)
        self.config = SimpleNamespace(option=options, args=paths)
        self.marks = [mark.mark for mark in marks]
        self.definition = self
        self._calls = [Case(f"{n}", [pytest.mark.deep.mark] * (n == 1)) for n in range(7)]

    def iter_markers(self) -> list[Any]:
        return self.marks

    def get_closest_marker(self, name: str) -> Any:
        return next((mark for mark in self.marks if mark.name == name), None)

    def kept(self) -> str:
        tiers.choose(self)  # pyright: ignore[reportArgumentType]
        return "".join(case.id for case in self._calls)


@pytest.mark.parametrize(
    ("expression", "marks", "kept"),
    [
        ("", [], "0123456"),
        ("deep", [], "0123456"),  # what pytest leaves out, it leaves out by the marks
        ("not deep", [], "023456"),
        ("not deep", [pytest.mark.sampled(2, 4)], "0246"),
        ("not slow", [], "036"),
        ("not slow", [pytest.mark.sampled(2, 4)], "06"),
        ("not slow", [pytest.mark.sampled(0)], "0"),  # one is made, so that the test has parameters
        ("not slow", [pytest.mark.slow], "0"),
        ("not deep", [pytest.mark.deep], "0"),
    ],
)
def test_cases_that_no_tier_asks_for_are_not_made(expression, marks, kept) -> None:
    assert Table(expression, *marks).kept() == kept


def test_marks_say_the_tiers_of_a_case() -> None:
    table = Table("", pytest.mark.sampled(2, 4))
    table.kept()
    names = ["".join(mark.name[0] for mark in case.marks) for case in table._calls]
    assert names == ["", "d", "s", "sd", "s", "sd", ""]  # slow, deep; places 0, 1, 3, 5 of six


def test_a_case_that_is_asked_for_by_its_name_is_made() -> None:
    assert Table("not deep", paths=("tests/x.py::test_y[1]",)).kept() == "0123456"
