"""TCVT against the exact oracle: every 16-bit pattern, every code, and probes of wider types.

Each test states the expected result once, for all rounding modes and both saturation modes.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from ptosim.machine.numbers.convert import TARGETS, converter, pairs
from ptosim.machine.numbers.formats import lookup
from tests.machine.numbers.helpers import (
    MODES,
    every16,
    every16_array,
    f32_probes,
    f32_values,
    from_patterns,
    int_probes,
    patterns_of,
)
from tests.oracle import numerics as oracle

pytestmark = pytest.mark.slow

FLOATS = ("f32", "f16", "bf16")
LOW_BITS_PAIRS = {("f16", "i8"), ("f16", "ui8"), ("f16", "i16"), ("f32", "i16")}


def inputs(src: str) -> np.ndarray:
    return from_patterns("f32", f32_probes()) if src == "f32" else every16_array(src)


def values(src: str) -> list[oracle.Value]:
    return f32_values() if src == "f32" else every16(src)


def of_kinds(sources: tuple[str, ...], kind: str) -> list[tuple[str, str, str]]:
    return sorted(
        (target, src, dst)
        for target in TARGETS
        for src, dst in pairs(target)
        if lookup(src).kind in sources and lookup(dst).kind == kind
    )


@cache
def whole(src: str, mode: str) -> list[int | str]:
    """Exact integers the values round to; infinities and NaN as they are."""
    return [
        value if isinstance(value, str) else oracle.round_to_int(value, mode)
        for value in values(src)
    ]


@cache
def saturated(src: str, mode: str, dst: str) -> list[int]:
    low, high = oracle.INT_RANGES[dst]
    special = {"inf": high, "-inf": low, "nan": 0, "-nan": 0, "-0": 0}
    return [special[n] if isinstance(n, str) else min(max(n, low), high) for n in whole(src, mode)]


@cache
def low_bits(src: str, mode: str, dst: str) -> list[int]:
    return [0 if isinstance(n, str) else oracle.low_bits(n, dst) for n in whole(src, mode)]


def expected_off(target: str, src: str, dst: str, mode: str) -> list[int]:
    if (src, dst) in LOW_BITS_PAIRS:
        return [oracle.low_bits(n, dst) for n in saturated(src, mode, "i32")]
    return (saturated if target == "a2a3" else low_bits)(src, mode, dst)


def assert_same(inputs: np.ndarray, got: np.ndarray, expected: np.ndarray) -> None:
    wrong = np.flatnonzero(got != expected)
    shown = [(hex(patterns_of(inputs[i : i + 1])[0]), got[i], expected[i]) for i in wrong[:10]]
    assert not wrong.size, f"{wrong.size} differ: {shown}"


@pytest.mark.parametrize(
    ("target", "src", "dst"), of_kinds(("float",), "signed") + of_kinds(("float",), "unsigned")
)
def test_float_to_integer(target, src, dst):
    dtype = lookup(dst).dtype
    for mode in ("none", *MODES):
        effective = "trunc" if mode in ("none", "odd") else mode
        on = converter(src, dst, rounding=mode, saturate=True, target=target)(inputs(src))
        assert on.dtype == dtype
        assert_same(inputs(src), on, np.array(saturated(src, effective, dst), dtype=dtype))
        off = converter(src, dst, rounding=mode, saturate=False, target=target)(inputs(src))
        wanted = np.array(expected_off(target, src, dst, effective), dtype=dtype)
        assert_same(inputs(src), off, wanted)


@cache
def exact_patterns(src: str, dst: str, mode: str) -> np.ndarray:
    """Patterns of the results without saturation; -1 for any NaN."""
    results = [oracle.to_float(value, dst, mode, saturate=False) for value in values(src)]
    return np.array([-1 if result is None else result for result in results])


def clamped(patterns: np.ndarray, dst: str) -> np.ndarray:
    result = patterns.copy()
    for sign in (1, -1):
        infinity = oracle.encode_exact("inf" if sign > 0 else "-inf", dst)
        result[patterns == infinity] = oracle.encode_exact(sign * oracle.highest_of(dst), dst)
    return result


def patterns_or_nan(got: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(got), -1, np.array(patterns_of(got)))


@pytest.mark.parametrize(
    ("src", "dst"),
    [("f16", "f32"), ("bf16", "f32"), ("bf16", "f16"), ("f32", "f16"), ("f32", "bf16")],
)
@pytest.mark.parametrize("mode", ["none", *MODES])
def test_float_to_float(src, dst, mode):
    odd_is_real = (src, dst) == ("f32", "f16")
    effective = "rint" if mode == "none" or (mode == "odd" and not odd_is_real) else mode
    widens = dst == "f32"
    for saturate in (True, False):
        got = converter(src, dst, rounding=mode, saturate=saturate, target="a5")(inputs(src))
        # Widening is exact and never clamps; its mode means nothing.
        wanted = exact_patterns(src, dst, "rint" if widens else effective)
        if saturate and not widens:
            wanted = clamped(wanted, dst)
        assert_same(inputs(src), patterns_or_nan(got), wanted)


@pytest.mark.parametrize("mode", ["none", *MODES])
@pytest.mark.parametrize("target", TARGETS)
def test_f32_to_integral_f32(target, mode):
    effective = "rint" if mode in ("none", "odd") else mode
    wanted = []
    for value, integer in zip(f32_values(), whole("f32", effective), strict=True):
        if isinstance(integer, str):
            wanted.append(-1 if integer.endswith("nan") else oracle.encode_exact(integer, "f32"))
        else:
            negative_zero = integer == 0 and isinstance(value, Fraction) and value < 0
            rounded = "-0" if negative_zero else Fraction(integer)
            wanted.append(oracle.encode_exact(rounded, "f32"))
    got = converter("f32", "f32", rounding=mode, saturate=True, target=target)(inputs("f32"))
    assert_same(inputs("f32"), patterns_or_nan(got), np.array(wanted))


@pytest.mark.parametrize(("target", "src", "dst"), of_kinds(("float",), "code"))
def test_float_to_code(target, src, dst):
    """No mode but that of the pair; fp4 obeys its modes, whose results are recorded
    (tests/ops/tile/test_fp4_rounding.py)."""
    modes = ("none", "rint") if dst.startswith("f4") else ("none", *MODES)
    for saturate in (True, False):
        wanted = np.array([oracle.to_code(v, dst, saturate=saturate) for v in values(src)])
        for mode in modes:
            got = converter(src, dst, rounding=mode, saturate=saturate, target=target)
            assert_same(inputs(src), got(inputs(src)), wanted)


@pytest.mark.parametrize(("target", "src", "dst"), of_kinds(("code",), "float"))
def test_code_to_float(target, src, dst):
    codes = np.arange(16 if lookup(src).bits == 4 else 256, dtype=np.uint8)
    got = converter(src, dst, rounding="rint", saturate=True, target=target)(codes)
    assert got.dtype == lookup(dst).dtype
    decoded = [oracle.decode(code, src) for code in codes.tolist()]
    wanted = [oracle.to_float(value, dst, "rint", saturate=False) for value in decoded]
    wanted_patterns = np.array([-1 if result is None else result for result in wanted])
    assert_same(codes, patterns_or_nan(got), wanted_patterns)


@pytest.mark.parametrize(("target", "src", "dst"), of_kinds(("signed", "unsigned"), "float"))
def test_integer_to_float(target, src, dst):
    integers = int_probes(src)
    array = np.array(integers, dtype=lookup(src).dtype)
    wanted = [oracle.to_float(Fraction(n), dst, "rint", saturate=True) for n in integers]
    for saturate in (True, False):
        got = converter(src, dst, rounding="rint", saturate=saturate, target=target)(array)
        assert_same(array, np.array(patterns_of(got)), np.array(wanted))


@pytest.mark.parametrize(
    ("target", "src", "dst"),
    of_kinds(("signed", "unsigned"), "signed") + of_kinds(("signed", "unsigned"), "unsigned"),
)
def test_integer_to_integer(target, src, dst):
    integers = int_probes(src)
    array = np.array(integers, dtype=lookup(src).dtype)
    low, high = oracle.INT_RANGES[dst]
    on = converter(src, dst, rounding="rint", saturate=True, target=target)(array)
    assert on.tolist() == [min(max(n, low), high) for n in integers]
    off = converter(src, dst, rounding="rint", saturate=False, target=target)(array)
    assert off.tolist() == [oracle.low_bits(n, dst) for n in integers]
