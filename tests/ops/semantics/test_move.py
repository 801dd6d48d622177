"""TMOV between tiles: copies with their granularity, layouts, exponents, operand memories."""

from __future__ import annotations

from itertools import product

import ml_dtypes
import numpy as np
import pytest

import ptosim
from tests.ops.semantics.harness import mixture
from tests.ops.semantics.helpers import (
    BACKGROUND,
    BITS,
    Image,
    background,
    codes,
    counting,
    patterns,
)
from tests.oracle import layouts
from tests.support.text import Kernel

Shape = tuple[int, int]


def moved(
    target: str,
    dtype: str,
    source: tuple[Shape, Shape, str],
    dest: tuple[Shape, Shape, str],
    **dst_keys,
) -> tuple[np.ndarray, np.ndarray, ptosim.Result]:
    """Move between vec tiles of (shape, valid, layout). Returns the bytes of the destination, which
    held BACKGROUND before, and the source's elements by offset."""
    k = Kernel(target)
    size = dest[0][0] * dest[0][1] * BITS[dtype] // 8
    extra = 4096 if "compact" in dst_keys else 0
    image = Image(k, size + extra)
    image.fill(BACKGROUND)
    at = size + extra
    whole = k.tile("whole", dtype, *source[0], layout=source[2], addr=at)
    src = k.tile("src", dtype, *source[0], source[1], layout=source[2], addr=at)
    dst = k.tile("dst", dtype, *dest[0], dest[1], layout=dest[2], addr=0, **dst_keys)
    k.load("x", whole)
    k.op("pto.tmov", [src], [dst])
    image.read()
    values = counting(dtype, source[0][0] * source[0][1])
    result = k.run({"x": values, **image.args})
    return image.of(result), patterns(values), result


