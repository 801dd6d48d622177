"""What a target lacks: the finding says what to write there, and what it says holds."""

from __future__ import annotations

import re

import pytest

import ptosim
from ptosim.ground.isa.rows import isa

TILE = "!pto.tile_buf<vec, 16x64x{}>"


def _three(dtype: str, line: str) -> str:
    tile = TILE.format(dtype)
    made = "".join(f"%{name} = pto.alloc_tile : {tile}\n" for name in "abd")
    body = re.sub(r"\bT\b", tile, line)
    return f"module {{ func.func @f() {{\n{made}{body}\nreturn }} }}"


def _help(text: str, target: str) -> str:
    (found,) = [d for d in ptosim.check(text, target=target, dry_run=False) if d.is_error]
    return found.help or ""


@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_the_proposal_for_an_operation_is_accepted_where_it_is_made(dtype: str) -> None:
    said = _help(_three(dtype, "pto.taddrelu ins(%a, %b : T, T) outs(%d : T)"), "a5")
    first, proposal = said.split("\n", 1)
    assert first == "run with `--target a2a3`, or write on A5"
    assert TILE.format(dtype) in proposal  # the type in the program's own words
    found = ptosim.check(_three(dtype, proposal), target="a5", dry_run=False)
    assert [d for d in found if d.is_error] == []


def test_a_type_that_the_target_lacks_is_converted_to_a_wider_one() -> None:
    said = _help(_three("i8", "pto.tadd ins(%a, %b : T, T) outs(%d : T)"), "a2a3")
    assert said == "on A2/A3 convert with `pto.tcvt` from i8 to f16 before, and back after"


def test_a_type_that_no_target_takes_has_no_way_round() -> None:
    assert "tcvt" not in _help(_three("i8", "pto.texp ins(%a : T) outs(%d : T)"), "a2a3")


def test_every_place_in_a_proposal_is_an_operand_of_its_row() -> None:
    every = [isa().get(name) for name in isa().names()]
    rows = [row for row in every if row is not None and row.elsewhere is not None]
    assert len(rows) > 10
    for row in rows:
        names = {operand.name for variant in row.variants for operand in variant.operands}
        said = row.elsewhere or ""
        places = {p.split("}")[0].split(":")[0] for p in said.split("{")[1:] if "}" in p}
        assert {p for p in places if p.isidentifier()} <= names, row.name
