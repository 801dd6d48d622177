"""Addresses: an element that was loaded is where the description of its layout says."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.helpers import BITS, codes, counting, loaded_image, patterns
from tests.oracle import layouts
from tests.support.text import Kernel

APRIL = {"compat": "2026-04"}  # August loads ND, DN and NZ into the vector memory of A5


@pytest.mark.parametrize("dtype", ["ui8", "f16", "f32"])
@pytest.mark.parametrize("layout", ["nd", "dn", "nz", "zz", "zn", "nn"])
def test_every_layout(layout, dtype):
    shape = (64, 96)
    source = counting(dtype, 64 * 96)
    window = {"sizes": shape}
    if layout == "dn":
        window |= {"strides": (1, 64), "layout": "dn"}
    image, _ = loaded_image("a5", dtype, shape, source, window, options=APRIL, layout=layout)
    got = image.view(f"u{source.dtype.itemsize}")
    expected = patterns(source).reshape(shape if layout != "dn" else (96, 64))
    for r, c in product(range(0, 64, 3), range(96)):
        offset = layouts.tile_offset(layout, shape, (r, c), BITS[dtype])
        assert got[offset] == expected[(r, c) if layout != "dn" else (c, r)], (r, c, offset)


@pytest.mark.parametrize(("layout", "shape"), [("zz", (32, 6)), ("nn", (6, 32))])
def test_scale_boxes_of_32_bytes(layout, shape):
    source = counting("ui8", shape[0] * shape[1])
    image, _ = loaded_image(
        "a5", "ui8", shape, source, {"sizes": shape}, options=APRIL, layout=layout, fractal=32
    )
    expected = source.reshape(shape)
    for at in product(range(shape[0]), range(shape[1])):
        assert image[layouts.tile_offset(layout, shape, at, 8, 32)] == expected[at]


@pytest.mark.parametrize("layout", ["nd", "nz", "zz"])
def test_four_bit_elements_share_bytes(layout):
    shape = (128, 128)
    source = counting("f4E2M1FN", 128 * 128)
    image, _ = loaded_image(
        "a5", "f4E2M1FN", shape, source, {"sizes": shape}, options=APRIL, layout=layout
    )
    expected = source.view(np.uint8).reshape(shape)
    for at in product(range(0, 128, 7), range(128)):
        offset = layouts.tile_offset(layout, shape, at, 4)
        assert image[offset // 2] >> (4 * (offset % 2)) & 15 == expected[at], (at, offset)


@pytest.mark.parametrize("layout", ["nd", "nz"])
def test_four_bit_round_trip(layout):
    source = counting("f4E2M1FN", 64 * 128)
    k = Kernel("a5")
    tile = k.tile("tile", "f4E2M1FN", 64, 128, layout=layout)
    sizes = (2, 1, 64, 1, 64) if layout == "nz" else (64, 128)
    k.load("x", tile, sizes)
    k.store(tile, "y", sizes)
    result = k.run({"x": source, "y": np.zeros_like(source)})
    np.testing.assert_array_equal(result.outputs["y"].view(np.uint8), source.view(np.uint8))
    assert not codes(result)


def test_four_bit_rows_are_whole_bytes():
    k = Kernel("a5")
    k.load("x", k.tile("tile", "f4E2M1FN", 16, 64, (16, 63)), (16, 64))
    with pytest.raises(ptosim.Trap, match="whole bytes"):
        k.run({"x": counting("f4E2M1FN", 16 * 64)})


@pytest.mark.parametrize("layout", ["nz", "zn"])
def test_normal_compact_tiles_follow_the_valid_shape(layout):
    source = counting("f16", 20 * 40)
    image, _ = loaded_image(
        "a5", "f16", (64, 64), source, {"sizes": (20, 40)},
        layout=layout, valid=(20, 40), compact=1, options=APRIL,
    )  # fmt: skip
    expected = patterns(source).reshape(20, 40)
    for at in product(range(20), range(40)):
        offset = layouts.tile_offset(layout, (32, 48), at, 16)
        assert image.view(np.uint16)[offset] == expected[at]


def test_compact_tiles_with_one_more_row():
    source = counting("f16", 32 * 48)
    image, _ = loaded_image(
        "a5", "f16", (33, 48), source, {"sizes": (32, 48)},
        layout="nz", valid=(32, 48), compact=2,
    )  # fmt: skip
    expected = patterns(source).reshape(32, 48)
    for at in product(range(32), range(48)):
        offset = layouts.tile_offset("nz", (33, 48), at, 16)
        assert image.view(np.uint16)[offset] == expected[at]


PAIRS = [
    ("a2a3", "nd", "nz"), ("a2a3", "dn", "zn"),
    ("a5", "nd", "nz"), ("a5", "dn", "zn"), ("a5", "dn", "nz"), ("a5", "nd", "zn"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "view", "layout"), PAIRS)
def test_loads_into_mat_that_convert(target, view, layout):
    """Seen through a move to the left operand memory and, on A2/A3, through the bytes of mat."""
    shape = (32, 64)
    source = counting("f16", 32 * 64)
    k = Kernel(target)
    tile = k.tile("tile", "f16", *shape, layout=layout, loc="mat", addr=0)
    k.load("x", tile, shape, layout=view, strides=(1, 32) if view == "dn" else (64, 1))
    if target == "a2a3":
        k.store(k.tile("raw", "f16", 1, 2048, loc="mat", addr=0), "y")
    args = {"x": source} | ({"y": np.zeros_like(source)} if target == "a2a3" else {})
    result = k.run(args)
    assert not codes(result)
    if target == "a2a3":
        got = patterns(result.outputs["y"])
        expected = patterns(source).reshape((64, 32) if view == "dn" else shape)
        for r, c in product(range(32), range(64)):
            offset = layouts.tile_offset(layout, shape, (r, c), 16)
            assert got[offset] == expected[(c, r) if view == "dn" else (r, c)]


@pytest.mark.parametrize(
    ("target", "loc", "view", "layout"),
    [
        ("a2a3", "mat", "dn", "nz"), ("a2a3", "mat", "nd", "zn"), ("a5", "vec", "nd", "nz"),
        ("a5", "vec", "dn", "nd"), ("a2a3", "vec", "nd", "dn"),
    ],
)  # fmt: skip
def test_pairs_of_layouts_that_the_library_refuses(target, loc, view, layout):
    k = Kernel(target)
    tile = k.tile("tile", "f16", 32, 64, layout=layout, loc=loc)
    k.load("x", tile, (32, 64), layout=view, strides=(1, 32) if view == "dn" else (64, 1))
    result = k.run({"x": counting("f16", 32 * 64)})
    assert codes(result) == ["PTO6104"]
