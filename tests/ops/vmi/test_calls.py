"""Private functions of vectors and masks, and what a transfer leaves behind rows of odd lengths."""

from __future__ import annotations

import numpy as np

from ptosim.ground.source import Source
from ptosim.tools.api import check_source
from tests.support.micro import kernel, module, run

V, M, P = "!pto.vmi.vreg<40xf32>", "!pto.vmi.mask<40xpred>", "!pto.ptr<f32, ub>"


def test_vectors_and_masks_go_in_and_out_of_functions():
    """Called twice, once by way of another function; values stay what they were in the caller."""
    text = module(
        f"""
  func.func private @scaled(%v: {V}, %m: {M}, %s: f32) -> ({V}, {M}) {{
    %r = pto.vmi.vmuls %v, %s, %m : {V}, f32, {M} -> {V}
    %n = pto.vmi.vnot %m : {M} -> {M}
    return %r, %n : {V}, {M}
  }}
  func.func private @both(%v: {V}, %m: {M}) -> {V} {{
    %two = arith.constant 2.0 : f32
    %three = arith.constant 3.0 : f32
    %a, %n = func.call @scaled(%v, %m, %two) : ({V}, {M}, f32) -> ({V}, {M})
    %b, %o = func.call @scaled(%v, %n, %three) : ({V}, {M}, f32) -> ({V}, {M})
    %r = pto.vmi.vadd %a, %b : {V}, {V} -> {V}
    return %r : {V}
  }}
  func.func @kernel(%g: !pto.ptr<f32>) attributes {{pto.kernel}} {{
    %zero = arith.constant 0 : i64
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c15 = arith.constant 15 : index
    %p = pto.castptr %zero : i64 -> {P}
    pto.mte_gm_ub %g, %p, 0, 160 nburst(1, 0, 0) : !pto.ptr<f32>, {P}
    pto.vecscope {{
      %m = pto.vmi.create_mask %c15 : index -> {M}
      %v = pto.vmi.vload %p[%c0] : {P} -> {V}
      %r = func.call @both(%v, %m) : ({V}, {M}) -> {V}
      pto.vmi.vstore %r, %p[%c64] : {V}, {P}
    }}
    %end = pto.addptr %p, %c64 : {P} -> {P}
    pto.mte_ub_gm %end, %g, 160 nburst(1, 0, 0) : {P}, !pto.ptr<f32>
    return
  }}"""
    )
    x = np.arange(40, dtype=np.float32)
    result = run(text, {"g": x}, timing=False, entry="kernel")
    np.testing.assert_array_equal(result.outputs["g"], np.where(np.arange(40) < 15, 2 * x, 3 * x))


def test_order_of_accesses_reaches_into_functions():
    """A load in a function after a store of its caller needs a barrier, as anywhere in the region."""
    lines = [
        f"%v = pto.vmi.vload %p[%c0] : {P} -> {V}",
        f"pto.vmi.vstore %v, %p[%c64] : {V}, {P}",
        'pto.mem_bar "VST_VLD"',
        f"%r = func.call @twice(%p, %c64) : ({P}, index) -> {V}",
        f"pto.vmi.vstore %r, %p[%c128] : {V}, {P}",
    ]
    x = np.arange(128, dtype=np.float32)
    for body, codes in ((lines, []), ([li for li in lines if "mem_bar" not in li], ["PTO6610"])):
        inner = "\n".join(body)
        text = module(
            f"""
  func.func private @twice(%p: {P}, %i: index) -> {V} {{
    %w = pto.vmi.vload %p[%i] : {P} -> {V}
    %r = pto.vmi.vadd %w, %w : {V}, {V} -> {V}
    return %r : {V}
  }}
  func.func @kernel(%g: !pto.ptr<f32>) attributes {{pto.kernel}} {{
    %zero = arith.constant 0 : i64
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %p = pto.castptr %zero : i64 -> {P}
    pto.mte_gm_ub %g, %p, 0, 512 nburst(1, 0, 0) : !pto.ptr<f32>, {P}
    pto.vecscope {{
      {inner}
    }}
    %end = pto.addptr %p, %c128 : {P} -> {P}
    pto.mte_ub_gm %end, %g, 160 nburst(1, 0, 0) : {P}, !pto.ptr<f32>
    return
  }}"""
        )
        result = run(text, {"g": x}, entry="kernel")
        np.testing.assert_array_equal(result.outputs["g"][:40], 2 * x[:40])
        found = [f.code for f in result.findings if not f.code.startswith(("PTO23", "PTO52"))]
        assert found == codes


def test_second_values_go_into_functions():
    """A mask that is dropped in the caller matters at a store of the function."""
    text = module(
        f"""
  func.func private @put(%v: {V}, %p: {P}, %i: index) {{
    %r = pto.vmi.vadd %v, %v : {V}, {V} -> {V}
    pto.vmi.vstore %r, %p[%i] : {V}, {P}
    return
  }}
  func.func @kernel(%g: !pto.ptr<f32>, %n: index) attributes {{pto.kernel}} {{
    %zero = arith.constant 0 : i64
    %c0 = arith.constant 0 : index
    %p = pto.castptr %zero : i64 -> {P}
    pto.mte_gm_ub %g, %p, 0, 160 nburst(1, 0, 0) : !pto.ptr<f32>, {P}
    pto.vecscope {{
      %m = pto.vmi.create_mask %n : index -> {M}
      %v = pto.vmi.vload %p[%c0] : {P} -> {V}
      %d = pto.vmi.vadd %v, %v, %m : {V}, {V}, {M} -> {V}
      func.call @put(%d, %p, %c0) : ({V}, {P}, index) -> ()
    }}
    pto.mte_ub_gm %p, %g, 160 nburst(1, 0, 0) : {P}, !pto.ptr<f32>
    return
  }}"""
    )
    x = np.arange(1, 41, dtype=np.float32)
    result = run(text, {"g": x, "n": 25}, entry="kernel", timing=False, sanitize="none")
    np.testing.assert_array_equal(result.outputs["g"], 4 * x)
    assert [f.code for f in result.findings] == ["PTO6703"]


