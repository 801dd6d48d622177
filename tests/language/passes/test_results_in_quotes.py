"""Results of the quoted form are of the kinds that the row has, and as many as it has: anything else
is a finding."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import Variant

TYPES = {
    "tile": "!pto.tile_buf<vec, 32x64xf32>",
    "view": "!pto.partition_tensor_view<32x64xf32>",
    "ptr": "!pto.ptr<f32, gm>",
    "memref": "memref<32x64xf32>",
    "vreg": "!pto.vreg<64xf32>",
    "mask": "!pto.mask<b32>",
    "align": "!pto.align",
    "vmi_vreg": "!pto.vmi.vreg<64xf32>",
    "vmi_mask": "!pto.vmi.mask<64xpred>",
    "multi_tile": "!pto.multi_tile_buf<!pto.tile_buf<vec, 32x64xf32>, 2>",
    "local_array": "!pto.local_array<4xf32>",
    "struct": "!pto.struct<i32, f32>",
    "bool": "i1",
    "index": "index",
    "int": "i32",
    "float": "f32",
    "scalar": "f32",
}
RESULTS = ("index", "!pto.align", "f32", "")
ROWS = {
    n: row
    for n in isa().names()
    if (row := isa().get(n)) is not None
    and (row.result_type is not None or any(v.outs for v in row.variants))
}


def checked(statement: str, arguments: str) -> list[tuple[str, str]]:
    function = f"func.func @k({arguments}) {{\n pto.vecscope {{\n {statement}\n }}\n return\n}}"
    found = ptosim.check(f"module {{\n{function}\n}}\n", target="a5")
    return [(d.code, d.message) for d in found if d.is_error]


def operands(variant: Variant) -> list[str]:
    """The types of the inputs that must be there."""
    kinds = [[k for k in d.kinds if k in TYPES] for d in variant.ins if not d.optional]
    return [TYPES[known[0]] for known in kinds if known]


def quoted(name: str, variant: Variant, result: str) -> list[tuple[str, str]]:
    types = operands(variant)
    arguments = ", ".join(f"%a{k}: {type_}" for k, type_ in enumerate(types))
    values = ", ".join(f"%a{k}" for k in range(len(types)))
    text = f'"{name}"({values}) : ({", ".join(types)}) -> ({result})'
    return checked(f"%r = {text}" if result else text, arguments)


@pytest.mark.sampled(20, 160)
@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_result_of_any_type_is_a_finding_or_fits(name):
    for variant in ROWS[name].variants:
        for result in RESULTS:
            quoted(name, variant, result)


VREG, MASK = TYPES["vreg"], TYPES["mask"]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            f'%r = "pto.vdup"(%x, %q) : (f32, {MASK}) -> !pto.align',
            ("PTO2024", "'pto.vdup' op expects result 'dst' to be a vreg"),
        ),
        (
            f'%r = "pto.vcvt"(%g, %q) : ({VREG}, {MASK}) -> index',
            ("PTO2024", "'pto.vcvt' op expects result 'dst' to be a vreg"),
        ),
        (
            '"arith.select"(%i, %x, %x) : (i1, f32, f32) -> ()',
            ("PTO2023", "'arith.select' op has 1 result, not 0"),
        ),
        (
            '%r = "arith.addui_extended"(%n, %n) : (i32, i32) -> i32',
            ("PTO2023", "'arith.addui_extended' op has 2 results, not 1"),
        ),
    ],
)
def test_the_finding_names_what_is_wrong(statement, said):
    arguments = f"%x: f32, %i: i1, %n: i32, %g: {VREG}, %q: {MASK}"
    assert said in checked(statement, arguments)


@pytest.mark.parametrize(
    "statement",
    [
        '%r = "arith.select"(%i, %x, %x) : (i1, f32, f32) -> f32',
        '%r:2 = "arith.addui_extended"(%n, %n) : (i32, i32) -> (i32, i1)',
        '%r = "memref.alloc"() : () -> memref<4xf32>',
        f'%r = "pto.vdup"(%x, %q) {{position = "LOWEST"}} : (f32, {MASK}) -> {VREG}',
    ],
)
def test_results_that_fit_are_taken(statement):
    found = checked(statement, f"%x: f32, %i: i1, %n: i32, %q: {MASK}")
    assert not [code for code, _ in found if code in ("PTO2023", "PTO2024")]
