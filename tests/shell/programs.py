"""Small programs for the tests of the command line."""

from __future__ import annotations

TILE = "!pto.tile_buf<vec, 16x64xf32>"
VIEW = "!pto.tensor_view<16x64xf32>"
PART = "!pto.partition_tensor_view<16x64xf32>"


def copy_program(body: str = "", arch: str = 'attributes {pto.target_arch = "a5"}') -> str:
    """Return a kernel that loads x, runs `body` on tiles %a and %b, and stores %b to y."""
    return f"""module {arch} {{
  func.func @kernel(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %vx = pto.make_tensor_view %x, shape = [%c16, %c64], strides = [%c64, %c1] : {VIEW}
    %vy = pto.make_tensor_view %y, shape = [%c16, %c64], strides = [%c64, %c1] : {VIEW}
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c16, %c64] : {VIEW} -> {PART}
    %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c16, %c64] : {VIEW} -> {PART}
    %a = pto.alloc_tile : {TILE}
    %b = pto.alloc_tile : {TILE}
    pto.tload ins(%px : {PART}) outs(%a : {TILE})
    pto.tmov ins(%a : {TILE}) outs(%b : {TILE})
{body}
    pto.tstore ins(%b : {TILE}) outs(%py : {PART})
    return
  }}
}}
"""
