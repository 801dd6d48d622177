"""INT8 TQUANT and TDEQUANT."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ptosim.machine.numbers.integers import dequantize, half_image, quantize_int8
from tests.machine.numbers.helpers import array, from_patterns, hexes, patterns_of
from tests.oracle import groups
from tests.oracle import numerics as oracle


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)[:, None]


def codes(patterns: str, offset: float | None = None, **switches) -> str:
    """Codes of one row of f32 patterns with multiplier 1."""
    shift = None if offset is None else column(offset)
    return hexes(quantize_int8(array("f32", patterns)[None, :], column(1), shift, **switches).codes)


class TestInt8:
    def test_symmetric_rounds_ties_to_even_and_saturates(self):
        # 0.5, 1.5, 2.5, -2.5, 127.5, -128.5
        assert codes("3F000000 3FC00000 40200000 C0200000 42FF0000 C3008000") == "00 02 02 FE 7F 80"

    def test_asymmetric_adds_the_offset_before_rounding_into_0_to_255(self):
        # -0.5 + 128 = 127.5 -> 128, -128.5 + 128 = -0.5 -> 0, 127.5 + 128 = 255.5 -> 255
        assert codes("BF000000 C3008000 42FF0000", 128) == "80 00 FF"

    def test_the_published_description_differs(self):
        # 0.5 with offset 1: implementations round 1.5 to 2, the description rounds 0.5 to 0 first.
        assert codes("3F000000", 1) == "02"
        assert codes("3F000000", 1, offset_at="post") == "01"
        values = column(3, 5).reshape(1, 2)
        assert quantize_int8(values, column(2)).codes.tolist() == [[6, 10]]
        assert quantize_int8(values, column(2), scale_by="div").codes.tolist() == [[2, 2]]

    def test_measured_vector(self):
        values = np.array([[0.5, 1.5, 2.5, -0.5, -1.5, 70000, -70000, 3.7]], dtype=np.float32)
        assert quantize_int8(values, column(2)).codes.tolist() == [[1, 3, 5, -1, -3, 127, -128, 7]]

    @pytest.mark.parametrize("switch", [{"scale_by": "inv"}, {"offset_at": "end"}])
    def test_unknown_choices_are_refused(self, switch):
        with pytest.raises(ValueError, match=f"unknown {next(iter(switch))}"):
            quantize_int8(column(1), column(1), **switch)

    def test_infinities_saturate_and_nan_is_zero(self):
        specials = "7F800000 FF800000 7FC00000 7F800001"
        assert codes(specials) == "7F 80 00 00"
        assert codes(specials, 3) == "FF 00 00 00"
        assert codes(specials, 3, offset_at="post") == "FF 00 03 03"

    def test_product_and_sum_round_separately(self):
        # 4097 * 4097 = 16785409 needs 25 bits; rounded to f32 it is 16785408, and adding
        # -16785408 leaves 0 where one fused rounding would leave 1.
        values = column(4097)
        assert quantize_int8(values, column(4097), column(-16785408)).codes.tolist() == [[0]]

    def test_every_stage_is_returned(self):
        values = column(1.25, 3e9)
        result = quantize_int8(values, column(2, 1), column(0.25, 0))
        assert result.products.tolist() == [[2.75], [3e9]]
        assert result.integers.tolist() == [[3], [2**31 - 1]]
        assert result.codes.dtype == np.uint8
        assert values.tolist() == [[1.25], [3e9]]

    def test_parameters_may_differ_per_lane(self):
        values = np.ones((2, 2), dtype=np.float32)
        lanes = np.array([[1, 2], [3, 4]], dtype=np.float32)
        assert quantize_int8(values, lanes).codes.tolist() == [[1, 2], [3, 4]]

    @pytest.mark.parametrize("asymmetric", [False, True])
    def test_against_the_oracle(self, asymmetric):
        generator = np.random.default_rng(3)
        exponents = generator.integers(110, 150, (20, 32))
        mantissas = generator.integers(0, 1 << 23, (20, 32)) >> 16 << 16
        signs = generator.integers(0, 2, (20, 32)) << 31
        patterns = signs | exponents << 23 | mantissas
        scale = 2.0 ** generator.integers(-8, 3, 20) * generator.choice([1, 1 / 3, 0.7], 20)
        scale = scale.astype(np.float32)
        offset = generator.choice([-1.5, 0, 0.5, 100, 127.25], 20).astype(np.float32)
        values = from_patterns("f32", patterns.tolist())
        shift = offset[:, None] if asymmetric else None
        got = quantize_int8(values, scale[:, None], shift).codes.tolist()
        for row in range(20):
            factor = Fraction(float(scale[row]))
            zero = Fraction(float(offset[row])) if asymmetric else None
            expected = [
                groups.int8_code(oracle.decode(pattern, "f32"), factor, zero)
                for pattern in patterns[row].tolist()
            ]
            assert got[row] == expected, f"row {row}"


class TestHalfImage:
    def test_integers_round_to_even_and_clamp(self):
        integers = np.array([3, 2049, 2051, 65519, 65520, -(2**31)], dtype=np.int32)
        assert half_image(integers).tolist() == [3, 2048, 2052, 65504, 65504, -65504]

    def test_the_detour_through_f16_never_changes_the_result(self):
        # Integers beyond 2048 lose bits in f16, but are far out of 8 bits already.
        integers = np.arange(-70000, 70001, dtype=np.int32)
        detour = half_image(integers).astype(np.float64)
        for low, high in ((-128, 127), (0, 255)):
            direct = np.clip(integers, low, high)
            assert np.array_equal(np.clip(detour, low, high), direct)


class TestDequantize:
    def test_worked_examples(self):
        # -32768 with scale 1; (-128 - 127.5) * 0.5 = -127.75.
        wide = dequantize(np.array([[-32768]], dtype=np.int16), column(1), column(0))
        assert hexes(wide) == "C7000000"
        narrow = dequantize(array("i8", "80")[None, :], column(0.5), array("f32", "42FF0000"))
        assert hexes(narrow) == "C2FF8000"

    def test_subtraction_rounds_before_the_multiplication(self):
        # 1 - 2^-25 rounds to 1 in f32.
        result = dequantize(np.array([[1]], dtype=np.int8), column(3), column(2.0**-25))
        assert result.tolist() == [[3]]

    def test_out_receives_the_result(self):
        out = np.empty((1, 2), dtype=np.float32)
        codes_ = np.array([[1, 2]], dtype=np.uint8)
        assert dequantize(codes_, column(2), column(1), out=out) is out
        assert out.tolist() == [[0, 2]]

    def test_every_int8_code_against_the_oracle(self):
        every = np.arange(-128, 128, dtype=np.int8)[None, :]
        scale, offset = np.float32(1 / 3), np.float32(0.3)
        got = patterns_of(dequantize(every, column(scale), column(offset)))
        factor, zero = Fraction(float(scale)), Fraction(float(offset))
        for code, pattern in zip(range(-128, 128), got, strict=True):
            difference = oracle.round_to_format(code - zero, "f32", "rint")
            product = oracle.round_to_format(difference * factor, "f32", "rint")
            assert pattern == oracle.encode_exact(product, "f32")