def test_a_pad_without_counts_fills_up_a_block():
    """`pad(v, 0, 0)` of rows of 8 bytes: the rest of each 32-byte block is v."""
    text = kernel(
        "%g: !pto.ptr<f32>, %o: !pto.ptr<f32>",
        f"""
    %v = arith.constant 1.5 : f32
    %zero = arith.constant 0 : i64
    %p = pto.castptr %zero : i64 -> {P}
    pto.mte_gm_ub %g, %p, 0, 8 nburst(4, 8, 32) pad(%v, 0, 0) : !pto.ptr<f32>, {P}, pad f32
    pto.mte_ub_gm %p, %o, 128 nburst(1, 0, 0) : {P}, !pto.ptr<f32>""",
    )
    given = np.arange(8, dtype=np.float32)
    result = run(text, {"g": given, "o": np.zeros(32, np.float32)}, timing=False, sanitize="none")
    words = result.outputs["o"].reshape(4, 8)
    np.testing.assert_array_equal(words[:, :2], given.reshape(4, 2))
    np.testing.assert_array_equal(words[:, 2:], 1.5)


def test_vectors_go_through_every_kind_of_control_flow():
    """scf.while, scf.index_switch and scf.execute_region hand vectors and masks on."""
    text = kernel(
        "%g: !pto.ptr<f32>",
        f"""
    %zero = arith.constant 0 : i64
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c25 = arith.constant 25 : index
    %p = pto.castptr %zero : i64 -> {P}
    pto.mte_gm_ub %g, %p, 0, 160 nburst(1, 0, 0) : !pto.ptr<f32>, {P}
    pto.vecscope {{
      %v = pto.vmi.vload %p[%c0] : {P} -> {V}
      %m = pto.vmi.create_mask %c25 : index -> {M}
      %n, %w = scf.while (%i = %c0, %a = %v) : (index, {V}) -> (index, {V}) {{
        %more = arith.cmpi slt, %i, %c3 : index
        scf.condition(%more) %i, %a : index, {V}
      }} do {{
      ^bb0(%j: index, %b: {V}):
        %next = arith.addi %j, %c1 : index
        %c = pto.vmi.vadd %b, %v : {V}, {V} -> {V}
        scf.yield %next, %c : index, {V}
      }}
      %k = scf.index_switch %n -> {M}
      case 3 {{
        scf.yield %m : {M}
      }}
      default {{
        %o = pto.vmi.vnot %m : {M} -> {M}
        scf.yield %o : {M}
      }}
      %r = scf.execute_region -> {V} {{
        %s = pto.vmi.vsel %k, %w, %v : {M}, {V}, {V} -> {V}
        scf.yield %s : {V}
      }}
      pto.vmi.vstore %r, %p[%c0] : {V}, {P}
    }}
    pto.mte_ub_gm %p, %g, 160 nburst(1, 0, 0) : {P}, !pto.ptr<f32>""",
    )
    x = np.arange(40, dtype=np.float32)
    result = run(text, {"g": x}, timing=False)
    np.testing.assert_array_equal(result.outputs["g"], np.where(np.arange(40) < 25, 4 * x, x))


def test_a_run_without_values_says_what_it_cannot_follow():
    """Places that data decide are not checked; what they load and store is nothing it knows."""
    text = kernel(
        "%g: !pto.ptr<f32>",
        f"""
    %zero = arith.constant 0 : i64
    %c0 = arith.constant 0 : index
    %q = pto.castptr %zero : i64 -> !pto.ptr<i32, ub>
    %p = pto.castptr %zero : i64 -> {P}
    pto.mte_gm_ub %g, %p, 0, 160 nburst(1, 0, 0) : !pto.ptr<f32>, {P}
    pto.barrier #pto.pipe<PIPE_ALL>
    pto.vecscope {{
      %i = pto.vmi.vload %q[%c0] : !pto.ptr<i32, ub> -> !pto.vmi.vreg<40xi32>
      %v = pto.vmi.vload %p[%c0] : {P} -> {V}
      %all = pto.vmi.pset "PAT_ALL" : {M}
      %m = pto.vmi.vcmp %i, %i, %all {{cmp = "lt"}} : !pto.vmi.vreg<40xi32>, !pto.vmi.vreg<40xi32>, {M} -> {M}
      %w = pto.vmi.vgather %p, %i, %m : {P}, !pto.vmi.vreg<40xi32>, {M} -> {V}
      pto.vmi.vscatter %w, %p, %i, %m : {V}, {P}, !pto.vmi.vreg<40xi32>, {M}
      pto.vmi.vstore %w, %p[%c0], %m : {V}, {P}, {M}
    }}
    pto.barrier #pto.pipe<PIPE_ALL>
    pto.mte_ub_gm %p, %g, 160 nburst(1, 0, 0) : {P}, !pto.ptr<f32>""",
    )
    front = check_source(Source("<text>", text))
    assert not [f for f in front.findings if f.is_error or f.code.startswith("PTO9")]
