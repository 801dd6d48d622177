"""Memrefs in the place of pointers: buffers of UB, L1 and L0 that the planner places."""

from __future__ import annotations

import numpy as np

from tests.support.micro import kernel, run


def _memref(count: int, elem: str, space: str) -> str:
    return f"memref<{count}x{elem}, #pto.address_space<{space}>>"


def test_in_a_vector_region():
    """Transfers, loads and stores at constant and computed offsets of a buffer in UB."""
    ub, register = _memref(128, "f32", "vec"), "!pto.vreg<64xf32>"
    text = kernel(
        "%g: !pto.ptr<f32, gm>, %o: memref<128xf32, #pto.address_space<gm>>",
        f"""
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %size = arith.constant 512 : i64
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %u = memref.alloc() : {ub}
    %d = memref.alloc() : {ub}
    pto.mte_gm_ub %g, %u, %zero, %size nburst(%one, %zero, %zero) : !pto.ptr<f32, gm>, {ub}, i64, i64, i64, i64, i64
    pto.set_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]
    pto.wait_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]
    pto.vecscope {{
      %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
      scf.for %i = %c0 to %c128 step %c64 {{
        %v = pto.vlds %u[%i] : {ub} -> {register}
        %w = pto.vneg %v, %m : {register}, !pto.mask<b32> -> {register}
        pto.vsts %w, %d[%i], %m : {register}, {ub}, !pto.mask<b32>
      }}
    }}
    pto.set_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]
    pto.wait_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]
    pto.mte_ub_gm %d, %o, %size nburst(%one, %zero, %zero) : {ub}, memref<128xf32, #pto.address_space<gm>>, i64, i64, i64, i64
    """,
    )
    g = np.arange(128, dtype=np.float32)
    result = run(text, {"g": g, "o": np.zeros(128, np.float32)})
    assert result.outputs["o"].tolist() == (-g).tolist()
    assert result.findings == []


def test_of_the_cube():
    """L1 filled with one value, both operands, the accumulator and the way out; with time."""
    l1, acc = _memref(256, "f16", "mat"), _memref(256, "f32", "acc")
    left, right = _memref(256, "f16", "left"), _memref(256, "f16", "right")
    text = kernel(
        "%o: !pto.ptr<f32, gm>",
        f"""
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %n = arith.constant 16 : i64
    %two = arith.constant 16384 : i32
    %s = memref.alloc() : {l1}
    %a = memref.alloc() : {left}
    %b = memref.alloc() : {right}
    %c = memref.alloc() : {acc}
    pto.raw_fill_l1 %s, %zero, %two, %one, %n, %zero {{fill_word_bits = 16 : i64}} : {l1}, i64, i32, i64, i64, i64
    pto.barrier #pto.pipe<PIPE_ALL>
    pto.mte_l1_l0a %s, %a, %n, %n, %zero, %zero : {l1}, {left}, i64, i64, i64, i64
    pto.mte_l1_l0b %s, %b, %n, %n, %zero, %zero {{transpose = true}} : {l1}, {right}, i64, i64, i64, i64
    pto.barrier #pto.pipe<PIPE_ALL>
    pto.mad %a, %b, %c, %n, %n, %n disable_gemv : {left}, {right}, {acc}, i64, i64, i64
    pto.barrier #pto.pipe<PIPE_ALL>
    pto.mte_l0c_gm %c, %o, %n, %n, %n, %n, %zero, %zero, nz2nd : {acc}, !pto.ptr<f32, gm>, i64, i64, i64, i64, i64, i64
    """,
        kind="cube",
    )
    result = run(text, {"o": np.zeros(256, np.float32)})
    assert set(result.outputs["o"].tolist()) == {float(2 * 2 * 16)}
    assert [f for f in result.findings if f.severity.word != "note"] == []
