"""What rules of rows can ask, and what they pass over."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.language.verify import verify as verifier
from ptosim.language.verify.rule_views import holds

FACTS = ("level", "level_inferred", "target_named", "backend")
TILE = "!pto.tile_buf<vec, 16x16xf32>"
NAMED = 'module attributes {pto.target_arch = "a3", pto.backend = "EMITC"} {%s}'
ADD = f"""func.func @k() {{
  %a = pto.alloc_tile : {TILE}
  pto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%a : {TILE})
  return }}"""
PLACED = ADD.replace("alloc_tile", "alloc_tile addr = %c").replace(
    "{\n", "{\n  %c = arith.constant 0 : i64\n", 1
)


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (ADD, FrontOptions(), (2, True, False, None)),
        (ADD, FrontOptions("a3"), (2, True, True, None)),
        (NAMED % ADD, FrontOptions(), (2, True, True, "emitc")),
        (PLACED, FrontOptions(), (3, True, False, None)),
        (PLACED, FrontOptions(level=3), (3, False, False, None)),
    ],
)
def test_rules_know_level_target_and_back_end(text, options, expected, monkeypatch):
    """A level that was inferred is told from one that was asked for, a target that something names
    from the default."""
    asked = set()

    def spy(text, names, absent):
        asked.add(tuple(names[word] for word in FACTS))
        return holds(text, names, absent)

    monkeypatch.setattr(verifier, "holds", spy)
    run_frontend(Source("test.pto", text), options)
    assert asked == {expected}


@pytest.mark.parametrize("rule", ["tmp.rows >= 2", "tmp.bits == 8 and count > 3", "count > 3"])
def test_a_rule_about_what_is_left_out_is_passed_over(rule: str):
    names = {"tmp": None, "count": None}
    assert holds(rule, names, absent=True)
    assert not holds(rule, names, absent=False)


def test_a_rule_that_asks_first_decides():
    assert holds("tmp is None or tmp.rows > 1", {"tmp": None}, absent=False)
    assert not holds("tmp is not None and tmp.rows > 1", {"tmp": None}, absent=True)


def test_a_rule_that_is_wrong_is_no_absent_operand():
    with pytest.raises(AttributeError):
        holds("size.rows > 1", {"size": 4}, absent=True)


MEMREF = "memref<16x16xf32, #pto.address_space<vec>>"
ASSIGN = f"""func.func @k(%m : {MEMREF}) {{
  %a = arith.constant 0 : i64
  pto.tassign %m, %a : {MEMREF}, i64
  return }}"""


def test_a_memref_is_no_tile_today():
    """An operand of a kind that the row does not have is its own finding; k counts from 0."""

    def found(date: str) -> list[str]:
        return [d.message for d in ptosim.check(ASSIGN, target="a3", compat=date) if d.is_rejection]

    assert any("operand #0 must be a tile" in m for m in found("2026-08"))
    assert not any("operand #0" in m for m in found("2026-04"))


def test_an_operand_of_the_wrong_class_is_named_by_its_number():
    """k counts from 0, inputs first."""
    text = ADD.replace("ins(%a, %a :", "ins(%a, %n :").replace(f"{TILE}, {TILE})", f"{TILE}, i32)")
    text = text.replace("{\n", "{\n  %n = arith.constant 1 : i32\n", 1)
    messages = [d.message for d in ptosim.check(text, target="a3") if d.is_rejection]
    assert any("operand #1 must be tile" in m for m in messages)
