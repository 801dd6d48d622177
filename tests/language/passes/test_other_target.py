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


REGISTERS = """module attributes {{pto.target_arch = "{arch}"}} {{
  func.func @k(%p: !pto.ptr<{elem}, ub>, %m: memref<256x{elem}, #pto.address_space<vec>>)
      attributes {{pto.kernel_kind = #pto.kernel_kind<vector>}} {{
    %z = arith.constant 0 : index
    %s = arith.constant 1 : i32
    pto.vecscope {{
      %mask = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
      %v = pto.vlds %p[%z] : !pto.ptr<{elem}, ub> -> !pto.vreg<64x{elem}>
      {line}
    }}
    return
  }}
}}"""
V, M = "!pto.vreg<64x{elem}>", "memref<256x{elem}, #pto.address_space<vec>>"
EXP = f"%w = pto.vexp %v, %mask : {V}, !pto.mask<b32> -> {V}"
GATHER = f"%w = pto.vgather2 %m, %v, %mask : {M}, {V}, !pto.mask<b32> -> {V}"
BLOCKS = f"%w = pto.vsldb %m, %s, %s, %mask : {M}, i32, i32, !pto.mask<b32> -> {V}"
PAIR = f'%w, %x = pto.vldsx2 %m[%z], "DINTLV_B32" : {M}, index -> {V}, !pto.vreg<128xf16>'


@pytest.mark.parametrize(("line", "elem", "said"), [
    (EXP, "i32", "element type"),
    (EXP, "f32", None),
    (GATHER, "f32", "ui32/i32 offset vector elements"),
    (GATHER, "i32", None),
    (BLOCKS, "f32", "i16 strides"),
    (BLOCKS.replace("%s, %s", "%h, %h").replace("i32, i32", "i16, i16"), "f32", None),
    (PAIR, "f32", "the same element type"),
    (PAIR.replace("128xf16", "64xf32"), "f32", None),
])  # fmt: skip
@pytest.mark.parametrize("arch", ["a3", "a5"])
def test_rules_of_registers_hold_on_every_target_and_for_memrefs(arch, line, elem, said) -> None:
    """Verifiers of register operations ask for no target, and a memref is a base as a pointer is:
    that only A5 executes them is said beside what is wrong."""
    text = REGISTERS.format(arch=arch, elem=elem, line=line.format(elem=elem))
    found = ptosim.check(text.replace("%s = ", "%h = arith.constant 1 : i16\n%s = "), dry_run=False)
    errors = [d.message for d in found if d.is_error]
    assert len(errors) == (said is not None)
    assert said is None or said in errors[0]
    assert ("PTO3006" in {d.code for d in found}) == (arch == "a3")
