"""Broadcasts along rows and columns, alone and with an operation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.semantics.harness import Case, Operand, Spec, mixture
from tests.ops.semantics.rows import cases
from tests.oracle.tile import width_of

pytestmark = pytest.mark.slow

WORDS = ["add", "sub", "mul", "div", "max", "min", "expdif"]
ROW_FORMS = [f"trowexpand{w}" for w in WORDS]
COLUMN_FORMS = [f"tcolexpand{w}" for w in WORDS]
EITHER = ("trowexpandmax", "trowexpandmin", "trowexpandexpdif")
ROWS = 32  # a column-major vector of bytes has 32


def codes(result) -> set[str]:
    return {f.code for f in result.findings}


def matrix(dtype: str, seed: int, **keys) -> Spec:
    cols = 256 // width_of(dtype) * 2
    values = mixture(dtype, ROWS * cols, seed)
    return Spec(dtype, ROWS, cols, (5, cols - 3), values=values, **keys)


def column(dtype: str, seed: int) -> Spec:
    return Spec(dtype, ROWS, 1, (5, 1), "dn", values=mixture(dtype, ROWS, seed))


def block(dtype: str, seed: int, *, copies: bool) -> Spec:
    lanes = 256 // width_of(dtype)
    values = mixture(dtype, ROWS * lanes, seed).reshape(ROWS, lanes)
    if copies:
        values = np.repeat(values[:, :1], lanes, axis=1)
    return Spec(dtype, ROWS, lanes, (5, lanes), values=values)


# -- rows ------------------------------------------------------------------------------------------


@pytest.mark.sampled(0, 34)
@pytest.mark.parametrize(("op", "target", "dtype"), cases(ROW_FORMS))
def test_row_forms_with_a_column_vector(op, target, dtype):
    operands = {"src0": matrix(dtype, 1), "src1": column(dtype, 2), "dst": matrix(dtype, 3)}
    Case(op, target, operands).check()


@pytest.mark.sampled(0, 45)
@pytest.mark.parametrize("rule", ["column0", "lane"])
@pytest.mark.parametrize(("op", "target", "dtype"), cases(ROW_FORMS, unsigned=False))
def test_row_forms_with_blocks(op, target, dtype, rule):
    """The rules differ where a block does not hold copies of one value, and a warning says so."""
    operands = {
        "src0": matrix(dtype, 1),
        "src1": block(dtype, 2, copies=False),
        "dst": matrix(dtype, 3),
    }
    result = Case(op, target, operands, switches={"rowexpand.block": rule}).check()
    assert "PTO7031" in codes(result)


@pytest.mark.parametrize("rule", ["column0", "lane"])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_blocks_of_copies_are_no_matter_of_rules(target, rule):
    operands = {
        "src0": matrix("f32", 1),
        "src1": block("f32", 2, copies=True),
        "dst": matrix("f32", 3),
    }
    result = Case("trowexpandsub", target, operands, switches={"rowexpand.block": rule}).check()
    assert "PTO7031" not in codes(result)


def test_the_default_rule_for_blocks_is_lanes_on_a2a3_and_column_0_on_a5():
    operands = {
        "src0": Spec("f32", 2, 16, values=np.zeros(32)),
        "src1": Spec("f32", 2, 8, values=np.arange(16)),
        "dst": Spec("f32", 2, 16),
    }
    lanes = [*range(8), *range(8)]
    expected = {"a2a3": [*lanes, *(v + 8 for v in lanes)], "a5": [0] * 16 + [8] * 16}
    for target, values in expected.items():
        result = Case("trowexpandadd", target, operands).check()
        assert result.outputs["dst_after"].tolist() == values
        (warning,) = [f for f in result.findings if f.code == "PTO7031"]
        assert "row 0" in warning.message
        assert "column 0 is 0.0, lane 1 of the block is 1.0" in warning.message


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("op", EITHER)
def test_either_operand_can_be_the_vector_and_keeps_its_position(op, target):
    operands: dict[str, Operand] = {
        "src0": column("f32", 1),
        "src1": matrix("f32", 2),
        "dst": matrix("f32", 3),
    }
    Case(op, target, operands).check()
    operands["src0"] = block("f32", 4, copies=False)
    Case(op, target, operands).check()


@pytest.mark.parametrize(("op", "target", "dtype"), cases(["trowexpandsub", "trowexpandmul"]))
def test_row_forms_in_place(op, target, dtype):
    operands = {
        "src0": matrix(dtype, 1),
        "src1": column(dtype, 2),
        "dst": matrix(dtype, 3, same="src0"),
    }
    Case(op, target, operands).check()


def test_the_power_of_a_difference_rounds_once_on_a5_and_twice_on_a2a3():
    first = np.linspace(-3, 3, 16, dtype=np.float16)
    second = np.full(16, 0.0377, np.float16)
    exact = np.exp(first.astype(float) - second.astype(float)).astype(np.float16)
    twice = np.exp((first - second).astype(float)).astype(np.float16)
    assert (exact != twice).any()
    for target, expected in (("a2a3", twice), ("a5", exact)):
        operands = {
            "src0": Spec("f16", 16, 16, (1, 16), values=np.tile(first, 16)),
            "src1": Spec("f16", 16, 1, (1, 1), "dn", values=second),
            "dst": Spec("f16", 16, 16, (1, 16)),
        }
        result = Case("trowexpandexpdif", target, operands).check()
        assert result.outputs["dst_after"][:16].tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", ["f32", "f16", "i8", "i32", "bf16"])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("vector", [True, False])
def test_row_expand(dtype, target, vector):
    source = column(dtype, 1) if vector else block(dtype, 1, copies=False)
    Case("trowexpand", target, {"src": source, "dst": matrix(dtype, 2)}).check()


# -- columns ---------------------------------------------------------------------------------------


def top_row(dtype: str, seed: int, dst: Spec) -> Spec:
    values = mixture(dtype, ROWS * dst.cols, seed)
    return Spec(dtype, ROWS, dst.cols, (1, dst.valid[1]), values=values)


@pytest.mark.sampled(0, 22)
@pytest.mark.parametrize(("op", "target", "dtype"), cases(COLUMN_FORMS, unsigned=False))
def test_column_forms(op, target, dtype):
    dst = matrix(dtype, 3)
    operands = {"src0": matrix(dtype, 1), "src1": top_row(dtype, 2, dst), "dst": dst}
    Case(op, target, operands).check()
    Case(op, target, operands | {"dst": matrix(dtype, 3, same="src0")}).check()


@pytest.mark.parametrize("dtype", ["f32", "f16", "i8", "i32", "bf16"])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_column_expand(dtype, target):
    dst = matrix(dtype, 2)
    Case("tcolexpand", target, {"src": top_row(dtype, 1, dst), "dst": dst}).check()
