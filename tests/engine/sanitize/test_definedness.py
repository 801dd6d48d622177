"""Which elements of a result were written with values. What is computed of bytes that nothing wrote
has no value either: that is reported where they are read first, and once."""

from __future__ import annotations

import numpy as np

import ptosim
from tests.support.text import Kernel


def run(*names: str, **options: object):
    """Eight of sixteen columns are loaded; operations on all of them; ten rows, eight stored."""
    k = Kernel("a5")
    x, y = k.tile("x", "f32", 8, 16), k.tile("y", "f32", 8, 16)
    k.load("src", k.alias("pto.treshape", "part", x, v_row=8, v_col=8))
    for name in names:
        k.op(f"pto.{name}", [x, (k.arg("s", "f32"), "f32")], [y])
        x = y
    k.store(y, "dst")
    given = {"src": np.ones((8, 8), np.float32), "dst": np.zeros((10, 16), np.float32), "s": 1.0}
    return k.run(given, **options)


def test_elements_computed_of_bytes_without_values_have_none():
    result = run("tadds")
    expected = np.zeros((10, 16), bool)
    expected[:8, :8] = True  # of the rest nothing was loaded, or nothing stored
    assert np.array_equal(result.definedness["dst"], expected)
    assert not result.definedness["src"].any()  # nothing writes it


def test_the_cause_is_reported_once():
    """In the place of its source too, and after other operations."""
    result = run("tadds", "tmuls", "tsubs")
    assert [d.code for d in result.findings] == ["PTO7101"]
    assert "'pto.tadds' reads %x" in result.findings[0].message
    assert result.definedness["dst"].sum() == 64


def test_without_the_sanitizer_nothing_is_known():
    assert dict(run("tadds", sanitize="none").definedness) == {}


HALVES = """module attributes {pto.target_arch = "a5"} {
  func.func @cube() attributes {pto.kernel_kind = #pto.kernel_kind<cube>} {
    %b = pto.import_reserved_buffer {name = "fifo", peer_func = @vec} -> i32
    pto.aic_initialize_pipe {dir_mask = 1, slot_size = 4096}
      (c2v_consumer_buf = %b : i32, v2c_consumer_buf = %b : i32)
    %acc = pto.alloc_tile : !pto.tile_buf<acc, 32x32xf32>
    pto.tpush_to_aiv(%acc : !pto.tile_buf<acc, 32x32xf32>) {split = 0}
    return
  }
  func.func @vec() attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {
    %b = pto.reserve_buffer {name = "fifo", size = 32768, location = #pto.address_space<vec>,
      auto = true} -> i32
    pto.aiv_initialize_pipe {dir_mask = 1, slot_size = 4096}
      (c2v_consumer_buf = %b : i32, v2c_consumer_buf = %b : i32)
    %u = pto.alloc_tile : !pto.tile_buf<vec, 32x32xf32>
    %t = pto.tpop_from_aic {split = 0} -> !pto.tile_buf<vec, 32x32xf32>
    USE
    pto.tfree_from_aic {split = 0}
    return
  }
}
"""
ABS = "pto.tabs ins(%t : !pto.tile_buf<vec, 32x32xf32>) outs(%u : !pto.tile_buf<vec, 32x32xf32>)"


def undefined(text: str) -> list[ptosim.Diagnostic]:
    return [d for d in ptosim.check(text) if d.code == "PTO7101"]


def test_a_fifo_hands_on_what_it_gets():
    """Bytes that nobody wrote may be pushed; who reads what was popped is told, with the push."""
    assert undefined(HALVES.replace("    USE\n", "")) == []
    (found,) = undefined(HALVES.replace("USE", ABS))
    assert "'pto.tabs' reads %t" in found.message
    assert [label.text for label in found.labels[1:]] == ["pushed them so"]


def test_what_nobody_pops_is_told_of_the_push():
    """Of a half alone nothing is known of the other one."""
    lone = HALVES.replace("%t = pto.tpop_from_aic {split = 0} -> !pto.tile_buf<vec, 32x32xf32>", "")
    (found,) = undefined(
        lone.replace("    USE\n", "").replace("    pto.tfree_from_aic {split = 0}\n", "")
    )
    assert "'pto.tpush_to_aiv' reads %acc" in found.message
