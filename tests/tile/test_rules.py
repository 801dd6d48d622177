"""Every rule of the tile level in `rules/*.toml` names the tests that check it; a file is one subject."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rules import cases_without_rule, check_rule, read_rules

FOLDER = Path(__file__).parent
RULES = read_rules(sorted((FOLDER / "rules").glob("*.toml")), with_file=True)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_has_tests(name):
    check_rule(RULES[name])


def test_every_case_belongs_to_a_rule():
    assert cases_without_rule(FOLDER, RULES, [Path(__file__).name]) == set()
