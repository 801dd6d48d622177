"""Tiles as views of bytes: aliases, windows, other types, run-time extents, placement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.helpers import Image, codes, counting, patterns
from tests.oracle import layouts
from tests.support.text import Kernel


def f32(count: int) -> np.ndarray:
    return np.arange(1, count + 1, dtype=np.float32)


# -- aliases at level 3 ---------------------------------------------------------------------------


def test_a_row_and_a_column_at_one_address_hold_the_same_bytes():
    k = Kernel("a5")
    row = k.tile("row", "f32", 1, 64, addr=128)
    column = k.tile("column", "f32", 64, 1, layout="dn", addr=128)
    k.load("x", column, (64, 1), strides=(1, 64), layout="dn")
    k.store(row, "y")
    result = k.run({"x": f32(64), "y": np.zeros(64, np.float32)})
    np.testing.assert_array_equal(result.outputs["y"], f32(64))
    assert not codes(result)


def test_tiles_of_other_shapes_at_one_address():
    k = Kernel("a2a3")
    square = k.tile("square", "f32", 8, 128, addr=0)
    flat = k.tile("flat", "f32", 1, 1024, addr=0)
    part = k.tile("part", "i16", 4, 16, addr=512)
    k.load("x", square)
    k.store(flat, "y")
    k.store(part, "z")
    args = {"x": f32(1024), "y": np.zeros(1024, np.float32), "z": np.zeros(64, np.int16)}
    outputs = k.run(args).outputs
    np.testing.assert_array_equal(outputs["y"], f32(1024))
    np.testing.assert_array_equal(outputs["z"], f32(1024).view(np.int16)[256:320])


def test_spaces_are_separate_memories():
    k = Kernel("a2a3")
    vec = k.tile("vec", "f32", 8, 64, addr=0)
    mat = k.tile("mat", "f32", 8, 64, loc="mat", addr=0)
    k.load("x", vec)
    k.load("y", mat)
    k.store(vec, "z")
    args = {"x": f32(512), "y": -f32(512), "z": np.zeros(512, np.float32)}
    np.testing.assert_array_equal(k.run(args).outputs["z"], f32(512))


# -- treshape, bitcast, subset --------------------------------------------------------------------


def test_reshape_shares_storage_in_both_directions():
    k = Kernel("a5")
    tile = k.tile("tile", "f32", 8, 64)
    k.load("x", tile)
    flat = k.alias("pto.treshape", "flat", tile, rows=1, cols=512)
    column = k.alias("pto.treshape", "column", tile, rows=512, cols=1, blayout="col_major")
    k.store(flat, "y")
    k.load("z", column, (512, 1), strides=(1, 512), layout="dn")
    k.store(tile, "w")
    args = {"x": f32(512), "z": -f32(512)} | {n: np.zeros(512, np.float32) for n in "yw"}
    outputs = k.run(args).outputs
    np.testing.assert_array_equal(outputs["y"], f32(512))
    np.testing.assert_array_equal(outputs["w"].reshape(-1), -f32(512))


def test_bitcast_reads_the_same_bits():
    k = Kernel("a5")
    tile = k.tile("tile", "f32", 8, 64)
    k.load("x", tile)
    k.store(k.alias("pto.bitcast", "bits", tile, dtype="i32"), "y")
    outputs = k.run({"x": f32(512), "y": np.zeros(512, np.int32)}).outputs
    np.testing.assert_array_equal(outputs["y"].reshape(-1), f32(512).view(np.int32))


@pytest.mark.parametrize(
    ("row", "col", "rows", "cols"), [(0, 0, 4, 16), (3, 8, 5, 24), (7, 56, 1, 8)]
)
def test_a_window_of_a_row_major_tile(row, col, rows, cols):
    k = Kernel("a5")
    tile = k.tile("tile", "f32", 8, 64)
    k.load("x", tile)
    r, c = k.arg("row", "index"), k.arg("col", "index")
    k.line(f"%part = pto.subset %tile[{r}, {c}] sizes [{rows}, {cols}] : {tile.type}")
    part = replace(tile, name="part", rows=rows, cols=cols)
    k.store(part, "y")
    args = {"x": f32(512), "y": np.zeros(rows * cols, np.float32), "row": row, "col": col}
    expected = f32(512).reshape(8, 64)[row : row + rows, col : col + cols]
    np.testing.assert_array_equal(k.run(args).outputs["y"].reshape(rows, cols), expected)


def subset_kernel(layout: str, rows: int, cols: int) -> Kernel:
    k = Kernel("a5")
    tile = k.tile("tile", "f16", 64, 64, layout=layout, addr=0)
    r, c = k.arg("row", "index"), k.arg("col", "index")
    at = {"nd": f"{r}, {c}", "nz": f"{k.const(0)}, {c}", "zn": f"{r}, {k.const(0)}"}[layout]
    k.line(f"%part = pto.subset %tile[{at}] sizes [{rows}, {cols}] : {tile.type}")
    return k


@pytest.mark.parametrize(
    ("layout", "size", "at"),
    [("nz", (64, 32), (0, 16)), ("zn", (32, 64), (16, 0)), ("zz", (16, 64), (48, 0))],
)
def test_a_window_of_a_boxed_tile_keeps_the_boxes(layout, size, at):
    k = Kernel("a5")
    image = Image(k, 64 * 64 * 2)
    image.fill(0)
    tile = k.tile("tile", "f16", 64, 64, layout=layout, addr=0)
    r, c = (k.const(n) for n in at)
    k.line(f"%part = pto.subset %tile[{r}, {c}] sizes [{size[0]}, {size[1]}] : {tile.type}")
    typed = tile.type.replace(
        "rows=64, cols=64, v_row=64, v_col=64",
        "rows={0}, cols={1}, v_row={0}, v_col={1}".format(*size),
    )
    k.op("pto.tload", [k.view("x", "f16", size)], [("%part", typed)])
    image.read()
    source = counting("f16", size[0] * size[1])
    got = image.of(k.run({"x": source, **image.args}), np.uint16)
    expected = np.zeros(64 * 64, np.uint16)
    for r in range(size[0]):
        for c in range(size[1]):
            place = layouts.tile_offset(layout, (64, 64), (r + at[0], c + at[1]), 16)
            expected[place] = patterns(source)[r * size[1] + c]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("layout", "size", "at", "what"),
    [
        ("nd", (32, 64), (40, 0), "leaves the tile of 64x64"),
        ("nd", (32, 64), (-1, 0), "there is no window"),
        ("nz", (64, 32), (0, 8), "boxes of 16x16"),
        ("zn", (32, 64), (8, 0), "boxes of 16x16"),
    ],
)
def test_windows_that_do_not_fit(layout, size, at, what):
    with pytest.raises(ptosim.Trap, match=what) as caught:
        subset_kernel(layout, *size).run({"row": at[0], "col": at[1]})
    assert caught.value.diagnostics[-1].code == "PTO6005"


# -- run-time extents -----------------------------------------------------------------------------


def test_valid_extents_of_the_program():
    k = Kernel("a5")
    rows, cols = k.arg("rows", "index"), k.arg("cols", "index")
    tile = k.dynamic("tile", "f32", 16, 64, (rows, cols))
    k.load("x", tile, (4, 24), strides=(64, 1))
    k.store(tile, "y", (4, 24), strides=(64, 1))
    args = {"x": f32(1024), "y": np.zeros(1024, np.float32), "rows": 4, "cols": 24}
    expected = np.zeros((16, 64), np.float32)
    expected[:4, :24] = f32(1024).reshape(16, 64)[:4, :24]
    np.testing.assert_array_equal(k.run(args).outputs["y"].reshape(16, 64), expected)


@pytest.mark.parametrize(
    ("rows", "cols", "what"),
    [(17, 1, "does not fit"), (1, 65, "does not fit"), (-1, 4, "is negative: the board hangs")],
)
def test_valid_extents_beyond_the_tile(rows, cols, what):
    k = Kernel("a5")
    k.dynamic("tile", "f32", 16, 64, (k.arg("rows", "index"), k.arg("cols", "index")))
    with pytest.raises(ptosim.Trap, match=f"valid shape {rows}x{cols} {what}"):
        k.run({"rows": rows, "cols": cols})


def test_set_validshape_lasts_until_the_next_one():
    k = Kernel("a5")
    tile = k.dynamic("tile", "f32", 16, 64, (k.const(16), k.const(64)))
    k.load("x", tile, (16, 64))
    for number, (rows, cols) in enumerate([(2, 8), (16, 64), (0, 8)]):
        k.line(f"pto.set_validshape %tile, {k.const(rows)}, {k.const(cols)} : {tile.type}")
        k.store(tile, f"y{number}", (max(rows, 1), cols), strides=(64, 1))
    args = {"x": f32(1024)} | {f"y{n}": np.zeros(1024, np.float32) for n in range(3)}
    outputs = k.run(args).outputs
    whole = f32(1024).reshape(16, 64)
    assert [np.count_nonzero(outputs[f"y{n}"]) for n in range(3)] == [16, 1024, 0]
    np.testing.assert_array_equal(outputs["y0"].reshape(16, 64)[:2, :8], whole[:2, :8])


# -- placement ------------------------------------------------------------------------------------


def test_tassign_moves_a_tile():
    k = Kernel("a5")
    tile = k.tile("tile", "f32", 8, 64, addr=0)
    image = Image(k, 2048, at=0x4000)
    k.load("x", tile)
    k.line(f"%moved = pto.tassign %tile, {k.const(0x4000, 'i64')} : {tile.type} -> {tile.type}")
    k.op("pto.tload", [k.view("y", "f32", (8, 64))], [("%moved", tile.type)])
    k.store(tile, "z")
    image.read()
    args = {"x": f32(512), "y": -f32(512), "z": np.zeros(512, np.float32), **image.args}
    result = k.run(args)
    np.testing.assert_array_equal(result.outputs["z"], f32(512))
    np.testing.assert_array_equal(image.of(result, np.float32), -f32(512))


@pytest.mark.parametrize(
    ("target", "dtype", "shape", "addr", "code", "vendor"),
    [
        ("a2a3", "f32", (512, 128), 0, "PTO4352", "SA-0352"),
        ("a2a3", "f32", (64, 64), 196608 - 8192, "PTO4353", "SA-0353"),
        ("a5", "f32", (64, 64), -32, "PTO4353", "SA-0353"),
        ("a5", "f32", (64, 64), 16, "PTO4354", "SA-0354"),
    ],
)
def test_addresses_of_the_text_are_checked_before_the_run(target, dtype, shape, addr, code, vendor):
    k = Kernel(target)
    k.tile("tile", dtype, *shape, addr=addr)
    with pytest.raises(ptosim.ProgramError) as caught:
        k.run({})
    finding = caught.value.diagnostics[-1]
    assert finding.code == code
    assert vendor in finding.notes[0]


@pytest.mark.parametrize(
    ("addr", "code"), [(262144 - 64, "PTO6026"), (-64, "PTO6026"), (40, "PTO6027")]
)
@pytest.mark.parametrize("by", ["alloc_tile", "tassign"])
def test_addresses_of_the_run_are_checked(addr, code, by):
    k = Kernel("a5")
    at = k.arg("at", "i64")
    tile = k.tile("tile", "f32", 8, 64, addr=0)
    if by == "tassign":
        k.line(f"%moved = pto.tassign %tile, {at} : {tile.type} -> {tile.type}")
    else:
        k.line(f"%moved = pto.alloc_tile addr = {at} : {tile.type}")
    with pytest.raises(ptosim.Trap, match=r"%moved|%tile") as caught:
        k.run({"at": addr})
    assert caught.value.diagnostics[-1].code == code


def test_a_tile_rebound_in_a_loop():
    k = Kernel("a5")
    tile = k.tile("tile", "f32", 8, 64, addr=0)
    c0, c1, c2 = (k.const(n) for n in range(3))
    size = k.const(2048, "i64")
    k.line(f"scf.for %i = {c0} to {c2} step {c1} {{")
    k.line("%j = arith.index_cast %i : index to i64")
    k.line(f"%at = arith.muli %j, {size} : i64")
    k.line(f"%here = pto.tassign %tile, %at : {tile.type} -> {tile.type}")
    k.op("pto.tload", [k.view("x", "f32", (8, 64))], [("%here", tile.type)])
    k.line("}")
    image = Image(k, 4096)
    image.read()
    got = image.of(k.run({"x": f32(512), **image.args}), np.float32)
    np.testing.assert_array_equal(got, np.tile(f32(512), 2))
