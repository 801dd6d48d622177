"""Words of arithmetic: each has one meaning, of the numbers of the scalar unit as of lanes, under
each of its rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptosim.machine.numbers.formats import lookup
from ptosim.machine.numbers.lanes import COMPARISONS, WORDS, of, of_numbers
from tests.machine.numbers.helpers import array, from_patterns, hexes

NAN, INF = np.nan, np.inf


def i32(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def f32(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def divided(a: np.ndarray, b: np.ndarray, rule: str = "zero") -> np.ndarray:
    return of("div", a.dtype, rule)(a, b)


def maximum(a: np.ndarray, b: np.ndarray, rule: str = "cpu") -> np.ndarray:
    return of("max", a.dtype, rule)(a, b)


def minimum(a: np.ndarray, b: np.ndarray, rule: str = "cpu") -> np.ndarray:
    return of("min", a.dtype, rule)(a, b)


BYTES = np.arange(256, dtype=np.uint8)
ON_INTEGERS = sorted(name for name, word in WORDS.items() if word.integers is not None)
ON_FLOATS = sorted(name for name, word in WORDS.items() if word.floats is not None)
DIVIDES = {"div", "rem", "mod", "ceildiv", "floordiv"}


def wrapped(value: int, lanes: np.dtype) -> int:
    low = value & 0xFF
    return low - 256 if lanes.kind == "i" and low >= 128 else low


@pytest.mark.parametrize("kind", ["i1", "u1"])
@pytest.mark.parametrize("word", ON_INTEGERS)
def test_lanes_are_what_exact_integers_are_modulo_the_width(word: str, kind: str) -> None:
    """Every byte with every byte; shifts by less than the width, nothing divided by zero."""
    lanes = np.dtype(kind)
    first, second = np.repeat(BYTES, 256).view(lanes), np.tile(BYTES, 256).view(lanes)
    keep = second != 0 if word in DIVIDES else (second >= 0) & (second < 8)
    keep |= word not in DIVIDES and not word.startswith("sh")
    first, second = first[keep], second[keep]
    exact = of_numbers(word, floats=False)
    with np.errstate(all="ignore"):
        found = of(word, lanes)(first, second)
    assert found.dtype == lanes
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    assert found.tolist() == [wrapped(exact(a, b), lanes) for a, b in pairs]


@pytest.mark.parametrize("word", ON_FLOATS)
def test_lanes_are_what_floats_are(word: str) -> None:
    """In f64, where nothing is rounded again; of NaN only that it is one."""
    numbers = [0.0, -0.0, 1.0, -1.5, 2.5, -7.25, 1e300, 5e-324, INF, -INF, NAN]
    first, second = (np.array(v) for v in (np.repeat(numbers, 11), np.tile(numbers, 11)))
    exact = of_numbers(word, floats=True)
    with np.errstate(all="ignore"):
        found = of(word, first.dtype)(first, second)
        wanted = [exact(a, b) for a, b in zip(first.tolist(), second.tolist(), strict=True)]
    for got, want in zip(found.tolist(), wanted, strict=True):
        assert (np.isnan(got) and np.isnan(want)) or got.hex() == float(want).hex()


@pytest.mark.parametrize("word", COMPARISONS)
def test_comparisons_are_of_numbers_and_of_lanes(word: str) -> None:
    first, second = f32(0.0, 1, NAN, 2), f32(-0.0, 2, 1, 1)
    lanes = COMPARISONS[word](first, second).tolist()
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    assert lanes == [COMPARISONS[word](a, b) for a, b in pairs]


def test_one_bit_adds_without_carry() -> None:
    bits = np.array([False, True])
    assert of("add", bits.dtype)(bits, bits[::-1]).tolist() == [True, True]
    assert of("sub", bits.dtype)(bits, bits).tolist() == [False, False]
    assert of("mul", bits.dtype)(bits, bits).tolist() == [False, True]


class TestIntegerDivision:
    def test_truncates_toward_zero(self):
        got = divided(i32(7, -7, 7, -7, 6), i32(2, 2, -2, -2, -3))
        assert got.tolist() == [3, -3, -3, 3, -2]

    def test_overflow_wraps_and_zero_gives_zero(self):
        got = divided(i32(-(2**31), 5, -5, 0), i32(-1, 0, 0, 0))
        assert got.tolist() == [-(2**31), 0, 0, 0]

    def test_unsigned(self):
        big = np.array([2**32 - 1], dtype=np.uint32)
        assert divided(big, np.array([2], dtype=np.uint32)).tolist() == [2**31 - 1]

    def test_or_every_bit_by_the_other_rule(self):
        got = divided(i32(-(2**31), 5, -7), i32(-1, 0, 2), "ones")
        assert got.tolist() == [-(2**31), -1, -3]


class TestSlopes:
    """Of a zero, and of an infinite slope, the three rules differ."""

    def test_rules(self):
        values, slopes = f32(-0.0, 0.0, NAN, 2, -2), f32(INF, INF, 1, INF, 0.5)
        with np.errstate(invalid="ignore"):
            found = {
                rule: of("lrelu", values.dtype, rule)(values, slopes).tolist()
                for rule in WORDS["lrelu"].rules
            }
        assert str(found["from_zero"]) == "[-0.0, 0.0, nan, 2.0, -1.0]"
        assert str(found["above_zero"]) == "[nan, nan, nan, 2.0, -1.0]"
        assert str(found["sum"]) == "[nan, nan, nan, nan, -1.0]"


class TestMaxMin:
    """`cpu` keeps the first operand unless the second wins; `spec` prefers numbers to NaN."""

    def test_cpu_rule_as_measured(self):
        first, second = f32(NAN, 1, -0.0, 0.0, 2), f32(1, NAN, 0.0, -0.0, 3)
        assert hexes(maximum(first, second)) == ("7FC00000 3F800000 80000000 00000000 40400000")
        assert hexes(minimum(first, second)) == ("7FC00000 3F800000 80000000 00000000 40000000")

    @pytest.mark.parametrize("form", ["f32", "f16", "bf16"])
    def test_spec_rule(self, form):
        dtype = lookup(form).dtype
        first = np.array([NAN, 1, -0.0, 0.0, -0.0, 2, -INF], dtype=dtype)
        second = np.array([1, NAN, 0.0, -0.0, -0.0, 3, NAN], dtype=dtype)
        largest = maximum(first, second, "spec")
        expected = np.array([1, 1, 0.0, 0.0, -0.0, 3, -INF], dtype=dtype)
        assert hexes(largest) == hexes(expected)
        smallest = minimum(first, second, "spec")
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
        assert hexes(maximum(operands, operands[::-1], "spec")) == canonical
        assert hexes(minimum(operands, operands[::-1], "spec")) == canonical

    @pytest.mark.parametrize("nan", ["cpu", "spec"])
    def test_integers_have_no_rule(self, nan):
        assert maximum(i32(-1, 5), i32(3, -7), nan).tolist() == [3, 5]
        assert minimum(i32(-1, 5), i32(3, -7), nan).tolist() == [-1, -7]

    def test_unknown_rules_are_refused(self):
        with pytest.raises(ValueError, match="unknown rule of max 'ieee'; known: nan cpu spec"):
            maximum(f32(1), f32(2), "ieee")

    @pytest.mark.parametrize("nan", ["cpu", "spec"])
    def test_operands_stay_as_they_were(self, nan):
        first, second = f32(NAN, 0.0, 1), f32(NAN, -0.0, 2)
        before = hexes(first), hexes(second)
        maximum(first, second, nan)
        minimum(first, second, nan)
        assert (hexes(first), hexes(second)) == before

    @given(st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=20), st.randoms())
    def test_spec_max_is_commutative(self, patterns, random):
        other = patterns.copy()
        random.shuffle(other)
        first, second = from_patterns("f16", patterns), from_patterns("f16", other)
        forward = maximum(first, second, "spec")
        assert hexes(forward) == hexes(maximum(second, first, "spec"))
