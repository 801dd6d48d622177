"""Regions, scalars, the control register, the flags of a cluster: what surrounds the lanes."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.support.micro import in_ub, kernel, run

VREG, MASK, PTR = "!pto.vreg<64xf32>", "!pto.mask<b32>", "!pto.ptr<f32, ub>"


def floats(count: int = 256) -> np.ndarray:
    return (np.arange(count, dtype=np.float32) - 50) / 3


def test_loops_carry_registers_pointers_and_counts():
    """iter_args of a register and an i32; the last chunk of 1000 elements is partial."""
    x = floats(1000)
    after, _ = in_ub(
        x.tobytes().ljust(8192, b"\0"),
        '%full = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>',
        f"%none = pto.vbr %nil : f32 -> {VREG}",
        f"%sum, %rest = scf.for %i = %c0 to %c1000 step %c64 iter_args(%acc = %none, %left = %n) -> ({VREG}, i32) {{",
        "%m, %next = pto.plt_b32 %left : i32 -> !pto.mask<b32>, i32",
        f"%v = pto.vlds %f32[%i] : {PTR} -> {VREG}",
        f"%w = pto.vadds %v, %nil, %m : {VREG}, f32, {MASK} -> {VREG}",
        f"%a = pto.vmax %acc, %w, %full : {VREG}, {VREG}, {MASK} -> {VREG}",
        f"scf.yield %a, %next : {VREG}, i32",
        "}",
        f"pto.vsts %sum, %f32[1024], %full : {VREG}, {PTR}, {MASK}",
        setup=["%c0 = arith.constant 0 : index", "%c64 = arith.constant 64 : index", "%c1000 = arith.constant 1000 : index",
               "%n = arith.constant 1000 : i32", "%nil = arith.constant 0.0 : f32"],
    )  # fmt: skip
    found = np.frombuffer(after, np.float32)[1024:1088]
    padded = np.zeros(1024, np.float32)
    padded[:1000] = x
    assert found.tolist() == [max(0.0, *padded[i::64].tolist()) for i in range(64)]


@pytest.mark.parametrize("chosen", [True, False])
def test_branches_give_registers(chosen):
    x = floats()
    after, _ = in_ub(
        x.tobytes().ljust(4096, b"\0"),
        '%full = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>',
        f"%v = pto.vlds %f32[0] : {PTR} -> {VREG}",
        f"%r = scf.if %t -> ({VREG}) {{",
        f"scf.yield %v : {VREG}",
        "} else {",
        f"%n = pto.vneg %v, %full : {VREG}, {MASK} -> {VREG}",
        f"scf.yield %n : {VREG}",
        "}",
        f"pto.vsts %r, %f32[512], %full : {VREG}, {PTR}, {MASK}",
        setup=[f"%t = arith.constant {str(chosen).lower()}"],
    )
    expected = x[:64] if chosen else -x[:64]
    assert np.frombuffer(after, np.float32)[512:576].tolist() == expected.tolist()


def test_region_with_captures():
    """strict_vecscope sees what it lists, under its own names."""
    x = floats()
    after, _ = in_ub(
        x.tobytes(),
        outside=[
            "pto.strict_vecscope(%f32, %c64, %n) {",
            f"^bb0(%p: {PTR}, %at: index, %left: i32):",
            "%m, %rest = pto.plt_b32 %left : i32 -> !pto.mask<b32>, i32",
            f"%v = pto.vlds %p[%at] : {PTR} -> {VREG}",
            f"%a = pto.vabs %v, %m : {VREG}, {MASK} -> {VREG}",
            f"pto.vsts %a, %p[%at], %m : {VREG}, {PTR}, {MASK}",
            f"}} : ({PTR}, index, i32) -> ()",
        ],
        setup=["%c64 = arith.constant 64 : index", "%n = arith.constant 10 : i32"],
    )
    expected = x.copy()
    expected[64:74] = np.abs(x[64:74])
    assert np.frombuffer(after, np.float32).tolist() == expected.tolist()


def test_address_of_a_tile():
    body = """
    %c0 = arith.constant 0 : i64
    %tile = pto.alloc_tile addr = %far : !pto.tile_buf<loc=vec, dtype=f32, rows=1, cols=64, v_row=1, v_col=64, blayout=row_major, slayout=none_box, fractal=512, pad=0>
    %ub = pto.castptr %far : i64 -> !pto.ptr<f32, ub>
    %size = arith.constant 256 : i64
    pto.mte_gm_ub %g, %ub, 0, 256 nburst(1, 0, 0) : !pto.ptr<f32>, !pto.ptr<f32, ub>
    pto.vecscope {
      %p = pto.tile_buf_addr %tile : !pto.tile_buf<loc=vec, dtype=f32, rows=1, cols=64, v_row=1, v_col=64, blayout=row_major, slayout=none_box, fractal=512, pad=0> -> !pto.ptr<f32, ub>
      %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
      %v = pto.vlds %p[0] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>
      %n = pto.vneg %v, %m : !pto.vreg<64xf32>, !pto.mask<b32> -> !pto.vreg<64xf32>
      pto.vsts %n, %p[0], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>
    }
    pto.mte_ub_gm %ub, %g, 256 nburst(1, 0, 0) : !pto.ptr<f32, ub>, !pto.ptr<f32>
    """
    text = kernel("%g: !pto.ptr<f32>", "%far = arith.constant 1024 : i64\n" + body)
    found = run(text, {"g": floats(64)}).outputs["g"]
    assert found.tolist() == (-floats(64)).tolist()


def test_pointers_and_scalars():
    """addptr counts elements, castptr keeps the address, a scalar store keeps the low bits."""
    after, _ = in_ub(
        bytes(range(256)),
        outside=[
            "%h = pto.addptr %i16, %c3 : !pto.ptr<i16, ub> -> !pto.ptr<i16, ub>",
            "%b = pto.castptr %h : !pto.ptr<i16, ub> -> !pto.ptr<i8, ub>",
            "%x = pto.load_scalar %b[%c3] : !pto.ptr<i8, ub> -> i8",
            "pto.store_scalar %x, %b[%c4] : !pto.ptr<i8, ub>, i8",
            "%w = pto.load_scalar %i32[%c3] : !pto.ptr<i32, ub> -> i32",
            "pto.store_scalar %w, %i32[%c4] : !pto.ptr<i32, ub>, i32",
            "%int = pto.castptr %h : !pto.ptr<i16, ub> -> i64",
            "pto.store_scalar %int, %i64[%c4] : !pto.ptr<i64, ub>, i64",
        ],
        setup=["%c3 = arith.constant 3 : index", "%c4 = arith.constant 4 : index"],
    )
    expected = bytearray(range(256))
    expected[10] = 9  # the byte address 3 * 2 + 4 gets the byte at 3 * 2 + 3
    expected[16:20] = expected[12:16]
    expected[32:40] = (6).to_bytes(8, "little")
    assert after == expected


def test_control_register():
    after, _ = in_ub(
        bytes(64),
        outside=[
            "%old = pto.get_ctrl : i64",
            "%set = pto.sbitset1 %old, %c60 : i64, i64 -> i64",
            "%both = pto.sbitset1 %set, %c3 : i64, i64 -> i64",
            "pto.set_ctrl %both : i64",
            "%new = pto.get_ctrl : i64",
            "%less = pto.sbitset0 %new, %c60 : i64, i64 -> i64",
            "pto.store_scalar %new, %i64[%c0] : !pto.ptr<i64, ub>, i64",
            "pto.store_scalar %less, %i64[%c1] : !pto.ptr<i64, ub>, i64",
        ],
        setup=["%c60 = arith.constant 60 : i64", "%c3 = arith.constant 3 : i64", "%c0 = arith.constant 0 : index",
               "%c1 = arith.constant 1 : index"],
    )  # fmt: skip
    assert after[:16] == (1 << 60 | 8).to_bytes(8, "little") + (8).to_bytes(8, "little")


def mixed(cube: str, vector: str) -> str:
    return f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @kernel(%o: !pto.ptr<i32>) {{
    pto.section.cube {{
      {cube}
    }}
    pto.section.vector {{
      {vector}
    }}
    return
  }}
}}"""


