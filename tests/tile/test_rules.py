"""Every rule of the tile level in `rules/*.toml` names the tests that check it.

A file is one subject; a line is `name = [mark, statement, tests]`. `mark`: golden (recorded results of
public programs separate it from others), executed (public programs use it, their results do not
separate it), documentation (only the specification says so), ours (what ptosim adds). Tests are
`file::function` below `tests/`, or the path of a program with expected messages. In `words.toml` the
statement quotes what the assembler says, and a program among the tests expects it."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import lru_cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
MARKS = {"golden", "executed", "documentation", "ours"}
RULES = {
    f"{path.stem}.{group}.{name}": rule
    for path in sorted((FOLDER / "rules").glob("*.toml"))
    for group, rules in tomllib.loads(path.read_text("utf-8")).items()
    for name, rule in rules.items()
}


@lru_cache(maxsize=64)
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = (n.name for n in tree.body if isinstance(n, ast.FunctionDef))
    return frozenset(n for n in names if n.startswith("test_"))


@pytest.mark.parametrize("name", RULES)
def test_every_rule_has_tests(name):
    """They exist where pytest collects them; a `.pto` file is collected as such."""
    mark, text, places = RULES[name]
    assert mark in MARKS
    assert text.endswith(".")
    assert places.split()
    for place in places.split():
        file, _, function = place.partition("::")
        path = FOLDER.parent / file
        assert path.is_file(), place
        assert path.suffix == ".pto" or function in functions_of(path), place


WORDS = {name: rule for name, rule in RULES.items() if name.startswith("words.")}
_QUOTED = re.compile(r'"(.+)"')
_ANYTHING = re.compile(r"<[^>]*>|…")
_EXPECTED = re.compile(r"expected-(?:error|warning|note)\S* *\{\{(.*?)\}\}")


@lru_cache(maxsize=64)
def expectations(path: Path) -> tuple[str, ...]:
    return tuple(_EXPECTED.findall(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", WORDS)
def test_quoted_words_refuse_a_program(name):
    """A named program is refused with the words of the rule, and one that is right is named."""
    _, text, places = WORDS[name]
    quoted = _QUOTED.search(text)
    assert quoted is not None
    pieces = [piece.strip() for piece in _ANYTHING.split(quoted[1]) if piece.strip()]
    messages = [m for place in places.split() for m in expectations(FOLDER.parent / place)]
    assert any(all(piece in m for piece in pieces) for m in messages)
    assert "filecheck/accept/" in places


def test_every_case_belongs_to_a_rule():
    named = {place for _, _, places in RULES.values() for place in places.split()}
    cases = {
        f"tile/{path.name}::{test}"
        for path in FOLDER.glob("test_*.py")
        if path != Path(__file__)
        for test in functions_of(path)
    }
    assert cases - named == set()
