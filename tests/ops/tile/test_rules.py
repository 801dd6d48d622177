"""Every rule of the tile level in `rules/*.toml` names the tests that check it; a file is one subject.
In `words.toml` the statement quotes what the assembler says, and a program among the tests expects
it."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from tests.support.paths import TESTS
from tests.support.rules import cases_without_rule, check_rules, read_rules

FOLDER = Path(__file__).parent
RULES = read_rules(sorted((FOLDER / "rules").glob("*.toml")), with_file=True)


def test_every_rule_has_tests():
    check_rules(RULES)


WORDS = {name: rule for name, rule in RULES.items() if name.startswith("words.")}
_QUOTED = re.compile(r'"(.+)"')
_ANYTHING = re.compile(r"<[^>]*>|…")
_EXPECTED = re.compile(r"expected-(?:error|warning|note)\S* *\{\{(.*?)\}\}")


@lru_cache(maxsize=64)
def expectations(path: Path) -> tuple[str, ...]:
    return tuple(_EXPECTED.findall(path.read_text(encoding="utf-8")))


def test_quoted_words_refuse_a_program():
    """A named program is refused with the words of the rule, and one that is right is named."""
    for name, (_, text, places) in WORDS.items():
        quoted = _QUOTED.search(text)
        assert quoted is not None, name
        pieces = [piece.strip() for piece in _ANYTHING.split(quoted[1]) if piece.strip()]
        messages = [m for place in places.split() for m in expectations(TESTS / place)]
        assert any(all(piece in m for piece in pieces) for m in messages), name
        assert "filecheck/accept/" in places, name


def test_every_case_belongs_to_a_rule():
    assert cases_without_rule(FOLDER, RULES, [Path(__file__).name]) == set()
