"""TLOAD and TSTORE: which bytes move where window and tile differ, and what padding they leave."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.helpers import (
    ARRAYS,
    Image,
    background,
    codes,
    counting,
    loaded_image,
    patterns,
)
from tests.oracle import memory
from tests.support.text import Kernel

Window = dict[str, Any]


def strides_of(window: Window) -> tuple[int, ...]:
    shape = window.get("shape") or window["sizes"]
    return window.get("strides") or tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def base_of(window: Window) -> int:
    offsets = window.get("offsets", (0,) * len(window["sizes"]))
    return sum(o * s for o, s in zip(offsets, strides_of(window), strict=True))


# name -> (tile shape, valid shape, window, findings)
ND: dict[str, tuple[tuple[int, int], tuple[int, int], Window, list[str]]] = {
    "plain": ((16, 32), (16, 32), {"sizes": (16, 32)}, []),
    "rows apart": ((16, 32), (16, 32), {"sizes": (16, 32), "strides": (48, 1)}, []),
    "five dimensions": (
        (24, 32), (24, 32),
        {"sizes": (2, 2, 2, 3, 32), "strides": (2000, 900, 300, 40, 1)}, [],
    ),
    "three dimensions": ((12, 32), (12, 32), {"sizes": (3, 4, 32)}, []),
    "columns apart": ((16, 32), (16, 32), {"sizes": (16, 32), "strides": (80, 2)}, []),
    "repeated row": ((16, 32), (16, 32), {"sizes": (16, 32), "strides": (0, 1)}, []),
    "offset": (
        (8, 16), (8, 16), {"sizes": (8, 16), "shape": (32, 64), "offsets": (5, 9)}, [],
    ),
    "fewer valid rows": ((16, 32), (11, 32), {"sizes": (16, 32)}, ["PTO6102"]),
    "fewer valid columns": ((16, 32), (16, 8), {"sizes": (16, 32)}, ["PTO6103"]),
    "more valid columns": (
        (16, 32), (16, 24), {"sizes": (16, 8), "strides": (40, 1)}, ["PTO6103"],
    ),
    "more valid rows": ((16, 32), (16, 32), {"sizes": (11, 32)}, ["PTO6102"]),
}  # fmt: skip


@pytest.mark.parametrize("target", ["a5", "a2a3"])
@pytest.mark.parametrize("name", ND)
def test_load_of_rows(name, target):
    shape, valid, window, findings = ND[name]
    source = counting("f32", 6000)
    image, result = loaded_image(target, "f32", shape, source, window, valid=valid)
    expected = background("f32", prod(shape))
    sizes, strides = memory.five(window["sizes"], strides_of(window))
    for to, at in memory.nd(sizes, strides, shape, valid).items():
        expected[to] = patterns(source)[base_of(window) + at]
    np.testing.assert_array_equal(image.view(np.uint32), expected)
    assert codes(result) == findings


@pytest.mark.parametrize("target", ["a5", "a2a3"])
def test_a_prefetch_changes_nothing(target):
    """A hint: the tile keeps what it holds."""
    k = Kernel(target)
    tile = k.tile("tile", "f32", 8, 16, (5, 13))
    k.load("before", tile)
    k.op("pto.tprefetch", [k.view("x", "f32", (5, 13), (16, 1), shape=(8, 16))], [tile])
    k.store(tile, "after")
    before = np.arange(65, dtype=np.float32)
    args = {"before": before, "x": np.ones(128, np.float32), "after": np.zeros_like(before)}
    np.testing.assert_array_equal(k.run(args).outputs["after"], before)


DN: dict[str, tuple[tuple[int, int], tuple[int, int], Window, list[str]]] = {
    "plain": ((16, 6), (16, 6), {"sizes": (16, 6), "strides": (1, 16)}, []),
    "columns apart": (
        (16, 6), (16, 6), {"sizes": (16, 6), "shape": (40, 6), "strides": (1, 40)}, [],
    ),
    "outer columns": (
        (16, 6), (16, 6),
        {
            "sizes": (1, 1, 2, 16, 3),
            "shape": (1, 1, 2, 20, 3),
            "strides": (0, 0, 500, 1, 20),
        },
        [],
    ),
    "fewer valid columns": (
        (16, 6), (16, 4), {"sizes": (16, 6), "strides": (1, 16)}, ["PTO6102"],
    ),
    "fewer valid rows": ((16, 6), (8, 6), {"sizes": (16, 6), "strides": (1, 16)}, ["PTO6103"]),
}  # fmt: skip


@pytest.mark.parametrize("name", DN)
def test_load_of_columns(name):
    shape, valid, window, findings = DN[name]
    source = counting("f32", 2000)
    window = {**window, "layout": "dn"}
    image, result = loaded_image("a5", "f32", shape, source, window, valid=valid, layout="dn")
    expected = background("f32", prod(shape))
    sizes, strides = memory.five(window["sizes"], window["strides"])
    for to, at in memory.dn(sizes, strides, shape, valid).items():
        expected[to] = patterns(source)[at]
    np.testing.assert_array_equal(image.view(np.uint32), expected)
    assert codes(result) == findings


NZ: dict[str, tuple[tuple[int, int], tuple[int, int], Window, list[str]]] = {
    "blocks of 16 rows": ((32, 48), (32, 48), {"sizes": (1, 3, 2, 16, 16)}, []),
    "blocks in one piece": ((32, 48), (32, 48), {"sizes": (3, 1, 32, 1, 16)}, []),
    "blocks apart": (
        (32, 48), (32, 48),
        {"sizes": (1, 3, 2, 16, 16), "strides": (9000, 700, 256, 16, 1)}, [],
    ),
    "two outer dimensions": (
        (16, 64), (16, 64),
        {"sizes": (2, 2, 1, 16, 16), "strides": (2000, 600, 256, 16, 1)}, [],
    ),
    "fewer valid rows": (
        (32, 48), (20, 48), {"sizes": (1, 3, 2, 16, 16)}, ["PTO6103"],
    ),
    "a part of the last block": ((32, 48), (32, 40), {"sizes": (1, 3, 2, 16, 16)}, []),
    "strides inside blocks do not count": (
        (32, 48), (32, 48),
        {"sizes": (1, 3, 2, 16, 16), "strides": (9000, 700, 300, 16, 1)}, ["PTO6106"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NZ)
def test_load_of_column_blocks(name):
    shape, valid, window, findings = NZ[name]
    source = counting("f16", 9000)
    image, result = loaded_image("a5", "f16", shape, source, window, valid=valid, layout="nz")
    expected = background("f16", prod(shape))
    sizes, strides = memory.five(window["sizes"], strides_of(window))
    for to, at in memory.nz(sizes, strides, shape, valid, 16).items():
        expected[to] = patterns(source)[at]
    np.testing.assert_array_equal(image.view(np.uint16), expected)
    assert codes(result) == findings


@pytest.mark.parametrize("name", [n for n in ND if n != "repeated row"])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_store_of_rows(target, name):
    shape, valid, window, findings = ND[name]
    source = counting("f32", prod(shape))
    k = Kernel(target)
    whole = k.tile("whole", "f32", *shape, addr=0)
    tile = k.tile("tile", "f32", *shape, valid, addr=0)
    k.load("x", whole)
    args: dict[str, Any] = {"x": source, "y": np.zeros(6000, np.float32)}
    if prod(valid) != prod(window["sizes"]):
        # The assembler compares numbers of elements where they are constants.
        k.lines.pop(1)
        args |= {"rows": valid[0], "cols": valid[1]}
        extents = (k.arg("rows", "index"), k.arg("cols", "index"))
        tile = k.dynamic("tile", "f32", *shape, extents, addr=0)
    k.store(tile, "y", **window)
    result = k.run(args)
    expected = np.zeros(6000, np.uint32)
    sizes, strides = memory.five(window["sizes"], strides_of(window))
    for at, to in memory.nd(sizes, strides, shape, valid).items():
        expected[base_of(window) + to] = patterns(source)[at]
    np.testing.assert_array_equal(patterns(result.outputs["y"]), expected)
    assert codes(result) == findings


def test_a_window_with_more_rows_than_the_tile_traps():
    with pytest.raises(ptosim.Trap, match="the window has 17 rows, the tile only 16"):
        loaded_image("a5", "f32", (16, 32), counting("f32", 600), {"sizes": (17, 32)})


def test_a_transfer_does_not_convert():
    k = Kernel("a5")
    tile = k.tile("tile", "f32", 16, 32)
    view = k.view("x", "f16", (16, 32))
    k.op("pto.tload", [view], [tile])
    with pytest.raises(ptosim.ProgramError, match="same bitwidth"):
        k.run({"x": counting("f16", 512)})


# -- padding --------------------------------------------------------------------------------------

PADS = [  # dtype, pad code, pattern
    ("f32", 1, 0), ("f32", 2, 0x7F7FFFFF), ("f32", 3, 0xFF7FFFFF),
    ("f16", 1, 0), ("f16", 2, 0x7BFF), ("f16", 3, 0xFBFF),
    ("bf16", 2, 0x7F7F), ("bf16", 3, 0xFF7F),
    ("i32", 2, 0x7FFFFFFF), ("i32", 3, 0x80000000), ("i16", 3, 0x8000), ("i8", 2, 0x7F),
    ("ui8", 2, 0xFF), ("ui8", 3, 0), ("ui16", 2, 0xFFFF), ("ui32", 3, 0),
    ("f32", 0, 0xFFFFFFFF), ("f16", 0, 0xFFFF), ("i8", 0, 0xFF),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "pad", "pattern"), PADS)
def test_the_rest_of_the_last_block_is_padded(dtype, pad, pattern):
    """Only the block: without a pad code it is undefined (FF), and further blocks stay."""
    width = 32 // ARRAYS[dtype].itemsize
    shape, valid = (5, 4 * width), (3, width + 3)
    source = counting(dtype, prod(valid))
    k = Kernel("a5")
    image = Image(k, prod(shape) * ARRAYS[dtype].itemsize)
    image.fill(0xA5)
    tile = k.tile("tile", dtype, *shape, valid, addr=0, pad=pad)
    k.load("x", tile)
    image.read()
    got = image.of(k.run({"x": source, **image.args}), f"u{ARRAYS[dtype].itemsize}")
    expected = np.full(len(got), background(dtype, 1)[0])
    for to, at in memory.nd(*memory.five(valid, (valid[1], 1)), shape, valid).items():
        expected[to] = patterns(source)[at]
    for to in memory.padded(shape, valid[0], valid[1], width, by_rows=True):
        expected[to] = pattern
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("target", ["a5", "a2a3"])
def test_padding_follows_the_rows_of_the_window(target):
    shape, valid, window = (16, 32), (3, 5), {"sizes": (7, 5)}
    image, _ = loaded_image(target, "f32", shape, counting("f32", 35), window, valid=valid, pad=1)
    expected = background("f32", prod(shape))
    for to, at in memory.nd(*memory.five((7, 5), (5, 1)), shape, valid).items():
        expected[to] = patterns(counting("f32", 35))[at]
    for to in memory.padded(shape, 7, 5, 8, by_rows=True):
        expected[to] = 0
    np.testing.assert_array_equal(image.view(np.uint32), expected)


def test_columns_are_padded_downwards():
    shape, valid = (16, 6), (11, 5)
    window = {"sizes": valid, "strides": (1, 11), "layout": "dn"}
    source = counting("f32", 55)
    image, _ = loaded_image("a5", "f32", shape, source, window, valid=valid, pad=2, layout="dn")
    expected = background("f32", prod(shape))
    for to, at in memory.dn(*memory.five(valid, (1, 11)), shape, valid).items():
        expected[to] = patterns(source)[at]
    for to in memory.padded(shape, 5, 11, 8, by_rows=False):
        expected[to] = 0x7F7FFFFF
    np.testing.assert_array_equal(image.view(np.uint32), expected)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_infinite_padding_by_switch(target):
    image, _ = loaded_image(
        target, "f32", (1, 8), counting("f32", 5), {"sizes": (1, 5)},
        valid=(1, 5), pad=3, options={"switches": {"pad.float": "inf"}},
    )  # fmt: skip
    assert image.view(np.uint32)[5:].tolist() == [0xFF800000] * 3


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(("pad", "pattern"), [(0, 0), (2, 0x7F800000)])
def test_the_cpu_simulator_fills_the_whole_tile(target, pad, pattern):
    image, _ = loaded_image(
        target, "f32", (8, 32), counting("f32", 15), {"sizes": (3, 5)},
        valid=(3, 5), pad=pad, options={"profile": "cpu"},
    )  # fmt: skip
    got = image.view(np.uint32).reshape(8, 32)
    np.testing.assert_array_equal(got[:3, :5], patterns(counting("f32", 15)).reshape(3, 5))
    assert (got[3:] == pattern).all()
    assert (got[:, 5:] == pattern).all()


# -- the end of a buffer --------------------------------------------------------------------------


def window_kernel(row: int, sizes: tuple[int, int] = (16, 32)) -> Kernel:
    """Load 16 rows from a row on, of a view of 16 rows; the row is an argument."""
    k = Kernel("a5")
    tile = k.tile("tile", "f32", *sizes)
    pointer = k.arg("x", "!pto.ptr<f32>")
    start = k.arg("row", "index")
    c0, c1, c16, c32 = (k.const(n) for n in (0, 1, 16, 32))
    whole, part = "!pto.tensor_view<16x32xf32>", "!pto.partition_tensor_view<16x32xf32>"
    k.line(
        f"%v = pto.make_tensor_view {pointer}, shape = [{c16}, {c32}], "
        f"strides = [{c32}, {c1}] : {whole}"
    )
    k.line(
        f"%p = pto.partition_view %v, offsets = [{start}, {c0}], sizes = [{c16}, {c32}] "
        f": {whole} -> {part}"
    )
    k.op("pto.tload", [("%p", part)], [tile])
    k.store(tile, "y")
    return k


def test_outside_the_view_inside_the_buffer_is_a_warning():
    source = counting("f32", 20 * 32)
    result = window_kernel(3).run({"x": source, "row": 3, "y": np.zeros(512, np.float32)})
    np.testing.assert_array_equal(result.outputs["y"], source[96 : 96 + 512])
    assert codes(result) == ["PTO6101"]


@pytest.mark.parametrize("row", [-1, 5, 1000])
def test_outside_the_buffer_is_a_trap(row):
    source = counting("f32", 20 * 32)
    with pytest.raises(ptosim.Trap, match="reaches outside `x`") as caught:
        window_kernel(row).run({"x": source, "row": row, "y": np.zeros(512, np.float32)})
    assert caught.value.diagnostics[-1].code == "PTO6001"


def test_a_buffer_too_small_for_a_static_view_is_a_usage_error():
    with pytest.raises(ptosim.UsageError, match="has 511 elements; the program's views reach 512"):
        window_kernel(0).run({"x": counting("f32", 511), "row": 0, "y": np.zeros(512, np.float32)})


def test_a_row_longer_than_its_window_stays_inside_the_buffer():
    source = counting("f32", 16 * 24 + 7)
    with pytest.raises(ptosim.Trap, match="reaches outside `x`"):
        loaded_image("a5", "f32", (16, 32), source, {"sizes": (16, 24)}, valid=(16, 32))


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_an_empty_tile_moves_nothing(target):
    k = Kernel(target)
    rows = k.arg("rows", "index")
    tile = k.dynamic("tile", "f32", 16, 32, (rows, rows))
    k.load("x", tile, (16, 32))
    k.store(tile, "y", (16, 32))
    args = {"x": counting("f32", 512), "y": np.full(512, 7, np.float32), "rows": 0}
    assert (k.run(args).outputs["y"] == 7).all()


# -- atomic addition ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "i16", "i8"])
def test_atomic_addition(dtype):
    kind = ARRAYS[dtype]
    rng = np.random.default_rng(5)
    x, y = (rng.integers(-100, 100, (16, 32)).astype(kind) for _ in range(2))
    k = Kernel("a5")
    tile = k.tile("tile", dtype, 16, 32)
    k.load("x", tile)
    k.store(tile, "y", attrs="atomicType = #pto<atomic_type atomic_add>")
    got = k.run({"x": x, "y": y}).outputs["y"]
    wide = x.astype(np.int64) + y.astype(np.int64)
    np.testing.assert_array_equal(got, wide.astype(kind))


def test_atomic_addition_into_one_row():
    """A window that repeats a row adds every row of the tile to it."""
    x = counting("f32", 16 * 32).view(np.uint32).astype(np.float32).reshape(16, 32)
    k = Kernel("a5")
    tile = k.tile("tile", "f32", 16, 32)
    k.load("x", tile)
    k.store(tile, "y", (16, 32), strides=(0, 1), attrs="atomicType = #pto<atomic_type atomic_add>")
    got = k.run({"x": x, "y": np.ones(32, np.float32)}).outputs["y"]
    np.testing.assert_array_equal(got, x.sum(0) + 1)


def test_no_atomic_addition_of_other_types():
    k = Kernel("a5")
    tile = k.tile("tile", "f8E4M3FN", 16, 32)
    k.load("x", tile)
    k.store(tile, "y", attrs="atomicType = #pto<atomic_type atomic_add>")
    source = counting("f8E4M3FN", 512)
    with pytest.raises(ptosim.Trap, match="no atomic addition of f8E4M3FN"):
        k.run({"x": source, "y": source})
