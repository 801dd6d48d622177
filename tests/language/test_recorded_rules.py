"""Rules that recorded verdicts of the assembler brought out, each with a text that decides it.

Values of the rules about the cube's memories (operands, scales and accumulators of both levels are
the same bytes, packed tables of scales) are in `tests/ops/micro/test_one_cube.py` and
`tests/ops/tile/test_scale_views.py`; windows at any row in `test_windows_at_any_row.py`, pointers
as integers in threads in `tests/ops/micro/test_simt.py`, who votes for a section in
`passes/test_units.py`, the order of errors in `test_order_of_errors.py`."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.language.place.sides import pipe_of

T, PAIRS = "!pto.tile_buf<vec, 16x64x{}>", "!pto.tile_buf<vec, 16x32x!pto.f4E2M1x2>"
F32, BF16, HIF8, I32 = (T.format(e) for e in ("f32", "bf16", "!pto.hif8", "i32"))
NZ, ZN = "blayout=col_major, slayout=row_major", "blayout=row_major, slayout=col_major"
ROWS, COLUMNS = "blayout=row_major, slayout=none_box", "blayout=col_major, slayout=none_box"


def text(*lines: str, target: str = "a5", function: str = "") -> str:
    body = "\n    ".join(lines)
    return (
        f'module attributes {{pto.target_arch = "{target}"}} {{\n'
        f"  func.func @k(%i: index, %j: i64){function} {{\n    {body}\n    return\n  }}\n}}\n"
    )


def refused(*lines: str, target: str = "a5", compat: str = "2026-08", function: str = "") -> list:
    written = text(*lines, target=target, function=function)
    found = ptosim.check(written, dry_run=False, compat=compat)
    return [d.code for d in found if d.is_error]


def tiles(**kinds: str) -> list[str]:
    return [f"%{name} = pto.alloc_tile : {kind}" for name, kind in kinds.items()]


@pytest.mark.parametrize(("source", "target", "is_right"), [
    ("ui8", "i8", True), ("!pto.f8E8M0", "ui8", True), ("f16", "bf16", True), ("ui8", "f16", False),
])  # fmt: skip
@pytest.mark.parametrize(("side", "space"), [("a", "left"), ("b", "right")])
def test_scale_loads_take_any_elements_of_one_width(side, space, source, target, is_right):
    one, two = f"!pto.ptr<{source}, mat>", f"!pto.ptr<{target}, {space}>"
    codes = refused(
        f"%a = pto.castptr %j : i64 -> {one}", f"%b = pto.castptr %j : i64 -> {two}",
        f"pto.mte_l1_l0{side}_mx %a, %b, %j, %j : {one}, {two}, i64, i64",
    )  # fmt: skip
    assert codes == ([] if is_right else ["PTO2010"])


WIDE = HIF8.replace("hif8>", "hif8, pad=1>")


@pytest.mark.parametrize("line", [
    *(f"pto.{op} ins(%a, %a, %a : {HIF8}, {HIF8}, {HIF8}) outs(%a : {HIF8})" for op in ("taddc", "tsubc")),
    *(f"pto.{op} ins(%a, %s, %a : {HIF8}, f32, {HIF8}) outs(%a : {HIF8})" for op in ("taddsc", "tsubsc")),
    f"pto.tfillpad ins(%a : {HIF8}) outs(%b : {WIDE})",
    f"%v = pto.tgetval ins(%a, %i : {HIF8}, index) outs : !pto.hif8",
])  # fmt: skip
def test_operations_that_take_low_precision(line):
    lines = (*tiles(a=HIF8, b=WIDE), "%s = arith.constant 1.0 : f32", line)
    assert refused(*lines) == refused(*lines, target="a3") == []


@pytest.mark.parametrize("target", ["a3", "a5"])
def test_rules_of_elements_hold_on_every_target_and_for_memrefs(target):
    """Only that nothing else than A5 executes it is said beside them."""
    for base in ("!pto.ptr<f16, ub>", "memref<64xf16, #pto.address_space<vec>>"):
        lines = (
            f"%p = builtin.unrealized_conversion_cast %j : i64 to {base}",
            f"%v = pto.vmi.vload %p[%i] : {base} -> !pto.vmi.vreg<64xf32>",
        )
        assert refused(*lines, target=target) == ["PTO2327"], base


@pytest.mark.parametrize(
    ("pairs", "is_right"), [(PAIRS, True), (PAIRS.replace("32x", "64x"), False)]
)
def test_pairs_count_as_two_values(pairs, is_right):
    codes = refused(*tiles(a=BF16, b=pairs), f"pto.tcvt ins(%a : {BF16}) outs(%b : {pairs})")
    assert codes == ([] if is_right else ["PTO2016"])


@pytest.mark.parametrize(("target", "codes"), [("a3", ["PTO2019"]), ("a5", [])])
def test_scratch_of_a_sort_holds_the_source_on_a3_only(target, codes):
    small, wide = F32.replace("16x64", "1x8"), F32.replace("64x", "128x")
    line = f"pto.tsort32 ins(%a, %n, %t : {F32}, {I32}, {small}) outs(%d : {wide})"
    assert refused(*tiles(a=F32, n=I32, t=small, d=wide), line, target=target) == codes


@pytest.mark.parametrize(("lines", "sync"), [
    ((), "auto"),
    (("pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]", "pto.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]"), "manual"),
    (("pto.barrier <PIPE_ALL>",), "auto"),
])  # fmt: skip
def test_flags_of_ones_own_decide_how_a_function_is_synchronised(lines, sync):
    add = f"pto.tadd ins(%a, %a : {F32}, {F32}) outs(%a : {F32})"
    assert ptosim.load(text(*tiles(a=F32), *lines, add)).sync == sync


def test_a_function_of_a_kind_may_have_several_blocks_and_ub_is_space_6_of_pointers():
    kind = " attributes {pto.kernel_kind = #pto.kernel_kind<vector>}"
    lines = (
        "%c = arith.cmpi eq, %i, %i : index",
        "cf.cond_br %c, ^a, ^b",
        "^a:",
        "cf.br ^b",
        "^b:",
    )
    assert refused(*lines, function=kind) == []
    assert refused("%p = llvm.inttoptr %j : i64 to !llvm.ptr<6>") == []
    device = "pto.vecscope { %v = pto.ld_dev %p[%i] : !pto.ptr<i32> -> i32 }"
    cast = "%p = pto.castptr %j : i64 -> !pto.ptr<i32>"
    assert refused(cast, device, function=" attributes {pto.kernel}") == []
    large = "!pto.tensor_view<9223372036854775807x4xi32>"
    view = f"%v = pto.make_tensor_view %p, shape = [%i, %i], strides = [%i, %i] : {large}"
    assert refused(cast, view) == []


@pytest.mark.parametrize(("layout", "shape", "box", "pipe"), [
    (NZ.replace("col_major, s", "row_major, s"), "16x2x!pto.f8E8M0", 32, "MTE1"), (ROWS, "1x16xui64", 512, "FIX"),
])  # fmt: skip
def test_scales_go_by_mte1_and_tables_of_the_fixpipe_by_its_pipe(layout, shape, box, pipe):
    mat, scaling = (
        f"!pto.tile_buf<{loc}, {shape}, {layout}, fractal={box}>" for loc in ("mat", "scaling")
    )
    written = text(*tiles(a=mat, b=scaling), f"pto.tmov ins(%a : {mat}) outs(%b : {scaling})")
    loaded = ptosim.load(written)
    (move,) = (op for op in loaded.front.resolved.ops if op.name == "pto.tmov")
    assert pipe_of(move, "a5") == pipe


@pytest.mark.parametrize(("layout", "left", "right"), [
    (ZN, True, True), (NZ, True, True), (ROWS, True, False), (COLUMNS, False, False),
])  # fmt: skip
def test_what_is_extracted_from_l1_on_a5(layout, left, right):
    source = f"!pto.tile_buf<mat, 64x64xf16, {layout}>"
    for loc, inner, is_right in (("left", NZ, left), ("right", ZN, right)):
        part = f"!pto.tile_buf<{loc}, 32x32xf16, {inner}>"
        lines = tiles(a=source, b=part)
        line = f"pto.textract ins(%a, %i, %i : {source}, index, index) outs(%b : {part})"
        assert refused(*lines, line) == ([] if is_right else ["PTO2018"]), loc


def test_a_comparing_gather_of_april_has_its_offset_after_the_outputs():
    form = f"pto.tgather ins(%a, %s, %a {{cmpMode = #pto<cmp gt>}} : {F32}, f32, {F32}) outs(%d, %d : {I32}, {I32})"
    lines = [*tiles(a=F32, d=I32), "%s = arith.constant 1.0 : f32", f"{form} {{offset = 7}}"]
    assert refused(*lines, target="a3", compat="2026-04") == []
