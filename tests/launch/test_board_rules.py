"""Each rule that boards taught has a program that breaks it and is found, and one that keeps it."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.ground.diagnostics.boards import board_rules
from ptosim.ground.diagnostics.catalog import catalog

RULES = [rule for rule in board_rules().values() if rule.codes]
"""Without those about reading what is found (A29, A30)."""


def findings(text, rule):
    found = ptosim.check(text, args=dict(rule.args))
    return [d for d in found if d.severity.word != "note" or d.code in rule.codes]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.id)
def test_what_breaks_a_rule_is_found(rule):
    assert {d.code for d in findings(rule.wrong, rule)} & set(rule.codes)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.id)
def test_what_keeps_a_rule_is_not_blamed(rule):
    assert findings(rule.right, rule) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.id)
def test_findings_name_the_rule(rule):
    told = [d.to_dict() for d in findings(rule.wrong, rule)]
    assert rule.id in [d.get("rule_id") for d in told]
    assert catalog().keys() >= set(rule.codes)


def test_the_severity_of_a_rule_is_that_of_its_finding():
    for rule in RULES:
        worst = max(findings(rule.wrong, rule), key=lambda d: d.severity)
        assert worst.severity.word == rule.severity, rule.id