def test_semaphores_of_both_vector_cores():
    """Ids n and n + 16 are the two cores' id n; a semaphore counts, and one left set is no error."""
    vector = """
      %sub = pto.get_subblock_idx
      %n = arith.index_cast %sub : i64 to index
      %c16 = arith.constant 16 : index
      %i = arith.muli %n, %c16 : index
      pto.sync.wait <PIPE_V>, 3
      pto.sync.wait <PIPE_V>, 3
      %one = arith.constant 1 : i32
      pto.store_scalar %one, %o[%i] : !pto.ptr<i32>, i32
    """
    cube = "\n".join(f"pto.sync.set <PIPE_FIX>, {n}" for n in (3, 19, 3, 19, 19))
    result = run(mixed(cube, vector), {"o": np.zeros(32, np.int32)})
    assert result.outputs["o"][::16].tolist() == [1, 1]
    assert {d.code for d in result.findings} == {"PTO0012"}  # ids from 16 on are kept


def test_a_core_that_waits_for_ever():
    """Only core 0 is signalled: core 1 waits, which is a deadlock and says who waits for what."""
    with pytest.raises(ptosim.Trap) as caught:
        run(
            mixed("pto.set_intra_block <PIPE_FIX>, 3", "pto.sync.wait <PIPE_V>, 3"),
            {"o": np.zeros(2, np.int32)},
        )
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "PTO5006"
    assert "vector 1 waits here" in diagnostic.labels[0].text


def test_waiting_inside_a_region_is_refused():
    line = 'pto.wait_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]'
    with pytest.raises(ptosim.ProgramError):
        in_ub(bytes(64), line)


def test_buffer_tokens():
    """get_buf and rls_buf order two pipes; values do not change."""
    after, codes = in_ub(
        bytes(range(64)),
        sanitize="none",
        outside=['pto.get_buf "PIPE_V", 0, 0', 'pto.rls_buf "PIPE_V", 0, 0', 'pto.get_buf "PIPE_MTE3", 0, 0', 'pto.rls_buf "PIPE_MTE3", 0, 0'],
    )  # fmt: skip
    assert after == bytes(range(64))
    assert codes == []
