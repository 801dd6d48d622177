"""What leaves an accumulator: casts, scales for all or for each column, ReLU, layouts, atomics.

Accumulators are filled from outside, so that nothing here depends on matrix products.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ptosim
from tests.ops.semantics.helpers import ARRAYS, codes
from tests.oracle import layouts
from tests.oracle import numerics as oracle
from tests.support.text import Kernel, Tile

ONE_CORE = "2026-04"
"""April lets one core execute a body of both kinds; August gives each kind its cores."""

SHAPE = (32, 48)


class Filled:
    """An observer that writes an accumulator's elements before the first operation on tiles."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.done = False

    def on_issue(self, core, inst, bound) -> None:
        if self.done:
            return
        self.done = True
        data = np.frombuffer(core.space("acc").data, self.values.dtype)
        for r in range(SHAPE[0]):
            for c in range(SHAPE[1]):
                data[layouts.tile_offset("nz", SHAPE, (r, c), 32, 1024)] = self.values[r, c]


def acc_tile(k: Kernel, dtype: str, valid=None) -> Tile:
    return k.tile("acc", dtype, *SHAPE, valid, layout="nz", fractal=1024, loc="acc")


def word(scale: float, *, offset: int = 0, signed: bool = True, shift: int = 1) -> int:
    bits = int(np.float32(scale).view(np.uint32))
    return bits | (shift - 1) << 32 | (offset & 0x1FF) << 37 | int(signed) << 46


def stored(target: str, src: str, dst: str, values: np.ndarray, *, attrs="", scale=None, fp=None):
    """Store an accumulator to global memory and return it."""
    k = Kernel(target)
    acc = acc_tile(k, src)
    view = k.view("y", dst, SHAPE)
    args = {"y": np.zeros(SHAPE, ARRAYS.get(dst, np.uint8))}
    ins: list = [acc]
    name = "pto.tstore"
    if scale is not None:
        k.lines.insert(0, f"%word = arith.constant {scale} : i64")
        ins.append(("%word", "i64"))
    if fp is not None:
        words = k.tile("words", "i64", 1, SHAPE[1], loc="mat")
        table = k.tile("table", "i64", 1, SHAPE[1], loc="scaling")
        k.load("w", words)
        k.op("pto.tmov", [words], [table])
        args["w"] = np.array(fp, np.int64)
        ins.append(table)
        name = "pto.tstore_fp"
    k.op(name, ins, [view], attrs)
    result = k.run(args, observers=[Filled(values)])
    return result.outputs["y"], result


RNG = np.random.default_rng(3)
FLOATS = (RNG.standard_normal(SHAPE) * 200).astype(np.float32)
FLOATS[0, :8] = [0.5, 1.5, -2.5, 70000, -70000, np.nan, 1e30, -1e-30]
INTEGERS = RNG.integers(-40000, 40000, SHAPE).astype(np.int32)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("dst", ["f32", "f16", "bf16"])
def test_casts_of_floats(target, dst):
    got, result = stored(target, "f32", dst, FLOATS)
    for at in np.ndindex(SHAPE):
        expected = oracle.to_float(
            oracle.decode(int(FLOATS[at].view(np.uint32)), "f32"), dst, "rint", saturate=True
        ) if dst != "f32" else int(FLOATS[at].view(np.uint32))  # fmt: skip
        bits = got.view(f"u{got.dtype.itemsize}")[at]
        assert np.isnan(got[at]) if expected is None or np.isnan(FLOATS[at]) else bits == expected
    assert not codes(result)


def test_integers_stay():
    got, _ = stored("a2a3", "i32", "i32", INTEGERS)
    np.testing.assert_array_equal(got, INTEGERS)


