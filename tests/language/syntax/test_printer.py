"""Printing is canonical: parsing what was printed and printing it again changes nothing."""

from __future__ import annotations

import pytest

from ptosim.language.syntax.printer import print_module
from tests.language.syntax.helpers import clean

PROGRAMS = {
    "module": 'module @m attributes {"pto.device-spec" = "Ascend910B1", pto.target_arch = "a5"} { }',
    "functions": """
      func.func private @g(!pto.ptr<f32>, i32) -> i32
      func.func @f(%a: !pto.ptr<f32>, %n: index {x = 1}) -> (i32, f32) attributes {pto.entry} {
        return %a, %n : i32, f32 }""",
    "generic": '%c, %r:2 = "p.f"(%a, %n) <{s = array<i32: 1, 1>}> {b = 3 : i32} : (i32, i32) -> (i32, f32)',
    "generic regions": '"p.f"() ({ pto.trap }, { pto.trap }) {a} : () -> ()',
    "for": "%x:2 = scf.for %i = %a to %b step %c iter_args(%s = %t, %u = %v) -> (f32, i32) { scf.yield %s, %u : f32, i32 }",
    "if": "%x = scf.if %c -> (f32) { scf.yield %a : f32 } else { scf.yield %b : f32 } scf.if %c { pto.trap }",
    "while": "%w = scf.while (%q = %a) : (i32) -> i32 { scf.condition(%c) %q : i32 } do { ^bb0(%z: i32): scf.yield %z : i32 }",
    "switch": "%s = scf.index_switch %a -> i32 case 1 { scf.yield %a : i32 } default { scf.yield %c : i32 }",
    "sections": "pto.section.cube { pto.trap } pto.vecscope { pto.trap } pto.strict_vecscope(%a) { ^bb0(%x: i32): pto.trap } : (i32) -> ()",
    "dps": "pto.tcmp ins(%a, %b {cmpMode = #pto<cmp lt>} : f32, f32) outs(%d : i8) {k = true}",
    "dps clauses": "pto.tload ins(%p : i8) outs(%t : i8) pad_mode = #pto.padmode<PadNull> pad_value = %v : f32",
    "outs type": "%v = pto.tgetval ins(%s, %o : f32, index) outs : f32",
    "views": "%v = pto.make_tensor_view %p, shape = [%a, %b], strides = [%c, %d] {layout = #pto.layout<nd>} : !pto.tensor_view<16x16xf32>",
    "alloc": "%t = pto.alloc_tile addr = %a valid_row = %r valid_col = %c : !pto.tile_buf<vec, 16x16xf32>",
    "subset": "%s = pto.subset %t[%i, %j] sizes [8, 8] : !pto.tile_buf<vec, 16x16xf32>",
    "flags": 'pto.set_flag[<PIPE_V>, <PIPE_M>, <EVENT_ID0>] pto.wait_flag["PIPE_V", "PIPE_M", "EVENT_ID0"] pto.barrier <PIPE_ALL>',
    "pipes": "%z = pto.tpop_from_aic (%r, %c) {split = 1} -> f32 pto.tpush(%t, %p : f32, !pto.pipe) {split = 0}",
    "named operands": "pto.aic_initialize_pipe {dir_mask = 1} (gm_slot_buffer = %p : !pto.ptr<f32>, c2v_consumer_buf = %a : i32)",
    "dma": "pto.mte_gm_ub %g, %u, %l, %n nburst(%a, %b, %c) loop(%a, %b, %c) pad(%v) : !pto.ptr<f32, gm>, !pto.ptr<f32, ub>, i64",
    "type words": "pto.mte_gm_l1_frac %s, %d, nd2nz, shape(%n, %m), src_layout(%t) : f32, f32, nd2nz, shape i64, i64, src_layout(i64)",
    "casts": "%c = arith.index_cast %a : i32 to index %d = arith.cmpi slt, %a, %b : i32",
    "ssa": "%d = pto.tadd %a, %b : (!pto.tile<16x64xf32>, !pto.tile<16x64xf32>) -> !pto.tile<16x64xf32>",
    "snippet": "# page\n%d = pto.tquant %s, %q : (!pto.tile<...>, !pto.tile<...>) -> !pto.tile<...>\npto.tassign %arg0, @tile(0x1000)",
    "line": "tadd %d, %a, %b : !pto.tile<...>\n%t = tload %sv[%c0, %c1] #k=v : !pto.tile<...>",
    "reinterpret": "%r = memref.reinterpret_cast %m to offset: [%o], sizes: [16, 16], strides: [16, 1] : memref<16x16xf16> to memref<16x16xf16>",
    "locations": 'pto.trap loc("a.py":1:2) %c = arith.constant 1 : i32 loc(#l)',
    "aliases": "#a = #pto.x<b>\n!t = f32\npto.trap",
}


def structure(op):
    """What an operation is, positions left out."""
    return (
        op.name, op.form, [(n, c) for n, c, _ in op.result_tokens], [show(i) for i in op.ins],
        [show(t) for t in op.ins_types], [show(o) for o in op.outs], [show(i) for i in op.items],
        [show(t) for t in op.types], [show(t) for t in op.arrow or ()],
        {k: show(a.atom) for k, a in op.attrs.items()},
        [[([t.value for t, _ in b.args], [structure(o) for o in b.ops]) for b in r.blocks] for r in op.regions],
    )  # fmt: skip


def show(part):
    if hasattr(part, "value"):
        return part.value
    if hasattr(part, "parts"):
        return (part.kind, [show(p) for p in part.parts])
    if isinstance(part, dict):
        return {k: show(a.atom) for k, a in part.items()}
    if isinstance(part, list):
        return [show(a.atom) for a in part]
    return part


@pytest.mark.parametrize("name", PROGRAMS)
def test_print_then_parse_is_the_identity(name):
    first = clean(PROGRAMS[name])
    printed = print_module(first)
    second = clean(printed)
    assert [structure(op) for op in second.ops] == [structure(op) for op in first.ops]
    assert print_module(second) == printed


def test_comments_stay_at_their_operations():
    text = "// head\nmodule {  // open\n  // inner\n  func.func @f() {\n    pto.trap  // tail\n    return\n  }\n}\n// end\n"
    assert print_module(clean(text)) == text


def test_some_inputs_have_their_types_each():
    """tmov and tstore are printed with each type after its value, however they were written."""
    for name in ("pto.tmov", "pto.tstore"):
        for written in ("%a, %b : !A, !B", "%a : !A, %b : !B"):
            module = clean(f"{name} ins({written}) outs(%c : !C)")
            assert "ins(%a : !A, %b : !B)" in print_module(module)
            assert [t.value for t in module.ops[0].ins_types] == ["!A", "!B"]
