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
