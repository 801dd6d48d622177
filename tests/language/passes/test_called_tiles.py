"""Tiles of called functions are beside those of the caller; their arguments are the caller's."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.errors import UsageError
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions
from ptosim.launch.analysis.insert_sync.write import rewritten

PROGRAM = """!t = !pto.tile_buf<vec, {rows}x256xf32>
!p = !pto.partition_tensor_view<{rows}x256xf32>
module attributes {{pto.target_arch = "a2a3"}} {{
  func.func private @square(%t: !t) {{
    %u = pto.alloc_tile : !t
    pto.tmul ins(%t, %t : !t, !t) outs(%u : !t)
    pto.tmov ins(%u : !t) outs(%t : !t)
    return
  }}
  func.func @main(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant {rows} : index
    %w = arith.constant 256 : index
    %vx = pto.make_tensor_view %x, shape = [%n, %w], strides = [%w, %c1] : !pto.tensor_view<{rows}x256xf32>
    %vy = pto.make_tensor_view %y, shape = [%n, %w], strides = [%w, %c1] : !pto.tensor_view<{rows}x256xf32>
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%n, %w] : !pto.tensor_view<{rows}x256xf32> -> !p
    %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%n, %w] : !pto.tensor_view<{rows}x256xf32> -> !p
    %a = pto.alloc_tile : !t
    %b = pto.alloc_tile : !t
    pto.tload ins(%px : !p) outs(%a : !t)
    pto.tload ins(%px : !p) outs(%b : !t)
    func.call @square(%a) : (!t) -> ()
    pto.tadd ins(%a, %b : !t, !t) outs(%a : !t)
    pto.tstore ins(%a : !t) outs(%py : !p)
    return
  }}
{more}}}
"""


def test_an_argument_takes_no_bytes() -> None:
    """Three tiles of 64 KiB fill UB of A2/A3 (192 KiB); the parameter %t is none of them."""
    text = PROGRAM.format(rows=64, more="")
    assert ptosim.check(text) == []
    x = np.linspace(-2, 2, 64 * 256, dtype=np.float32).reshape(64, 256)
    result = ptosim.load(text).run({"x": x})
    assert result.findings == []
    np.testing.assert_array_equal(result.outputs["y"], x * x + x)


@pytest.mark.parametrize("insert_sync", [False, True])
def test_planned_addresses_keep_clear_of_the_caller(insert_sync: bool) -> None:
    """What the plan writes into the called function does not cover what lives in the caller."""
    source = Source("calls.pto", PROGRAM.format(rows=16, more=""))
    text, _ = rewritten(source, FrontOptions(), plan=True, insert_sync=insert_sync)
    assert text.count("alloc_tile addr = ") == 3
    x = np.linspace(-2, 2, 16 * 256, dtype=np.float32).reshape(16, 256)
    result = ptosim.load(text).run({"x": x})
    assert result.findings == []
    np.testing.assert_array_equal(result.outputs["y"], x * x + x)


def test_callers_that_disagree_are_named() -> None:
    """One text cannot hold two addresses for the same tile."""
    second = """  func.func @other() {
    %a = pto.alloc_tile : !t
    func.call @square(%a) : (!t) -> ()
    return
  }
"""
    source = Source("calls.pto", PROGRAM.format(rows=16, more=second))
    with pytest.raises(UsageError, match="one address for @main and at another for @other"):
        rewritten(source, FrontOptions(), plan=True, insert_sync=False)
