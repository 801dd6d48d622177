"""Rounding to integral values and to narrower floats, in the six modes of the ISA."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptosim.machine.numbers.formats import lookup
from ptosim.machine.numbers.rounding import MODES, narrow, to_integral
from tests.machine.numbers.helpers import (
    array,
    f32_probes,
    f32_values,
    from_patterns,
    hexes,
    integral,
    patterns_of,
)
from tests.oracle import numerics as oracle

pytestmark = pytest.mark.sampled(4)

HALVES = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]


class TestToIntegral:
    @pytest.mark.parametrize(
        ("mode", "expected"),
        [
            ("rint", [-2, -2, -0.0, 0, 2, 2]),
            ("round", [-3, -2, -1, 1, 2, 3]),
            ("floor", [-3, -2, -1, 0, 1, 2]),
            ("ceil", [-2, -1, -0.0, 1, 2, 3]),
            ("trunc", [-2, -1, -0.0, 0, 1, 2]),
            ("odd", [-3, -1, -1, 1, 1, 3]),
        ],
    )
    def test_halves(self, mode, expected):
        # Ties to even, ties away from zero, the three directions; odd truncates and makes the
        # result odd when something was lost, also when that was little.
        rounded = to_integral(np.array(HALVES, dtype=np.float32), mode)
        assert rounded.tolist() == expected
        assert np.signbit(rounded).tolist() == np.signbit(expected).tolist()

    def test_odd_looks_at_any_lost_bit(self):
        values = np.array([2.0, 2.0000002, 1.9999999, -4.0000005], dtype=np.float32)
        assert to_integral(values, "odd").tolist() == [2, 3, 1, -5]

    def test_half_away_does_not_add_one_half(self):
        # 0.49999997 + 0.5 is 1.0 in f32; 8388609 + 0.5 is 8388610.
        values = np.array([0.49999997, -0.49999997, 8388609.0], dtype=np.float32)
        assert to_integral(values, "round").tolist() == [0, 0, 8388609]

    @pytest.mark.parametrize("mode", MODES)
    def test_f32_boundaries(self, mode):
        rounded = patterns_of(to_integral(from_patterns("f32", f32_probes()), mode))
        wrong = [
            f"{pattern:08X}"
            for pattern, value, got in zip(f32_probes(), f32_values(), rounded, strict=True)
            if isinstance(value, Fraction) and oracle.decode(got, "f32") != integral(value, mode)
        ]
        assert wrong == []

    @pytest.mark.parametrize("mode", MODES)
    def test_specials_pass(self, mode):
        specials = array("f32", "7F800000 FF800000 00000000 80000000")
        assert hexes(to_integral(specials, mode)) == hexes(specials)
        assert np.isnan(to_integral(array("f32", "7F800001 FFC00000"), mode)).all()

    def test_unknown_modes_are_refused(self):
        with pytest.raises(ValueError, match="unknown rounding mode 'none'; known: rint round"):
            to_integral(np.zeros(1, dtype=np.float32), "none")


class TestNarrow:
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("dst", ["f16", "bf16"])
    @pytest.mark.parametrize("saturate", [True, False])
    def test_f32_boundaries(self, dst, mode, saturate):
        values = from_patterns("f32", f32_probes())
        got = narrow(values, dst, mode, saturate=saturate)
        assert_floats(f32_values(), got, dst, mode, saturate=saturate)

    @pytest.mark.parametrize(
        ("mode", "expected"),
        [
            ("rint", "3C00 3C02 BC00 BC02"),
            ("round", "3C01 3C02 BC01 BC02"),
            ("floor", "3C00 3C01 BC01 BC02"),
            ("ceil", "3C01 3C02 BC00 BC01"),
            ("trunc", "3C00 3C01 BC00 BC01"),
            ("odd", "3C01 3C01 BC01 BC01"),
        ],
    )
    def test_ties_between_two_f16_values(self, mode, expected):
        # 1 + 2^-11 and 1 + 3*2^-11 are halfway between f16 values; odd keeps an odd last bit.
        values = np.array([1 + 2**-11, 1 + 3 * 2**-11], dtype=np.float32)
        both = np.concatenate([values, -values])
        assert hexes(narrow(both, "f16", mode, saturate=False)) == expected

    @pytest.mark.parametrize(
        ("mode", "expected"),
        [
            ("rint", "7C00 FC00 7BFF"),
            ("floor", "7BFF FC00 7BFF"),
            ("ceil", "7C00 FBFF 7C00"),
            ("trunc", "7BFF FBFF 7BFF"),
            ("odd", "7BFF FBFF 7BFF"),
        ],
    )
    def test_overflow_goes_the_way_of_the_rounding(self, mode, expected):
        # 65519.996 is the last f32 value that still rounds to 65504.
        values = array("f32", "477FF000 C77FF000 477FEFFF")
        assert hexes(narrow(values, "f16", mode, saturate=False)) == expected
        assert hexes(narrow(values, "f16", mode, saturate=True)) == "7BFF FBFF 7BFF"

    def test_infinities_saturate_only_on_request_and_nan_stays(self):
        specials = array("f32", "7F800000 FF800000")
        assert hexes(narrow(specials, "bf16", "rint", saturate=True)) == "7F7F FF7F"
        assert hexes(narrow(specials, "bf16", "rint", saturate=False)) == "7F80 FF80"
        nans = narrow(array("f32", "7F800001 FFFFFFFF"), "f16", "rint", saturate=True)
        assert np.isnan(nans).all()

    @pytest.mark.parametrize("dst", ["f32", "f16", "bf16"])
    @given(bits=st.integers(0, 2**64 - 1), mode=st.sampled_from(MODES))
    def test_f64_in_one_rounding(self, dst, bits, mode):
        value = oracle.decode(bits, "f64")
        got = narrow(from_patterns("f64", [bits]), dst, mode, saturate=False)
        assert_floats([value], got, dst, mode, saturate=False)

    @pytest.mark.parametrize("dst", ["f32", "f16", "bf16"])
    def test_f64_just_beside_a_tie(self, dst):
        # Rounding through f32 first would lose the last bit and see a tie.
        half_step = {"f32": -24, "f16": -11, "bf16": -8}[dst]
        value = np.array([1 + 2.0**half_step + 2.0**-52])
        got = narrow(value, dst, "rint", saturate=False)
        assert patterns_of(got) == [patterns_of(np.ones(1, lookup(dst).dtype))[0] + 1]

    def test_what_cannot_be_done_is_refused(self):
        with pytest.raises(ValueError, match="cannot narrow to f64"):
            narrow(np.zeros(1, dtype=np.float32), "f64", "rint", saturate=True)


def assert_floats(
    values: list[oracle.Value], got: np.ndarray, dst: str, mode: str, *, saturate: bool
) -> None:
    nan = np.isnan(got)
    patterns = patterns_of(got)
    wrong = []
    for index, value in enumerate(values):
        expected = oracle.to_float(value, dst, mode, saturate=saturate)
        same = bool(nan[index]) if expected is None else patterns[index] == expected
        if not same:
            wrong.append((value, hex(patterns[index]), expected))
    assert wrong == []
