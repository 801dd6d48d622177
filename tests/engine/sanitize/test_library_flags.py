"""Flags that the library's code sets itself: copies through tiles use EVENT_ID0, with a second tile
EVENT_ID1 too, between their loads and stores."""

from __future__ import annotations

import pytest

import ptosim

COPY = """
!t = !pto.tile_buf<vec, 1x64xf32>
!v = !pto.tensor_view<1x64xf32>
!p = !pto.partition_tensor_view<1x64xf32>
module attributes {pto.target_arch = "a5"} {
  func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %vx = pto.make_tensor_view %x, shape = [%c1, %c64], strides = [%c64, %c1] : !v
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c1, %c64] : !v -> !p
    %vy = pto.make_tensor_view %y, shape = [%c1, %c64], strides = [%c64, %c1] : !v
    %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c1, %c64] : !v -> !p
    %t = pto.alloc_tile : !t
    %u = pto.alloc_tile : !t
    pto.set_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_IDN>]
    pto.comm.tput(%py, %px, buf(TILES) : !p, !p, TYPES)
    pto.wait_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_IDN>]
    return
  }
}
"""


@pytest.mark.parametrize(("tiles", "number", "is_told"), [
    (1, 0, True), (1, 1, False), (2, 0, True), (2, 1, True), (2, 2, False),
])  # fmt: skip
def test_a_copy_through_tiles_uses_one_event_for_each(tiles, number, is_told):
    names, types = ", ".join(("%t", "%u")[:tiles]), ", ".join(["!t"] * tiles)
    text = COPY.replace("TILES", names).replace("TYPES", types).replace("IDN", f"ID{number}")
    assert ("PTO5212" in [d.code for d in ptosim.check(text)]) == is_told


WINDOW = """
!t = !pto.tile_buf<vec, 8x64xf32>
module attributes {pto.target_arch = "TARGET"} {
  func.func @k(%f: f32) {
    %c0 = arith.constant 0 : index
    %t = pto.alloc_tile : !t
    %u = pto.alloc_tile : !t
    pto.texpands ins(%f : f32) outs(%t : !t)
    pto.texpands ins(%f : f32) outs(%u : !t)
    pto.set_flag[<PIPE_V>, <PIPE_S>, <EVENT_ID0>]
    pto.OP ins(%t, %c0, %c0 : !t, index, index) outs(%u : !t)
    pto.wait_flag[<PIPE_V>, <PIPE_S>, <EVENT_ID0>]
    return
  }
}
"""


@pytest.mark.parametrize(("name", "target", "is_told"), [
    ("textract", "a3", True), ("textract", "a5", True), ("tinsert", "a5", True), ("tinsert", "a3", False),
])  # fmt: skip
def test_windows_of_tiles_in_ub_go_by_the_scalar_unit(name, target, is_told):
    text = WINDOW.replace("TARGET", target).replace("OP", name)
    assert ("PTO5212" in [d.code for d in ptosim.check(text)]) == is_told


ON_TILES = """
!f = !pto.tile_buf<vec, 8x64xf32>
!i = !pto.tile_buf<vec, 8x64xi32>
!c = !pto.tile_buf<vec, 8x1xi32, blayout=col_major>
!r = !pto.tile_buf<vec, 8x1xf32, blayout=col_major>
!m = !pto.tile_buf<vec, 8x64xui8>
module attributes {pto.target_arch = "TARGET"} {
  func.func @k(%s: f32, %n: i32) {
    %f = pto.alloc_tile : !f
    %g = pto.alloc_tile : !f
    %i = pto.alloc_tile : !i
    %j = pto.alloc_tile : !i
    %c = pto.alloc_tile : !c
    %r = pto.alloc_tile : !r
    %m = pto.alloc_tile : !m
    pto.set_flag[<PIPE_SOURCE>, <PIPE_END>, <EVENT_ID0>]
    OP
    pto.wait_flag[<PIPE_SOURCE>, <PIPE_END>, <EVENT_ID0>]
    return
  }
}
"""
SUM = "pto.trowsum ins(%i, %j : !i, !i) outs(%c : !c)"
SUM_OF_FLOATS = "pto.trowsum ins(%f, %g : !f, !f) outs(%r : !r)"
SELECT = "pto.tsels ins(%m, %f, %f, %s : !m, !f, !f, f32) outs(%g : !f)"
COMPARE = "pto.tcmps ins(%f, %s {cmpMode = #pto<cmp lt>} : !f, f32) outs(%m : !m)"
DIVIDE = "pto.tdivs ins(%f, %s : !f, f32) outs(%g : !f)"
SCATTER = "pto.tscatter ins(%f, %i : !f, !i) outs(%g : !f)"


