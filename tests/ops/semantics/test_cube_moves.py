"""Moves around the cube core, by every name that they have: L1 to L0, bias and scaling memory; the
accumulator to L1, UB and global memory with a scale for each column; UB to L1; windows of all of them.

Expected images come from the descriptions of the layouts: one address for each element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.acc_harness import Filled, word
from tests.ops.semantics.helpers import ARRAYS, codes
from tests.oracle import cube, layouts
from tests.support.text import LAYOUTS, Kernel, Tile

ONE_CORE = "2026-04"
"""April lets one core execute a body of both kinds; August gives each kind its cores."""

TARGETS = ["a2a3", "a5"]
NZ: dict[str, Any] = dict(zip(("blayout", "slayout"), LAYOUTS["nz"], strict=True))
RNG = np.random.default_rng(41)
BITS = {"i8": 8, "f16": 16, "bf16": 16, "f32": 32, "i64": 64}


def patterns(dtype: str, shape: tuple[int, int]) -> np.ndarray:
    """Every bit pattern may occur: NaN, infinities, zeros of both signs, subnormals."""
    raw = RNG.integers(0, 256, (*shape, BITS[dtype] // 8)).astype(np.uint8)
    return np.ascontiguousarray(raw).view(ARRAYS[dtype]).reshape(shape)


class Image:
    """The bytes of the destination after the last operation `name`."""

    def __init__(self, name: str, loc: str) -> None:
        self.name, self.loc = name, loc
        self.bytes = b""

    def on_commit(self, core, inst, bound) -> None:
        if inst.op is not None and inst.op.name == self.name and self.loc != "gm":
            owner = next(c for c in bound.binding.machine.cores if c.kind != "vector")
            dst = bound.binding.values["dst"]
            self.bytes = bytes(owner.space(self.loc).data[getattr(dst, "addr", 0) :][:65536])

    def at(self, layout: str, shape: tuple[int, int], dtype: str, at: tuple[int, int]) -> int:
        size = BITS[dtype] // 8
        fractal = 1024 if self.loc == "acc" else 512
        first = layouts.tile_offset(layout, shape, at, BITS[dtype], fractal) * size
        return int.from_bytes(self.bytes[first : first + size], "little")


def bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.dtype.itemsize}")


# -- L1 to L0 --------------------------------------------------------------------------------------

SIDES = {"left": ("m2l", "nz"), "right": ("m2r", "zn")}


def laid_out(target: str, loc: str) -> str:
    """The layout that a memory really has: L0A is ZZ on A2/A3."""
    return {"left": "zz" if target == "a2a3" else "nz", "right": "zn"}[loc]


@pytest.mark.parametrize("manual", [False, True])
@pytest.mark.parametrize("loc", SIDES)
@pytest.mark.parametrize("target", TARGETS)
def test_to_the_memories_of_the_cube(target, loc, manual):
    short, declared = SIDES[loc]
    name = f"pto.tmov.{short}" if manual else "pto.tmov"
    for dtype, shape, valid in (
        ("f16", (32, 64), None), ("f32", (32, 32), None), ("i8", (32, 64), (29, 43)),
        ("bf16", (48, 32), (1, 17)),
    ):  # fmt: skip
        k = Kernel(target)
        mat = k.tile("mat", dtype, *shape, valid, layout="nz", loc="mat")
        dst = k.tile("dst", dtype, *shape, valid, layout=declared, loc=loc)
        k.load("x", mat)
        k.op(name, [mat], [dst])
        x, look = patterns(dtype, valid or shape), Image(name, loc)
        result = k.run({"x": x}, uninit="zero", observers=[look])
        for at in np.ndindex(x.shape):
            assert look.at(laid_out(target, loc), shape, dtype, at) == bits(x)[at], (dtype, at)
        assert not codes(result)


@pytest.mark.parametrize("loc", SIDES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("place", [(0, 0), (16, 32), (32, 64)])
def test_a_window_to_the_memories_of_the_cube(target, loc, place):
    """Places known only to the run; the last window ends where the tile ends."""
    k = Kernel(target)
    mat = k.tile("mat", "f16", 64, 96, layout="nz", loc="mat")
    dst = k.tile("dst", "f16", 32, 32, layout=SIDES[loc][1], loc=loc)
    row, col = (k.arg(n, "index") for n in ("row", "col"))
    k.load("x", mat)
    k.op("pto.textract", [mat, (row, "index"), (col, "index")], [dst])
    x, look = patterns("f16", (64, 96)), Image("pto.textract", loc)
    k.run({"x": x, "row": place[0], "col": place[1]}, observers=[look])
    for r, c in np.ndindex(32, 32):
        expected = bits(x)[r + place[0], c + place[1]]
        assert look.at(laid_out(target, loc), (32, 32), "f16", (r, c)) == expected


@pytest.mark.parametrize(("row", "col", "code"), [
    (8, 0, "PTO6312"), (0, 17, "PTO6312"), (48, 0, "PTO6005"), (0, 80, "PTO6005"),
    (-16, 0, "PTO6005"),
])  # fmt: skip
def test_windows_that_l0_cannot_take(row, col, code):
    k = Kernel("a5")
    mat = k.tile("mat", "f16", 64, 96, layout="nz", loc="mat")
    dst = k.tile("dst", "f16", 32, 32, layout="nz", loc="left")
    place = [(k.arg(n, "index"), "index") for n in ("row", "col")]
    k.op("pto.textract", [mat, *place], [dst])
    with pytest.raises(ptosim.Trap) as stopped:
        k.run({"row": row, "col": col}, uninit="zero")
    assert stopped.value.diagnostics[-1].code == code


# -- bias and words --------------------------------------------------------------------------------

SPECIALS = [0.0, -0.0, np.nan, np.inf, -np.inf, 65504.0, -1e-7, 1.0 / 3]


@pytest.mark.parametrize("name", ["pto.tmov", "pto.tmov.m2b"])
@pytest.mark.parametrize(("target", "src"), [
    ("a2a3", "f16"), ("a2a3", "f32"), ("a5", "f16"), ("a5", "bf16"), ("a5", "f32"),
])  # fmt: skip
def test_half_precision_biases_are_widened(target, src, name):
    k = Kernel(target)
    mat = k.tile("mat", src, 1, 64, loc="mat")
    table = k.tile("table", "f32", 1, 64, loc="bias")
    k.load("x", mat)
    k.op(name, [mat], [table])
    with np.errstate(over="ignore"):
        x = np.tile(np.array(SPECIALS), 8).astype(ARRAYS[src])[None]
    look = Image(name, "bias")
    k.run({"x": x}, observers=[look])
    got = np.frombuffer(look.bytes[:256], np.float32)
    np.testing.assert_array_equal(got, x[0].astype(np.float32))
    np.testing.assert_array_equal(np.signbit(got[:2]), [False, True])


def test_biases_that_a_target_does_not_take():
    k = Kernel("a2a3")
    mat, table = k.tile("mat", "bf16", 1, 64, loc="mat"), k.tile("table", "f32", 1, 64, loc="bias")
    k.op("pto.tmov", [mat], [table])
    with pytest.raises(ptosim.PtosimError, match="bf16"):
        k.run({}, uninit="zero")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["pto.tmov", "pto.tmov.m2s", "pto.tmov.s2d"])
def test_words_reach_the_fixpipe_as_they_are(target, name):
    k = Kernel(target)
    mat = k.tile("mat", "i64", 1, 32, loc="mat")
    table = k.tile("table", "i64", 1, 32, loc="scaling")
    k.load("x", mat)
    k.op(name, [mat], [table])
    x, look = patterns("i64", (1, 32)), Image(name, "scaling")
    k.run({"x": x}, observers=[look])
    assert look.bytes[:256] == x.tobytes()


# -- accumulators ----------------------------------------------------------------------------------

SHAPE = (32, 32)
SCALES = [0.25, 1.0, 0.0078125, 3.0] * 8
OFFSETS = [0, -7, 255, -256] * 8
WORDS = [word(s, offset=o) for s, o in zip(SCALES, OFFSETS, strict=True)]


def sums(dtype: str, shape: tuple[int, int] = SHAPE) -> np.ndarray:
    """Values of both signs, beyond the range and between two integers; specials of floats."""
    values = RNG.integers(-2000, 2000, shape).astype(np.float64) / 2
    if dtype == "f32":
        values[0, :6] = [np.nan, np.inf, -np.inf, -0.0, 1e30, -1e30]
        return values.astype(np.float32)
    values[0, :2] = [2**31 - 1, -(2**31)]
    return values.astype(np.int32)


def code_of(value: Any, column: int) -> int:
    return cube.requantised(float(value), scale=SCALES[column], offset=OFFSETS[column], signed=True)


def fresh(k: Kernel, dtype: str, shape: tuple[int, int], valid=None) -> Tile:
    return k.tile("mat", dtype, *shape, valid, layout="nz", loc="mat")


def fixpipe_kernel(
    target: str, dtype: str, shape: tuple[int, int] = SHAPE
) -> tuple[Kernel, Tile, Tile, dict]:
    k = Kernel(target)
    acc = k.tile("acc", dtype, *shape, layout="nz", fractal=1024, loc="acc")
    words = k.tile("words", "i64", 1, 32, loc="mat")
    table = k.tile("table", "i64", 1, 32, loc="scaling")
    k.load("w", words)
    k.op("pto.tmov", [words], [table])
    return k, acc, table, {"w": np.array([WORDS], np.int64)}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "i32"])
@pytest.mark.parametrize("name", ["tmov", "tmov.fp", "tstore_fp", "tstore.fp"])
def test_an_accumulator_with_a_scale_for_each_column(target, dtype, name):
    k, acc, table, args = fixpipe_kernel(target, dtype)
    look = Image(f"pto.{name}", "mat")
    if "tstore" in name:
        k.op(f"pto.{name}", [acc, table], [k.view("y", "i8", SHAPE)])
        args["y"] = np.zeros(SHAPE, np.int8)
    else:
        k.op(f"pto.{name}", [acc, table], [fresh(k, "i8", SHAPE)])
    values = sums(dtype)
    done = k.run(args, observers=[Filled(values), look])
    for at in np.ndindex(SHAPE):
        got = int(done.outputs["y"][at]) & 0xFF if "y" in args else look.at("nz", SHAPE, "i8", at)
        assert got == code_of(values[at], at[1]) & 0xFF, (at, values[at])


@pytest.mark.parametrize("rows", [0, 5])
@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_only_the_run_knows(target, rows):
    """A dynamic valid shape: nothing outside it is written, and an empty one writes nothing."""
    k, _, table, args = fixpipe_kernel(target, "f32")
    n = k.arg("n", "index")
    acc = k.dynamic("part", "f32", *SHAPE, (n, k.const(29)), loc="acc", fractal=1024, **NZ)
    k.lines = [line for line in k.lines if "%acc " not in line]
    k.op("pto.tstore_fp", [acc, table], [k.view("y", "i8", (max(rows, 1), 29), (32, 1))])
    values = sums("f32")
    y = np.full(SHAPE, 99, np.int8)
    got = k.run({**args, "y": y, "n": rows}, observers=[Filled(values[:16])]).outputs["y"]
    for r, c in np.ndindex(SHAPE):
        inside = r < rows and c < 29
        assert got[r, c] == (code_of(values[r, c], c) if inside else 99)


@pytest.mark.parametrize(("target", "name"), [
    ("a5", "textract"), *((t, f"textract{p}fp") for t in TARGETS for p in "_."),
])  # fmt: skip
def test_a_window_of_an_accumulator(target, name):
    """The first word serves the first column of the window."""
    k, acc, table, args = fixpipe_kernel(target, "f32", (32, 64))
    dtype = "i8" if "fp" in name else "f16"
    place = [(k.arg(n, "index"), "index") for n in ("row", "col")]
    shape = (16, 32 if dtype == "i8" else 16)
    mat = fresh(k, dtype, shape)
    k.op(f"pto.{name}", [acc, *([table] if dtype == "i8" else []), *place], [mat])
    values, look = sums("f32", (32, 64)), Image(f"pto.{name}", "mat")
    k.run({**args, "row": 16, "col": 16}, uninit="zero", observers=[Filled(values), look])
    for r, c in np.ndindex(shape):
        value = values[16 + r, 16 + c]
        expected = code_of(value, c) & 0xFF if dtype == "i8" else int(np.float16(value).view("u2"))
        assert look.at("nz", shape, dtype, (r, c)) == expected, (r, c, value)


@pytest.mark.parametrize("name", ["tinsert", "tinsert_fp", "tinsert.fp"])
@pytest.mark.parametrize("target", TARGETS)
def test_an_accumulator_into_a_window(target, name):
    """What is around the window stays."""
    k, acc, table, args = fixpipe_kernel(target, "f32")
    dtype = "i8" if "fp" in name else "f16"
    mat = k.tile("mat", dtype, 64, 64, layout="nz", loc="mat")
    k.load("x", mat)
    place = [(k.arg(n, "index"), "index") for n in ("row", "col")]
    k.op(f"pto.{name}", [acc, *([table] if dtype == "i8" else []), *place], [mat])
    x, look = patterns(dtype, (64, 64)), Image(f"pto.{name}", "mat")
    values = sums("f32")
    values[0, :6] = [1, -1, 0.5, -0.0, 65504, -65504]
    k.run({**args, "x": x, "row": 16, "col": 32}, observers=[Filled(values), look])
    for r, c in np.ndindex(64, 64):
        inside = 16 <= r < 48 and c >= 32
        value = values[r - 16, c - 32] if inside else 0
        if inside and dtype == "i8":
            expected = code_of(value, c - 32) & 0xFF
        elif inside:
            expected = int(np.float16(value).view(np.uint16))
        else:
            expected = int(bits(x)[r, c])
        assert look.at("nz", (64, 64), dtype, (r, c)) == expected, (r, c)


@pytest.mark.parametrize("name", ["pto.tmov", "pto.tmov.a2v", "pto.tmov.s2d"])
def test_an_accumulator_to_ub(name):
    k = Kernel("a5", compat=ONE_CORE)
    acc = k.tile("acc", "f32", *SHAPE, (31, 27), layout="nz", fractal=1024, loc="acc")
    vec = k.tile("vec", "f32", *SHAPE, (31, 27))
    k.op(name, [acc], [vec])
    k.store(vec, "y")
    values = sums("f32")
    got = k.run({"y": np.zeros((31, 27), np.float32)}, observers=[Filled(values)]).outputs["y"]
    np.testing.assert_array_equal(bits(got), bits(values[:31, :27].copy()))


@pytest.mark.parametrize("code", ["PTO6005"])
@pytest.mark.parametrize("name", ["textract_fp", "tinsert_fp"])
def test_windows_outside_stop_the_run(name, code):
    k, acc, table, args = fixpipe_kernel("a5", "f32")
    mat = k.tile("mat", "i8", 32, 32, layout="nz", loc="mat")
    place = [(k.arg(n, "index"), "index") for n in ("row", "col")]
    k.op(f"pto.{name}", [acc, table, *place], [mat])
    with pytest.raises(ptosim.Trap) as stopped:
        k.run({**args, "row": 16, "col": 0}, uninit="zero")
    assert stopped.value.diagnostics[-1].code == code


# -- UB to L1 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("row", "col"), [(0, 0), (16, 16), (32, 48)])
@pytest.mark.parametrize("layout", ["nd", "nz"])
def test_ub_into_a_window_of_l1(layout, row, col):
    """tinsert converts rows to column blocks as it goes; blocks stay blocks."""
    k = Kernel("a5")
    vec = k.tile("vec", "f16", 16, 16, layout="nd")
    source = vec
    k.load("x", vec)
    if layout == "nz":
        source = k.tile("blocks", "f16", 16, 16, layout="nz")
        k.op("pto.tmov", [vec], [source])
    mat = k.tile("mat", "f16", 48, 64, layout="nz", loc="mat")
    place = [(k.arg(n, "index"), "index") for n in ("row", "col")]
    k.op("pto.tinsert", [source, *place], [mat])
    x, look = patterns("f16", (16, 16)), Image("pto.tinsert", "mat")
    k.run({"x": x, "row": row, "col": col}, uninit="zero", observers=[look])
    for r, c in np.ndindex(48, 64):
        inside = row <= r < row + 16 and col <= c < col + 16
        expected = bits(x)[r - row, c - col] if inside else 0
        assert look.at("nz", (48, 64), "f16", (r, c)) == expected


def test_a_window_of_ub_to_l1():
    k = Kernel("a5")
    vec = k.tile("vec", "f16", 32, 64)
    mat = k.tile("mat", "f16", 16, 32, layout="nz", loc="mat")
    k.load("x", vec)
    place = [(k.arg(n, "index"), "index") for n in ("row", "col")]
    k.op("pto.textract", [vec, *place], [mat])
    x, look = patterns("f16", (32, 64)), Image("pto.textract", "mat")
    k.run({"x": x, "row": 16, "col": 32}, observers=[look])
    for r, c in np.ndindex(16, 32):
        assert look.at("nz", (16, 32), "f16", (r, c)) == bits(x)[16 + r, 32 + c]
