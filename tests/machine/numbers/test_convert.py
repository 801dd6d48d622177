"""TCVT rule by rule: the vendor's worked examples and the choices the ISA leaves to a switch."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.machine.numbers.convert import TARGETS, converter, pairs
from tests.machine.numbers.helpers import MODES, array, hexes


def convert(values, src, dst, *, rounding="rint", saturate=True, target="a5", **switches):
    resolved = converter(src, dst, rounding=rounding, saturate=saturate, target=target, **switches)
    return resolved(values)


def f16(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float16)


def f32(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


INF, NAN = np.inf, np.nan


class TestSaturationOff:
    """Six pairs keep the low bits of a saturated 32-bit integer, on both targets."""

    @pytest.mark.parametrize("target", TARGETS)
    def test_f16_to_i8(self, target):
        values = f16(200, -200, INF, -INF, NAN, 127.5)
        off = convert(values, "f16", "i8", saturate=False, target=target)
        # +inf saturates to 7FFFFFFF, whose low byte is FF; -inf to 80000000, whose low byte is 0.
        assert hexes(off) == "C8 38 FF 00 00 80"
        assert convert(values, "f16", "i8", target=target).tolist() == [
            127,
            -128,
            127,
            -128,
            0,
            127,
        ]

    @pytest.mark.parametrize("target", TARGETS)
    def test_f16_to_ui8(self, target):
        values = f16(300, -100, INF, -INF, NAN)
        off = convert(values, "f16", "ui8", saturate=False, target=target)
        assert hexes(off) == "2C 9C FF 00 00"
        assert convert(values, "f16", "ui8", target=target).tolist() == [255, 0, 255, 0, 0]

    @pytest.mark.parametrize("target", TARGETS)
    def test_f32_to_i16(self, target):
        values = f32(40000, -40000, INF, -INF, NAN)
        off = convert(values, "f32", "i16", saturate=False, target=target)
        assert hexes(off) == "9C40 63C0 FFFF 0000 0000"

    @pytest.mark.parametrize("target", TARGETS)
    def test_f32_beyond_32_bits_saturates_before_its_low_bits_are_taken(self, target):
        # 2^31 + 256 exactly would leave 0100.
        off = convert(array("f32", "4F000001"), "f32", "i16", saturate=False, target=target)
        assert hexes(off) == "FFFF"

    def test_measured_vector_f32_to_i16(self):
        values = f32(0.5, 1.5, 2.5, -0.5, -1.5, 70000, -70000, 3.7)
        off = convert(values, "f32", "i16", saturate=False)
        assert off.tolist() == [0, 2, 2, 0, -2, 4464, -4464, 4]
        on = convert(values, "f32", "i16")
        assert on.tolist() == [0, 2, 2, 0, -2, 32767, -32768, 4]

    @pytest.mark.parametrize("target", TARGETS)
    def test_narrowing_integers(self, target):
        wide = np.array([0x1_8000_0001, -1, 2**40], dtype=np.int64)
        off = convert(wide, "i64", "i32", saturate=False, target=target)
        assert hexes(off) == "80000001 FFFFFFFF 00000000"
        on = convert(wide, "i64", "i32", target=target)
        assert hexes(on) == "7FFFFFFF FFFFFFFF 7FFFFFFF"

    def test_a2a3_ignores_off_for_every_other_pair(self):
        values = f32(3e9, -3e9, INF, NAN)
        off = convert(values, "f32", "i32", saturate=False, target="a2a3")
        assert hexes(off) == "7FFFFFFF 80000000 7FFFFFFF 00000000"
        halves = convert(f32(1e6, -INF), "f32", "f16", saturate=False, target="a2a3")
        assert hexes(halves) == "7BFF FBFF"
        fours = convert(f16(100, -100), "f16", "i4", saturate=False, target="a2a3")
        assert fours.tolist() == [7, -8]

    def test_a5_keeps_the_low_bits_of_wide_integers(self):
        values = f32(3e9, -3e9, 2.0**32 + 1024, INF, -INF, NAN)
        off = convert(values, "f32", "i32", saturate=False)
        assert off.tolist() == [3_000_000_000 - 2**32, 2**32 - 3_000_000_000, 1024, 0, 0, 0]
        wide = convert(f32(2.0**63, -(2.0**63) - 2.0**41, 2.0**64), "f32", "i64", saturate=False)
        assert wide.tolist() == [-(2**63), 2**63 - 2**41, 0]

    def test_or_saturates_them_by_a_switch(self):
        values = f32(3e9, -INF, NAN)
        off = convert(values, "f32", "i32", saturate=False, off_wide="saturate")
        assert hexes(off) == "7FFFFFFF 80000000 00000000"

    def test_a5_floats_overflow_to_infinity(self):
        assert hexes(convert(f32(1e6, -INF), "f32", "f16", saturate=False)) == "7C00 FC00"
        codes = convert(f32(1e6, -INF, 465), "f32", "f8E5M2", saturate=False)
        assert hexes(codes) == "7C FC 5F"
        assert hexes(convert(f32(1e6, -INF), "f32", "f8E4M3FN", saturate=False)) == "7F FF"
        assert hexes(convert(f32(1e6, -INF), "f32", "hif8", saturate=False)) == "6F EF"


class TestSaturationOn:
    def test_floats_clamp_infinities_too(self):
        assert hexes(convert(f32(1e6, INF, -INF), "f32", "f16")) == "7BFF 7BFF FBFF"
        assert hexes(convert(array("f32", "7F7FFFFF FF800000"), "f32", "bf16")) == "7F7F FF7F"
        assert hexes(convert(array("bf16", "7F80 C780"), "bf16", "f16")) == "7BFF FBFF"

    def test_widening_keeps_infinities(self):
        assert hexes(convert(f16(INF, 1), "f16", "f32")) == "7F800000 3F800000"
        assert hexes(convert(array("bf16", "FF80"), "bf16", "f32")) == "FF800000"

    def test_nan_stays_nan_in_a_float_and_is_zero_in_an_integer(self):
        assert np.isnan(convert(f32(NAN), "f32", "f16")).all()
        assert convert(f32(NAN, 1), "f32", "i32").tolist() == [0, 1]
        assert convert(f32(NAN, 1), "f32", "i32", nan_to_int="max").tolist() == [2**31 - 1, 1]

    @pytest.mark.parametrize(
        ("values", "dst", "expected"),
        [
            (f32(2.0**31), "i32", 2**31 - 1),
            (f32(-(2.0**31)), "i32", -(2**31)),
            (f32(2.0**63), "i64", 2**63 - 1),
            (f16(127), "i8", 127),
            (f16(128), "i8", 127),
            (f16(-128), "i8", -128),
            (f16(-129), "i8", -128),
            (f16(256), "ui8", 255),
            (f16(-1), "ui8", 0),
        ],
    )
    def test_one_value_at_a_limit_among_values_in_range(self, values, dst, expected):
        zeros = np.zeros(3, dtype=values.dtype)
        src = "f32" if values.dtype == np.float32 else "f16"
        got = convert(np.concatenate([zeros, values]), src, dst)
        assert got.tolist() == [0, 0, 0, expected]

    def test_signed_to_unsigned_clamps_at_zero(self):
        values = np.array([-1, 300, 7], dtype=np.int16)
        assert convert(values, "i16", "ui32").tolist() == [0, 300, 7]
        assert convert(values, "i16", "ui8").tolist() == [0, 255, 7]
        assert convert(values, "i16", "ui32", saturate=False).tolist() == [2**32 - 1, 300, 7]

    def test_i32_to_f16_clamps(self):
        values = np.array([65519, 65520, -(2**31)], dtype=np.int32)
        assert hexes(convert(values, "i32", "f16", target="a2a3")) == "7BFF 7BFF FBFF"


class TestRoundingModes:
    @pytest.mark.parametrize("target", TARGETS)
    def test_none_truncates_into_integers_and_rounds_to_even_otherwise(self, target):
        values = f32(1.5, -1.5, 2.75)
        assert convert(values, "f32", "i32", rounding="none", target=target).tolist() == [1, -1, 2]
        assert convert(values, "f32", "f32", rounding="none", target=target).tolist() == [2, -2, 3]
        tie = f32(1 + 2**-11, 1 + 3 * 2**-11)
        got = convert(tie, "f32", "f16", rounding="none", target=target)
        assert hexes(got) == "3C00 3C02"

    def test_odd_exists_for_f32_to_f16_and_is_none_elsewhere(self):
        tiny = f32(1 + 2**-20, -(1 + 2**-20))
        assert hexes(convert(tiny, "f32", "f16", rounding="odd")) == "3C01 BC01"
        assert hexes(convert(tiny, "f32", "bf16", rounding="odd")) == "3F80 BF80"
        assert convert(f32(1.5, 2.5), "f32", "i32", rounding="odd").tolist() == [1, 2]
        assert convert(f32(1.5, 2.5), "f32", "f32", rounding="odd").tolist() == [2, 2]

    def test_f32_to_f32_rounds_to_integral_values(self):
        values = f32(-0.5, 2.5, -2.5)
        assert (
            hexes(convert(values, "f32", "f32", rounding="trunc")) == "80000000 40000000 C0000000"
        )
        assert convert(values, "f32", "f32", rounding="round").tolist() == [-1, 3, -3]

    @pytest.mark.parametrize("rounding", ["none", *MODES])
    def test_narrow_floats_have_a_fixed_rounding(self, rounding):
        # Ties to even into e4m3, e5m2; ties away from zero into hif8. Into e2m1 the mode is obeyed.
        got = convert(f32(1.0625, 1.1875), "f32", "f8E4M3FN", rounding=rounding)
        assert hexes(got) == "38 3A"
        got = convert(f32(1.125, 1.375), "f32", "f8E5M2", rounding=rounding)
        assert hexes(got) == "3C 3E"
        got = convert(array("bf16", "3FA0 4020"), "bf16", "f4E2M1FN", rounding=rounding)
        assert hexes(got) == ("03 05" if rounding in ("round", "ceil") else "02 04")
        got = convert(f32(1.0625, -1.1875), "f32", "hif8", rounding=rounding)
        assert hexes(got) == "09 8A"

    @pytest.mark.parametrize("rounding", ["none", *MODES])
    def test_integers_become_the_nearest_float_whatever_the_mode(self, rounding):
        values = np.array([2**24 + 1, 2**24 + 3, -(2**24) - 1], dtype=np.int32)
        got = convert(values, "i32", "f32", rounding=rounding)
        assert got.tolist() == [2**24, 2**24 + 4, -(2**24)]

    def test_i64_to_f32_rounds_once(self):
        # Through f64 the low bit would be lost and the tie would go to even, one step lower.
        values = np.array([2**62 + 2**38 + 1], dtype=np.int64)
        assert hexes(convert(values, "i64", "f32")) == "5E800001"


class TestNarrowFloats:
    def test_four_bit_floats(self):
        # Beyond the range 6 or 1.75 with the sign; NaN is 7; the sign of a zero stays.
        values = array("bf16", "7F80 FF80 7FC0 FFC0 8000 0000 4080 4000")
        assert hexes(convert(values, "bf16", "f4E2M1FN")) == "07 0F 07 07 08 00 06 04"
        assert hexes(convert(values, "bf16", "f4E1M2FN")) == "07 0F 07 07 08 00 07 07"
        back = convert(array("ui8", "07 0F 09 04"), "f4E1M2FN", "bf16")
        assert hexes(back) == "3FE0 BFE0 BE80 3F80"

    def test_hif8(self):
        # Infinities clip to the largest value under ON; no negative zero; 2^-23 rounds up.
        values = array("f32", "7F800000 FF800000 80000000 B3FFFFFF B4000000 34000000 7FC00000")
        assert hexes(convert(values, "f32", "hif8")) == "6E EE 00 00 81 01 80"
        assert hexes(convert(f16(-0.0, 1.125, INF), "f16", "hif8")) == "00 09 6E"

    def test_nan_keeps_its_sign_in_8_bits(self):
        nans = array("f32", "7FC00000 FFC00000")
        assert hexes(convert(nans, "f32", "f8E4M3FN")) == "7F FF"
        assert hexes(convert(nans, "f32", "f8E5M2")) == "7E FE"

    def test_decoding(self):
        assert convert(array("ui8", "7E 81"), "f8E4M3", "f32").tolist() == [448, -(2.0**-9)]
        assert convert(array("ui8", "7C 01"), "f8E5M2", "f32").tolist() == [INF, 2.0**-16]


class TestLegality:
    def test_fp8_from_16_bit_floats_does_not_exist(self):
        for src in ("f16", "bf16"):
            with pytest.raises(ValueError, match=f"a5 has no conversion from {src} to f8E4M3FN"):
                converter(src, "f8E4M3FN", rounding="rint", saturate=True, target="a5")

    def test_some_pairs_exist_on_one_target_only(self):
        assert ("i32", "f16") in pairs("a2a3") - pairs("a5")
        assert ("f16", "i4") in pairs("a2a3") - pairs("a5")
        assert ("bf16", "f16") in pairs("a5") - pairs("a2a3")
        assert len(pairs("a2a3")) == 25
        assert len(pairs("a5")) == 45

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"rounding": "nearest"}, "unknown rounding mode 'nearest'; known: none rint"),
            ({"target": "a6"}, "unknown target 'a6'; known: a2a3 a5"),
            ({"off_wide": "wrap"}, "unknown off_wide 'wrap'; known: lowbits saturate"),
            ({"nan_to_int": "min"}, "unknown nan_to_int 'min'; known: zero max"),
        ],
    )
    def test_unknown_choices_are_refused(self, wrong, message):
        choices = {"rounding": "rint", "saturate": True, "target": "a5"} | wrong
        with pytest.raises(ValueError, match=message):
            converter("f32", "i32", **choices)

    def test_empty_arrays_convert(self):
        assert convert(f32(), "f32", "i32").dtype == np.int32
        assert convert(f32(), "f32", "hif8").dtype == np.uint8
