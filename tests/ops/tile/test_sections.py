"""Sections that the text leaves out: each core executes what is of its kind."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.language.place.cores import roles

L1 = "!pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>"
LEFT = "!pto.tile_buf<left, 16x16xf16, blayout=col_major, slayout=row_major>"
RIGHT = "!pto.tile_buf<right, 16x16xf16, slayout=col_major>"
ACC = "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
VEC = "!pto.tile_buf<vec, 8x16xf32>"


def view(name: str, elem: str) -> str:
    return (
        f"%v{name} = pto.make_tensor_view %{name}, shape = [%c16, %c16], strides = [%c16, %c1] : "
        f"!pto.tensor_view<?x?x{elem}>"
    )


def part(name: str, elem: str, row: str, rows: int) -> str:
    return (
        f"%w{name} = pto.partition_view %v{name}, offsets = [{row}, %c0], sizes = [%c{rows}, %c16] : "
        f"!pto.tensor_view<?x?x{elem}> -> !pto.partition_tensor_view<{rows}x16x{elem}>"
    )


PRODUCT = f"""
  %ma = pto.alloc_tile : {L1}
  %mb = pto.alloc_tile : {L1}
  %ta = pto.alloc_tile : {LEFT}
  %tb = pto.alloc_tile : {RIGHT}
  %tc = pto.alloc_tile : {ACC}
  pto.tload ins(%wa : !pto.partition_tensor_view<16x16xf16>) outs(%ma : {L1})
  pto.tload ins(%wb : !pto.partition_tensor_view<16x16xf16>) outs(%mb : {L1})
  pto.tmov ins(%ma : {L1}) outs(%ta : {LEFT})
  pto.tmov ins(%mb : {L1}) outs(%tb : {RIGHT})
  pto.tmatmul ins(%ta, %tb : {LEFT}, {RIGHT}) outs(%tc : {ACC})
  pto.tstore ins(%tc : {ACC}) outs(%wc : !pto.partition_tensor_view<16x16xf32>)
"""
SUM = f"""
  %tv = pto.alloc_tile : {VEC}
  pto.tload ins(%wx : !pto.partition_tensor_view<8x16xf32>) outs(%tv : {VEC})
  pto.tadd ins(%tv, %tv : {VEC}, {VEC}) outs(%tv : {VEC})
  pto.tstore ins(%tv : {VEC}) outs(%wx : !pto.partition_tensor_view<8x16xf32>)
"""


def program(*work: str, kind: str = "", mark: str = "attributes {pto.entry} ") -> str:
    lines = [
        *(f"%c{n} = arith.constant {n} : index" for n in (0, 1, 8, 16)),
        "%sub = pto.get_subblock_idx",
        "%at = arith.index_cast %sub : i64 to index",
        "%row = arith.muli %at, %c8 : index",
        *(view(n, e) for n, e in (("a", "f16"), ("b", "f16"), ("c", "f32"), ("x", "f32"))),
        part("a", "f16", "%c0", 16), part("b", "f16", "%c0", 16), part("c", "f32", "%c0", 16),
        part("x", "f32", "%row", 8), *work, "return",
    ]  # fmt: skip
    args = ", ".join(
        f"%{n}: !pto.ptr<{e}>" for n, e in zip("abcx", ("f16", "f16", "f32", "f32"), strict=True)
    )
    body = "\n  ".join(lines)
    return f'module attributes {{pto.target_arch = "a5"{kind}}} {{\nfunc.func @k({args}) {mark}{{\n  {body}\n}}\n}}\n'


def cores(text: str, compat: str = "2026-08") -> list[str]:
    resolved = ptosim.load(text, compat=compat).front.resolved
    entry = resolved.functions["k"]
    return [role.kind for role in roles(resolved, entry, [entry])]


@pytest.mark.parametrize(
    "work", [(PRODUCT, SUM), (SUM, PRODUCT)], ids=["cube first", "vector first"]
)
def test_each_run_of_one_kind_is_a_section(work):
    """The cube core multiplies, each vector core adds its eight rows; none waits for another."""
    text = program(*work)
    assert cores(text) == ["cube", "vector", "vector"]
    a = np.arange(256, dtype=np.float16).reshape(16, 16) / 64
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    given = {"a": a, "b": np.eye(16, dtype=np.float16), "c": np.zeros((16, 16), np.float32), "x": x}
    result = ptosim.load(text).run(given)
    assert np.array_equal(result.outputs["c"], a.astype(np.float32))
    assert np.array_equal(result.outputs["x"], 2 * x)
    assert result.findings == []


def test_what_comes_before_the_first_section_is_for_every_core():
    """The valid shape is set before the product; the vector cores know it."""
    tile = VEC.replace("8x16xf32", "8x16xf32, valid=?x?")
    before = f"""%tv = pto.alloc_tile valid_row = %c8 valid_col = %c16 : {tile}
      pto.set_validshape %tv, %c8, %c1 : {tile}"""
    work = (
        SUM.replace(f"%tv = pto.alloc_tile : {VEC}", "")
        .replace(VEC, tile)
        .replace("8x16xf32>)", "8x1xf32>)")
    )
    text = (
        program(before, PRODUCT, work)
        .replace(
            "%wx = pto.partition_view %vx, offsets = [%row, %c0], sizes = [%c8, %c16]",
            "%wx = pto.partition_view %vx, offsets = [%row, %c0], sizes = [%c8, %c1]",
        )
        .replace("!pto.partition_tensor_view<8x16xf32>", "!pto.partition_tensor_view<8x1xf32>")
    )
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    given = {n: np.zeros((16, 16), np.float16) for n in "ab"} | {
        "c": np.zeros((16, 16), np.float32),
        "x": x,
    }
    found = ptosim.load(text).run(given).outputs["x"]
    assert np.array_equal(found[:, 0], 2 * x[:, 0])
    assert np.array_equal(found[:, 1:], x[:, 1:])


def test_what_is_of_one_kind_needs_no_section():
    assert cores(program(SUM)) == ["any"]
    assert cores(program(PRODUCT)) == ["any"]
    assert cores(program(SUM, kind=", pto.kernel_kind = #pto.kernel_kind<vector>")) == ["vector"]


def test_beside_a_section_that_is_written():
    text = program(f"pto.section.cube {{{PRODUCT}}}", SUM)
    assert cores(text) == ["cube", "vector", "vector"]
    x = np.ones((16, 16), np.float32)
    given = {n: np.zeros((16, 16), np.float16) for n in "ab"} | {
        "c": np.zeros((16, 16), np.float32),
        "x": x,
    }
    assert np.array_equal(ptosim.load(text).run(given).outputs["x"], 2 * x)


def test_april_has_one_core_for_everything():
    assert cores(program(PRODUCT, SUM), "2026-04") == ["any"]


def test_a_function_that_is_no_entry_is_for_every_core():
    text = program(PRODUCT, SUM, mark="")
    assert cores(text) == ["any"]
