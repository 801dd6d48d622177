"""Integer division, modulo, and the NaN rules of max and min."""

from __future__ import annotations

from fractions import Fraction
from math import floor, trunc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptosim.machine.numbers import elementwise
from ptosim.machine.numbers.formats import lookup
from tests.oracle import numerics as oracle
from tests.unit.numerics.helpers import array, from_patterns, hexes, patterns_of

NAN, INF = np.nan, np.inf
int32s = st.one_of(st.integers(-5, 5), st.integers(-(2**31), 2**31 - 1))


def i32(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def f32(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


class TestIntegerDivision:
    def test_truncates_toward_zero(self):
        got = elementwise.divide_int(i32(7, -7, 7, -7, 6), i32(2, 2, -2, -2, -3))
        assert got.tolist() == [3, -3, -3, 3, -2]

    def test_overflow_wraps_and_zero_gives_zero(self):
        got = elementwise.divide_int(i32(-(2**31), 5, -5, 0), i32(-1, 0, 0, 0))
        assert got.tolist() == [-(2**31), 0, 0, 0]

    def test_unsigned(self):
        big = np.array([2**32 - 1], dtype=np.uint32)
        assert elementwise.divide_int(big, np.array([2], dtype=np.uint32)).tolist() == [2**31 - 1]

    @given(a=int32s, b=int32s.filter(bool))
    def test_quotient_and_remainder_belong_together(self, a, b):
        quotient = elementwise.divide_int(i32(a), i32(b))
        rest = elementwise.trunc_modulo(i32(a), i32(b))
        assert quotient[0] == oracle.low_bits(trunc(Fraction(a, b)), "i32")
        assert oracle.low_bits(int(quotient[0]) * b + int(rest[0]), "i32") == a
        assert abs(int(rest[0])) < abs(b)
        assert rest[0] == 0 or (rest[0] < 0) == (a < 0)

    @given(a=int32s, b=int32s.filter(bool))
    def test_floor_modulo_has_the_sign_of_the_divisor(self, a, b):
        assert elementwise.floor_modulo(i32(a), i32(b))[0] == a - b * floor(Fraction(a, b))

    def test_modulo_by_zero_is_zero(self):
        assert elementwise.floor_modulo(i32(5), i32(0)).tolist() == [0]
        assert elementwise.trunc_modulo(i32(5), i32(0)).tolist() == [0]


def f32_step(value: Fraction) -> Fraction:
    rounded = oracle.round_to_format(value, "f32", "rint")
    return Fraction(0) if rounded == "-0" else rounded


def chain(a: Fraction, b: Fraction, whole) -> Fraction:
    """a - fl(whole(fl(a / b)) * b), each step rounded to f32."""
    return f32_step(a - f32_step(whole(f32_step(a / b)) * b))


class TestFloatModulo:
    def test_signs(self):
        # Floor takes the sign of the divisor, truncation that of the dividend.
        a, b = f32(5.5, -5.5, 5.5, -5.5), f32(2, 2, -2, -2)
        assert elementwise.floor_modulo(a, b).tolist() == [1.5, 0.5, -0.5, -1.5]
        assert elementwise.trunc_modulo(a, b).tolist() == [1.5, -1.5, 1.5, -1.5]

    def test_sign_fix_repairs_a_quotient_that_was_rounded_up(self):
        # a is just below 7b, but fl(a / b) is 7, so the remainder comes out negative.
        a, b = misrounded()
        raw = elementwise.floor_modulo(f32(a), f32(b), sign_fix=False)
        fixed = elementwise.floor_modulo(f32(a), f32(b))
        assert raw[0] < 0
        assert fixed[0] == np.float32(raw[0] + np.float32(b))
        assert fixed[0] >= 0

    def test_f32_is_a_chain_of_rounded_steps(self):
        generator = np.random.default_rng(23)
        a = (generator.standard_normal(500) * 1000).astype(np.float32)
        b = generator.uniform(0.01, 30, 500).astype(np.float32)
        floored = elementwise.floor_modulo(a, b, sign_fix=False).tolist()
        truncated = elementwise.trunc_modulo(a, b).tolist()
        for i in range(500):
            x, y = Fraction(float(a[i])), Fraction(float(b[i]))
            assert Fraction(floored[i]) == chain(x, y, floor)
            assert Fraction(truncated[i]) == chain(x, y, trunc)

    def test_f16_computes_in_f32(self):
        generator = np.random.default_rng(29)
        a = generator.uniform(-60000, 60000, 500).astype(np.float16)
        b = generator.uniform(0.001, 0.1, 500).astype(np.float16)
        got = patterns_of(elementwise.trunc_modulo(a, b))
        for i in range(500):
            rest = chain(Fraction(float(a[i])), Fraction(float(b[i])), trunc)
            assert Fraction(oracle.decode(got[i], "f16")) == rest

    def test_and_narrows_toward_zero(self):
        # 1000 - 2^-10 is between the f16 values 999.5 and 1000.
        got = elementwise.floor_modulo(
            np.array([-(2**-10)], dtype=np.float16), np.array([1000], dtype=np.float16)
        )
        assert got.tolist() == [999.5]

    def test_f16_fixes_the_sign_in_f16(self):
        got = elementwise.floor_modulo(
            np.array([-5.5, 5.5], dtype=np.float16), np.array([2, -2], dtype=np.float16)
        )
        assert got.dtype == np.float16
        assert got.tolist() == [0.5, -0.5]


def misrounded() -> tuple[float, float]:
    """Positive a and b with a negative remainder, found by search."""
    generator = np.random.default_rng(31)
    for _ in range(10000):
        b = np.float32(generator.uniform(0.1, 1))
        a = np.float32(np.nextafter(np.float32(b * np.float32(7)), np.float32(0)))
        x, y = Fraction(float(a)), Fraction(float(b))
        if chain(x, y, floor) < 0:
            return float(a), float(b)
    raise AssertionError("no such pair found")


class TestIntegerPower:
    def test_wraps_and_handles_negative_exponents(self):
        bases = i32(2, 3, 2, -2, 1, -1, -1, 5, 0)
        exponents = i32(10, 21, 33, 3, -5, -5, -4, -1, -1)
        wrapped = oracle.low_bits(3**21, "i32")
        got = elementwise.power_int(bases, exponents)
        assert got.tolist() == [1024, wrapped, 0, -8, 1, -1, 1, 0, 0]
        assert got.dtype == np.int32


class TestMaxMin:
    """`cpu` keeps the first operand unless the second wins; `spec` prefers numbers to NaN."""

    def test_cpu_rule_as_measured(self):
        first, second = f32(NAN, 1, -0.0, 0.0, 2), f32(1, NAN, 0.0, -0.0, 3)
        assert hexes(elementwise.maximum(first, second)) == (
            "7FC00000 3F800000 80000000 00000000 40400000"
        )
        assert hexes(elementwise.minimum(first, second)) == (
            "7FC00000 3F800000 80000000 00000000 40000000"
        )

    @pytest.mark.parametrize("form", ["f32", "f16", "bf16"])
    def test_spec_rule(self, form):
        dtype = lookup(form).dtype
        first = np.array([NAN, 1, -0.0, 0.0, -0.0, 2, -INF], dtype=dtype)
        second = np.array([1, NAN, 0.0, -0.0, -0.0, 3, NAN], dtype=dtype)
        largest = elementwise.maximum(first, second, "spec")
        expected = np.array([1, 1, 0.0, 0.0, -0.0, 3, -INF], dtype=dtype)
        assert hexes(largest) == hexes(expected)
        smallest = elementwise.minimum(first, second, "spec")
        expected = np.array([1, 1, -0.0, -0.0, -0.0, 2, -INF], dtype=dtype)
        assert hexes(smallest) == hexes(expected)

    @pytest.mark.parametrize(
        ("form", "nans", "canonical"),
        [
            ("f32", "7F800001 FFFFFFFF", "7FC00000 7FC00000"),
            ("f16", "7C01 FFFF", "7E00 7E00"),
            ("bf16", "7F81 FFFF", "7FC0 7FC0"),
        ],
    )
    def test_two_nans_give_the_canonical_one(self, form, nans, canonical):
        operands = array(form, nans)
        assert hexes(elementwise.maximum(operands, operands[::-1], "spec")) == canonical
        assert hexes(elementwise.minimum(operands, operands[::-1], "spec")) == canonical

    @pytest.mark.parametrize("nan", ["cpu", "spec"])
    def test_integers_have_no_rule(self, nan):
        assert elementwise.maximum(i32(-1, 5), i32(3, -7), nan).tolist() == [3, 5]
        assert elementwise.minimum(i32(-1, 5), i32(3, -7), nan).tolist() == [-1, -7]

    def test_unknown_rules_are_refused(self):
        with pytest.raises(ValueError, match="unknown NaN rule 'ieee'; known: cpu spec"):
            elementwise.maximum(f32(1), f32(2), "ieee")

    @pytest.mark.parametrize("nan", ["cpu", "spec"])
    def test_operands_stay_as_they_were(self, nan):
        first, second = f32(NAN, 0.0, 1), f32(NAN, -0.0, 2)
        before = hexes(first), hexes(second)
        elementwise.maximum(first, second, nan)
        elementwise.minimum(first, second, nan)
        assert (hexes(first), hexes(second)) == before

    @given(st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=20), st.randoms())
    def test_spec_max_is_commutative(self, patterns, random):
        other = patterns.copy()
        random.shuffle(other)
        first, second = from_patterns("f16", patterns), from_patterns("f16", other)
        forward = elementwise.maximum(first, second, "spec")
        assert hexes(forward) == hexes(elementwise.maximum(second, first, "spec"))
