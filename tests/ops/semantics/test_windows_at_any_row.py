"""A window of an NZ tile may begin at any row that only the run knows: rows of 32 bytes follow one
another through the boxes of a column, so its address is that of the tile plus 32 bytes a row."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.text import Kernel

ROWS, COLS = 64, 32


@pytest.mark.parametrize("row", [0, 5, 16, 41, 48])
def test_rows_of_an_nz_tile(row):
    k = Kernel("a5")
    mat = k.tile("m", "f16", ROWS, COLS, layout="nz", loc="mat")
    unit = k.tile("u", "f16", COLS, COLS, layout="nz", loc="mat")
    left = k.tile("l", "f16", 16, COLS, layout="nz", loc="left")
    right = k.tile("r", "f16", COLS, COLS, layout="zn", loc="right")
    acc = k.tile("c", "f32", 16, COLS, layout="nz", fractal=1024, loc="acc")
    k.load("x", mat)
    k.load("one", unit)
    at = k.arg("row", "index")
    part = mat.type.replace("v_row=64", "v_row=16").replace("rows=64", "rows=16")
    sizes = f"sizes [16, {COLS}]"
    k.line(f"%w = pto.subview %m[{at}, {k.const(0)}] {sizes} : {mat.type} -> {part}")
    k.line(f"pto.tmov ins(%w : {part}) outs(%l : {left.type})")
    k.op("pto.tmov", [unit], [right])
    k.op("pto.tmatmul", [left, right], [acc])
    k.store(acc, "y")
    x = np.arange(ROWS * COLS, dtype=np.float16).reshape(ROWS, COLS)
    args = {"x": x, "one": np.eye(COLS, dtype=np.float16), "row": row}
    got = k.run({**args, "y": np.zeros((16, COLS), np.float32)}).outputs["y"]
    np.testing.assert_array_equal(got, x[row : row + 16].astype(np.float32))


@pytest.mark.parametrize("col", [5, 48])
def test_columns_of_a_zn_tile(col):
    """As rows of an NZ tile."""
    k = Kernel("a5")
    mat = k.tile("m", "f16", 32, 64, layout="zn", loc="mat")
    unit = k.tile("u", "f16", 16, 32, layout="nz", loc="mat")
    left = k.tile("l", "f16", 16, 32, layout="nz", loc="left")
    right = k.tile("r", "f16", 32, 16, layout="zn", loc="right")
    acc = k.tile("c", "f32", 16, 16, layout="nz", fractal=1024, loc="acc")
    k.load("x", mat)
    k.load("one", unit)
    part = mat.type.replace("v_col=64", "v_col=16").replace("cols=64", "cols=16")
    at = f"[{k.const(0)}, {k.arg('col', 'index')}] sizes [32, 16]"
    k.line(f"%w = pto.subview %m{at} : {mat.type} -> {part}")
    k.line(f"pto.tmov ins(%w : {part}) outs(%r : {right.type})")
    k.op("pto.tmov", [unit], [left])
    k.op("pto.tmatmul", [left, right], [acc])
    k.store(acc, "y")
    x = np.arange(32 * 64, dtype=np.float16).reshape(32, 64)
    args = {"x": x, "one": np.eye(16, 32, dtype=np.float16), "col": col}
    got = k.run({**args, "y": np.zeros((16, 16), np.float32)}).outputs["y"]
    np.testing.assert_array_equal(got, x[:16, col : col + 16].astype(np.float32))
