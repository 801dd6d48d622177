"""MX quantization, stage by stage, on single groups whose answers are worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptosim.machine.numbers import mx
from ptosim.machine.numbers.formats import lookup
from tests.machine.numbers.helpers import array, from_patterns, hexes, patterns_of
from tests.oracle import groups
from tests.oracle import numerics as oracle

E4M3, E2M1 = "f8E4M3FN", "f4E2M1FN"
ALL = [
    (src, dst, algorithm)
    for src in ("f32", "f16", "bf16")
    for dst in (E4M3, E2M1)
    for algorithm in ("ocp", "nv")
]


def group(src: str, patterns: str) -> np.ndarray:
    """One row of 32: the given patterns, then zeros."""
    given_values = array(src, patterns)
    row = np.zeros((1, 32), dtype=given_values.dtype)
    row[0, : given_values.size] = given_values
    return row


def quantize(src, dst, algorithm, patterns, **options) -> mx.MxResult:
    return mx.quantizer(src, dst, algorithm, **options)(group(src, patterns))


def stage2(src, dst, algorithm, patterns) -> str:
    result = quantize(src, dst, algorithm, patterns)
    return f"{hexes(result.exponents)} {hexes(result.scales)}"


class TestStage1:
    def test_the_maximum_is_a_magnitude_without_sign(self):
        assert hexes(quantize("f32", E4M3, "ocp", "C0000000 3F800000").maxima) == "40000000"
        assert hexes(quantize("bf16", E4M3, "ocp", "8001 0000").maxima) == "0001"
        assert hexes(quantize("f32", E4M3, "ocp", "80000000").maxima) == "00000000"

    @pytest.mark.parametrize("src", ["f32", "bf16"])
    def test_nan_beats_infinity(self, src):
        patterns, nan = {
            "f32": ("7F800000 FF800001 7F7FFFFF", "7F800001"),
            "bf16": ("7F80 FF81 7F7F", "7F81"),
        }[src]
        assert hexes(quantize(src, E4M3, "nv", patterns).maxima) == nan

    def test_f16_is_kept_as_bf16_for_ocp_and_as_f16_for_nv(self):
        # 65504 = 7BFF truncates to 477F, 2^-24 = 0001 is the normal bf16 3380; a NaN whose payload
        # would be cut off becomes 7FC0.
        for pattern, truncated in (("7BFF", "477F"), ("0001", "3380"), ("FC00", "7F80")):
            assert hexes(quantize("f16", E4M3, "ocp", pattern).maxima) == truncated
        assert hexes(quantize("f16", E4M3, "ocp", "7C01").maxima) == "7FC0"
        assert hexes(quantize("f16", E4M3, "nv", "FC01").maxima) == "7C01"

    def test_groups_lie_along_a_row_or_a_column(self):
        values = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
        rows = mx.group_maxima(values, 1).view(np.float32)
        assert rows.shape == (64, 2)
        assert rows[3].tolist() == [3 * 64 + 31, 3 * 64 + 63]
        columns = mx.group_maxima(values, 0).view(np.float32)
        assert columns.shape == (2, 64)
        assert columns[:, 5].tolist() == [31 * 64 + 5, 63 * 64 + 5]

    def test_a_broken_group_is_refused(self):
        with pytest.raises(ValueError, match="axis 1 has 48 elements, not a multiple of 32"):
            mx.group_maxima(np.zeros((32, 48), dtype=np.float32), 1)

    def test_no_rows_give_no_groups(self):
        result = mx.quantizer("f32", E4M3, "ocp")(np.zeros((0, 64), dtype=np.float32))
        assert result.exponents.shape == (0, 2)
        assert result.codes.shape == (0, 64)


class TestOcpExponent:
    """Exponent field of the maximum less 8 (e4m3) or 2 (e2m1), not below 0; scale 2^(127 - it)."""

    @pytest.mark.parametrize(
        ("src", "dst", "pattern", "expected"),
        [
            ("f32", E4M3, "3F800000", "77 43800000"),
            ("f32", E2M1, "3F800000", "7D 40800000"),
            ("f32", E4M3, "43E00000", "7F 3F800000"),
            ("f32", E4M3, "44600000", "80 3F000000"),
            ("f32", E4M3, "00000001", "00 7F000000"),
            ("f32", E4M3, "04000000", "00 7F000000"),
            ("f32", E4M3, "04800000", "01 7E800000"),
            ("f32", E4M3, "7F7FFFFF", "F6 04000000"),
            ("bf16", E2M1, "0100", "00 7F00"),
            ("bf16", E2M1, "0180", "01 7E80"),
            ("bf16", E2M1, "7F7F", "FC 0100"),
            ("f16", E4M3, "0001", "5F 4F80"),
            ("f16", E2M1, "0001", "65 4C80"),
            ("f16", E4M3, "7BFF", "86 3C00"),
            ("f16", E2M1, "7BFF", "8C 3900"),
            ("f16", E4M3, "03FF", "68 4B00"),
        ],
    )
    def test_numbers(self, src, dst, pattern, expected):
        assert stage2(src, dst, "ocp", pattern) == expected

    @pytest.mark.parametrize(
        ("src", "dst", "pattern", "expected"),
        [
            ("f16", E4M3, "7C00", "F7 0380"),
            ("f16", E2M1, "7C00", "FD 0080"),
            ("f32", E4M3, "7F800000", "F7 03800000"),
            ("bf16", E2M1, "FF80", "FD 0080"),
            ("f16", E4M3, "7E00", "FF 7F81"),
            ("f16", E2M1, "7E00", "FF 7FC0"),
            ("f32", E4M3, "7F800001", "FF 7FC00000"),
        ],
    )
    def test_infinity_is_one_binade_up_and_nan_is_ff(self, src, dst, pattern, expected):
        assert stage2(src, dst, "ocp", pattern) == expected

    def test_the_published_formula_takes_off_one_for_e2m1(self):
        # The maximum then lands in [2, 4) and code 7 never appears.
        result = quantize("f16", E2M1, "ocp", "4600 3C00", emax_e2m1=1)
        assert hexes(result.exponents) == "80"
        assert hexes(result.codes[0, :2]) == "05 01"


class TestNvExponent:
    """Least power of two at or above max/448 (max/6), computed with one rounded f32 product."""

    @pytest.mark.parametrize(
        ("src", "dst", "pattern", "expected"),
        [
            ("f32", E4M3, "43E00000", "7F 3F800000"),
            ("f32", E4M3, "43E00001", "80 3F000000"),
            ("f32", E4M3, "44600000", "80 3F000000"),
            ("f32", E4M3, "7F7FFFFF", "F7 03800000"),
            ("f32", E4M3, "3F800000", "77 43800000"),
            ("f32", E4M3, "00000000", "00 7F000000"),
            ("f32", E2M1, "40C00000", "7F 3F800000"),
            ("f32", E2M1, "40C00001", "80 3F000000"),
            ("bf16", E2M1, "7F7F", "FD 0080"),
            ("f16", E4M3, "5F01", "80 3F00"),
            ("f16", E4M3, "7BFF", "87 3B80"),
            ("f16", E2M1, "7BFF", "8D 3880"),
            ("f16", E4M3, "0001", "5F 4F80"),
            ("f16", E2M1, "0001", "65 4C80"),
            ("f16", E4M3, "03FF", "69 4A80"),
        ],
    )
    def test_numbers(self, src, dst, pattern, expected):
        assert stage2(src, dst, "nv", pattern) == expected

    @pytest.mark.parametrize(
        ("src", "dst", "pattern", "expected"),
        [
            ("f32", E4M3, "7F800000", "FE 00400000"),
            ("bf16", E4M3, "FF80", "FE 0040"),
            ("f32", E4M3, "FFC00000", "FF 7FC00000"),
            ("bf16", E4M3, "7F81", "FF 7F81"),
            ("f16", E2M1, "7E00", "FF 7FC0"),
        ],
    )
    def test_infinity_and_nan(self, src, dst, pattern, expected):
        assert stage2(src, dst, "nv", pattern) == expected

    def test_the_constants_are_the_nearest_f32_reciprocals(self):
        assert hexes(np.array([mx._E4M3.reciprocal_limit])) == "3B124925"
        assert hexes(np.array([mx._E2M1.reciprocal_limit])) == "3E2AAAAB"

    def test_quotients_at_the_low_end(self):
        # A subnormal quotient up to 2^-127 (pattern 00400000) gives 0, above it 1.
        unity = np.float32(1)
        maxima = np.array([0, 1, 0x400000, 0x400001, 0x7FFFFF, 0x800000, 0x800001], dtype=np.uint32)
        assert mx.nv_exponents(maxima, unity).tolist() == [0, 0, 0, 1, 1, 1, 2]

    def test_quotients_at_the_high_end(self):
        # From 2^127 on the exponent no longer grows.
        maxima = np.array([0x7EFFFFFF, 0x7F000000, 0x7F000001, 0x7F7FFFFF], dtype=np.uint32)
        assert mx.nv_exponents(maxima, np.float32(1)).tolist() == [254, 254, 254, 254]


class TestStage3:
    def test_e4m3_samples(self):
        # Maximum 448, scale 1. 432 is the tie of 416 and 448; 2^-10 the tie of 0 and 2^-9.
        patterns = (
            "43E00000 C3E00000 43D80000 43DFFFFF BA800000 BA800001 3A800001 B9800000 80000000"
        )
        for algorithm in ("ocp", "nv"):
            codes = quantize("f32", E4M3, algorithm, patterns).codes
            assert hexes(codes[0, :9]) == "7E FE 7E 7E 80 81 01 80 80"

    def test_ocp_saturates_what_the_floor_of_the_exponent_leaves_above_448(self):
        # Maximum 500: exponent 7F, scale 1, so 500 clips; NV rounds the exponent up instead and
        # 250 becomes 256.
        assert hexes(quantize("f32", E4M3, "ocp", "43FA0000").codes[0, :1]) == "7E"
        assert hexes(quantize("f32", E4M3, "nv", "43FA0000").codes[0, :1]) == "78"

    def test_nv_samples(self):
        assert hexes(quantize("f32", E4M3, "nv", "43E00001").codes[0, :1]) == "76"
        assert hexes(quantize("f32", E4M3, "nv", "7F7FFFFF").codes[0, :1]) == "78"
        assert hexes(quantize("f32", E4M3, "nv", "3F800000").codes[0, :1]) == "78"

    def test_e2m1_samples(self):
        # 6, 1, -1, 0.25, 1.75, 2.5, 3.5, 5, -0 with scale 1.
        patterns = "4600 3C00 BC00 3400 3F00 4100 4300 4500 8000"
        result = quantize("f16", E2M1, "ocp", patterns)
        assert hexes(result.exponents) == "7F"
        assert hexes(result.codes[0, :9]) == "07 02 0A 00 04 04 06 06 08"

    def test_a_nan_poisons_its_group_and_no_other(self):
        values = np.ones((1, 64), dtype=np.float32)
        values[0, 3] = -np.nan
        result = mx.quantizer("f32", E4M3, "ocp")(values)
        assert hexes(result.exponents) == "FF 77"
        assert set(patterns_of(result.codes[:, :32])) == {0x7F}
        assert set(patterns_of(result.codes[:, 32:])) == {0x78}
        fours = quantize("bf16", E2M1, "nv", "FFC0 3F80").codes
        assert set(patterns_of(fours)) == {7}

    def test_an_infinity_leaves_finite_values_tiny(self):
        # OCP scales by 2^-120: everything finite vanishes, with its sign.
        codes = quantize("f32", E4M3, "ocp", "7F800000 FF800000 7F7FFFFF BF800000").codes
        assert hexes(codes[0, :4]) == "7E FE 78 80"
        # NV scales by 2^-127: 2^125 * 2^-127 = 0.25 = code 28.
        codes = quantize("f32", E4M3, "nv", "7F800000 FF800000 7E000000").codes
        assert hexes(codes[0, :3]) == "7E FE 28"
        codes = quantize("bf16", E2M1, "ocp", "7F80 FF80 7F00 3F80").codes
        assert hexes(codes[0, :4]) == "07 0F 04 00"


class TestSwitches:
    def test_nan_may_be_ignored_as_on_the_cpu_simulator(self):
        patterns = "7FC00000 3F800000"
        result = quantize("f32", E4M3, "ocp", patterns, nan_group="ignore")
        assert hexes(result.exponents) == "77"
        assert hexes(result.codes[0, :2]) == "7F 78"
        fours = quantize("f16", E2M1, "ocp", "7E00 3C00", nan_group="ignore")
        assert hexes(fours.exponents) == "FF"

    def test_and_f32_to_e2m1_looks_at_half_a_maximum_there(self):
        # The upper half of the NaN 7F800001 is an infinity.
        result = quantize("f32", E2M1, "ocp", "7F800001 3F800000", nan_group="ignore")
        assert hexes(result.exponents) == "FD"
        assert hexes(quantize("f32", E2M1, "ocp", "7F800001").exponents) == "FF"

    def test_the_sign_of_a_zero_may_be_dropped_as_on_the_cpu_simulator(self):
        # Scale 1; -0, -2^-10 and -2^-12 all round to zero.
        patterns = "43E00000 80000000 BA800000 B9800000 C0000000"
        ocp = quantize("f32", E4M3, "ocp", patterns, zero_sign="drop").codes
        assert hexes(ocp[0, :5]) == "7E 00 00 00 C0"
        nv = quantize("f32", E4M3, "nv", patterns, zero_sign="drop").codes
        assert hexes(nv[0, :5]) == "7E 80 00 80 C0"

    def test_flushing_turns_infinity_times_a_subnormal_scale_into_nan(self):
        codes = quantize("f32", E4M3, "nv", "7F800000 3F800000", ftz=True).codes
        assert hexes(codes[0, :2]) == "7F 00"

    def test_flushing_loses_subnormal_elements(self):
        # 2^-127 (subnormal) times 2^127 is 1 without flushing.
        patterns = "00400000 00800000 80400000"
        kept = quantize("f32", E4M3, "ocp", patterns).codes
        assert hexes(kept[0, :3]) == "38 40 B8"
        lost = quantize("f32", E4M3, "ocp", patterns, ftz=True).codes
        assert hexes(lost[0, :3]) == "00 40 80"

    def test_flushing_also_applies_to_the_nv_quotient(self):
        # 2^-119 / 448 is above 2^-128: exponent 0 or, rounded up, 1; flushed it is 0.
        maxima = array("ui32", "04C00000 00400001")
        assert mx.nv_exponents(maxima, np.float32(1 / 448)).tolist() == [1, 0]
        assert mx.nv_exponents(maxima, np.float32(1 / 448), ftz=True).tolist() == [0, 0]

    def test_header_defect_of_nv_e2m1(self):
        # The exponent comes from the OCP rule, which reads the f16 bits of 6.0 (4600, field 8C)
        # as bf16.
        fine = quantize("f16", E2M1, "nv", "4600")
        broken = quantize("f16", E2M1, "nv", "4600", header_defects=True)
        assert (hexes(fine.exponents), hexes(broken.exponents)) == ("7F", "8A")
        assert hexes(broken.maxima) == "4600"

    def test_header_defect_of_nv_e4m3_from_f16(self):
        # 1.0 is kept as bf16 3F80 and read back as the f16 number 1.875.
        broken = quantize("f16", E4M3, "nv", "3C00", header_defects=True)
        assert hexes(broken.maxima) == "3F80"
        assert hexes(broken.exponents) == "78"
        same = quantize("f32", E4M3, "nv", "3F800000", header_defects=True)
        assert hexes(same.exponents) == "77"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("f64", E4M3, "ocp"), "no MX quantization from f64 to f8E4M3FN"),
            (("f32", "f8E5M2", "ocp"), "no MX quantization from f32 to f8E5M2"),
            (("f32", E4M3, "mx"), "unknown MX algorithm 'mx'; known: ocp nv"),
        ],
    )
    def test_what_does_not_exist_is_refused(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            mx.quantizer(*arguments)

    @pytest.mark.parametrize(
        "switch", [{"axis": 2}, {"emax_e2m1": 3}, {"nan_group": "keep"}, {"zero_sign": "poison"}]
    )
    def test_unknown_choices_are_refused(self, switch):
        with pytest.raises(ValueError, match=f"unknown {next(iter(switch))}"):
            mx.quantizer("f32", E4M3, "ocp", **switch)


def hard_patterns(src: str, seed: int, groups: int) -> np.ndarray:
    """Groups of random patterns around one random exponent, some with specials."""
    form = oracle.FORMATS[src]
    generator = np.random.default_rng(seed)
    shift = form.mantissa_bits
    centers = generator.integers(0, 1 << form.exponent_bits, (groups, 1))
    spread = generator.integers(-14, 3, (groups, 32))
    exponents = np.clip(centers + spread, 0, (1 << form.exponent_bits) - 1)
    mantissas = generator.integers(0, 1 << shift, (groups, 32))
    # Half of the mantissas end in zeros, where the ties are.
    mantissas = np.where(generator.random((groups, 32)) < 0.5, mantissas >> 4 << 4, mantissas)
    signs = generator.integers(0, 2, (groups, 32)) << (form.bits - 1)
    return signs | exponents << shift | mantissas


class TestAgainstTheOracle:
    @pytest.mark.sampled(4)
    @pytest.mark.parametrize(("src", "dst", "algorithm"), ALL)
    def test_hard_groups_in_rows(self, src, dst, algorithm):
        patterns = hard_patterns(src, 5, 120)
        result = mx.quantizer(src, dst, algorithm)(from_patterns(src, patterns.tolist()))
        for row, values in enumerate(patterns.tolist()):
            expected = groups.mx_group(values, src, dst, algorithm)
            got = groups.MxGroup(
                int(result.maxima[row, 0]),
                int(result.exponents[row, 0]),
                int(result.scales[row, 0]),
                result.codes[row].tolist(),
            )
            assert got == expected, f"group {row}"

    @pytest.mark.parametrize(("src", "dst", "algorithm"), ALL)
    def test_columns_are_transposed_rows(self, src, dst, algorithm):
        patterns = hard_patterns(src, 6, 40)
        rows = from_patterns(src, patterns.tolist())
        along = mx.quantizer(src, dst, algorithm)(rows)
        across = mx.quantizer(src, dst, algorithm, axis=0)(np.ascontiguousarray(rows.T))
        for name in mx.MxResult._fields:
            assert np.array_equal(getattr(along, name).T, getattr(across, name)), name

    def test_strided_sources_are_read_in_place(self):
        padded = np.random.default_rng(0).standard_normal((8, 128)).astype(np.float32)
        window = padded[:, :64]
        result = mx.quantizer("f32", E4M3, "ocp")(window)
        dense = mx.quantizer("f32", E4M3, "ocp")(window.copy())
        assert np.array_equal(result.codes, dense.codes)

    @settings(max_examples=30, deadline=None)
    @given(shift=st.integers(-60, 60), seed=st.integers(0, 1000))
    def test_scaling_by_a_power_of_two_moves_only_the_exponent(self, shift, seed):
        values = np.random.default_rng(seed).standard_normal((2, 32)).astype(np.float32)
        for algorithm in ("ocp", "nv"):
            quantize = mx.quantizer("f32", E4M3, algorithm)
            plain, scaled = quantize(values), quantize(values * np.float32(2.0**shift))
            assert np.array_equal(plain.codes, scaled.codes)
            assert np.array_equal(plain.exponents + np.int64(shift), scaled.exponents)

    def test_bf16_products_could_be_rounded_to_bf16(self):
        # The hardware multiplies bf16 row groups in bf16. The scale is a power of two, so every
        # product that is not subnormal is a bf16 number anyway.
        patterns = hard_patterns("bf16", 9, 200)
        values = from_patterns("bf16", patterns.tolist())
        result = mx.quantizer("bf16", E4M3, "ocp")(values)
        scales = result.scales.view(lookup("bf16").dtype).astype(np.float32)
        with np.errstate(all="ignore"):
            products = values.astype(np.float32) * scales
            narrow = products.astype(lookup("bf16").dtype).astype(np.float32)
        normal = np.isfinite(products) & (np.abs(products) >= 2.0**-126)
        assert np.array_equal(products[normal], narrow[normal])
