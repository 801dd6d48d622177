"""Broken text: several findings in one run, each at its place, and the rest of the program is read."""

from __future__ import annotations

import random
import string

import pytest

import ptosim
from ptosim.language.syntax.balance import MAX_DEPTH, TOO_DEEP, closing
from ptosim.language.syntax.printer import print_module
from tests.language.syntax.helpers import parsed


def codes(findings):
    return [(d.code, d.span.line) for d in findings]


def test_each_broken_statement_is_reported_and_the_others_are_kept():
    module, findings = parsed(
        """func.func @f() {
  %a = pto.alloc_tile : f32
  pto.tadd ins(%a, : f32) outs(%b : f32)
  %c = pto.alloc_tile : f32
  pto.tsub ins(%a : f32 outs(%b : f32)
  %d = pto.alloc_tile : f32
  return
}
"""
    )
    assert codes(findings) == [("PTO0002", 3), ("PTO0002", 5)]
    names = [r[0] for op in module.ops[0].regions[0].ops for r in op.result_tokens]
    assert names == ["a", "c", "d"]


def test_results_of_a_broken_statement_are_remembered():
    """So that later uses are not reported as undefined."""
    module, _ = parsed("%x = pto.addptr %p, : f32\npto.trap")
    assert module.skipped_names == {"x"}


def test_the_message_says_what_was_expected():
    _, (finding,) = parsed("pto.tadd ins(%a %b : f32)")
    assert "expected" in finding.notes[0]
    assert "`,`" in finding.notes[0]


def test_an_unclosed_bracket_is_shown():
    _, (finding,) = parsed("func.func @f() {\n  pto.trap\n")
    assert finding.code == "PTO0003"
    assert any("not closed" in label.text for label in finding.labels)


def test_a_comment_glued_to_its_hash_gets_a_hint():
    _, (finding,) = parsed("return\n#comment\npto.trap")
    assert finding.help is not None
    assert "put a space after `#`" in finding.help


def test_an_unknown_character():
    module, findings = parsed("pto.trap\n$\npto.trap")
    assert codes(findings) == [("PTO0001", 2)]
    assert len(module.ops) == 2


def test_a_complete_statement_in_front_of_the_error_is_kept():
    module, _ = parsed("%k = arith.constant 1 : i32\n) x\npto.trap")
    assert [op.name for op in module.ops] == ["arith.constant", "pto.trap"]


@pytest.mark.parametrize("bracket", "([{")
def test_deep_nesting_is_refused_at_once(bracket):
    opening = {"(": "pto.f (", "[": "pto.f [", "{": "pto.f {"}[bracket]
    _, findings = parsed(opening + bracket * 100_000)
    assert any(d.code in ("PTO0004", "PTO0002") for d in findings)


def test_ten_megabytes_of_opening_brackets():
    _, findings = parsed("pto.f " + "[" * 10_000_000)
    assert [d.code for d in findings] == ["PTO0004"]


def test_nested_regions_beyond_the_limit():
    _, findings = parsed("pto.vecscope {" * 300 + "}" * 300)
    assert [d.code for d in findings] == ["PTO0004"]


@pytest.mark.parametrize("seed", range(200))
def test_garbage_never_raises(seed):
    """Random edits of a program: findings or none, never an exception."""
    rng = random.Random(seed)
    text = """module attributes {pto.target_arch = "a5"} {
  func.func @f(%a: !pto.ptr<f32>, %n: index) {
    %c0 = arith.constant 0 : index
    scf.for %i = %c0 to %n step %c0 {
      pto.tadd ins(%a, %b {m = #pto<cmp lt>} : f32, f32) outs(%c : f32)
      pto.set_flag[<PIPE_V>, <PIPE_M>, <EVENT_ID0>]
    }
    return
  }
}
"""
    alphabet = string.printable + "é§∀\x00"
    for _ in range(rng.randint(1, 12)):
        at = rng.randrange(len(text))
        end = at + rng.randint(0, 8)
        piece = "".join(rng.choice(alphabet) for _ in range(rng.randint(0, 6)))
        text = text[:at] + piece + text[end:]
    module, findings = parsed(text)
    for finding in findings:
        assert finding.span is not None
        assert finding.message
    assert module is not None


def test_types_nested_too_deep_are_looked_into_only_so_far():
    """What is skipped after an error is read bracket by bracket: each must cost as much as it may
    nest, not as much as there is."""
    text = "<" * 4000 + "f32" + ">" * 4000
    assert closing(text, 0) == TOO_DEEP
    assert closing(text, 4000 - MAX_DEPTH) == 4000 + 3 + MAX_DEPTH
    typed = f"func.func @f(%x: {'!pto.ptr<' * 300}f32{'>' * 300}) {{\n  return\n}}\n"
    assert [d.code for d in ptosim.check(typed)] == ["PTO0004"]


@pytest.mark.parametrize(
    ("levels", "found"), [(MAX_DEPTH - 1, []), (MAX_DEPTH + 1, ["PTO0004"]), (300, ["PTO0004"])]
)
def test_what_is_read_is_not_too_deep_for_what_follows(levels, found):
    """Passes and the printer go from level to level by calls; every program that is read has few
    enough of them, also where the caller has used some."""
    text = (
        f"func.func @f(%c: i1) {{\n{'scf.if %c {' * (levels - 1)}{'}' * (levels - 1)}\nreturn\n}}\n"
    )
    assert [d.code for d in ptosim.check(text) if d.is_error] == found
    lists = f"module attributes {{a.b = {'[' * (levels - 1)}1{']' * (levels - 1)}}} {{\n}}\n"
    module, findings = parsed(lists)
    assert [d.code for d in findings] == found
    if not found:
        assert print_module(module).count("[") == levels - 1
