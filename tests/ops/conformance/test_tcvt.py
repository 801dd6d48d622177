"""TCVT and TDEQUANT through whole programs, against the recorded arrays.

In profile `hw` the generators' arrays (`gen_`) are asserted, except where a generator contradicts
the rules of the hardware: there the rule is asserted instead, computed one element at a time by
`tests.oracle.numerics` (`RULES`). The arrays of the public CPU simulator are asserted in profile
`cpu`. Inputs are too long for one tile: they run as tiles of at most 16,384 elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import ptosim
from tests.ops.conformance.data import COMPARED, NAMES, arrays, assert_bits, files, stem
from tests.oracle import numerics as oracle
from tests.support.text import Kernel

pytestmark = pytest.mark.slow

ARRAYS = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
}
CPU_ONLY = {"f32_to_s8", "bf16_to_s8", "f16_to_e4m3", "bf16_to_e4m3", "f16_to_bf16"}
# The arrays widen 4-bit codes to f32; the target's conversion is to bf16, which holds every value.
WIDENED = {"e2m1_to_f32", "e1m2_to_f32"}
TARGETS = {"A5": "a5", "A2A3": "a2a3"}
CODES = np.dtype(np.uint8)


def pair(entry: dict) -> tuple[str, str]:
    src, dst = stem(entry).split("_to_")
    return NAMES.get(src, src), NAMES.get(dst, dst)


def source(entry: dict) -> np.ndarray:
    """The inputs as an argument array; packed 4-bit codes one an entry."""
    src = pair(entry)[0]
    given = arrays(entry["file"])["src"]
    if src.startswith("f4"):
        return np.stack([given & 15, given >> 4], 1).reshape(-1)
    return given.view(ARRAYS.get(src, CODES))


def controls(name: str) -> str:
    """The attributes that an array's name represents: origin, mode, saturation."""
    _, mode, *saturation = name.split("_")
    words = [f"rmode = #pto<round_mode {mode.upper()}>"] if mode != "f32" else []
    if saturation:
        words.append(f"sat_mode = #pto<saturation_mode {saturation[0][3:].upper()}>")
    return ", ".join(words)


@cache
def program(target: str, profile: str, src: str, dst: str, rows: int, cols: int, attrs: str):
    k = Kernel(target, profile=profile, **({"compat": "2026-04"} if profile == "cpu" else {}))
    values, results = k.tile("values", src, rows, cols), k.tile("results", dst, rows, cols)
    k.load("x", values)
    k.op("pto.tcvt", [values], [results], attrs)
    k.store(results, "y")
    return k.program()


def converted(
    values: np.ndarray, target: str, src: str, dst: str, attrs: str, profile: str = "hw"
) -> np.ndarray:
    """Run the conversion in tiles and return the results, codes for narrow floats."""
    cols = min(256, values.size)
    height = values.size // cols
    limit = 32 if "i64" in (src, dst) else 64
    rows = next(r for r in range(min(limit, height), 0, -1) if height % r == 0)
    run = program(target, profile, src, dst, rows, cols, attrs).run
    kind = ARRAYS.get(dst, CODES)
    parts = [
        run({"x": values[i : i + rows * cols], "y": np.zeros(rows * cols, kind)}).outputs["y"]
        for i in range(0, values.size, rows * cols)
    ]
    return np.concatenate([p if kind != CODES else p.view(CODES) for p in parts])