@pytest.mark.parametrize("dst", ["f32", "i32"])
def test_relu(dst):
    values = FLOATS if dst == "f32" else INTEGERS
    got, _ = stored("a2a3", dst, dst, values, attrs="reluPreMode = #pto<relu_pre_mode normal_relu>")
    np.testing.assert_array_equal(got, np.maximum(values, 0))


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(("dst", "signed"), [("i8", True), ("ui8", False)])
@pytest.mark.parametrize("src", ["f32", "i32"])
def test_eight_bits(target, src, dst, signed):
    values = FLOATS if src == "f32" else INTEGERS // 64
    got, _ = stored(target, src, dst, values, scale=word(0.25, offset=-7, signed=signed))
    low, high = (-128, 127) if signed else (0, 255)
    for at in np.ndindex(SHAPE):
        v = float(values[at])
        t = (
            0
            if np.isnan(v)
            else oracle.round_to_int(oracle.Fraction(min(max(v * 0.25, -256), 255)), "rint")
        )
        assert got[at] == min(max(t - 7, low), high), (at, v)


def test_the_low_mantissa_bits_of_a_scale_are_dropped():
    values = np.full(SHAPE, 1000, np.float32)
    exact, dropped = (
        stored("a5", "f32", "f32", values, scale=word(s))[0] for s in (1.0, 1.0 + 2**-12)
    )
    np.testing.assert_array_equal(exact, dropped)


@pytest.mark.parametrize("shift", [1, 3, 16])
def test_shift_to_sixteen_bits(shift):
    values = INTEGERS * 16
    got, _ = stored("a2a3", "i32", "i16", values, scale=word(1.0, shift=shift))
    expected = np.array([min(max(int(v) >> shift, -32768), 32767) for v in values.reshape(-1)])
    np.testing.assert_array_equal(got.reshape(-1), expected)


@pytest.mark.parametrize(("dst", "limit"), [("f16", 65504), ("bf16", np.inf)])
def test_scaled_halves(dst, limit):
    values = INTEGERS * 64
    got, _ = stored("a5", "i32", dst, values, scale=word(0.5))
    expected = np.clip(values.astype(np.float32) * 0.5, -limit, limit).astype(ARRAYS[dst])
    np.testing.assert_array_equal(got, expected)


def test_integers_become_halves_without_a_scale_on_a2a3_and_the_scale_is_told():
    """The assembler takes the pair, and no document gives its scale: 1 is assumed. A5 has no such
    form."""
    got, result = stored("a2a3", "i32", "f16", INTEGERS * 2)
    clipped = np.clip(INTEGERS * 2, -65504, 65504).astype(np.float16)
    np.testing.assert_array_equal(got, clipped)
    assert codes(result) == ["PTO6607"]


@pytest.mark.parametrize("dst", ["f8E4M3FN", "hif8"])
def test_scaled_eight_bit_floats(dst):
    got, _ = stored("a5", "f32", dst, FLOATS, scale=word(0.5))
    for at in np.ndindex(SHAPE):
        half = np.float32(FLOATS[at] * np.float32(0.5))
        expected = oracle.to_code(oracle.decode(int(half.view(np.uint32)), "f32"), dst)
        assert got.view(np.uint8)[at] == expected


def test_a_scale_for_each_column():
    scales = [2.0 ** (c % 5 - 3) for c in range(SHAPE[1])]
    words = [word(s, offset=c % 7, signed=True) for c, s in enumerate(scales)]
    got, result = stored("a2a3", "f32", "i8", np.nan_to_num(FLOATS), fp=words)
    whole = np.rint(np.clip(np.nan_to_num(FLOATS) * np.array(scales, np.float32), -256, 255))
    expected = np.clip(whole + np.arange(SHAPE[1]) % 7, -128, 127)
    np.testing.assert_array_equal(got, expected.astype(np.int8))
    assert not codes(result)


@pytest.mark.parametrize(
    ("target", "src", "dst", "scale"),
    [
        ("a2a3", "f32", "i8", None),
        ("a2a3", "f32", "f16", 1),
        ("a5", "i32", "i16", 1),
        ("a5", "i32", "f16", None),
    ],
)
def test_pairs_that_the_fixpipe_lacks(target, src, dst, scale):
    with pytest.raises(ptosim.ProgramError):
        stored(target, src, dst, FLOATS, scale=scale and word(1.0))


def test_atomic_addition_of_an_accumulator():
    k = Kernel("a2a3")
    acc = acc_tile(k, "f32")
    k.store(acc, "y", SHAPE, attrs="atomicType = #pto<atomic_type atomic_add>")
    values = np.nan_to_num(FLOATS)
    result = k.run({"y": np.ones(SHAPE, np.float32)}, observers=[Filled(values)])
    np.testing.assert_array_equal(result.outputs["y"], values + 1)


