"""TCVT and TDEQUANT: every pair of types with its defaults, domains, 4-bit elements, parameters."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import ptosim
from tests.ops.semantics.helpers import BACKGROUND, Image, codes
from tests.oracle import numerics as oracle
from tests.support.text import Kernel

pytestmark = pytest.mark.sampled(8)

PAIRS = {  # as the public tables of both targets have them
    "a2a3": {
        "f32": "f32 f16 bf16 i16 i32 i64", "f16": "f32 i32 i16 i8 ui8 i4", "bf16": "f32 i32",
        "i64": "f32 i32", "i32": "f32 f16 i16 i64", "i16": "f16 f32", "i8": "f16", "i4": "f16",
        "ui8": "f16",
    },
    "a5": {
        "f32": "f32 f16 bf16 i16 i32 i64 f8E4M3FN f8E5M2 hif8", "f16": "f32 i32 i16 i8 ui8 hif8",
        "bf16": "f32 f16 i32 f4E2M1FN f4E1M2FN", "i64": "f32 i32", "i32": "f32 i16 i64 ui16 ui8",
        "i16": "f16 f32 i32 ui32 ui8", "i8": "f16 i16 i32", "ui32": "i16 ui16 ui8",
        "ui8": "f16 ui16", "f8E4M3FN": "f32", "f8E5M2": "f32", "hif8": "f32", "f4E2M1FN": "bf16",
        "f4E1M2FN": "bf16",
    },
}  # fmt: skip
# Saturation is off for these unless the text says otherwise, and on for every other pair.
OFF = {
    ("f16", "ui8"), ("f16", "i8"), ("f32", "i16"), ("f16", "i16"), ("i64", "i32"), ("i32", "i16"),
}  # fmt: skip
KINDS = {
    "f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "i64": np.dtype(np.int64), "i32": np.dtype(np.int32), "i16": np.dtype(np.int16),
    "i8": np.dtype(np.int8), "ui32": np.dtype(np.uint32), "ui16": np.dtype(np.uint16),
    "ui8": np.dtype(np.uint8), "i4": np.dtype(ml_dtypes.int4),
}  # fmt: skip
CODES = np.dtype(np.uint8)
INTEGERS = tuple(oracle.INT_RANGES)
WIDTH = {"f4E2M1FN": 4, "f4E1M2FN": 4, "i4": 4}


def probes(src: str) -> np.ndarray:
    """1024 inputs: specials and limits first, then random patterns."""
    rng = np.random.default_rng(4)
    kind = KINDS.get(src, CODES)
    if src in WIDTH:
        return np.arange(1024, dtype=np.uint8) % 16 if src != "i4" else (
            (np.arange(1024) % 16 - 8).astype(np.int8).astype(kind)
        )  # fmt: skip
    if kind == CODES or kind.kind in "iu":
        raw = rng.integers(0, 256, 1024 * kind.itemsize, dtype=np.uint8).view(kind).copy()
        if kind != CODES or src == "ui8":
            low, high = oracle.INT_RANGES[src]
            special = (low, high, 0, 1, 255, 256, 65535, 65504, 40000, -1, -129)
            for i, v in enumerate(v for v in special if low <= v <= high):
                raw[i] = v
            raw[40:300] = np.minimum(rng.integers(0, 300, 260), min(high, 300))
        return raw
    wide = rng.standard_normal(1024) * np.exp2(rng.integers(-8, 20, 1024))
    wide[:24] = [
        0.5, 1.5, 2.5, -0.5, -1.5, 0, -0.0, np.inf, -np.inf, np.nan, 127.5, 128, -128.5, 255.5, 300,
        -100, 40000, -40000, 70000, 65504, 448, 464, 6, 1.75,
    ]  # fmt: skip
    with np.errstate(over="ignore"):
        return wide.astype(np.float32).astype(kind)


def value_of(item: np.generic, src: str) -> oracle.Value:
    if src in INTEGERS:
        return Fraction(int(item))
    return oracle.decode(int(np.asarray(item).view(f"u{np.asarray(item).itemsize}")), src)


def expected(value: oracle.Value, src: str, dst: str, saturate: bool) -> int | None:
    """Pattern (or integer) of one conversion to nearest; None for any NaN."""
    if dst in INTEGERS:
        if src in INTEGERS:
            assert isinstance(value, Fraction)
            if not saturate:
                return oracle.low_bits(int(value), dst)
            low, high = oracle.INT_RANGES[dst]
            return min(max(int(value), low), high)
        if saturate:
            return oracle.to_int(value, dst, "rint")
        return oracle.low_bits(oracle.to_int(value, "i32", "rint"), dst)
    if dst not in KINDS:
        return oracle.to_code(value, dst)
    if src == dst == "f32" and isinstance(value, Fraction):
        whole = oracle.round_to_int(value, "rint")
        if whole == 0 and value < 0:
            return 0x80000000
        return oracle.encode_exact(Fraction(whole), "f32")
    return oracle.to_float(value, dst, "rint", saturate=saturate and oracle_narrows(src, dst))


def oracle_narrows(src: str, dst: str) -> bool:
    """Saturation is for narrowing; infinity stays infinity in a wider format."""
    return src in INTEGERS or not (src == dst or (dst == "f32"))


def kernel(target: str, src: str, dst: str, attrs: str = "", **options) -> Kernel:
    k = Kernel(target, **options)
    cols = 64
    a, b = k.tile("a", src, 16, cols), k.tile("b", dst, 16, cols)
    k.load("x", a)
    k.op("pto.tcvt", [a], [b], attrs)
    k.store(b, "y")
    return k


def run(k: Kernel, x: np.ndarray, dst: str) -> np.ndarray:
    kind = KINDS.get(dst, CODES)
    return k.run({"x": x, "y": np.zeros(x.size, kind)}).outputs["y"]


CASES = [
    pytest.param(target, src, dst, id=f"{target}-{src}-{dst}")
    for target, table in PAIRS.items()
    for src, row in table.items()
    for dst in row.split()
]


@pytest.mark.parametrize(("target", "src", "dst"), CASES)
def test_every_pair_with_its_defaults(target, src, dst):
    x = probes(src)
    got = run(kernel(target, src, dst), x, dst)
    for i, item in enumerate(x):
        want = expected(value_of(item, src), src, dst, (src, dst) not in OFF)
        if (src, dst) == ("f32", "hif8") and abs(float(item)) >= 40960:
            want = 0xEF if item < 0 else 0x6F  # halfway to the next value and more
        if want is None:
            assert np.isnan(got[i]), (item, got[i])
        elif dst in INTEGERS:
            assert int(got[i]) == want, (item, got[i], want)
        else:
            assert int(got[i : i + 1].view(f"u{got.itemsize}")[0]) == want, (item, got[i], want)


@pytest.mark.slow
def test_no_other_pair_is_converted():
    names = sorted({*KINDS, "f8E4M3FN", "f8E5M2", "hif8", "f4E2M1FN", "f4E1M2FN"} - {"i4"})
    for target, table in PAIRS.items():
        for src in names:
            for dst in names:
                if dst in table.get(src, "").split():
                    continue
                with pytest.raises(ptosim.PtosimError):
                    kernel(target, src, dst).run({})


@pytest.mark.parametrize(
    ("attrs", "values"),
    [
        ("", [0, 2, 2, 0, -2, 4464, -4464, 4]),
        ("sat_mode = #pto<saturation_mode ON>", [0, 2, 2, 0, -2, 32767, -32768, 4]),
        ("rmode = #pto<round_mode NONE>", [0, 1, 2, 0, -1, 4464, -4464, 3]),
        ("rmode = #pto<round_mode ODD>", [0, 1, 2, 0, -1, 4464, -4464, 3]),
        ("rmode = #pto<round_mode ROUND>", [1, 2, 3, -1, -2, 4464, -4464, 4]),
        ("rmode = #pto<round_mode FLOOR>", [0, 1, 2, -1, -2, 4464, -4464, 3]),
        ("rmode = #pto<round_mode CEIL>", [1, 2, 3, 0, -1, 4464, -4464, 4]),
        ("rmode = #pto<round_mode TRUNC>", [0, 1, 2, 0, -1, 4464, -4464, 3]),
        ("rmode = #pto<round_mode CAST_RINT>", [0, 2, 2, 0, -2, 4464, -4464, 4]),
    ],
)
@pytest.mark.parametrize("target", ["a5", "a2a3"])
def test_modes(target, attrs, values):
    x = np.tile(np.array([0.5, 1.5, 2.5, -0.5, -1.5, 70000, -70000, 3.7], np.float32), 128)
    got = run(kernel(target, "f32", "i16", attrs), x, "i16")
    assert got[:8].tolist() == values


@pytest.mark.parametrize(
    ("target", "switch", "value"),
    [
        ("a2a3", "lowbits", 2**31 - 1),
        ("a2a3", "saturate", 2**31 - 1),
        ("a5", "lowbits", 0),
        ("a5", "saturate", 2**31 - 1),
    ],
)
def test_saturation_off_for_wide_integers(target, switch, value):
    k = kernel(
        target, "f32", "i32", "sat_mode = #pto<saturation_mode OFF>",
        switches={"tcvt.off_wide": switch},
    )  # fmt: skip
    assert run(k, np.full(1024, 2.0**33, np.float32), "i32")[0] == value


@pytest.mark.parametrize("target", ["a5", "a2a3"])
@pytest.mark.parametrize(("switch", "value"), [("zero", 0), ("max", 127)])
def test_nan_to_an_integer(target, switch, value):
    k = kernel(
        target, "f16", "i8", "sat_mode = #pto<saturation_mode ON>",
        switches={"tcvt.nan_to_int": switch},
    )  # fmt: skip
    assert run(k, np.full(1024, np.nan, np.float16), "i8")[0] == value


# -- domain ---------------------------------------------------------------------------------------


def part(target: str, src: str, dst: str, valid: tuple[int, int], x: np.ndarray):
    """Convert the valid part of a 16x64 tile; return the bytes of the destination."""
    bits = WIDTH.get(dst) or KINDS.get(dst, CODES).itemsize * 8
    k = Kernel(target)
    image = Image(k, 16 * 64 * bits // 8)
    image.fill(BACKGROUND)
    whole = k.tile("whole", src, 16, 64, addr=0x4000)
    a = k.tile("a", src, 16, 64, valid, addr=0x4000)
    b = k.tile("b", dst, 16, 64, valid, addr=0)
    k.load("x", whole)
    k.op("pto.tcvt", [a], [b])
    image.read()
    return image.of(k.run({"x": x, **image.args}))


@pytest.mark.parametrize("valid", [(16, 64), (5, 64), (16, 37), (3, 1)])
def test_only_valid_elements_are_written(valid):
    x = np.arange(1024, dtype=np.float32)
    got = part("a5", "f32", "i16", valid, x).view(np.int16).reshape(16, 64)
    want = np.full((16, 64), 0xA5A5, np.uint16).view(np.int16)
    want[: valid[0], : valid[1]] = x.reshape(16, 64)[: valid[0], : valid[1]]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("valid", [(16, 64), (5, 33), (4, 1)])
def test_four_bit_floats_clear_the_tile_and_drop_an_odd_column(valid):
    x = np.full(1024, 1.0, ml_dtypes.bfloat16)
    got = part("a5", "bf16", "f4E2M1FN", valid, x).reshape(16, 32)
    want = np.zeros((16, 32), np.uint8)
    want[: valid[0], : valid[1] // 2] = 0x22
    np.testing.assert_array_equal(got, want)


def test_four_bit_integers_leave_the_rest():
    x = np.full(1024, -3, np.float16)
    got = part("a2a3", "f16", "i4", (5, 32), x).reshape(16, 32)
    want = np.full((16, 32), BACKGROUND, np.uint8)
    want[:5, :16] = 0xDD
    np.testing.assert_array_equal(got, want)


def test_an_odd_column_of_four_bit_floats_is_read():
    k = Kernel("a5")
    a = k.tile("a", "f4E2M1FN", 16, 64, (16, 64), addr=0)
    odd = k.tile("odd", "f4E2M1FN", 16, 64, (16, 33), addr=0)
    b = k.tile("b", "bf16", 16, 64, (16, 33), addr=4096)
    k.load("x", a)
    k.op("pto.tcvt", [odd], [b])
    k.store(b, "y")
    x = (np.arange(1024) % 7 + 1).astype(np.uint8)
    got = k.run({"x": x, "y": np.zeros((16, 33), ml_dtypes.bfloat16)}).outputs["y"]
    want = x.view(ml_dtypes.float4_e2m1fn).astype(np.float32).reshape(16, 64)[:, :33]
    np.testing.assert_array_equal(got.astype(np.float32), want)


@pytest.mark.parametrize(("src", "dst"), [("f32", "f16"), ("f16", "f32"), ("f32", "i32")])
def test_in_place(src, dst):
    k = Kernel("a5")
    a, b = k.tile("a", src, 16, 64, addr=0), k.tile("b", dst, 16, 64, addr=0)
    k.load("x", a)
    k.op("pto.tcvt", [a], [b])
    k.store(b, "y")
    x = np.arange(1024).astype(KINDS[src])
    np.testing.assert_array_equal(run(k, x, dst), x.astype(KINDS[dst]))


# -- tdequant -------------------------------------------------------------------------------------


def parameters() -> tuple[np.ndarray, np.ndarray]:
    """Scales and offsets, with specials in rows 5 to 7."""
    scale, offset = np.arange(1, 65, dtype=np.float32) / 8, np.arange(64, dtype=np.float32) + 100
    scale[40], offset[48], offset[56] = np.inf, -np.inf, np.nan
    scale[48], scale[56] = -0.0, 0.0
    return scale, offset


def dequantised(target: str, cols: int, valid: int, **options) -> tuple[np.ndarray, list[str]]:
    k = Kernel(target, **options)
    image = Image(k, 8 * cols * 4, 0)
    image.fill(BACKGROUND)
    dst = k.tile("dst", "f32", 8, cols, (8, valid), addr=0)
    src = k.tile("src", "i8", 8, cols, (8, valid), addr=0x4000)
    tiles = [src]
    k.load("x", k.tile("whole", "i8", 8, cols, addr=0x4000))
    for i, name in enumerate(("scale", "offset")):
        tiles.append(k.tile(f"{name}_tile", "f32", 8, 8, addr=0x8000 + 0x400 * i))
        k.load(name, tiles[-1])
    k.op("pto.tdequant", tiles, [dst])
    image.read()
    x = np.arange(8 * cols).astype(np.int8)
    scale, offset = parameters()
    result = k.run({"x": x, "scale": scale, "offset": offset, **image.args})
    return image.of(result, np.float32).reshape(8, cols), codes(result)


def dequantised_oracle(cols: int, index) -> np.ndarray:
    x = np.arange(8 * cols).astype(np.int8).astype(np.float32).reshape(8, cols)
    scale, offset = (p.reshape(8, 8) for p in parameters())
    out = np.zeros((8, cols), np.float32)
    with np.errstate(invalid="ignore"):
        for r, c in np.ndindex(8, cols):
            out[r, c] = (x[r, c] - offset[r, index(c)]) * scale[r, index(c)]
    return out


@pytest.mark.parametrize("target", ["a5", "a2a3"])
@pytest.mark.parametrize(("cols", "valid"), [(64, 64), (64, 33), (128, 128), (192, 100)])
def test_dequantise(target, cols, valid):
    """Column 0 counts. On A5 the mask of the first 64 lanes serves all, so that the last chunk of a
    row is written whole: its surplus is undefined."""
    got, findings = dequantised(target, cols, valid)
    want = np.full((8, cols * 4), BACKGROUND, np.uint8).view(np.float32)
    if target == "a5" and valid > 64:
        want[:, valid : -(-valid // 64) * 64] = np.uint32(0xFFFFFFFF).view(np.float32)
    want[:, :valid] = dequantised_oracle(cols, lambda c: 0)[:, :valid]
    surplus = np.isnan(want) & (want.view(np.uint32) == 0xFFFFFFFF)
    np.testing.assert_array_equal(got.view(np.uint32)[surplus], 0xFFFFFFFF)
    np.testing.assert_array_equal(got, want)  # any NaN is NaN
    assert not findings


def test_dequantise_of_the_cpu_simulator_takes_a_column_for_each():
    got, _ = dequantised("a5", 64, 64, profile="cpu")
    np.testing.assert_array_equal(got, dequantised_oracle(64, lambda c: min(c, 7)))
