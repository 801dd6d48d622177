"""Flags of arithmetic: `overflow<nsw, nuw>` on integers, `fastmath<…>` on floats.

They are promises of the arith dialect that change no value: integer sums, differences, products,
shifts to the left and truncations take the first, all arithmetic of floats takes the second."""

from __future__ import annotations

import pytest

import ptosim
from tests.language.passes.test_operands import FRAME, bound


def codes(body: str) -> list[str]:
    return [d.code for d in ptosim.check(FRAME.format(body=body), target="a5", dry_run=False)]


@pytest.mark.parametrize(
    "body",
    [
        "%a = arith.addi %n, %n overflow<nsw> : i64",
        "%a = arith.subi %n, %n overflow<nuw> : i64",
        "%a = arith.muli %n, %n overflow<nsw, nuw> : i64",
        "%a = arith.shli %n, %n overflow<nsw> : i64",
        "%a = arith.trunci %n overflow<nsw> : i64 to i32",
        "%a = arith.index_cast %n overflow<nsw> : i64 to index",
        "%a = arith.addf %s, %s fastmath<reassoc, nnan, ninf, nsz> : f32",
        "%a = arith.mulf %s, %s fastmath<arcp,contract,afn> : f32",
        "%a = arith.negf %s fastmath<fast> : f32",
        "%a = arith.cmpf olt, %s, %s fastmath<nnan> : f32",
    ],
)
def test_flags_of_the_dialect_are_accepted(body):
    assert codes(body) == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("%a = arith.addi %n, %n overflow<nsx> : i64", "PTO2004"),
        ("%a = arith.addi %n, %n overflow<nsw, fast> : i64", "PTO2004"),
        ("%a = arith.andi %n, %n overflow<nsw> : i64", "PTO2007"),
        ("%a = arith.addi %n, %n fastmath<fast> : i64", "PTO2007"),
        ("%a = arith.addf %s, %s overflow<nsw> : f32", "PTO2007"),
        ("%a = arith.divsi %n, %n overflow<nsw> : i64", "PTO2007"),
    ],
)
def test_other_flags_are_refused(body, code):
    assert codes(body) == [code]


def test_flags_are_a_list_and_no_operand_of_the_sum():
    op = bound("%a = arith.addi %n, %n overflow<nsw, nuw> : i64", "arith.addi")
    assert [flag.const.member for flag in op.bound["overflow"]] == ["nsw", "nuw"]
    assert [v.name for v in op.operand_values()] == ["n", "n"]
