"""tdivs, trem and trems: the detours that A2/A3 take, and what they leave in their sources."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.semantics.harness import Case, Scalar, Spec, mixture
from tests.ops.semantics.rows import cases
from tests.ops.semantics.test_elementwise import cols_of, spec
from tests.oracle.tile import FLOATS

pytestmark = pytest.mark.sampled(6)

TARGETS = ["a2a3", "a5"]


def codes(result) -> set[str]:
    return {f.code for f in result.findings}


def divisors(dtype: str) -> list[float]:
    if dtype in FLOATS:
        return [3.0, -0.7, 0.0, -0.0, float("inf"), float("nan"), 6.1e-5]
    return [3, 7] if dtype.startswith("u") else [3, -7]


@pytest.mark.sampled(6, 22)
@pytest.mark.parametrize("variant", ["tile_scalar", "scalar_tile"])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(("op", "target", "dtype"), cases(["tdivs"]))
def test_tdivs_in_both_orders(op, target, dtype, variant, in_place):
    for number, value in enumerate(divisors(dtype)):
        operands = {
            "src": spec(dtype, number),
            "scalar": Scalar(dtype, value),
            "dst": spec(dtype, 40, same="src" if in_place else None),
        }
        Case(op, target, operands, variant=variant).check()


def test_tdivs_of_floats_in_place_multiplies_by_the_rounded_reciprocal_on_a2a3():
    values = np.arange(1, 65, dtype=np.float32)
    quotients = values / np.float32(49)
    products = values * (np.float32(1) / np.float32(49))
    assert (quotients != products).any()
    for target, expected in (("a2a3", products), ("a5", quotients)):
        operands = {
            "src": Spec("f32", 1, 64, values=values),
            "scalar": Scalar("f32", 49.0),
            "dst": Spec("f32", 1, 64, same="src"),
        }
        result = Case("tdivs", target, operands, variant="tile_scalar").check()
        assert result.outputs["src_after"].tolist() == expected.tolist()
        assert ("PTO7023" in codes(result)) == (target == "a2a3")


def test_tdivs_of_i32_loses_bits_beyond_2_to_24_on_a2a3_and_leaves_floats_in_src():
    values = [16777217, -16777217, 100, -100, 2**31 - 1, -(2**31), 0, 5]
    truncated = {
        "a2a3": [16777216, -16777216, 100, -100, 2**31 - 1, -(2**31), 0, 5],
        "a5": values,
    }
    for target, expected in truncated.items():
        operands = {
            "src": Spec("i32", 1, 8, values=values),
            "scalar": Scalar("i32", 1),
            "dst": Spec("i32", 1, 8),
        }
        result = Case("tdivs", target, operands, variant="tile_scalar").check()
        assert result.outputs["dst_after"].tolist() == expected
        left = result.outputs["src_after"]
        if target == "a2a3":
            assert left.view(np.float32).tolist() == [float(np.float32(v)) for v in values]
            assert "PTO7022" in codes(result)
        else:
            assert left.tolist() == values


def test_tdivs_of_i16_is_exact_up_to_2048_only_on_a2a3():
    values = np.array([2049, 2051, -2049, 2048, 9, -9, 32767, -32768] * 2, np.int16)
    for target, expected in (
        ("a2a3", [2048, 2052, -2048, 2048, 9, -9, 32767, -32768]),
        ("a5", values[:8]),
    ):
        operands = {
            "src": Spec("i16", 1, 16, values=values),
            "scalar": Scalar("i16", 1),
            "dst": Spec("i16", 1, 16),
        }
        result = Case("tdivs", target, operands, variant="tile_scalar").check()
        assert result.outputs["dst_after"][:8].tolist() == list(expected)


@pytest.mark.parametrize("target", TARGETS)
def test_integer_division_truncates_toward_zero(target):
    operands = {
        "src": Spec("i32", 1, 8, values=[7, -7, 8, -8, 1, -1, 0, 9]),
        "scalar": Scalar("i32", 4),
        "dst": Spec("i32", 1, 8),
    }
    result = Case("tdivs", target, operands, variant="tile_scalar").check()
    assert result.outputs["dst_after"].tolist() == [1, -1, 2, -2, 0, 0, 0, 2]


@pytest.mark.parametrize("op", ["tdivs", "trems"])
def test_an_integer_divisor_of_zero_warns(op):
    operands = {"src": spec("i32", 1), "scalar": Scalar("i32", 0), "dst": spec("i32", 2)}
    if op == "trems":
        operands["tmp"] = spec("i32", 3)
    variant = "tile_scalar" if op == "tdivs" else ""
    case = Case(op, "a5", operands, variant=variant, results=["dst", "src"])
    assert "PTO7024" in codes(case.check())


@pytest.mark.parametrize("target", TARGETS)
def test_the_remainder_has_the_sign_of_the_divisor(target):
    first, second = [7, -7, 7, -7], [3, 3, -3, -3]
    for dtype in ("i32", "f32"):
        operands = {
            "src0": Spec(dtype, 1, 8, values=first * 2),
            "src1": Spec(dtype, 1, 8, values=second * 2),
            "tmp": Spec(dtype, 2, 8),
            "dst": Spec(dtype, 1, 8),
        }
        result = Case("trem", target, operands, results=["dst"]).check()
        assert result.outputs["dst_after"][:4].tolist() == [1, 2, -2, -1]


def test_trem_of_i32_goes_through_f32_and_back_in_both_sources_on_a2a3():
    big = [16777217, -16777217, 5, -5, 2**31 - 1, 0, 1, 2]
    operands = {
        "src0": Spec("i32", 1, 8, values=big),
        "src1": Spec("i32", 1, 8, values=[10, 10, 3, 3, 33554433, 1, 16777219, 3]),
        "tmp": Spec("i32", 2, 8),
        "dst": Spec("i32", 1, 8),
    }
    result = Case("trem", "a2a3", operands, results=["src0", "src1", "dst"]).check()
    assert result.outputs["src0_after"].tolist() == [16777216, -16777216, 5, -5, 2**31 - 1, 0, 1, 2]
    assert result.outputs["src1_after"][4] == 33554432
    assert result.outputs["src1_after"][6] == 16777220


def test_trems_has_no_sign_fix_on_a5():
    """-1e-30 / 3 rounds down to -1, so the remainder is 3 and needs none; only a quotient that was
    rounded up leaves the other sign."""
    values = mixture("f32", 4 * 16, 5)
    for target in TARGETS:
        for divisor in (3.0, -3.0, 0.1, -1e-3):
            operands = {
                "src": Spec("f32", 4, 16, values=values),
                "scalar": Scalar("f32", divisor),
                "tmp": Spec("f32", 4, 16),
                "dst": Spec("f32", 4, 16),
            }
            Case("trems", target, operands, results=["src", "dst"]).check()


def test_the_truncated_modulo_uses_the_rounded_quotient():
    """1e9 / 3 is not exact in f32, so neither is the remainder; the exact one would be 1."""
    operands = {
        "src0": Spec("f32", 1, 8, values=[1e9, -1e9, 7.5, -7.5] * 2),
        "src1": Spec("f32", 1, 8, values=[3.0] * 8),
        "dst": Spec("f32", 1, 8),
    }
    for target in TARGETS:
        result = Case("tfmod", target, operands).check()
        assert result.outputs["dst_after"][:4].tolist() == [0.0, 0.0, 1.5, -1.5]


@pytest.mark.parametrize("target", TARGETS)
def test_the_dequantized_sum_is_scaled_clipped_and_narrowed(target):
    """A2/A3 spoil their first source."""
    cols = cols_of("f16")
    operands = {
        "src0": Spec("i32", 4, cols, (3, cols - 3), values=mixture("i32", 4 * cols, 1)),
        "src1": Spec("i32", 4, cols, (3, cols - 3), values=mixture("i32", 4 * cols, 2)),
        "scalar": Scalar("f32", 0.037),
        "tmp": Spec("i32", 4, cols),
        "dst": Spec("f16", 4, cols, (3, cols - 3), values=mixture("f16", 4 * cols, 3)),
    }
    Case("tadddeqrelu", target, operands, results=["src0", "src1", "dst"]).check()
