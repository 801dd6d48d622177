"""Remainders and integer powers."""

from __future__ import annotations

from fractions import Fraction
from math import floor, trunc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ptosim.machine.numbers import transcendental
from ptosim.machine.numbers.lanes import of
from tests.machine.numbers.helpers import patterns_of
from tests.oracle import numerics as oracle

NAN, INF = np.nan, np.inf
int32s = st.one_of(st.integers(-5, 5), st.integers(-(2**31), 2**31 - 1))


def i32(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def f32(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


class TestIntegerRemainders:
    @given(a=int32s, b=int32s.filter(bool))
    def test_quotient_and_remainder_belong_together(self, a, b):
        quotient = of("div", np.dtype(np.int32))(i32(a), i32(b))
        rest = transcendental.trunc_modulo(i32(a), i32(b))
        assert quotient[0] == oracle.low_bits(trunc(Fraction(a, b)), "i32")
        assert oracle.low_bits(int(quotient[0]) * b + int(rest[0]), "i32") == a
        assert abs(int(rest[0])) < abs(b)
        assert rest[0] == 0 or (rest[0] < 0) == (a < 0)

    @given(a=int32s, b=int32s.filter(bool))
    def test_floor_modulo_has_the_sign_of_the_divisor(self, a, b):
        assert transcendental.floor_modulo(i32(a), i32(b))[0] == a - b * floor(Fraction(a, b))

    def test_modulo_by_zero_is_zero(self):
        assert transcendental.floor_modulo(i32(5), i32(0)).tolist() == [0]
        assert transcendental.trunc_modulo(i32(5), i32(0)).tolist() == [0]


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
        assert transcendental.floor_modulo(a, b).tolist() == [1.5, 0.5, -0.5, -1.5]
        assert transcendental.trunc_modulo(a, b).tolist() == [1.5, -1.5, 1.5, -1.5]

    def test_sign_fix_repairs_a_quotient_that_was_rounded_up(self):
        # a is just below 7b, but fl(a / b) is 7, so the remainder comes out negative.
        a, b = misrounded()
        raw = transcendental.floor_modulo(f32(a), f32(b), sign_fix=False)
        fixed = transcendental.floor_modulo(f32(a), f32(b))
        assert raw[0] < 0
        assert fixed[0] == np.float32(raw[0] + np.float32(b))
        assert fixed[0] >= 0

    def test_f32_is_a_chain_of_rounded_steps(self):
        generator = np.random.default_rng(23)
        a = (generator.standard_normal(500) * 1000).astype(np.float32)
        b = generator.uniform(0.01, 30, 500).astype(np.float32)
        floored = transcendental.floor_modulo(a, b, sign_fix=False).tolist()
        truncated = transcendental.trunc_modulo(a, b).tolist()
        for i in range(500):
            x, y = Fraction(float(a[i])), Fraction(float(b[i]))
            assert Fraction(floored[i]) == chain(x, y, floor)
            assert Fraction(truncated[i]) == chain(x, y, trunc)

    def test_f16_computes_in_f32(self):
        generator = np.random.default_rng(29)
        a = generator.uniform(-60000, 60000, 500).astype(np.float16)
        b = generator.uniform(0.001, 0.1, 500).astype(np.float16)
        got = patterns_of(transcendental.trunc_modulo(a, b))
        for i in range(500):
            rest = chain(Fraction(float(a[i])), Fraction(float(b[i])), trunc)
            assert Fraction(oracle.decode(got[i], "f16")) == rest

    def test_and_narrows_toward_zero(self):
        # 1000 - 2^-10 is between the f16 values 999.5 and 1000.
        got = transcendental.floor_modulo(
            np.array([-(2**-10)], dtype=np.float16), np.array([1000], dtype=np.float16)
        )
        assert got.tolist() == [999.5]

    def test_f16_fixes_the_sign_in_f16(self):
        got = transcendental.floor_modulo(
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
        got = transcendental.power_int(bases, exponents)
        assert got.tolist() == [1024, wrapped, 0, -8, 1, -1, 1, 0, 0]
        assert got.dtype == np.int32
