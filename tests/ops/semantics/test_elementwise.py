"""Tile-tile, tile-scalar, unary and ternary operations against the oracle, bit for bit.

Operands mix edges of their type (limits, zeros of both signs, infinities, NaN, subnormals) with
ordinary values; the valid region is smaller than the tile, and nothing outside it may change.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.semantics.harness import Case, Operand, Scalar, Spec, mixture, np_dtype, pool
from tests.ops.semantics.operands import (
    made_by,
    narrowed,
    one_tile,
    shifts,
    slope,
    tile_and_scalar,
    tile_scalar_scratch,
    two_tiles,
    two_tiles_and_scratch,
)
from tests.ops.semantics.rows import cases
from tests.ops.semantics.test_every_operation import NOT_IN_PLACE
from tests.oracle.tile import FLOATS, width_of

pytestmark = pytest.mark.slow

TWO_TILES = [
    op for op in made_by(two_tiles, two_tiles_and_scratch, narrowed) if not op.startswith("tpow")
]
SHIFTS = made_by(shifts)
ONE_TILE = made_by(one_tile)
OTHERS = ("tshls", "tshrs", "tdivs", "tpows")  # with tests of their own
TILE_SCALAR = [
    op for op in made_by(tile_and_scalar, tile_scalar_scratch, slope) if op not in OTHERS
]
SCRATCH = ("trem", "trems", "txor", "txors")
ROWS = 4


def stays(ops: list[str]) -> list[str]:
    """Operations whose destination may be one of the sources."""
    return [op for op in ops if op not in NOT_IN_PLACE]


def cols_of(dtype: str) -> int:
    """Two blocks of 32 bytes."""
    return 2 * 256 // width_of(dtype)


def spec(dtype: str, seed: int, *, tail: bool = True, **keys) -> Spec:
    cols = cols_of(dtype)
    valid = (ROWS - 1, cols - 3) if tail else (ROWS, cols)
    values = keys.pop("values", None)
    if values is None:
        values = mixture(dtype, ROWS * cols, seed)
    return Spec(dtype, ROWS, cols, valid, values=values, **keys)


def scratch(op: str, target: str, dtype: str) -> dict[str, Operand]:
    """The scratch tile of the operations whose text needs one."""
    if op == "tprelu":
        width = cols_of(dtype)
        kind = "ui8" if target == "a2a3" else dtype
        return {"tmp": Spec(kind, ROWS, width, (ROWS - 1, width - 3))}
    return {"tmp": spec(dtype, 9)} if op in SCRATCH else {}


def result_type(op: str, dtype: str) -> str:
    if not op.endswith("reluconv"):
        return dtype
    return {"f32": "f16"}.get(dtype, "ui8" if dtype.startswith("u") else "i8")


def storage(case: Case) -> list[str]:
    """What is compared: everything but scratch."""
    return [n for n in case.storage if n != "tmp"]


def check(case: Case):
    case.compared = storage(case)
    return case.check()


# -- two tiles -------------------------------------------------------------------------------------


def wide(dtype: str, seed: int, cols: int, **keys) -> Spec:
    """A tile of a given number of columns, wide enough for a narrower result."""
    values = mixture(dtype, ROWS * cols, seed)
    return Spec(dtype, ROWS, cols, (ROWS - 1, cols - 3), values=values, **keys)


@pytest.mark.sampled(0, 72)
@pytest.mark.parametrize(("op", "target", "dtype"), cases(TWO_TILES))
def test_two_tiles(op, target, dtype):
    result = result_type(op, dtype)
    cols = cols_of(result)
    operands = {
        "src0": wide(dtype, 1, cols),
        "src1": wide(dtype, 2, cols),
        "dst": wide(result, 3, cols),
    }
    check(Case(op, target, operands | scratch(op, target, dtype)))


@pytest.mark.sampled(0, 58)
@pytest.mark.parametrize(("op", "target", "dtype"), cases(stays(TWO_TILES), unsigned=False))
@pytest.mark.parametrize("place", ["src0", "src1"])
def test_two_tiles_in_place(op, target, dtype, place):
    operands = {"src0": spec(dtype, 1), "src1": spec(dtype, 2), "dst": spec(dtype, 3, same=place)}
    check(Case(op, target, operands | scratch(op, target, dtype)))


@pytest.mark.parametrize(("op", "target", "dtype"), cases(SHIFTS))
def test_shifts_by_every_amount_in_range(op, target, dtype):
    count = ROWS * cols_of(dtype)
    amounts = np.arange(count) % width_of(dtype)
    operands = {
        "src0": spec(dtype, 1),
        "src1": spec(dtype, 2, values=amounts),
        "dst": spec(dtype, 3),
    }
    Case(op, target, operands).check()


@pytest.mark.parametrize(("op", "dtype"), [("tadd", "f32"), ("tmul", "f16"), ("trem", "i32")])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_whole_tiles_take_the_contiguous_path(op, dtype, target):
    operands = {n: spec(dtype, i, tail=False) for i, n in enumerate(("src0", "src1", "dst"))}
    if op in SCRATCH:
        operands["tmp"] = spec(dtype, 9, tail=False)
    check(Case(op, target, operands))


# -- a tile and a scalar ---------------------------------------------------------------------------


def scalars(op: str, dtype: str) -> list:
    values = pool(dtype).tolist()
    if op in ("trems", "tfmods") and dtype not in FLOATS:
        return [v for v in values if v]  # by zero: a test of its own
    return values


@pytest.mark.sampled(0, 28)
@pytest.mark.parametrize(("op", "target", "dtype"), cases(TILE_SCALAR))
def test_tile_scalar(op, target, dtype):
    """Edges of the type as the scalar, others for each operation, as constants of the text and as
    arguments."""
    slope = "f32" if op == "tlrelu" else dtype
    values = scalars(op, dtype)
    first = len(op) + len(dtype) + TILE_SCALAR.index(op)
    for number, value in enumerate(values[(first + 5 * i) % len(values)] for i in range(3)):
        const = number % 2 == 1 and np.isfinite(value)
        operands = {"src": spec(dtype, number), "scalar": Scalar(slope, value, const)}
        operands |= {"dst": spec(dtype, 50 + number)} | scratch(op, target, dtype)
        check(Case(op, target, operands))


IN_PLACE = stays(TILE_SCALAR)


@pytest.mark.sampled(0, 27)
@pytest.mark.parametrize(("op", "target", "dtype"), cases(IN_PLACE, unsigned=False))
def test_tile_scalar_in_place(op, target, dtype):
    slope = "f32" if op == "tlrelu" else dtype
    operands = {
        "src": spec(dtype, 1),
        "scalar": Scalar(slope, 3),
        "dst": spec(dtype, 2, same="src"),
    }
    check(Case(op, target, operands | scratch(op, target, dtype)))


@pytest.mark.sampled(0, 10)
@pytest.mark.parametrize(("op", "target", "dtype"), cases(["tshls", "tshrs"]))
def test_scalar_shifts_by_every_amount_in_range(op, target, dtype):
    for amount in (0, 1, width_of(dtype) // 2, width_of(dtype) - 1):
        operands = {
            "src": spec(dtype, amount),
            "scalar": Scalar(dtype, amount),
            "dst": spec(dtype, 7),
        }
        Case(op, target, operands).check()


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_shift_by_the_width_or_more_warns_and_shifts_all_bits_out(target):
    values = {"tshls": [0, 0], "tshrs": [0, -1]}
    for op, expected in values.items():
        operands = {
            "src": Spec("i32", 1, 8, values=[5, -5] * 4),
            "scalar": Scalar("i32", 40),
            "dst": Spec("i32", 1, 8),
        }
        result = Case(op, target, operands).run()
        assert result.outputs["dst_after"].tolist() == expected * 4
        assert "PTO7021" in {f.code for f in result.findings}


def test_axpy_adds_an_f16_source_to_an_f32_destination():
    for target in ("a2a3", "a5"):
        operands = {
            "src": Spec("f16", 4, 32, (3, 29), values=mixture("f16", 128, 1)),
            "scalar": Scalar("f16", -1.5),
            "dst": Spec("f32", 4, 32, (3, 29), values=mixture("f32", 128, 2)),
        }
        Case("taxpy", target, operands).check()


@pytest.mark.parametrize("rounding", ["fused", "separate"])
@pytest.mark.parametrize("op", ["taxpy", "tmuladddst", "tfusedmuladd", "tfusedmuladdrelu"])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_multiply_add_rounds_once_or_twice_as_the_switch_says(op, dtype, rounding):
    """(1 + e) (e - 1) + 1 is e^2 with one rounding, 0 with two."""
    epsilon = float(np.finfo(np_dtype(dtype)).eps)
    cols = cols_of(dtype)
    factor, addend = ("dst", "src1") if op.startswith("tfused") else ("src1", "dst")
    operands: dict[str, Operand] = {
        "src" if op == "taxpy" else "src0": Spec(dtype, 1, cols, values=np.full(cols, 1 + epsilon)),
        "scalar" if op == "taxpy" else factor: Scalar(dtype, epsilon - 1)
        if op == "taxpy"
        else Spec(dtype, 1, cols, values=np.full(cols, epsilon - 1)),
        addend: Spec(dtype, 1, cols, values=np.ones(cols)),
    }
    result = Case(op, "a5", operands, switches={"muladd.rounding": rounding}).check()
    assert result.outputs["dst_after"][0] == (epsilon**2 if rounding == "fused" else 0)


@pytest.mark.parametrize(("tiny", "expected"), [(2.0**-40, 16777218), (-(2.0**-40), 16777216)])
def test_a_tiny_addend_decides_a_tie_of_the_product(tiny, expected):
    """257 * 65281 is halfway between two f32 values; the exact sum does not even fit f64."""
    operands = {
        "src0": Spec("f32", 1, 8, values=np.full(8, 257.0)),
        "src1": Spec("f32", 1, 8, values=np.full(8, 65281.0)),
        "dst": Spec("f32", 1, 8, values=np.full(8, tiny)),
    }
    result = Case("tmuladddst", "a5", operands).check()
    assert result.outputs["dst_after"].tolist() == [expected] * 8


# -- one tile --------------------------------------------------------------------------------------


@pytest.mark.sampled(0, 22)
@pytest.mark.parametrize(("op", "target", "dtype"), cases(ONE_TILE))
def test_one_tile(op, target, dtype):
    Case(op, target, {"src": spec(dtype, 1), "dst": spec(dtype, 2)}).check()


@pytest.mark.parametrize(("op", "target", "dtype"), cases(stays(ONE_TILE), unsigned=False))
def test_one_tile_in_place(op, target, dtype):
    Case(op, target, {"src": spec(dtype, 1), "dst": spec(dtype, 2, same="src")}).check()


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_rsqrt_with_scratch_rounds_the_root_first(dtype, target):
    operands = {"src": spec(dtype, 4), "tmp": spec(dtype, 5), "dst": spec(dtype, 6)}
    check(Case("trsqrt", target, operands))


@pytest.mark.parametrize("mode", ["DEFAULT", "HIGH_PRECISION", "high_precision"])
@pytest.mark.parametrize("op", ["texp", "tlog", "tsqrt", "trsqrt", "trecip"])
def test_the_precision_mode_changes_nothing(op, mode):
    """By its older name, and by that of today."""
    attrs = {"precision_mode": f"#pto<precision_mode {mode}>"}
    if mode.islower():
        attrs = {"precisionType": f"#pto<{op.removeprefix('t')}_precision {mode}>"}
    scratch = {"tmp": spec("f32", 3)} if op == "trsqrt" and mode.islower() else {}
    operands = {"src": spec("f32", 1), **scratch, "dst": spec("f32", 2)}
    Case(op, "a5", operands, attrs=attrs).check()


# -- three operands --------------------------------------------------------------------------------


@pytest.mark.sampled(0, 16)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "ui8"])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("op", ["taddc", "tsubc", "taddsc", "tsubsc"])
def test_three_addends_round_twice_from_the_left(op, target, dtype):
    operands = {"src0": spec(dtype, 1), "src1": spec(dtype, 2), "dst": spec(dtype, 3)}
    if op.endswith("sc"):
        operands["scalar"] = Scalar(dtype, 3)
    else:
        operands["src2"] = spec(dtype, 4)
    Case(op, target, operands).check()


# -- powers ----------------------------------------------------------------------------------------


@pytest.mark.sampled(0, 12)
@pytest.mark.parametrize(("op", "target", "dtype"), cases(["tpow", "tpows"]))
def test_powers(op, target, dtype):
    """Negative bases, negative and fractional exponents, zeros, and results out of range."""
    cols = cols_of(dtype)
    signed = not dtype.startswith("u")
    bases = [0, 1, 2, 3, 7, 10] + ([-1, -2, -3] if signed else [])
    exponents = [0, 1, 2, 5, 20] + ([-1, -2] if signed else [])
    if dtype in FLOATS:
        bases += [0.5, -0.0, 1.25]
        exponents += [0.5, -1.5]
    pairs = [(b, e) for b in bases for e in exponents]
    pairs += [(1, 1)] * (-len(pairs) % cols)
    if op == "tpow":
        rows = len(pairs) // cols
        first, second = zip(*pairs, strict=True)
        operands = {
            "src0": Spec(dtype, rows, cols, values=np.array(first)),
            "src1": Spec(dtype, rows, cols, values=np.array(second)),
            "dst": Spec(dtype, rows, cols),
        }
        Case(op, target, operands).check()
        return
    tile = np.resize(np.array(bases), cols)
    for exponent in exponents:
        operands = {
            "src": Spec(dtype, 1, cols, values=tile),
            "scalar": Scalar(dtype, exponent),
            "dst": Spec(dtype, 1, cols),
        }
        Case(op, target, operands).check()


# -- valid regions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["tadd", "tadds", "texp"])
@pytest.mark.parametrize("valid", [(0, 5), (4, 0), (1, 1), (3, 13), (4, 16)])
def test_dynamic_valid_shapes(op, valid):
    """The region is known at run time; an empty one changes nothing."""
    make = {"dynamic": True, "valid": valid}
    names = {"tadd": ("src0", "src1", "dst"), "tadds": ("src", "dst"), "texp": ("src", "dst")}[op]
    operands: dict[str, Operand] = {
        n: Spec("f32", 4, 16, values=mixture("f32", 64, i), **make) for i, n in enumerate(names)
    }
    if op == "tadds":
        operands["scalar"] = Scalar("f32", 2.5)
    Case(op, "a5", operands).check()


def test_a5_counts_rows_by_the_destination():
    """tadds on A5 only wants equal valid columns: the rows are those of the destination."""
    operands = {
        "src": Spec("f32", 4, 16, (1, 16), values=mixture("f32", 64, 1)),
        "scalar": Scalar("f32", 1.0),
        "dst": Spec("f32", 4, 16, (3, 16), values=mixture("f32", 64, 2)),
    }
    Case("tadds", "a5", operands).check()


def test_the_nan_rule_is_a_switch():
    """`cpu`: the first operand stays unless it is less. `spec`: NaN loses, +0 is above -0."""
    first = [np.nan, 1.0, np.nan, 0.0, -0.0, 2.0, -np.inf, 0.0]
    second = [1.0, np.nan, np.nan, -0.0, 0.0, 3.0, np.nan, 0.0]
    for op in ("tmax", "tmin"):
        for rule in ("cpu", "spec"):
            operands = {
                "src0": Spec("f32", 1, 8, values=np.array(first)),
                "src1": Spec("f32", 1, 8, values=np.array(second)),
                "dst": Spec("f32", 1, 8),
            }
            result = Case(op, "a5", operands, switches={"maxmin.nan": rule}).check()
            got = result.outputs["dst_after"]
            assert np.isnan(got).tolist()[:3] == (
                [True, False, True] if rule == "cpu" else [False, False, True]
            )
            sign = np.signbit(got[3:5]).tolist()
            spec_sign = [op == "tmin"] * 2
            assert sign == ([False, True] if rule == "cpu" else spec_sign)


def test_relu_follows_the_nan_rule():
    for rule in ("cpu", "spec"):
        operands = {"src": spec("f32", 1), "dst": spec("f32", 2)}
        Case("trelu", "a5", operands, switches={"maxmin.nan": rule}).check()
