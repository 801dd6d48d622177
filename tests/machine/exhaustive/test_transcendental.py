"""exp, log, roots, reciprocals and powers against fifty-digit decimal arithmetic."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from ptosim.machine.numbers import transcendental
from ptosim.machine.numbers.formats import lookup
from tests.machine.numbers.helpers import every16, every16_array, from_patterns, hexes, patterns_of
from tests.oracle import numerics as oracle

pytestmark = pytest.mark.slow

INF = np.inf
DIGITS = 50


def exact(function: str, value: Fraction) -> Fraction:
    """The function's value to fifty digits."""
    with localcontext(prec=DIGITS, Emin=-10000, Emax=10000):
        x = Decimal(value.numerator) / Decimal(value.denominator)
        results = {
            "exp": lambda: x.exp(),
            "log": lambda: x.ln(),
            "sqrt": lambda: x.sqrt(),
            "rsqrt": lambda: 1 / x.sqrt(),
            "recip": lambda: 1 / x,
        }
        return Fraction(results[function]())


def rounded(function: str, value: Fraction, form: str) -> int:
    result = oracle.round_to_format(exact(function, value), form, "rint")
    return oracle.encode_exact(result, form)


def domain(function: str, value: oracle.Value) -> bool:
    if isinstance(value, str):
        return False
    if function == "exp":
        return abs(value) < 120
    return value != 0 if function == "recip" else value > 0


FUNCTIONS = ("exp", "log", "sqrt", "rsqrt", "recip")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_third_f16(function):
    got = patterns_of(getattr(transcendental, function)(every16_array("f16")))
    wrong = [
        (hex(pattern), hex(got[pattern]))
        for pattern in range(0, 0x10000, 3)
        if domain(function, value := every16("f16")[pattern])
        and got[pattern] != rounded(function, value, "f16")
    ]
    assert wrong == []


@pytest.mark.parametrize("function", FUNCTIONS)
def test_f32_sample(function):
    generator = np.random.default_rng(17)
    if function == "exp":
        sample = generator.uniform(-103, 88.7, 3000).astype(np.float32)
        patterns = patterns_of(sample)
    else:
        corners = [1, 0x007FFFFF, 0x00800000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x7F7FFFFF]
        patterns = corners + generator.integers(1, 0x7F800000, 3000).tolist()
    got = patterns_of(getattr(transcendental, function)(from_patterns("f32", patterns)))
    wrong = []
    for pattern, result in zip(patterns, got, strict=True):
        value = oracle.decode(pattern, "f32")
        if result != rounded(function, value, "f32"):
            wrong.append((hex(pattern), hex(result)))
    assert wrong == []


@pytest.mark.parametrize("form", ["f32", "f16"])
@pytest.mark.parametrize(
    ("function", "inputs", "outputs"),
    [
        ("exp", [INF, -INF, 0, -0.0, 1000, -1000], [INF, 0, 1, 1, INF, 0]),
        ("log", [INF, 0, -0.0, 1], [INF, -INF, -INF, 0]),
        ("sqrt", [INF, 0, -0.0, 4], [INF, 0, -0.0, 2]),
        ("rsqrt", [INF, 0, -0.0, 4], [0, INF, -INF, 0.5]),
        ("recip", [INF, -INF, 0, -0.0], [0, -0.0, INF, -INF]),
    ],
)
def test_special_values(form, function, inputs, outputs):
    dtype = lookup(form).dtype
    got = getattr(transcendental, function)(np.array(inputs, dtype=dtype))
    assert hexes(got) == hexes(np.array(outputs, dtype=dtype))


@pytest.mark.parametrize("form", ["f32", "f16"])
@pytest.mark.parametrize("function", ["log", "sqrt", "rsqrt"])
def test_negative_arguments_give_nan(form, function):
    got = getattr(transcendental, function)(np.array([-1, -INF, np.nan], lookup(form).dtype))
    assert np.isnan(got).all()


@pytest.mark.parametrize("form", ["f32", "f16"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_out_may_be_the_input(form, function):
    compute = getattr(transcendental, function)
    values = np.linspace(0.5, 4, 64, dtype=np.float32).astype(lookup(form).dtype)
    expected = compute(values)
    out = np.empty_like(values)
    assert compute(values, out=out) is out
    assert hexes(out) == hexes(expected)
    every_second = np.empty(2 * values.size, dtype=values.dtype)[::2]
    assert hexes(compute(values, out=every_second).copy()) == hexes(expected)
    assert compute(values, out=values) is values
    assert hexes(values) == hexes(expected)


class TestPower:
    @pytest.mark.parametrize("form", ["f32", "f16"])
    def test_examples(self, form):
        dtype = lookup(form).dtype
        bases = np.array([2, 2, -2, 4, 0, 10, -1], dtype=dtype)
        exponents = np.array([10, -1, 3, 0.5, 0, 6, INF], dtype=dtype)
        million = INF if form == "f16" else 1e6
        assert transcendental.power(bases, exponents).tolist() == [1024, 0.5, -8, 2, 1, million, 1]

    def test_fractional_power_of_a_negative_is_nan(self):
        got = transcendental.power(np.float32([-2]), np.float32([0.5]))
        assert np.isnan(got).all()

    def test_out_may_be_an_operand(self):
        exponents = np.float32([2, 3])
        result = transcendental.power(np.float32([3, 2]), exponents, out=exponents)
        assert result is exponents
        assert result.tolist() == [9, 8]


def test_of_integers_the_fraction_is_lost():
    """C++ takes integers: the result is cast as C does."""
    assert transcendental.log(np.int32([1, 7, 8, 1000])).tolist() == [0, 1, 2, 6]
    assert transcendental.sqrt(np.int16([0, 8, 9])).tolist() == [0, 2, 3]
    assert transcendental.recip(np.uint8([1, 2])).tolist() == [1, 0]
