"""Layouts of views: from sizes and strides, from the tiles that use them, for partitions."""

from __future__ import annotations

import pytest

from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.language.verify.checks.shapes import infer


@pytest.mark.parametrize(
    ("shape", "strides", "layout", "both"),
    [
        ([16, 64], [64, 1], "nd", False),
        ([16, 64], [1, 16], "dn", False),
        ([16, 64], [128, 1], "nd", False),  # padded rows fit neither
        ([1, 64], [64, 1], "nd", True),
        ([64, 1], [1, 1], "dn", True),
        ([64, 1], [1, 64], "dn", True),
        ([1, 1], [1, 1], "nd", True),
        ([1, 1, 16, 8, 4], [512, 512, 32, 4, 1], "nz", False),
        (
            [16, 1, 128, 1, 8],
            [1024, 1024, 8, 8, 1],
            "nd",
            True,
        ),  # how NZ images are usually written
        ([4, 16, 64], [1024, 64, 1], "nd", False),
    ],
)
def test_sizes_and_strides_imply_a_layout(shape, strides, layout, both) -> None:
    assert infer(shape, strides, 32) == (layout, both)


def _layouts(body: str) -> list[str]:
    text = f"""
    func.func @f(%p: !pto.ptr<f32>, %n: index) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      {body}
      return
    }}
    """
    front = run_frontend(Source("f.pto", text), FrontOptions("a5"))
    assert not front.sink.has_errors, list(front.sink)
    return [
        front.resolved.layouts[op] for op in front.module.walk() if op in front.resolved.layouts
    ]


COLUMN = """
%v = pto.make_tensor_view %p, shape = [%c64, %c1], strides = [%c1, %c1] : !pto.tensor_view<64x1xf32>
%w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c64, %c1]
  : !pto.tensor_view<64x1xf32> -> !pto.partition_tensor_view<64x1xf32>
"""
LOAD = "pto.tload ins(%w : !pto.partition_tensor_view<64x1xf32>) outs(%{0} : {1})\n"
ROWS = "!pto.tile_buf<vec, 64x8xf32, valid=64x1>"
COLUMNS = "!pto.tile_buf<vec, 64x1xf32, blayout=col_major>"


def test_a_column_takes_the_layout_of_its_tile_and_gives_it_to_the_partition() -> None:
    row_tile = f"%a = pto.alloc_tile : {ROWS}\n" + LOAD.format("a", ROWS)
    col_tile = f"%b = pto.alloc_tile : {COLUMNS}\n" + LOAD.format("b", COLUMNS)
    assert _layouts(COLUMN) == ["dn", "dn"]
    assert _layouts(COLUMN + row_tile) == ["nd", "nd"]
    assert _layouts(COLUMN + col_tile) == ["dn", "dn"]
    assert _layouts(COLUMN + row_tile + col_tile) == ["dn", "dn"]  # they disagree: the default


def test_an_attribute_decides_what_is_ambiguous_or_dynamic() -> None:
    column = COLUMN.replace(
        "] : !pto.tensor_view", "] {layout = #pto.layout<nd>} : !pto.tensor_view"
    )
    assert _layouts(column) == ["nd", "nd"]
    dynamic = "%v = pto.make_tensor_view %p, shape = [%n, %c64], strides = [%c64, %c1]"
    assert _layouts(f"{dynamic} : !pto.tensor_view<?x64xf32>") == ["nd"]
    given = "{layout = #pto.layout<dn>} : !pto.tensor_view<?x64xf32>"
    assert _layouts(f"{dynamic} {given}") == ["dn"]
