"""Fusion regions: executed once where they are, their results are other names for what they yield."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim

T = "!pto.tile_buf<vec, {rows}x64xf32>"


def program(rows: int, target: str) -> str:
    """One tile per name; the results of the region live on after it."""
    tile = T.format(rows=rows)
    view = f"!pto.partition_tensor_view<{rows}x64xf32>"
    return f"""module attributes {{pto.target_arch = "{target}"}} {{
func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) attributes {{pto.entry}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %rows = arith.constant {rows} : index
  %vx = pto.make_tensor_view %x, shape = [%rows, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
  %vy = pto.make_tensor_view %y, shape = [%rows, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
  %wx = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%rows, %c64] : !pto.tensor_view<?x?xf32> -> {view}
  %wy = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%rows, %c64] : !pto.tensor_view<?x?xf32> -> {view}
  %a = pto.alloc_tile : {tile}
  pto.tload ins(%wx : {view}) outs(%a : {tile})
  %r:2 = pto.fusion_region {{
    %b = pto.alloc_tile : {tile}
    %n = arith.constant 3 : i32
    pto.tadd ins(%a, %a : {tile}, {tile}) outs(%b : {tile})
    pto.yield(%b, %n) : ({tile}, i32) -> ()
  }} : {tile}, i32
  %c = pto.alloc_tile : {tile}
  %f = arith.sitofp %r#1 : i32 to f32
  pto.tmuls ins(%a, %f : {tile}, f32) outs(%c : {tile})
  pto.tadd ins(%r#0, %c : {tile}, {tile}) outs(%c : {tile})
  pto.tadd ins(%c, %a : {tile}, {tile}) outs(%c : {tile})
  pto.tstore ins(%c : {tile}) outs(%wy : {view})
  return
}}
}}
"""


@pytest.mark.parametrize("target", ["a3", "a5"])
@pytest.mark.parametrize("sync", [None, "auto"])
def test_a_region_is_executed_once_and_gives_its_values(target, sync):
    """2x + 3x + x; the yielded tile is not given away before its last use outside."""
    x = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    loaded = ptosim.load(program(16, target), sync=sync)
    result = loaded.run({"x": x, "y": np.zeros_like(x)})
    assert np.array_equal(result.outputs["y"], 6 * x)
    assert result.findings == []


def test_a_result_keeps_its_storage():
    """Three tiles live at once: of 328 rows they fit into A5's 253,952 bytes of UB, of 336 not."""
    assert ptosim.check(program(328, "a5"), level=2) == []
    assert any("overflow" in f.message for f in ptosim.check(program(336, "a5"), level=2))
