"""Windows of tiles and views of global memory in the language of August 2026: what they are at run time.

Expected places come from the descriptions of the layouts (`tests/oracle/layouts`)."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.acc_harness import Filled
from tests.oracle import layouts
from tests.support.text import Kernel

TARGETS = ["a2a3", "a5"]
T = "!pto.tile_buf<vec, 32x64xf32>"
RNG = np.random.default_rng(5)


def windowed(subview: str, name: str = "w", type_: str = "", **args: int) -> np.ndarray:
    """Add 100 to a window of a 32x64 tile that holds its own positions; return the whole tile."""
    k = Kernel("a5")
    whole = k.tile("t", "f32", 32, 64)
    k.load("x", whole)
    for extra in args:
        k.arg(extra, "index")
    k.line(f"%{name} = pto.subview %t{subview}")
    k.line("%hundred = arith.constant 100.0 : f32")
    k.line(f"pto.tadds ins(%{name}, %hundred : {type_}, f32) outs(%{name} : {type_})")
    k.store(whole, "y")
    x = np.arange(2048, dtype=np.float32).reshape(32, 64)
    return k.run({"x": x, "y": np.zeros((32, 64), np.float32), **args}).outputs["y"] - x


def expected(row: int, col: int, rows: int, cols: int) -> np.ndarray:
    found = np.zeros((32, 64), np.float32)
    found[row : row + rows, col : col + cols] = 100
    return found


def test_the_sizes_are_valid_without_a_clause():
    got = windowed(
        f"[%i, %j] sizes [16, 32] : {T}", type_="!pto.tile_buf<vec, 16x32xf32>", i=3, j=8
    )
    np.testing.assert_array_equal(got, expected(3, 8, 16, 32))


def test_the_type_of_the_result_decides_the_valid_region():
    type_ = "!pto.tile_buf<vec, 16x64xf32, valid=8x40>"
    got = windowed(f"[%i, %j] sizes [16, 64] : {T} -> {type_}", type_=type_, i=2, j=0)
    np.testing.assert_array_equal(got, expected(2, 0, 8, 40))


@pytest.mark.parametrize(("rows", "cols"), [(5, 8), (0, 8), (16, 1)])
def test_valid_extents_of_the_run(rows, cols):
    """Zero is legal: nothing happens."""
    type_ = "!pto.tile_buf<vec, 16x32xf32, valid=?x?>"
    text = f"[%i, %j] sizes [16, 32] valid [%r, %c] : {T} -> {type_}"
    got = windowed(text, type_=type_, i=4, j=16, r=rows, c=cols)
    np.testing.assert_array_equal(got, expected(4, 16, rows, cols if rows else 0))


@pytest.mark.parametrize(("axis", "extent"), [("row", 17), ("row", -1), ("col", 33)])
def test_a_valid_extent_of_the_run_above_the_size_stops_it(axis, extent):
    type_ = "!pto.tile_buf<vec, 16x32xf32, valid=?x?>"
    text = f"[%i, %j] sizes [16, 32] valid [%r, %c] : {T} -> {type_}"
    sizes = {"r": 16, "c": 32} | {axis[0]: extent}
    with pytest.raises(ptosim.Trap) as stopped:
        windowed(text, type_=type_, i=0, j=0, **sizes)
    size = 16 if axis == "row" else 32
    beyond = f"exceeds subview {axis} size {size}"
    what = beyond if extent > 0 else "is negative: the board hangs"
    assert f"valid_{axis} {extent} {what}" in str(stopped.value)


def test_a_window_outside_its_tile_stops_the_run():
    with pytest.raises(ptosim.Trap) as stopped:
        windowed(f"[%i, %j] sizes [16, 32] : {T}", type_="!pto.tile_buf<vec, 16x32xf32>", i=20, j=0)
    assert stopped.value.diagnostics[-1].code == "PTO6005"


@pytest.mark.parametrize(
    ("row", "col", "rows", "cols"), [(16, 32, 16, 32), (0, 16, 32, 16), (16, 0, 16, 64)]
)
@pytest.mark.parametrize("target", TARGETS)
def test_a_boxed_window_is_where_its_parent_has_it(target, row, col, rows, cols):
    """A part of an accumulator, in both directions, stored through the parent's boxes."""
    k = Kernel(target)
    acc = k.tile("acc", "f32", 32, 64, layout="nz", fractal=1024, loc="acc")
    k.arg("i", "index")
    k.arg("j", "index")
    part = acc.type.replace(
        "rows=32, cols=64, v_row=32, v_col=64",
        f"rows={rows}, cols={cols}, v_row={rows}, v_col={cols}",
    )
    k.line(f"%w = pto.subview %acc[%i, %j] sizes [{rows}, {cols}] : {acc.type}")
    k.op("pto.tstore", [("%w", part)], [k.view("y", "f32", (rows, cols))])
    values = RNG.standard_normal((32, 64)).astype(np.float32)
    args = {"y": np.zeros((rows, cols), np.float32), "i": row, "j": col}
    got = k.run(args, observers=[Filled(values)]).outputs["y"]
    np.testing.assert_array_equal(got, values[row : row + rows, col : col + cols])
    # The model of the layout has them at the same bytes.
    assert layouts.tile_offset("nz", (32, 64), (row, col), 32, 1024) == (col // 16) * 512 + row * 16


def test_a_boxed_window_off_the_boxes_stops_the_run():
    k = Kernel("a5")
    acc = k.tile("acc", "f32", 32, 64, layout="nz", fractal=1024, loc="acc")
    i = k.arg("i", "index")
    k.line(f"%w = pto.subview %acc[{i}, {i}] sizes [16, 16] : {acc.type}")
    part = acc.type.replace(
        "rows=32, cols=64, v_row=32, v_col=64", "rows=16, cols=16, v_row=16, v_col=16"
    )
    k.op("pto.tstore", [("%w", part)], [k.view("y", "f32", (16, 16))])
    with pytest.raises(ptosim.Trap) as stopped:
        k.run({"y": np.zeros((16, 16), np.float32), "i": 8}, uninit="zero")
    assert stopped.value.diagnostics[-1].code == "PTO6005"


VIEWS = """
func.func @f(%p: !pto.ptr<i32>, %o: !pto.ptr<i64>, %n: index) attributes {{pto.entry}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %v = pto.make_tensor_view %p, shape = [%n, %c4], strides = [%c4, %c1] : !pto.tensor_view<?x?xi32>
  %w = pto.partition_view %v, offsets = [%c1, %c0], sizes = [%c4, %n] : !pto.tensor_view<?x?xi32>
{body}
  return
}}
"""


def stored(*lines: str) -> list[int]:
    """Run lines that leave index values %r0, %r1, …; return them."""
    body = list(lines)
    for at in range(sum(line.startswith("%r") for line in lines)):
        body += [f"%i{at} = arith.index_cast %r{at} : index to i64", f"%k{at} = arith.constant {at} : index",
                 f"pto.store_scalar %i{at}, %o[%k{at}] : !pto.ptr<i64>, i64"]  # fmt: skip
    text = VIEWS.format(body="\n".join(body))
    out = np.zeros(4, np.int64)
    return (
        ptosim.load(text, target="a5")
        .run({"p": np.zeros(64, np.int32), "o": out, "n": 8})
        .outputs["o"]
        .tolist()
    )


def test_sizes_and_strides_of_views():
    """A part has the strides of its view; its sizes are its own."""
    part = "!pto.partition_tensor_view<4x?xi32>"
    whole = "!pto.tensor_view<?x?xi32>"
    assert stored(
        f"%r0 = pto.get_tensor_view_dim %w, %c0 : {part} -> index",
        f"%r1 = pto.get_tensor_view_dim %w, %c1 : {part} -> index",
        f"%r2 = pto.get_tensor_view_stride %w, %c0 : {part} -> index",
        f"%r3 = pto.get_tensor_view_stride %v, %c1 : {whole} -> index",
    ) == [4, 8, 4, 1]


POINTERS = """
func.func @f(%a: !pto.ptr<i32>, %b: !pto.ptr<i8>, %c: !pto.ptr<i64>) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %i = pto.ptrtoint %a : !pto.ptr<i32> -> i64
  %j = pto.ptrtoint %b : !pto.ptr<i8> -> i64
  %b2 = pto.addptr %b, %c2 : !pto.ptr<i8> -> !pto.ptr<i8>
  %k = pto.ptrtoint %b2 : !pto.ptr<i8> -> i64
  %l = pto.ptrtoint %c : !pto.ptr<i64> -> i64
  pto.store_scalar %i, %c[%c0] : !pto.ptr<i64>, i64
  pto.store_scalar %j, %c[%c1] : !pto.ptr<i64>, i64
  pto.store_scalar %k, %c[%c2] : !pto.ptr<i64>, i64
  %c3 = arith.constant 3 : index
  pto.store_scalar %l, %c[%c3] : !pto.ptr<i64>, i64
  // An address that comes from memory is a pointer again.
  %q = pto.load_scalar %c[%c0] : !pto.ptr<i64> -> i64
  %r = pto.inttoptr %q : i64 -> !pto.ptr<i32>
  %x = pto.load_scalar %r[%c1] : !pto.ptr<i32> -> i32
  pto.store_scalar %x, %r[%c0] : !pto.ptr<i32>, i32
  return
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_addresses_of_global_memory(target):
    """The first argument is at 2^32, each further one at the next page after the end of the one
    before and an empty page; the same in every run."""
    args = {
        "a": np.array([1, 7, 0], np.int32),
        "b": np.zeros(4097, np.int8),
        "c": np.zeros(4, np.int64),
    }
    for _ in range(2):
        out = ptosim.load(POINTERS, target=target).run(args).outputs
        second = 2**32 + 4096 + 4096
        assert out["c"].tolist() == [2**32, second, second + 2, second + 8192 + 4096]
        assert out["a"].tolist() == [7, 7, 0]


def test_a_pointer_into_a_space_is_an_offset():
    text = """
    func.func @f(%o: !pto.ptr<i64>) attributes {pto.entry} {
      %c0 = arith.constant 0 : index
      %n = arith.constant 96 : i64
      %u = pto.castptr %n : i64 -> !pto.ptr<f32, ub>
      %c2 = arith.constant 2 : index
      %v = pto.addptr %u, %c2 : !pto.ptr<f32, ub> -> !pto.ptr<f32, ub>
      %i = pto.ptrtoint %v : !pto.ptr<f32, ub> -> i64
      pto.store_scalar %i, %o[%c0] : !pto.ptr<i64>, i64
      return
    }
    """
    for target in TARGETS:
        out = ptosim.load(text, target=target).run({"o": np.zeros(1, np.int64)}).outputs["o"]
        assert out.tolist() == [104]


def test_an_address_below_global_memory_stops_the_run():
    text = POINTERS.replace(
        "%q = pto.load_scalar %c[%c0] : !pto.ptr<i64> -> i64", "%q = arith.constant 64 : i64"
    )
    with pytest.raises(ptosim.Trap) as stopped:
        ptosim.load(text, target="a5").run(
            {"a": np.zeros(3, np.int32), "b": np.zeros(8, np.int8), "c": np.zeros(4, np.int64)}
        )
    assert stopped.value.diagnostics[-1].code == "PTO6603"


VALID = """
func.func @f(%o: !pto.ptr<i64>, %n: index) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %t = pto.alloc_tile valid_row = %n valid_col = %n : !pto.tile_buf<vec, 16x64xf32, valid=?x?>
  %r, %c = pto.get_validshape %t : !pto.tile_buf<vec, 16x64xf32, valid=?x?>
  pto.set_validshape %t, %c3, %n : !pto.tile_buf<vec, 16x64xf32, valid=?x?>
  %s, %d = pto.get_validshape %t : !pto.tile_buf<vec, 16x64xf32, valid=?x?>
  %i = arith.index_cast %r : index to i64
  %j = arith.index_cast %s : index to i64
  pto.store_scalar %i, %o[%c0] : !pto.ptr<i64>, i64
  pto.store_scalar %j, %o[%c1] : !pto.ptr<i64>, i64
  return
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_what_was_read_of_a_valid_region_stays(target):
    """Reads after set_validshape see the new extents, earlier reads keep the old ones."""
    out = ptosim.load(VALID, target=target).run({"o": np.zeros(2, np.int64), "n": 5}).outputs["o"]
    assert out.tolist() == [5, 3]


WINDOW_AS_RESULT = """module attributes {pto.target_arch = "a5"} {
  func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %vx = pto.make_tensor_view %x, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<16x64xf32>
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<16x64xf32> -> !pto.partition_tensor_view<16x64xf32>
    %vy = pto.make_tensor_view %y, shape = [%c8, %c64], strides = [%c64, %c1] : !pto.tensor_view<8x64xf32>
    %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c8, %c64] : !pto.tensor_view<8x64xf32> -> !pto.partition_tensor_view<8x64xf32>
    %t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
    pto.tload ins(%px : !pto.partition_tensor_view<16x64xf32>) outs(%t : !pto.tile_buf<vec, 16x64xf32>)
    %w = pto.tsubview %t, %c8, %c0 : (!pto.tile_buf<vec, 16x64xf32>, index, index) -> !pto.tile_buf<vec, 8x64xf32>
    pto.tstore ins(%w : !pto.tile_buf<vec, 8x64xf32>) outs(%py : !pto.partition_tensor_view<8x64xf32>)
    return
  }
}
"""


def test_a_window_of_april_is_a_result_too():
    """`%w = pto.tsubview %t, row, col`: its shape is that of its type, its bytes those of the tile."""
    x = np.arange(1024, dtype=np.float32).reshape(16, 64)
    program = ptosim.load(WINDOW_AS_RESULT, compat="2026-04")
    result = program.run({"x": x, "y": np.zeros((8, 64), np.float32)})
    assert np.array_equal(result.outputs["y"], x[8:])
