"""What the planner of levels 1 and 2 finds room for."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.source import Source

VIEW = "!pto.partition_tensor_view<{rows}x64x{elem}>"
TILE = "!pto.tile_buf<vec, {rows}x64x{elem}>"


def narrowed(rows: int) -> str:
    """A tile of f32, loaded, becomes one of f16, stored; nothing else is in use."""
    wide, narrow = TILE.format(rows=rows, elem="f32"), TILE.format(rows=rows, elem="f16")
    wx, wy = VIEW.format(rows=rows, elem="f32"), VIEW.format(rows=rows, elem="f16")
    return f"""module attributes {{pto.target_arch = "a5"}} {{
func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f16>) attributes {{pto.entry}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %rows = arith.constant {rows} : index
  %vx = pto.make_tensor_view %x, shape = [%rows, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
  %vy = pto.make_tensor_view %y, shape = [%rows, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf16>
  %wx = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%rows, %c64] : !pto.tensor_view<?x?xf32> -> {wx}
  %wy = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%rows, %c64] : !pto.tensor_view<?x?xf16> -> {wy}
  %a = pto.alloc_tile : {wide}
  %b = pto.alloc_tile : {narrow}
  pto.tload ins(%wx : {wx}) outs(%a : {wide})
  pto.tcvt ins(%a {{rmode = #pto<round_mode RINT>}} : {wide}) outs(%b : {narrow})
  pto.tstore ins(%b : {narrow}) outs(%wy : {wy})
  return
}}
}}
"""


def overflow(text: str, **options) -> list[str]:
    found = ptosim.check(text, dry_run=False, **options)
    return [f.message for f in found if f.severity.word == "error"]


@pytest.mark.parametrize(("rows", "fits"), [(656, True), (992, True), (1008, False)])
def test_lifetimes_that_touch_do_not_count_together(rows, fits):
    """256 + 128 bytes a row: 656 rows are 251,904 of 253,952 bytes; 992 rows of f32 alone too."""
    assert (overflow(narrowed(rows)) == []) is fits


def test_a_result_over_its_source_has_the_right_values():
    x = np.linspace(-4, 4, 992 * 64, dtype=np.float32).reshape(992, 64)
    result = ptosim.load(narrowed(992)).run({"x": x, "y": np.zeros(x.shape, np.float16)})
    assert np.array_equal(result.outputs["y"], x.astype(np.float16))


def test_each_planner_has_its_words():
    """The modern one is not so free: what an operation reads and writes are apart."""
    text = "vec overflow, requires 3096576 bits while 2031616 bits "
    assert overflow(narrowed(1008)) == [f"{text}avaliable!"]
    for rows in (1008, 992):
        found = ptosim.tools.api.check_source(
            Source("k", narrowed(rows)), dry_run=False, planner="modern"
        ).findings
        assert [f.message.endswith("bits available") for f in found] == [True]


def test_in_april_they_count_together():
    assert any("overflow" in m for m in overflow(narrowed(992), compat="2026-04"))


def reduced(rows: int) -> str:
    """A row reduction with scratch as large as its source, on A2/A3."""
    wide = TILE.format(rows=rows, elem="f32")
    one = f"!pto.tile_buf<vec, {rows}x8xf32, valid={rows}x1>"
    return f"""module attributes {{pto.target_arch = "a2a3"}} {{
func.func @k() attributes {{pto.entry}} {{
  %zero = arith.constant 0.0 : f32
  %a = pto.alloc_tile : {wide}
  %t = pto.alloc_tile : {wide}
  %s = pto.alloc_tile : {one}
  pto.texpands ins(%zero : f32) outs(%a : {wide})
  pto.trowsum ins(%a, %t : {wide}, {wide}) outs(%s : {one})
  pto.tadd ins(%s, %s : {one}, {one}) outs(%s : {one})
  return
}}
}}
"""


@pytest.mark.parametrize(("rows", "fits"), [(360, True), (384, True), (392, False)])
def test_scratch_shares_with_nothing_of_its_operation(rows, fits):
    """The result may be over the source, never over the scratch: 512 bytes a row, not 544."""
    assert (overflow(reduced(rows)) == []) is fits