# -- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "block"), [("f32", 8), ("f16", 16), ("ui8", 32)])
@pytest.mark.parametrize("valid", [(5, 3), (7, 40), (8, 64)])
def test_a2a3_copies_whole_blocks(dtype, block, valid):
    shape = (8, 64)
    image, values, result = moved("a2a3", dtype, (shape, valid, "nd"), (shape, valid, "nd"))
    expected = background(dtype, 512).reshape(shape)
    end = min(-(-valid[1] // block) * block, 64)
    expected[: valid[0], :end] = values.reshape(shape)[: valid[0], :end]
    np.testing.assert_array_equal(image.view(expected.dtype), expected.reshape(-1))
    assert not codes(result)


@pytest.mark.parametrize("dtype", ["f32", "ui8", "i64"])
def test_a5_copies_valid_elements_only(dtype):
    image, values, result = moved("a5", dtype, ((8, 64), (6, 35), "nd"), ((16, 96), (7, 33), "nd"))
    expected = background(dtype if dtype != "i64" else "i64", 16 * 96).reshape(16, 96)
    expected[:6, :33] = values.reshape(8, 64)[:6, :33]
    np.testing.assert_array_equal(image.view(expected.dtype), expected.reshape(-1))
    assert not codes(result)


@pytest.mark.parametrize("name", ["pto.tmov", "pto.tmov.v2v"])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_shape_that_only_the_run_knows(target, name):
    """Whole blocks on A2/A3, valid elements on A5; nothing of an empty shape. Bits of any kind."""
    x = mixture("f32", 8 * 32, 3)
    for rows, cols in ((3, 5), (8, 32), (0, 5), (3, 0)):
        k = Kernel(target)
        image = Image(k, 8 * 32 * 4)
        image.fill(BACKGROUND)
        k.load("x", k.tile("whole", "f32", 8, 32, addr=0x4000))
        extents = (k.arg("rows", "index"), k.arg("cols", "index"))
        src = k.dynamic("src", "f32", 8, 32, extents, addr=0x4000)
        k.op(name, [src], [k.dynamic("dst", "f32", 8, 32, extents, addr=0)])
        image.read()
        result = k.run({"x": x, "rows": rows, "cols": cols, **image.args})
        expected = background("f32", 8 * 32).reshape(8, 32)
        wide = -(-cols // 8) * 8 if target == "a2a3" and rows else cols
        expected[:rows, :wide] = patterns(x).reshape(8, 32)[:rows, :wide]
        np.testing.assert_array_equal(image.of(result, np.uint32).reshape(8, 32), expected)


@pytest.mark.parametrize("target", ["a5", "a2a3"])
def test_columns_copy_as_columns(target):
    image, values, result = moved(target, "f32", ((16, 4), (16, 3), "dn"), ((16, 4), (16, 3), "dn"))
    expected = background("f32", 64)
    expected[:48] = values[:48]
    np.testing.assert_array_equal(image.view(np.uint32), expected)
    assert not codes(result)


def test_another_element_type_of_the_same_width_keeps_the_bits():
    k = Kernel("a5")
    src, dst = k.tile("src", "f16", 16, 64), k.tile("dst", "bf16", 16, 64)
    k.load("x", src)
    k.op("pto.tmov", [src], [dst])
    k.store(dst, "y")
    x = counting("f16", 1024)
    got = k.run({"x": x, "y": np.zeros(1024, ml_dtypes.bfloat16)}).outputs["y"]
    np.testing.assert_array_equal(patterns(got), patterns(x))


@pytest.mark.parametrize(
    ("target", "layout", "expected"),
    [("a5", "zz", ["PTO7002"]), ("a5", "nn", ["PTO7002"]), ("a2a3", "nz", ["PTO7002"])],
)
def test_layouts_that_do_not_convert_warn(target, layout, expected):
    image, values, result = moved(
        target, "ui8", ((32, 32), (32, 32), "nd"), ((32, 32), (32, 32), layout)
    )
    np.testing.assert_array_equal(image, values)
    assert codes(result) == expected


# -- layouts of A5 --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["ui8", "f16", "f32"])
@pytest.mark.parametrize("valid", [(32, 64), (30, 64), (17, 41), (1, 3)])
def test_to_nz(dtype, valid):
    """Rows of the source, columns of the destination; the rest is not written."""
    size = BITS[dtype] // 8
    rows = -(-valid[0] // 16) * 16
    image, values, result = moved("a5", dtype, ((32, 64), valid, "nd"), ((rows, 64), valid, "nz"))
    expected = background(dtype, rows * 64)
    for r, c in product(range(valid[0]), range(valid[1])):
        expected[layouts.move_to_nz((r, c), rows, size)] = values[r * 64 + c]
    np.testing.assert_array_equal(image.view(expected.dtype), expected)
    assert not codes(result)


def test_to_nz_with_one_more_row():
    image, values, result = moved(
        "a5", "f16", ((32, 64), (32, 64), "nd"), ((33, 64), (32, 64), "nz"), compact=2
    )
    expected = background("f16", 33 * 64)
    for r, c in product(range(32), range(64)):
        expected[layouts.move_to_nz((r, c), 33, 2)] = values[r * 64 + c]
    np.testing.assert_array_equal(image.view(np.uint16)[: 33 * 64], expected)
    assert not codes(result)


def test_to_nz_warns_where_consumers_see_other_blocks():
    _, _, result = moved("a5", "f16", ((32, 64), (12, 64), "nd"), ((32, 64), (12, 64), "nz"))
    assert codes(result) == ["PTO7003"]


def test_to_nz_of_four_bit_elements():
    k = Kernel("a5")
    src = k.tile("src", "f4E2M1FN", 32, 128)
    dst = k.tile("dst", "f4E2M1FN", 32, 128, layout="nz")
    k.load("x", src)
    k.op("pto.tmov", [src], [dst])
    k.store(dst, "y", (2, 1, 32, 1, 64))
    x = counting("f4E2M1FN", 32 * 128)
    got = k.run({"x": x, "y": np.zeros_like(x)}).outputs["y"].view(np.uint8)
    for r, c in product(range(32), range(128)):
        assert got[c // 64 * 32 * 64 + r * 64 + c % 64] == x.view(np.uint8)[r * 128 + c]


@pytest.mark.parametrize("dtype", ["ui8", "f16", "f32"])
def test_to_zn(dtype):
    size = BITS[dtype] // 8
    image, values, result = moved(
        "a5", dtype, ((64, 64), (64, 64), "nd"), ((64, 64), (64, 64), "zn")
    )
    expected = np.zeros_like(values)
    for r, c in product(range(64), range(64)):
        expected[layouts.move_to_zn((r, c), 64, size)] = values[r * 64 + c]
    np.testing.assert_array_equal(image.view(expected.dtype), expected)
    assert not codes(result)


def test_to_zn_writes_whole_boxes_from_dense_rows():
    image, values, result = moved(
        "a5", "f16", ((32, 64), (24, 40), "nd"), ((32, 64), (24, 40), "zn")
    )
    expected = background("f16", 32 * 64)
    for r, c in product(range(16), range(32)):
        expected[layouts.move_to_zn((r, c), 40, 2)] = values[r * 40 + c]
    np.testing.assert_array_equal(image.view(np.uint16), expected)
    assert codes(result) == ["PTO7003", "PTO7003"]


# -- exponents ------------------------------------------------------------------------------------


def exponent_kernel(
    shape: Shape, valid: Shape, dst_shape: Shape, dst_valid: Shape, axis: int, tmp: int = 4096
) -> tuple[Kernel, Image, Image]:
    """Source at 0, destination at 64 KiB, scratch at 128 KiB; the first two can be looked at."""
    k = Kernel("a5")
    before = Image(k, 8192, at=0, name="source")
    after = Image(k, 8192, at=0x10000, name="dest")
    before.fill(counting("ui8", 8192))
    after.fill(BACKGROUND)
    src = k.tile("src", "ui8", *shape, valid, addr=0)
    dst = k.tile("dst", "ui8", *dst_shape, dst_valid, layout="zz", fractal=32, addr=0x10000)
    scratch = k.tile("scratch", "ui8", 1, tmp, addr=0x20000)
    k.op("pto.tmov", [src, scratch], [dst], f"grp_axis = {axis}")
    before.read()
    after.read()
    return k, before, after


@pytest.mark.parametrize(("rows", "groups"), [(16, 2), (32, 4), (31, 8), (1, 2), (13, 6)])
def test_exponents_of_rows(rows, groups):
    padded = -(-rows // 16) * 16
    k, source, dest = exponent_kernel((1, 1024), (1, 1024), (padded, groups), (rows, groups), 1)
    result = k.run({**source.args, **dest.args})
    values = counting("ui8", 8192)
    expected = np.full(8192, BACKGROUND, np.uint8)
    for r, g in product(range(padded), range(groups)):
        at = layouts.exponent_zz(r, g, groups)
        expected[at] = values[r * groups + g] if r < rows else 0
    np.testing.assert_array_equal(dest.of(result), expected)
    values[rows * groups : padded * groups] = 0  # the source is cleared up to whole boxes
    np.testing.assert_array_equal(source.of(result), values)
    assert not codes(result)


@pytest.mark.parametrize(("groups", "cols"), [(2, 32), (4, 128), (6, 64)])
def test_exponents_of_columns(groups, cols):
    shape = (groups, cols)
    k, source, dest = exponent_kernel(shape, shape, (cols, groups), (cols, groups), 0)
    result = k.run({**source.args, **dest.args})
    values = counting("ui8", 8192)
    expected = np.full(8192, BACKGROUND, np.uint8)
    for g, c in product(range(groups), range(cols)):
        expected[layouts.exponent_dn_zz(g, c, groups)] = values[g * cols + c]
    np.testing.assert_array_equal(dest.of(result), expected)
    np.testing.assert_array_equal(source.of(result), values)
    assert not codes(result)


def test_one_row_of_exponent_columns_moves_nothing():
    k, source, dest = exponent_kernel((1, 32), (1, 32), (16, 2), (16, 2), 0)
    result = k.run({**source.args, **dest.args})
    assert (dest.of(result) == BACKGROUND).all()
    assert codes(result) == ["PTO7003"]


@pytest.mark.parametrize(
    ("shape", "valid", "tmp", "expected"),
    [
        ((16, 32), (16, 4), 4096, ["PTO7003"]),  # rows of the source are 32 bytes apart
        ((1, 64), (1, 64), 32, ["PTO6105"]),  # 68 bytes of scratch are used
    ],
)
def test_exponent_moves_that_surprise(shape, valid, tmp, expected):
    k, source, dest = exponent_kernel(shape, valid, (16, 4), (16, 4), 1, tmp)
    assert codes(k.run({**source.args, **dest.args})) == expected


def test_exponents_come_in_pairs():
    k, source, dest = exponent_kernel((1, 64), (1, 64), (16, 4), (16, 3), 1)
    with pytest.raises(ptosim.Trap, match="takes pairs"):
        k.run({**source.args, **dest.args})


# -- operand memories -----------------------------------------------------------------------------


class Peek:
    """An observer that keeps the bytes of a space after the last instruction."""

    def __init__(self, space: str) -> None:
        self.space = space
        self.data = b""

    def on_commit(self, core, inst, bound) -> None:
        if self.space in core.spaces:
            self.data = bytes(core.spaces[self.space].data)


OPERANDS = [  # target, space, layout of the operand
    ("a2a3", "left", "zz"), ("a2a3", "right", "zn"), ("a5", "left", "nz"), ("a5", "right", "zn"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "loc", "layout"), OPERANDS)
@pytest.mark.parametrize("dtype", ["f16", "f32", "ui8"])
def test_operands_of_the_cube(target, loc, layout, dtype):
    shape = (32, 64)
    k = Kernel(target)
    mat = k.tile("mat", dtype, *shape, layout="nz", loc="mat")
    operand = k.tile("operand", dtype, *shape, layout=layout, loc=loc)
    k.load("x", mat, shape)
    k.op("pto.tmov", [mat], [operand])
    peek = Peek(loc)
    values = counting(dtype, 2048)
    result = k.run({"x": values}, observers=[peek])
    kind = patterns(values).dtype
    got = np.frombuffer(peek.data, kind, 2048)
    for r, c in product(range(32), range(64)):
        assert (
            got[layouts.tile_offset(layout, shape, (r, c), BITS[dtype])]
            == patterns(values)[r * 64 + c]
        )
    assert not codes(result)


@pytest.mark.parametrize(
    ("target", "src", "dst"),
    [("a2a3", "f32", "f32"), ("a2a3", "f16", "f32"), ("a2a3", "i32", "i32"), ("a5", "bf16", "f32")],
)
def test_bias_widens(target, src, dst):
    k = Kernel(target)
    mat = k.tile("mat", src, 1, 64, loc="mat")
    bias = k.tile("bias", dst, 1, 64, loc="bias")
    k.load("x", mat)
    k.op("pto.tmov", [mat], [bias])
    kind = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "bf16": ml_dtypes.bfloat16}
    x = np.arange(-32, 32).astype(kind[src])
    peek = Peek("bias")
    result = k.run({"x": x}, observers=[peek])
    np.testing.assert_array_equal(np.frombuffer(peek.data, kind[dst], 64), x.astype(kind[dst]))
    assert not codes(result)


@pytest.mark.parametrize(("target", "src", "dst"), [("a2a3", "bf16", "f32"), ("a5", "f32", "i32")])
def test_bias_types_that_the_target_lacks(target, src, dst):
    k = Kernel(target)
    mat = k.tile("mat", src, 1, 64, loc="mat")
    k.op("pto.tmov", [mat], [k.tile("bias", dst, 1, 64, loc="bias")])
    with pytest.raises(ptosim.PtosimError, match="bias"):
        k.run({})


@pytest.mark.parametrize(
    ("loc", "cols", "expected"), [("bias", 24, ["PTO6107"]), ("scaling", 8, ["PTO6107"])]
)
def test_block_sizes(loc, cols, expected):
    dtype = "f32" if loc == "bias" else "i64"
    k = Kernel("a5")
    mat = k.tile("mat", dtype, 1, cols, loc="mat")
    k.load("x", mat)
    k.op("pto.tmov", [mat], [k.tile("dst", dtype, 1, cols, loc=loc)])
    assert codes(k.run({"x": counting(dtype, cols)})) == expected


def test_scaling_words():
    k = Kernel("a2a3")
    mat = k.tile("mat", "i64", 1, 32, loc="mat")
    k.load("x", mat)
    k.op("pto.tmov", [mat], [k.tile("words", "i64", 1, 32, loc="scaling")])
    x = np.arange(32, dtype=np.int64) << 33
    peek = Peek("scaling")
    assert not codes(k.run({"x": x}, observers=[peek]))
    np.testing.assert_array_equal(np.frombuffer(peek.data, np.int64, 32), x)


def test_vec_to_mat_on_a5_changes_the_layout():
    k = Kernel("a5")
    vec = k.tile("vec", "f16", 32, 64)
    mat = k.tile("mat", "f16", 32, 64, layout="nz", loc="mat")
    k.load("x", vec)
    k.op("pto.tmov", [vec], [mat])
    peek = Peek("mat")
    values = counting("f16", 2048)
    k.run({"x": values}, observers=[peek])
    got = np.frombuffer(peek.data, np.uint16, 2048)
    for r, c in product(range(32), range(64)):
        assert got[layouts.tile_offset("nz", (32, 64), (r, c), 16)] == patterns(values)[r * 64 + c]
