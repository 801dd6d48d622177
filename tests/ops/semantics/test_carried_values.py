"""Values that loops and branches carry: taken together, so that they can be exchanged."""

from __future__ import annotations

import numpy as np

import ptosim

_FRAME = """module attributes {{pto.target_arch = "a5"}} {{
  func.func @kernel(%o: !pto.ptr<i32>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c5 = arith.constant 5 : index
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %nine = arith.constant 9 : i32
{body}
    pto.store_scalar %x, %o[%c0] : !pto.ptr<i32>, i32
    pto.store_scalar %y, %o[%c1] : !pto.ptr<i32>, i32
    return
  }}
}}"""


def _run(body: str) -> list[int]:
    text = _FRAME.format(body=body)
    return ptosim.load(text).run({"o": np.zeros(2, np.int32)}).outputs["o"].tolist()


def test_for_exchanges_its_values():
    assert _run("""
    %x, %y = scf.for %i = %c0 to %c5 step %c1 iter_args(%a = %one, %b = %two) -> (i32, i32) {
      scf.yield %b, %a : i32, i32
    }""") == [2, 1]


def test_while_counts_and_returns_what_its_condition_passes():
    assert _run("""
    %x, %y = scf.while (%a = %one, %b = %two) : (i32, i32) -> (i32, i32) {
      %go = arith.cmpi slt, %a, %nine : i32
      scf.condition(%go) %a, %b : i32, i32
    } do {
    ^bb0(%p: i32, %q: i32):
      %n = arith.addi %p, %q : i32
      scf.yield %n, %q : i32, i32
    }""") == [9, 2]


def test_if_gives_the_values_of_its_branch():
    assert _run("""
    %t = arith.cmpi slt, %one, %two : i32
    %x, %y = scf.if %t -> (i32, i32) {
      scf.yield %nine, %one : i32, i32
    } else {
      scf.yield %one, %nine : i32, i32
    }""") == [9, 1]


_ANY_TYPE = """!T = !pto.tile_buf<vec, 16x64xf32>
!P = !pto.partition_tensor_view<16x64xf32>
module attributes {pto.target_arch = "a5"} {
  func.func @f(%p: !pto.ptr<f32>, %q: !pto.ptr<f32>) attributes {pto.entry} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c64 = arith.constant 64 : index
    %c16 = arith.constant 16 : index
    %go0 = arith.constant 0 : i32
    %v = pto.make_tensor_view %p, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<16x64xf32>
    %w = pto.make_tensor_view %q, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<16x64xf32>
    %s = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<16x64xf32> -> !P
    %d = pto.partition_view %w, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<16x64xf32> -> !P
    %a = pto.alloc_tile : !T
    %b = pto.alloc_tile : !T
    pto.tload ins(%s : !P) outs(%a : !T)
    %x:3 = scf.while (%t = %a, %u = %b, %n = %c0) : (!T, !T, index) -> (!T, !T, index) {
      %go = arith.cmpi slt, %n, %c3 : index
      scf.condition(%go) %t, %u, %n : !T, !T, index
    } do {
    ^bb0(%t: !T, %u: !T, %n: index):
      pto.tadd ins(%t, %t : !T, !T) outs(%u : !T)
      %m = arith.addi %n, %c1 : index
      scf.yield %u, %t, %m : !T, !T, index
    }
    %y = scf.for %i = %c0 to %c2 step %c1 iter_args(%dd = %d) -> !P {
      scf.yield %dd : !P
    }
    %qq = scf.for %i = %c0 to %c2 step %c1 iter_args(%ptr = %q) -> (!pto.ptr<f32>) {
      scf.yield %ptr : !pto.ptr<f32>
    }
    %z = scf.index_switch %c1 -> !T
    case 1 { scf.yield %x#0 : !T }
    default { scf.yield %x#1 : !T }
    %zz = scf.execute_region -> !T { scf.yield %z : !T }
    pto.tstore ins(%zz : !T) outs(%y : !P)
    return
  }
}
"""


def test_tiles_views_and_pointers_are_carried():
    """The tiles of a while loop are exchanged three times, each time with twice the sum: 8 at the
    end, in the first of them."""
    assert ptosim.check(_ANY_TYPE) == []
    inputs = {"p": np.ones((16, 64), np.float32), "q": np.zeros((16, 64), np.float32)}
    assert np.unique(ptosim.load(_ANY_TYPE).run(inputs).outputs["q"]).tolist() == [8.0]
