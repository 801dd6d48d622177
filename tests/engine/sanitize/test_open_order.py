"""Where the program leaves the order of pipes open, a run takes the order of the text, core by core,
and the race is reported."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.engine.sanitize.test_races import pair

PART = "!pto.partition_tensor_view<16x16xf16>"
MAT = "!pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>"
LEFT = MAT.replace("mat", "left")
RIGHT = "!pto.tile_buf<right, 16x16xf16, slayout=col_major>"
ACC = "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
VEC = "!pto.tile_buf<vec, 16x16xf16>"


def view(name: str, element: str) -> str:
    tensor, part = (f"!pto.{kind}<16x16x{element}>" for kind in ("tensor_view", "partition_tensor_view"))  # fmt: skip
    return (
        f"%v{name} = pto.make_tensor_view %{name}, shape = [%c16, %c16], strides = [%c16, %c1] : {tensor}\n"
        f"%p{name} = pto.partition_view %v{name}, offsets = [%c0, %c0], sizes = [%c16, %c16] : {tensor} -> {part}"
    )


PROGRAM = f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @k(%a: !pto.ptr<f16>, %b: !pto.ptr<f16>, %out: !pto.ptr<f32>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant 0.0 : f16
    {view("a", "f16")}
    {view("b", "f16")}
    {view("out", "f32")}
    pto.section.cube {{
      %ma = pto.alloc_tile : {MAT}
      %mb = pto.alloc_tile : {MAT}
      %l = pto.alloc_tile : {LEFT}
      %r = pto.alloc_tile : {RIGHT}
      %acc = pto.alloc_tile : {ACC}
      pto.tload ins(%pb : {PART}) outs(%mb : {MAT})
      pto.wait_intra_block <PIPE_MTE2>, 19
      pto.tload ins(%pa : {PART}) outs(%ma : {MAT})
      ORDER
      pto.sync.set <PIPE_FIX>, 4
      pto.barrier <PIPE_ALL>
      pto.tmov ins(%ma : {MAT}) outs(%l : {LEFT})
      pto.tmov ins(%mb : {MAT}) outs(%r : {RIGHT})
      pto.barrier <PIPE_ALL>
      pto.tmatmul ins(%l, %r : {LEFT}, {RIGHT}) outs(%acc : {ACC})
      pto.barrier <PIPE_ALL>
      pto.tstore ins(%acc : {ACC}) outs(%pout : {PART.replace("f16", "f32")})
    }}
    pto.section.vector {{
      %z = pto.alloc_tile : {VEC}
      %sub = pto.get_subblock_idx
      %which = arith.index_cast %sub : i64 to index
      %first = arith.cmpi eq, %which, %c0 : index
      scf.if %first {{
        pto.texpands ins(%zero : f16) outs(%z : {VEC})
        pto.barrier <PIPE_ALL>
        pto.sync.wait <PIPE_MTE3>, 4
        pto.tstore ins(%z : {VEC}) outs(%pa : {PART})
      }} else {{
        pto.sync.set <PIPE_MTE3>, 3
      }}
    }}
    return
  }}
}}
"""
"""The cube's load of `a` waits for the second vector core; the first one overwrites `a` when the cube
has signalled that it was read."""

A = np.arange(256, dtype=np.float16).reshape(16, 16)


OPEN = ""
ORDERED = pair("MTE2", "FIX")


def result(order: str, commit: str = "program"):
    # Barriers alone leave a function to the assembler, which would insert what is left open here.
    program = ptosim.load(PROGRAM.replace("ORDER", order), sync="manual")
    eye = np.eye(16, dtype=np.float16)
    return program.run({"a": A, "b": eye, "out": np.zeros((16, 16), np.float32)}, commit=commit)


@pytest.mark.parametrize("order", [ORDERED, OPEN], ids=["ordered", "open"])
def test_a_signal_does_not_overtake_a_load_that_waits(order):
    np.testing.assert_array_equal(result(order).outputs["out"], A)


def test_a_signal_that_nothing_orders_is_a_race():
    assert [f.code for f in result(ORDERED).findings] == []
    assert [f.code for f in result(OPEN).findings] == ["PTO5205"]


def test_at_retirement_the_signal_overtakes():
    """Pipes at their own pace show what the race does."""
    assert not result(OPEN, "retire").outputs["out"].any()
    np.testing.assert_array_equal(result(ORDERED, "retire").outputs["out"], A)
