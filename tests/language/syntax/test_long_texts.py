"""Texts of which each part was looked at once for every other part: that would take minutes."""

from __future__ import annotations

import ptosim
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.source import Source
from ptosim.language.syntax.balance import missing_bracket
from ptosim.language.syntax.parser import parse

MANY = 60_000
LIST = ", ".join(["%a"] * MANY)


def test_operands_are_no_results() -> None:
    text = f"func.func @f(%a: i32) {{\n  %b = pto.x {LIST}\n  return\n}}"
    sink = Sink()
    (function,) = parse(Source("long", text), sink).ops
    assert not sink.has_errors
    assert [len(op.items) for op in function.regions[0].ops] == [MANY, 0]


def test_operands_that_are_skipped_are_no_results() -> None:
    found = ptosim.check(f"func.func @f(%a: i32) {{\n  pto.x ! ( {LIST} )\n  return\n}}")
    assert [d.code for d in found if d.is_rejection] == ["PTO0001"]


def test_operands_of_a_line_are_no_results() -> None:
    sink = Sink()
    parse(Source("long", f"tx {LIST}\n"), sink)
    assert not sink.has_errors


def test_the_braces_of_a_text_are_counted_once() -> None:
    text = "  scf.if %c {\n    pto.nop }\n" * 20_000
    assert missing_bracket(Source("long", f"func.func @f() {{\n{text}}}\n")) is None