@pytest.mark.parametrize(("op", "a3", "a5"), [
    (SUM, "V-S S-V", ""), (SUM_OF_FLOATS, "", ""),
    (SELECT, "S-V", ""), (COMPARE, "V-S", ""), (DIVIDE, "V-S S-V", "V-S"), (SCATTER, "V-S", ""),
])  # fmt: skip
def test_pairs_of_pipes_are_those_of_the_library(op, a3, a5):
    """A24: each operation has its own pairs, on each target."""
    for target, pairs in (("a3", a3), ("a5", a5)):
        told = []
        for pair in ("V-S", "S-V"):
            source, _, end = pair.partition("-")
            text = ON_TILES.replace("TARGET", target).replace("SOURCE", source)
            found = ptosim.check(text.replace("END", end).replace("OP", op), explore=False)
            assert not [d.message for d in found if d.is_rejection]
            told += [pair] * ("PTO5212" in [d.code for d in found])
        assert " ".join(told) == pairs, target


PUSH = """
!t = !pto.tile_buf<vec, 16x16xf32>
!m = !pto.tile_buf<mat, 16x16xf32, blayout=col_major, slayout=row_major>
module attributes {pto.target_arch = "TARGET"} {
  func.func @cube(%g: !pto.ptr<f32>) attributes {pto.kernel_kind = #pto.kernel_kind<cube>} {
    %b = pto.reserve_buffer {name = "fifo", size = 8192, location = #pto.address_space<mat>, auto = true} -> i32
    %z = arith.constant 0 : i32
    pto.aic_initialize_pipe {dir_mask = 2, slot_size = 1024} (GM c2v_consumer_buf = %z : i32, v2c_consumer_buf = %b : i32)
    %m = pto.tpop_from_aiv {split = 0} -> !m
    pto.tfree_from_aiv {split = 0}
    return
  }
  func.func @vec(%g: !pto.ptr<f32>) attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {
    %b = pto.import_reserved_buffer {name = "fifo", peer_func = @cube} -> i32
    %z = arith.constant 0 : i32
    %f = arith.constant 1.0 : f32
    pto.aiv_initialize_pipe {dir_mask = 2, slot_size = 1024} (GM c2v_consumer_buf = %z : i32, v2c_consumer_buf = %b : i32)
    %t = pto.alloc_tile : !t
    pto.texpands ins(%f : f32) outs(%t : !t)
    pto.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID1>]
    pto.wait_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID1>]
    pto.set_flag[<PIPE_MTE3>, <PIPE_S>, <EVENT_IDN>]
    pto.tpush_to_aic(%t : !t) {split = 0}
    pto.wait_flag[<PIPE_MTE3>, <PIPE_S>, <EVENT_IDN>]
    return
  }
}
"""


@pytest.mark.parametrize(
    ("target", "number", "is_told"), [("a3", 0, True), ("a3", 1, False), ("a5", 0, False)]
)
def test_a_push_tells_the_scalar_unit_by_a_flag_of_its_own(target, number, is_told):
    """A24: on A2/A3 `tpush` uses EVENT_ID0 from its pipe to the scalar unit."""
    slots = "gm_slot_buffer = %g : !pto.ptr<f32>, " if target == "a3" else ""
    text = PUSH.replace("TARGET", target).replace("IDN", f"ID{number}").replace("GM ", slots)
    found = ptosim.check(text)
    assert not [d.message for d in found if d.is_error]
    assert ("PTO5212" in [d.code for d in found]) == is_told


@pytest.mark.parametrize(("name", "is_told"), [("%c0_index", False), ("%z", True)])
def test_each_block_of_pypto_has_slots_of_its_own(name, is_told):
    """C.4: its wrapper moves the pointer to the slots by block * (size / blocks)."""
    text = PUSH.replace("TARGET", "a3").replace("IDN", "ID1")
    text = text.replace("GM ", "gm_slot_buffer = %g : !pto.ptr<f32>, ")
    found = ptosim.check(text.replace("%z", name), sync="manual", blocks=2)
    assert ("PTO5205" in [d.code for d in found]) is is_told
