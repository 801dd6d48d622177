"""Operations on two tiles of different valid shape."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.semantics.harness import Case, Operand, Spec, mixture
from tests.ops.semantics.rows import cases
from tests.oracle.tile import width_of

pytestmark = pytest.mark.slow

OPS = ["tpartadd", "tpartmul", "tpartmax", "tpartmin"]


def codes(result) -> set[str]:
    return {f.code for f in result.findings}


def tile(dtype: str, seed: int, valid: tuple[int, int], **keys) -> Spec:
    cols = 256 // width_of(dtype) * 2
    valid = (valid[0], cols + valid[1])
    return Spec(dtype, 6, cols, valid, values=mixture(dtype, 6 * cols, seed), **keys)


# Rows, and columns counted from the last one back.
WHOLE = (5, -1)
SHAPES = {
    "equal": (WHOLE, WHOLE),
    "second lacks rows": (WHOLE, (2, -1)),
    "first lacks columns": ((5, -6), WHOLE),
    "second is a corner": (WHOLE, (3, -5)),
}


@pytest.mark.sampled(0, 50)
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize(("op", "target", "dtype"), cases(OPS, unsigned=False))
def test_combined_where_both_are_valid_and_copied_where_one_is(op, target, dtype, shapes):
    first, second = SHAPES[shapes]
    operands = {
        "src0": tile(dtype, 1, first),
        "src1": tile(dtype, 2, second),
        "dst": tile(dtype, 3, WHOLE),
    }
    result = Case(op, target, operands).check()
    assert "PTO7025" not in codes(result)


@pytest.mark.sampled(0, 28)
@pytest.mark.parametrize("rule", ["pad", "stale"])
@pytest.mark.parametrize(("op", "target", "dtype"), [c for c in cases(OPS) if c[1] == "a5"])
def test_uncovered_elements_follow_the_switch(op, target, dtype, rule):
    """A5 accepts sources that leave a corner of the destination to neither."""
    operands = {
        "src0": tile(dtype, 1, (2, -1)),
        "src1": tile(dtype, 2, (4, -6)),
        "dst": tile(dtype, 3, WHOLE),
    }
    result = Case(op, target, operands, switches={"tpart.uncovered": rule}).check()
    assert "PTO7025" in codes(result)


@pytest.mark.parametrize("place", ["src0", "src1"])
@pytest.mark.parametrize("op", OPS)
def test_in_place(op, place):
    """A destination with the storage of a source, also where neither source is valid."""
    operands = {
        "src0": tile("f32", 1, (2, -1)),
        "src1": tile("f32", 2, (4, -6)),
        "dst": tile("f32", 3, WHOLE, same=place),
    }
    Case(op, "a5", operands).check()


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("empty", ["src0", "src1"])
def test_an_empty_source_means_a_copy_of_the_other(op, empty):
    operands: dict[str, Operand] = {
        name: Spec("f32", 6, 16, (5, 15), values=mixture("f32", 96, i))
        for i, name in enumerate(("src0", "src1", "dst"))
    }
    operands[empty] = Spec("f32", 6, 16, (0, 15), values=mixture("f32", 96, 5), dynamic=True)
    Case(op, "a5", operands).check()


def test_gaps_of_maxima_hold_the_lowest_finite_value():
    operands = {
        "src0": Spec("f32", 2, 8, (1, 8), values=np.ones(16)),
        "src1": Spec("f32", 2, 8, (1, 4), values=np.ones(16)),
        "dst": Spec("f32", 2, 8),
    }
    for op, expected in (
        ("tpartmax", np.finfo(np.float32).min),
        ("tpartmin", np.finfo(np.float32).max),
    ):
        result = Case(op, "a5", operands).check()
        assert result.outputs["dst_after"][8:].tolist() == [float(expected)] * 8


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "i32", "i16"])
@pytest.mark.parametrize("op", ["tpartargmax", "tpartargmin"])
def test_the_index_goes_with_the_value_and_the_second_wins_ties(op, dtype, target):
    index = "ui32" if dtype == "f16" else "i32"
    shapes = {"src0": WHOLE, "src1": (3, -5), "dst": WHOLE}
    operands: dict[str, Operand] = {}
    for number, (name, shape) in enumerate(shapes.items()):
        partner = {"src0": "idx0", "src1": "idx1", "dst": "dst_idx"}[name]
        for key, kind, seed in ((name, dtype, number), (partner, index, 10 + number)):
            valid = (shape[0], 16 + shape[1])
            operands[key] = Spec(kind, 6, 16, valid, values=mixture(kind, 96, seed))
    Case(op, target, operands).check()
