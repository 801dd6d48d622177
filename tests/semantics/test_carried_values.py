"""Values that loops and branches carry: taken together, so that they can be exchanged."""

from __future__ import annotations

import numpy as np

import ptosim

_FRAME = """module attributes {{pto.target_arch = "a5"}} {{
  func.func @kernel(%o: !pto.ptr<i32>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c5 = arith.constant 5 : index
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %nine = arith.constant 9 : i32
{body}
    pto.store_scalar %x, %o[%c0] : !pto.ptr<i32>, i32
    pto.store_scalar %y, %o[%c1] : !pto.ptr<i32>, i32
    return
  }}
}}"""


def _run(body: str) -> list[int]:
    text = _FRAME.format(body=body)
    return ptosim.load(text).run({"o": np.zeros(2, np.int32)}).outputs["o"].tolist()


def test_for_exchanges_its_values():
    assert _run("""
    %x, %y = scf.for %i = %c0 to %c5 step %c1 iter_args(%a = %one, %b = %two) -> (i32, i32) {
      scf.yield %b, %a : i32, i32
    }""") == [2, 1]


def test_while_counts_and_returns_what_its_condition_passes():
    assert _run("""
    %x, %y = scf.while (%a = %one, %b = %two) : (i32, i32) -> (i32, i32) {
      %go = arith.cmpi slt, %a, %nine : i32
      scf.condition(%go) %a, %b : i32, i32
    } do {
    ^bb0(%p: i32, %q: i32):
      %n = arith.addi %p, %q : i32
      scf.yield %n, %q : i32, i32
    }""") == [9, 2]


def test_if_gives_the_values_of_its_branch():
    assert _run("""
    %t = arith.cmpi slt, %one, %two : i32
    %x, %y = scf.if %t -> (i32, i32) {
      scf.yield %nine, %one : i32, i32
    } else {
      scf.yield %one, %nine : i32, i32
    }""") == [9, 1]