def is_nan(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "fV":
        return np.zeros(values.shape, bool)
    with np.errstate(invalid="ignore"):
        return np.isnan(values)


# -- rules where a generator is wrong ------------------------------------------------------------

Mask = Callable[[np.ndarray], np.ndarray]
Rule = Callable[[oracle.Value, str], int]


def infinite(values: np.ndarray) -> np.ndarray:
    return np.isinf(values)


def beyond(limit: float) -> Mask:
    return lambda values: np.abs(np.rint(values.astype(np.float64))) >= limit


def outside(limit: float) -> Mask:
    """Beyond a magnitude, NaN, or a negative zero."""

    def mask(values: np.ndarray) -> np.ndarray:
        wide = values.astype(np.float32)
        return ~(np.abs(wide) < limit) | ((wide == 0) & np.signbit(wide))

    return mask


def through_i32(form: str) -> Rule:
    """A saturated 32-bit integer first, of which the low bits stay."""
    return lambda value, mode: oracle.low_bits(oracle.to_int(value, "i32", mode), form)


def saturated(form: str) -> Rule:
    return lambda value, mode: oracle.to_int(value, form, mode)


def low_bits(form: str) -> Rule:
    return lambda value, mode: oracle.to_low_bits(value, form, mode)


def narrow_bf16(value: oracle.Value, mode: str) -> int:
    pattern = oracle.to_float(value, "bf16", mode, saturate=True)
    assert pattern is not None
    return pattern


def code(form: str) -> Rule:
    return lambda value, mode: oracle.to_code(value, form)


# (source, destination), saturation asked for, targets -> inputs, rule
RULES: dict[tuple[tuple[str, str], str, str], tuple[Mask, Rule]] = {
    # The plain generator makes integers of infinities 0; the vendor's saturation test does not.
    (("f16", "i8"), "OFF", "a2a3 a5"): (infinite, through_i32("i8")),
    (("f16", "i16"), "OFF", "a2a3 a5"): (infinite, through_i32("i16")),
    # A2/A3 saturates these pairs whatever is asked for.
    (("f16", "i32"), "OFF", "a2a3"): (infinite, saturated("i32")),
    (("f32", "i32"), "OFF", "a2a3"): (beyond(2.0**31), saturated("i32")),
    (("bf16", "i32"), "OFF", "a2a3"): (beyond(2.0**31), saturated("i32")),
    # The generator overflows its own 64 bits, for values in range as well.
    (("f32", "i64"), "OFF", "a2a3"): (beyond(2.0**62), saturated("i64")),
    (("f32", "i64"), "OFF", "a5"): (beyond(2.0**62), low_bits("i64")),
    # It rounds to infinity where the conversion saturates.
    (("f32", "bf16"), "ON", "a2a3 a5"): (beyond(float.fromhex("0x1.fep127")), narrow_bf16),
    # It searches the nearest code in f32, where all distances of a large value are equal.
    (("bf16", "f4E2M1FN"), "ON", "a5"): (outside(2.0**27), code("f4E2M1FN")),
    (("bf16", "f4E1M2FN"), "ON", "a5"): (outside(2.0**23), code("f4E1M2FN")),
}


def assert_rule(
    values: np.ndarray, got: np.ndarray, forms: tuple[str, str], mode: str, off: bool, target: str
) -> np.ndarray:
    """Assert the rule where one replaces the array; return where the array holds."""
    kept = np.ones(values.size, bool)
    for (forms_of_rule, saturation, targets), (mask, rule) in RULES.items():
        if forms_of_rule != forms or target not in targets.split():
            continue
        if off != (saturation == "OFF"):
            continue
        with np.errstate(invalid="ignore"):
            masked = mask(values) & ~(is_nan(values) & (values.dtype == np.float32))
        bits = values.view(f"u{values.dtype.itemsize}")
        for i in np.flatnonzero(masked):
            expected = rule(oracle.decode(int(bits[i]), forms[0]), mode)
            found = int(got[i]) if got.dtype.kind in "iu" else int(got.view(np.uint16)[i])
            assert found == expected, f"{bits[i]:X}: {found}, expected {expected}"
        COMPARED["tcvt elements by rule"] += int(masked.sum())
        kept &= ~masked
    return kept


GENERATED = [
    pytest.param(entry, TARGETS[word], id=f"{stem(entry)}-{TARGETS[word]}")
    for entry in files("tcvt", "gen_data")
    if stem(entry) not in CPU_ONLY
    for word in entry["target"].split(",")
]


@pytest.mark.parametrize(("entry", "target"), GENERATED)
def test_generators(entry, target):
    src, dst = pair(entry)
    values = source(entry)
    for array in (a["name"] for a in entry["arrays"] if a["role"] == "expected"):
        expected = arrays(entry["file"])[array]
        to = "bf16" if stem(entry) in WIDENED else dst
        # Without a word on saturation the arrays mean ON.
        attrs = controls(array) + (
            "" if "sat" in array else ", sat_mode = #pto<saturation_mode ON>"
        )
        got = converted(values, target, src, to, attrs.lstrip(", "))
        if stem(entry) in WIDENED:
            got = got.astype(np.float32)
        if dst.startswith("f4"):
            expected = np.stack([expected & 15, expected >> 4], 1).reshape(-1)
        mode = array.split("_")[1]
        kept = assert_rule(values, got, (src, dst), mode, array.endswith("satoff"), target)
        nan = is_nan(got)
        if nan.any() or (dst in ARRAYS and ARRAYS[dst].kind in "fV"):
            # One NaN is as good as another, but a NaN stays one, also where the generator lost it.
            wanted = is_nan(values) if src in ARRAYS else is_nan(expected.view(got.dtype))
            np.testing.assert_array_equal(nan, wanted)
        COMPARED["tcvt NaN elements"] += int(nan.sum())
        assert_bits("tcvt", got, expected, kept & ~nan)


@pytest.mark.parametrize("target", ["a5", "a2a3"])
@pytest.mark.parametrize("name", sorted(CPU_ONLY))
def test_pairs_of_the_cpu_simulator_are_refused(name, target):
    src, dst = (NAMES.get(word, word) for word in name.split("_to_"))
    with pytest.raises((ptosim.UnsupportedError, ptosim.ProgramError), match="PTO"):
        converted(np.zeros(256, ARRAYS.get(src, CODES)), target, src, dst, "")


@pytest.mark.parametrize("entry", files("tcvt", "cpu_sim"), ids=stem)
def test_cpu_simulator(entry):
    src, dst = pair(entry)
    values = source(entry)
    for array in (a["name"] for a in entry["arrays"] if a["role"] == "expected"):
        expected = arrays(entry["file"])[array]
        got = converted(values, "a5", src, dst, controls(array), "cpu")
        if dst.startswith("f4"):
            expected = np.stack([expected & 15, expected >> 4], 1).reshape(-1)
        nan = is_nan(got)
        np.testing.assert_array_equal(nan, is_nan(expected.view(got.dtype)))
        COMPARED["tcvt NaN elements"] += int(nan.sum())
        assert_bits("tcvt", got, expected, ~nan)


# -- TDEQUANT --------------------------------------------------------------------------------------


def dequantized(entry: dict, target: str, profile: str) -> np.ndarray:
    given = arrays(entry["file"])
    codes = given["src"]
    rows, cols = min(codes.shape[0], 128), codes.shape[1]
    k = Kernel(target, profile=profile)
    # A2/A3 wants row-major parameters; column 0 counts.
    wide = 8 if target == "a2a3" else 1
    layout = "nd" if target == "a2a3" else "dn"
    src = k.tile("src", f"i{8 * codes.dtype.itemsize}", rows, cols)
    scale, offset = (
        k.tile(f"{n}_t", "f32", rows, wide, layout=layout) for n in ("scale", "offset")
    )
    dst = k.tile("dst", "f32", rows, cols)
    for name, tile in (("x", src), ("scale", scale), ("offset", offset)):
        k.load(name, tile)
    k.op("pto.tdequant", [src, scale, offset], [dst])
    k.store(dst, "y")
    run = k.program().run
    parts = []
    for start in range(0, codes.shape[0], rows):
        part = slice(start, start + rows)
        args: dict[str, np.ndarray] = {"x": codes[part], "y": np.zeros((rows, cols), np.float32)}
        for name in ("scale", "offset"):
            column = given[name][part].view(np.float32)
            block = np.full((rows, wide), np.nan, np.float32)
            block[:, 0] = column
            args[name] = block if profile == "hw" else np.repeat(column, wide).reshape(rows, wide)
        parts.append(run(args).outputs["y"])
    return np.concatenate(parts)


DEQUANT = [
    pytest.param(e, t, id=f"{stem(e)}-{e['origin']}-{t}")
    for e in files("tdequant")
    for t in ("a5", "a2a3")
]


@pytest.mark.parametrize(("entry", "target"), DEQUANT)
def test_tdequant(entry, target):
    origin = "cpu" if entry["origin"] == "cpu_sim" else "gen"
    got = dequantized(entry, target, "cpu" if origin == "cpu" else "hw")
    assert_bits("tdequant", got, arrays(entry["file"])[f"{origin}_dst"])
