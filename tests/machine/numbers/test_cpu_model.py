"""TCVT of the public CPU simulator, defects included: each test names one of them."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.machine.numbers.cpu_model import cpu_converter
from tests.machine.numbers.helpers import array, hexes

NAN, INF = np.nan, np.inf


def convert(values, src, dst, *, rounding="rint", saturate=False):
    return cpu_converter(src, dst, rounding=rounding, saturate=saturate)(values)


def f32(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def f16(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float16)


class TestIntegers:
    def test_nan_saturates_to_the_upper_limit(self):
        assert convert(f16(NAN), "f16", "i8", saturate=True).tolist() == [127]
        assert convert(f16(NAN), "f16", "ui8", saturate=True).tolist() == [255]
        assert convert(f32(NAN), "f32", "i16", saturate=True).tolist() == [32767]
        assert hexes(convert(f32(NAN), "f32", "f16", saturate=True)) == "7BFF"

    def test_a_limit_the_source_cannot_hold_wraps(self):
        # 32767 is 32768 in f16, and 2^31 - 1 is 2^31 in f32.
        values = f16(32767, 40000, INF, -INF)
        got = convert(values, "f16", "i16", saturate=True)
        assert got.tolist() == [-32768, -32768, -32768, -32768]
        got = convert(f32(2.0**31, 1e30, 5), "f32", "i32", saturate=True)
        assert got.tolist() == [-(2**31), -(2**31), 5]

    def test_out_of_range_is_what_x86_leaves(self):
        values = f32(3e9, -3e9, NAN, INF, 70000)
        assert (
            hexes(convert(values, "f32", "i32")) == "80000000 80000000 80000000 80000000 00011170"
        )
        assert hexes(convert(values, "f32", "i16")) == "0000 0000 0000 0000 1170"
        # ui8 goes through 64 bits.
        assert hexes(convert(values, "f32", "ui8")) == "00 00 00 00 70"

    def test_odd_means_ties_to_odd(self):
        values = f32(0.5, 1.5, 2.5, 1.2, -0.5, -1.5)
        assert convert(values, "f32", "i32", rounding="odd").tolist() == [1, 1, 3, 1, -1, -1]

    def test_modes_matter_and_none_truncates(self):
        values = f32(1.5, -1.5)
        by_mode = {
            mode: convert(values, "f32", "i8", rounding=mode).tolist()
            for mode in ("none", "rint", "round", "floor", "ceil", "trunc")
        }
        assert by_mode == {
            "none": [1, -1],
            "rint": [2, -2],
            "round": [2, -2],
            "floor": [1, -2],
            "ceil": [2, -1],
            "trunc": [1, -1],
        }

    def test_narrowing_integers_wrap_unless_asked(self):
        values = np.array([70000, -70000], dtype=np.int32)
        assert convert(values, "i32", "i16").tolist() == [4464, -4464]
        assert convert(values, "i32", "i16", saturate=True).tolist() == [32767, -32768]


class TestFloats:
    def test_saturation_clamps_infinities_when_widening(self):
        assert convert(f16(INF), "f16", "f32", saturate=True).tolist() == [65504]
        assert hexes(convert(array("bf16", "7F80"), "bf16", "f32", saturate=True)) == "7F7F0000"

    def test_the_mode_is_ignored(self):
        tie = f32(1 + 2**-11)
        assert hexes(convert(tie, "f32", "f16", rounding="ceil")) == "3C00"
        assert convert(f32(1.5), "f32", "f32").tolist() == [1.5]

    def test_i32_to_f16_rounds_once(self):
        # 2^24 + 1 would round to 2^24 in f32 first; both overflow. 65519 and 65520 do not agree.
        values = np.array([65519, 65520, 2049], dtype=np.int32)
        assert hexes(convert(values, "i32", "f16")) == "7BFF 7C00 6800"


class TestEightBitFloats:
    @pytest.mark.parametrize("dst", ["f8E4M3FN", "f8E5M2", "hif8"])
    def test_saturation_makes_everything_zero(self, dst):
        assert hexes(convert(f32(1, -300, INF), "f32", dst, saturate=True)) == "00 00 00"

    def test_the_mantissa_is_truncated_and_the_exponent_wraps(self):
        # 1.9 -> 1.875, 512 -> exponent field 16 mod 16 = 0.
        assert hexes(convert(f32(1.9, 512), "f32", "f8E4M3FN")) == "3F 00"

    def test_subnormals(self):
        # 2^-7 is taken for a normal number with exponent field 0; below that the value is right
        # until the shift wraps around at 64.
        values = f32(2**-7, 2**-8, 2**-9, 2**-10, 2**-69, 2**-70, 2**-73, -0.0)
        assert hexes(convert(values, "f32", "f8E4M3FN")) == "00 02 01 00 00 08 01 00"

    def test_specials_decode_as_numbers(self):
        got = convert(array("ui8", "7F FF 80"), "f8E4M3FN", "f32")
        assert got.tolist() == [480, -480, 0]
        assert not np.signbit(got[2])
        got = convert(array("ui8", "7C 7D FF"), "f8E5M2", "f32")
        assert got.tolist() == [65536, 81920, -114688]

    def test_wrong_hif8_values(self):
        # Correct: 1.125, 2.25, 0.5.
        got = convert(array("ui8", "09 11 18 98 20"), "hif8", "f32")
        assert got.tolist() == [1.03125, 2.125, 3, -3, 4]

    def test_hif8_encodes_to_the_nearest_wrong_value(self):
        # The tie of 20480 and 24576 goes down; NaN and -inf are EF.
        values = f32(1.03125, 1e9, -1e9, NAN, -INF, INF, 4.25)
        assert hexes(convert(values, "f32", "hif8")) == "09 6E EE EF EF 6E 20"


class TestFourBitFloats:
    def test_values_pass_through_an_integer(self):
        half = array("bf16", "3F00 3FC0 4040")
        assert hexes(convert(half, "bf16", "f4E2M1FN")) == "00 04 05"
        decoded = convert(array("ui8", "01 03 09 08"), "f4E2M1FN", "f32")
        assert hexes(decoded) == "00000000 40000000 80000000 00000000"

    def test_only_saturation_bounds_them(self):
        big = array("bf16", "4100 C100 7F80 7FC0")
        assert hexes(convert(big, "bf16", "f4E2M1FN", saturate=True)) == "07 0F 07 07"
        assert hexes(convert(big, "bf16", "f4E2M1FN")) == "00 08 02 03"

    def test_the_same_format_is_copied(self):
        codes = array("ui8", "00 07 08 0F")
        assert hexes(convert(codes, "f4E2M1FN", "f4E2M1FN", saturate=True)) == "00 07 08 0F"


@pytest.mark.parametrize(
    ("src", "dst"), [("hif8", "i8"), ("i8", "hif8"), ("f32", "f8E8M0FNU"), ("hif8", "f8E5M2")]
)
def test_what_is_not_modeled_is_refused(src, dst):
    with pytest.raises(ValueError, match=f"no conversion from {src} to {dst}"):
        cpu_converter(src, dst, rounding="rint", saturate=False)


def test_unknown_modes_are_refused():
    with pytest.raises(ValueError, match="unknown rounding mode 'up'"):
        cpu_converter("f32", "i8", rounding="up", saturate=False)
