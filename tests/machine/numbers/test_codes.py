"""The 8- and 4-bit floats: what each code means, and how values become codes."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from ptosim.machine.numbers.formats import decode, encode, encoder
from tests.machine.numbers.helpers import array, f32_probes, f32_values, from_patterns, hexes
from tests.oracle import numerics as oracle

pytestmark = pytest.mark.sampled(4)

CODE_FORMATS = ("f8E4M3FN", "f8E5M2", "f8E8M0FNU", "hif8", "f4E2M1FN", "f4E1M2FN")
ENCODED = tuple(name for name in CODE_FORMATS if name != "f8E8M0FNU")


def decoded(name: str, codes: str) -> list[float]:
    return decode(array("ui8", codes), name).tolist()


def same(got: float, expected: oracle.Value) -> bool:
    if isinstance(expected, Fraction):
        return Fraction(got) == expected and not (got == 0 and np.signbit(got))
    if expected.endswith("nan"):
        return bool(np.isnan(got))
    return got == float(expected) and np.signbit(got) == expected.startswith("-")


class TestDecode:
    def test_e4m3_has_no_infinity_and_one_nan_per_sign(self):
        # Bias 7: largest 448, smallest normal 2^-6, smallest subnormal 2^-9; S.1111.111 is NaN.
        assert decoded("f8E4M3FN", "7E FE 08 01 38") == [448, -448, 2**-6, 2**-9, 1]
        assert np.isnan(decoded("f8E4M3FN", "7F FF")).all()

    def test_e5m2_is_a_small_ieee_float(self):
        assert decoded("f8E5M2", "7B 7C FC 04 01") == [57344, np.inf, -np.inf, 2**-14, 2**-16]
        assert np.isnan(decoded("f8E5M2", "7D 7E 7F FD")).all()

    def test_e2m1_and_e1m2_grids(self):
        assert decoded("f4E2M1FN", "0 1 2 3 4 5 6 7") == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
        assert decoded("f4E1M2FN", "0 1 2 3 4 5 6 7") == [k * 0.25 for k in range(8)]
        assert decoded("f4E2M1FN", "9 F") == [-0.5, -6]

    def test_e8m0_is_a_power_of_two_and_ff_is_nan(self):
        assert decoded("f8E8M0FNU", "00 7F 80 FE") == [2.0**-127, 1, 2, 2.0**127]
        assert np.isnan(decoded("f8E8M0FNU", "FF")).all()

    def test_hif8_examples(self):
        # Tapered precision: 09 = 1.125 and 18 = 0.5 have three mantissa bits, 6E is the largest
        # value, 01 the smallest denormal, 6F and EF the infinities, 80 the only NaN.
        assert decoded("hif8", "09 18 6E 01 08 00") == [1.125, 0.5, 32768, 2.0**-22, 1, 0]
        assert decoded("hif8", "6F EF") == [np.inf, -np.inf]
        assert np.isnan(decoded("hif8", "80")).all()

    @pytest.mark.parametrize("name", CODE_FORMATS)
    def test_every_code_against_the_bit_field_definition(self, name):
        count = 16 if name.startswith("f4") else 256
        values = decode(np.arange(count, dtype=np.uint8), name)
        wrong = [c for c in range(count) if not same(float(values[c]), oracle.decode(c, name))]
        assert wrong == []

    def test_four_bit_codes_ignore_the_high_nibble(self):
        assert decoded("f4E2M1FN", "A3 F7") == [1.5, 6]

    def test_formats_that_are_not_codes_are_refused(self):
        with pytest.raises(ValueError, match="f16 is not held as codes"):
            decode(np.zeros(1, dtype=np.uint8), "f16")


class TestEncode:
    @pytest.mark.parametrize(
        ("name", "ties"),
        [
            ("f8E4M3FN", {432: 0x7E, 2**-10: 0, 3 * 2**-10: 2}),
            ("f4E2M1FN", {0.25: 0, 0.75: 2, 1.25: 2, 1.75: 4, 2.5: 4, 3.5: 6, 5.0: 6}),
            ("f4E1M2FN", {0.125: 0, 0.375: 2, 1.625: 6}),
        ],
    )
    def test_ties_go_to_the_even_code(self, name, ties):
        values = np.array(list(ties), dtype=np.float32)
        assert encode(values, name).tolist() == list(ties.values())

    def test_hif8_ties_go_away_from_zero_and_there_is_no_negative_zero(self):
        # 2^-23 is the tie between 0 and the smallest denormal 2^-22.
        values = np.array([2**-23, -(2**-23), -(2**-24), -0.0, 1.0625], dtype=np.float32)
        codes = encode(values, "hif8", "round")
        assert hexes(codes) == "01 81 00 00 09"

    @pytest.mark.parametrize(
        ("name", "values", "saturated", "not_saturated"),
        [
            ("f8E4M3FN", [464, 465], "7E FE 7E 7E", "7F FF 7E 7F"),
            ("f8E5M2", [61439, 61440], "7B FB 7B 7B", "7C FC 7B 7C"),
            ("hif8", [40959, 40960], "6E EE 6E 6E", "6F EF 6E 6F"),
            ("f4E2M1FN", [7, 1e30], "07 0F 07 07", "07 0F 07 07"),
        ],
    )
    def test_overflow(self, name, values, saturated, not_saturated):
        # Beyond the range the step that would come next decides: 480 after 448, 65536 after 57344,
        # 49152 after 32768. Halfway rounds to even, and up in hif8.
        probes = np.array([np.inf, -np.inf, *values], dtype=np.float32)
        rounding = "round" if name == "hif8" else "rint"
        assert hexes(encode(probes, name, rounding)) == saturated
        assert hexes(encode(probes, name, rounding, saturate=False)) == not_saturated

    def test_nan_codes(self):
        # The sign survives in the two formats with a NaN per sign, unless it is asked to go.
        nans = array("f32", "7F800001 FF800001 7FC00000 FFFFFFFF")
        assert hexes(encode(nans, "f8E4M3FN")) == "7F FF 7F FF"
        assert hexes(encode(nans, "f8E5M2")) == "7E FE 7E FE"
        assert hexes(encode(nans, "hif8", "round")) == "80 80 80 80"
        assert hexes(encode(nans, "f4E2M1FN")) == "07 07 07 07"
        unsigned = encoder("f32", "f8E4M3FN", nan="plain")
        assert hexes(unsigned(nans)) == "7F 7F 7F 7F"

    @pytest.mark.parametrize("saturate", [True, False])
    @pytest.mark.parametrize("name", ENCODED)
    def test_f32_boundaries_against_nearest_search(self, name, saturate):
        values = from_patterns("f32", f32_probes())
        rounding = "round" if name == "hif8" else "rint"
        got = encode(values, name, rounding, saturate=saturate)
        expected = [oracle.to_code(value, name, saturate=saturate) for value in f32_values()]
        assert_codes(f32_probes(), got, expected)

    @pytest.mark.parametrize("name", ENCODED)
    def test_every_code_encodes_to_itself(self, name):
        codes = np.arange(16 if name.startswith("f4") else 256, dtype=np.uint8)
        values = decode(codes, name)
        finite = np.isfinite(values)
        rounding = "round" if name == "hif8" else "rint"
        assert encode(values[finite], name, rounding).tolist() == codes[finite].tolist()

    @pytest.mark.parametrize("name", ["f4E2M1FN", "f4E1M2FN", "hif8", "f8E4M3FN", "f8E5M2"])
    def test_rounding_down_up_and_toward_zero(self, name):
        """The next value of the format on that side; beyond the last one the last one."""
        codes = np.arange(16 if name.startswith("f4") else 256, dtype=np.uint8)
        values = sorted({float(v) for v in decode(codes, name) if np.isfinite(v)})
        inner = [v for v in values if 2.0**-20 < abs(v) < 2.0**14 or v == 0]
        probes = [*inner, *((a + b) / 2 for a, b in pairwise(inner)), 1.01, -1.01]
        given = np.array(probes, dtype=np.float32)
        down = decode(encode(given, name, "floor"), name).tolist()
        up = decode(encode(given, name, "ceil"), name).tolist()
        zero = decode(encode(given, name, "trunc"), name).tolist()
        exact = [float(v) for v in given]
        assert down == [max(v for v in values if v <= e) for e in exact]
        assert up == [min(v for v in values if v >= e) for e in exact]
        assert zero == [d if e > 0 else u for e, d, u in zip(exact, down, up, strict=True)]

    def test_what_cannot_be_encoded_is_refused(self):
        one = np.ones(1, dtype=np.float32)
        with pytest.raises(ValueError, match="no encoding into f8E8M0FNU"):
            encode(one, "f8E8M0FNU")
        with pytest.raises(
            ValueError, match="unknown rounding into hif8 'odd'; known: rint round floor ceil trunc"
        ):
            encode(one, "hif8", "odd")
        with pytest.raises(ValueError, match="cannot encode float64"):
            encode(one.astype(np.float64), "hif8")
        with pytest.raises(ValueError, match="no encoding from i32"):
            encoder("i32", "hif8")


def assert_codes(patterns: list[int], got: np.ndarray, expected: list[int]) -> None:
    pairs = zip(patterns, got.tolist(), expected, strict=True)
    wrong = [(f"{p:08X}", f"{g:02X}", f"{e:02X}") for p, g, e in pairs if g != e]
    assert wrong == []
