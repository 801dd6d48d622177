"""Operations in MLIR's quoted form and back: what is written means what it meant, and is what people
write."""

from __future__ import annotations

import re

import pytest

from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.language.rewrite.requoted import requoted
from ptosim.language.syntax.parser import parse
from ptosim.language.syntax.printer import print_module
from ptosim.launch.sources import open_source


@pytest.mark.parametrize(
    ("name", "left"), [("basics/vadd", []), ("micro/row_sums", ["    pto.mte_gm_ub"])]
)
def test_there_and_back_the_text_is_canonical(name, left):
    """What has clauses (`nburst(…)`) stays: they have no names in the quoted form."""
    source = open_source(f"@{name}")
    quoted = requoted(source, "quoted", "a5")
    assert re.findall(r"^ *(?:%\w+ = )?pto\.\w+", quoted, re.MULTILINE)[:1] == left
    there_and_back = requoted(source.changed(quoted), "short", "a5")
    canonical = print_module(parse(source, Sink()))
    assert there_and_back == canonical.replace("barrier #pto.pipe<", "barrier <")


VIEW = """func.func @k(%x: !pto.ptr<f32>, %a: i64) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %v = "pto.make_tensor_view"(%x, %c8, %c8, %c8, %c1) <{operandSegmentSizes = array<i32: 1, 2, 2>}> : (!pto.ptr<f32>, index, index, index, index) -> !pto.tensor_view<8x8xf32>
  %w = "pto.partition_view"(%v, %c1, %c0, %c1, %c8) <{operandSegmentSizes = array<i32: 1, 2, 2>}> : (!pto.tensor_view<8x8xf32>, index, index, index, index) -> !pto.partition_tensor_view<1x8xf32>
  %t = "pto.alloc_tile"(%a) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (i64) -> !pto.tile_buf<vec, 8x8xf32>
  "pto.set_flag"() {src_pipe = #pto.pipe<PIPE_V>, dst_pipe = #pto.pipe<PIPE_S>, event = #pto.event<EVENT_ID1>} : () -> ()
  return
}
"""  # fmt: skip


def test_segments_say_which_operands_are_of_which_list():
    """A view has sizes and strides, a window offsets and sizes: as many of each as the view has
    dimensions; without segments nobody knows where one list ends."""
    front = run_frontend(Source("k.pto", VIEW), FrontOptions("a5"))
    assert [d.code for d in front.sink if d.is_error] == []
    bound = {op.name: op.bound for op in front.resolved.ops}
    assert [o.value.name for o in bound["pto.make_tensor_view"]["strides"]] == ["c8", "c1"]
    assert [o.value.name for o in bound["pto.partition_view"]["sizes"]] == ["c1", "c8"]
    assert front.level == 3  # a tile has an address


def test_the_short_form_is_the_one_of_the_manuals():
    short = requoted(Source("k.pto", VIEW), "short", "a5")
    assert "pto.make_tensor_view %x, shape = [%c8, %c8], strides = [%c8, %c1] : !pto.tensor_view<8x8xf32>" in short  # fmt: skip
    assert "offsets = [%c1, %c0], sizes = [%c1, %c8] : !pto.tensor_view<8x8xf32> -> !pto.partition_tensor_view<1x8xf32>" in short  # fmt: skip
    assert "%t = pto.alloc_tile addr = %a : !pto.tile_buf<vec, 8x8xf32>" in short
    assert "pto.set_flag[<PIPE_V>, <PIPE_S>, <EVENT_ID1>]" in short
