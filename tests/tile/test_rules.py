"""Every rule of the tile level in `rules/*.toml` names the tests that check it; a file is one subject.
In `words.toml` the statement quotes what the assembler says, and a program among the tests expects
it."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest

from tests.support.rules import cases_without_rule, check_rule, read_rules

FOLDER = Path(__file__).parent
RULES = read_rules(sorted((FOLDER / "rules").glob("*.toml")), with_file=True)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_has_tests(name):
    check_rule(RULES[name])


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
    assert cases_without_rule(FOLDER, RULES, [Path(__file__).name]) == set()
