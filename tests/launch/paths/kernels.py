"""Kernels with what is wrong behind a condition, and their mended twins."""

from __future__ import annotations

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.source import Source
from ptosim.tools.api import check_source

TILE = (
    "!pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=64, v_row=16, v_col=64, blayout=row_major, "
    "slayout=none_box, fractal=512, pad=0>"
)
VIEW, PART = "!pto.tensor_view<16x64xf32>", "!pto.partition_tensor_view<16x64xf32>"
LOAD = f"pto.tload ins(%px : {PART}) outs(%t : {TILE})"
STORE = f"pto.tstore ins(%t : {TILE}) outs(%py : {PART})"
SET = "pto.set_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]"
WAIT = "pto.wait_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]"
RACE = f"{LOAD}\n{STORE}"
ORDERED = f"{LOAD}\n{SET}\n{WAIT}\n{STORE}"
NUMBERS = (0, 1, 2, 3, 5, 7, 8, 16, 64, 100)


def kernel(body: str, args: str = "%n: index") -> str:
    """A kernel that has LOAD (x to a tile) and STORE (the tile to y); %d is data."""
    constants = "\n".join(f"    %c{k} = arith.constant {k} : index" for k in NUMBERS)
    return f"""module attributes {{pto.target_arch = "a3"}} {{
  func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %d: !pto.ptr<i32>, {args}) {{
{constants}
    %a0 = arith.constant 0 : i64
    %vx = pto.make_tensor_view %x, shape = [%c16, %c64], strides = [%c64, %c1] : {VIEW}
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c16, %c64] : {VIEW} -> {PART}
    %vy = pto.make_tensor_view %y, shape = [%c16, %c64], strides = [%c64, %c1] : {VIEW}
    %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c16, %c64] : {VIEW} -> {PART}
    %t = pto.alloc_tile addr = %a0 : {TILE}
{body}
    return
  }}
}}
"""


def followed(text: str, **args: int) -> list[Diagnostic]:
    """What following a kernel with its numbers brings out; no other path, and no edit that mends
    it, is looked for."""
    return check_source(Source("k.pto", text), sync="manual", args=args, cures=False).findings


def inside(condition: str, body: str) -> str:
    """The lines of `body` where a condition holds, whose last line defines %c."""
    return f"{condition}\nscf.if %c {{\n{body}\n}}"


WORD = (
    "%v = pto.load_scalar %d[%c2] : !pto.ptr<i32> -> i32\n%w = arith.index_cast %v : i32 to index"
)
