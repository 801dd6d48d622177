"""Inputs that are written `name = value` are of the kinds that the row has for the name, as those in
their order are: anything else is a finding."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.ground.isa.rows import isa

TILE = "!pto.tile_buf<vec, 32x64xf32>"
VALUES = ("= 5", '= "q"', "= [1]", "= {a = 1}", "= %i", "(%i)")
ROWS = {n: row for n in isa().names() if (row := isa().get(n)) is not None and row.form == "dps"}


def checked(statement: str) -> list[tuple[str, str]]:
    function = f"func.func @k(%a: {TILE}, %b: {TILE}, %i: index) {{\n {statement}\n return\n}}"
    found = ptosim.check(f"module {{\n{function}\n}}\n", target="a5")
    return [(d.code, d.message) for d in found if d.is_error]


@pytest.mark.sampled(3, 60)
@pytest.mark.parametrize("name", sorted(ROWS))
def test_inputs_by_name_of_any_kind_are_findings_or_fit(name):
    for variant in ROWS[name].variants:
        count = sum(not o.optional for o in variant.outs)
        values, types = ", ".join(["%a"] * count), ", ".join([TILE] * count)
        outs = f"outs({values} : {types})" if count else "outs()"
        for value in VALUES:
            checked(f"{name} ins() {outs} {' '.join(f'{d.name} {value}' for d in variant.ins)}")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("= 5", "`src1` must be tile"),
        ("= %i", "`src1` must be tile"),
        ("= [1]", "`src1` must be tile"),
        ("(%b)", "`src1` must be tile, and is written `src1 = …`"),
    ],
)
def test_the_finding_names_the_input(value, said):
    found = checked(f"pto.tadd ins(%a : {TILE}) outs(%a : {TILE}) src1 {value}")
    assert found == [("PTO2001", f"'pto.tadd' op does not take these operands: {said}")]


def test_an_input_by_name_that_fits_is_taken():
    assert not checked(f"pto.tadd ins(%a : {TILE}) outs(%a : {TILE}) src1 = %b")


@pytest.mark.parametrize(
    "values", ["src1 = %a src1(%b)", "src1(%a) src1 = %b", "src1 = %a src1 = %b"]
)
def test_an_input_has_one_value(values):
    found = checked(f"pto.tadd ins(%a : {TILE}) outs(%a : {TILE}) {values}")
    assert found == [("PTO2009", "'pto.tadd' op: `src1` occurs twice")]