def test_column_blocks_in_global_memory():
    k = Kernel("a5")
    acc = acc_tile(k, "f32")
    view = k.view("y", "f16", (3, 1, 32, 1, 16))
    k.op("pto.tstore", [acc], [view])
    values = np.nan_to_num(FLOATS)
    got = k.run({"y": np.zeros(1536, np.float16)}, observers=[Filled(values)]).outputs["y"]
    for r, c in np.ndindex(SHAPE):
        expected = np.float16(np.clip(values[r, c], -65504, 65504))
        assert got[c // 16 * 512 + r * 16 + c % 16] == expected


@pytest.mark.parametrize(("dtype", "kind"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_to_mat_on_the_chip(dtype, kind):
    k = Kernel("a2a3")
    acc = acc_tile(k, "f32")
    mat = k.tile("mat", dtype, *SHAPE, layout="nz", loc="mat")
    k.op("pto.tmov", [acc], [mat])
    k.store(mat, "y", (3, 1, 32, 1, 16))
    values = np.nan_to_num(FLOATS)
    result = k.run({"y": np.zeros(1536, kind)}, observers=[Filled(values)])
    top = 65504 if dtype == "f16" else np.inf
    for r, c in np.ndindex(SHAPE):
        expected = np.clip(values[r, c], -top, top).astype(kind)
        assert result.outputs["y"][c // 16 * 512 + r * 16 + c % 16] == expected


def test_to_vec_on_a5():
    k = Kernel("a5", compat=ONE_CORE)
    acc = acc_tile(k, "f32")
    vec = k.tile("vec", "f32", *SHAPE)
    k.op("pto.tmov", [acc], [vec])
    k.store(vec, "y")
    values = np.nan_to_num(FLOATS)
    result = k.run({"y": np.zeros(SHAPE, np.float32)}, observers=[Filled(values)])
    np.testing.assert_array_equal(result.outputs["y"], values)


@pytest.mark.parametrize(("mode", "rows"), [
    ("dual_mode_split_m", SHAPE[0] // 2), ("single_mode_vec1", 0), ("single_mode_vec0", SHAPE[0]),
])  # fmt: skip
def test_what_goes_to_a_vector_core_that_the_launch_has_not_is_left_out(mode, rows):
    """A core without vector cores beside it stands for the first one; nobody reads the second one."""
    k = Kernel("a5", compat=ONE_CORE)
    acc = acc_tile(k, "f32")
    vec = k.tile("vec", "f32", *SHAPE)
    k.op("pto.tmov", [acc], [vec], f"accToVecMode = #pto<acc_to_vec_mode {mode}>")
    k.store(vec, "y")
    values = np.nan_to_num(FLOATS)
    args = {"y": np.zeros(SHAPE, np.float32)}
    result = k.run(args, observers=[Filled(values)], uninit="zero", sanitize="none")
    expected = np.where(np.arange(SHAPE[0])[:, None] < rows, values, 0)
    np.testing.assert_array_equal(result.outputs["y"], expected)


@pytest.mark.parametrize(("switches", "is_told"), [({}, False), ({"lowering": "library"}, True)])
def test_moves_in_which_two_ways_are_said_to_differ_are_told(switches, is_told):
    """Who asks for one of the assembler's ways reads where no document says how they differ."""
    k = Kernel("a5", switches=switches)
    acc = k.tile("acc", "f32", 16, 32, layout="nz", fractal=1024, loc="acc")
    boxes = k.tile("boxes", "f32", 16, 32, layout="nz")
    mat = k.tile("mat", "f16", 32, 32, layout="nz", loc="mat")
    right = k.tile("right", "f16", 16, 16, layout="zn", loc="right")
    k.op("pto.tmov", [acc], [boxes])
    k.op("pto.textract", [mat, (k.const(16), "index"), (k.const(0), "index")], [right])
    found = k.run({}, uninit="zero").findings
    assert [f.code for f in found if f.code == "PTO6607"] == ["PTO6607"] * 2 * is_told
