"""Reductions along rows and columns, with the order of each target, and their arguments."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.semantics.harness import Case, Operand, Spec, mixture, np_dtype
from tests.ops.semantics.rows import cases
from tests.oracle.tile import width_of

pytestmark = pytest.mark.slow

TARGETS = ["a2a3", "a5"]
ROWS = ["trowsum", "trowprod", "trowmax", "trowmin"]
COLUMNS = ["tcolsum", "tcolprod", "tcolmax", "tcolmin"]
ARGUMENTS = ["trowargmax", "trowargmin", "tcolargmax", "tcolargmin"]


def numbers(dtype: str, count: int, seed: int) -> np.ndarray:
    """Finite values of which sums round, with ties."""
    rng = np.random.default_rng(seed)
    if dtype.startswith(("i", "u")):
        return mixture(dtype, count, seed)
    wide = rng.standard_normal(count) * 2.0 ** rng.integers(-3, 4, count)
    return np.round(wide, 1).astype(np_dtype(dtype))


def row_case(
    op: str, target: str, dtype: str, shape, values, *, vector: bool = False, **keys
) -> Case:
    """A row operation into column 0 of a row-major tile, or into a column-major vector."""
    rows, cols, valid = shape
    kind = "i32" if "arg" in op else dtype
    width = 256 // width_of(kind)
    operands: dict[str, Operand] = {
        "src": Spec(dtype, rows, cols, valid, values=values),
        "tmp": Spec(dtype, rows, cols, valid),
        "dst": Spec(kind, rows, 1, (valid[0], 1), "dn")
        if vector
        else Spec(kind, rows, width, (valid[0], 1), values=mixture(kind, rows * width, 9)),
    }
    return Case(op, target, operands, results=["src", "dst"], **keys)


def width_shapes(dtype: str) -> list[tuple[int, int, tuple[int, int]]]:
    """One column, part of a repeat, whole repeats, repeats and an odd tail."""
    lanes = 256 * 8 // width_of(dtype)
    rows = 8  # a column-major vector has 32-byte columns
    rows = max(rows, 256 // width_of(dtype))
    return [
        (rows, lanes, (2, 1)),
        (rows, lanes, (3, lanes - 3)),
        (rows, 2 * lanes, (2, 2 * lanes)),
        (rows, 4 * lanes, (2, 3 * lanes + 5)),
    ]


@pytest.mark.sampled(0, 50)
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(("op", "target", "dtype"), cases(ROWS, unsigned=False))
def test_rows(op, target, dtype, number):
    shape = width_shapes(dtype)[number]
    values = numbers(dtype, shape[0] * shape[1], number)
    row_case(op, target, dtype, shape, values, vector=number % 2 == 0).check()


@pytest.mark.sampled(0, 20)
@pytest.mark.parametrize(("op", "target", "dtype"), cases(ROWS))
def test_rows_with_special_values(op, target, dtype):
    """NaN, infinities and signed zeros; for the extremes under both NaN rules."""
    shape = width_shapes(dtype)[3]
    values = mixture(dtype, shape[0] * shape[1], 1)
    for rule in ("cpu", "spec"):
        row_case(op, target, dtype, shape, values, switches={"maxmin.nan": rule}).check()


@pytest.mark.parametrize(("rows", "cols"), [(8, 1024), (16, 512), (32, 256), (64, 128)])
def test_four_f32_shapes_are_one_tree_on_a2a3(rows, cols):
    """Shown where it differs from lanes and tree: large terms that cancel inside a pair."""
    values = np.zeros((rows, cols), np.float32)
    values[:, 0], values[:, 1] = 1e8, -1e8
    values[:, 64::64] = 1.0
    for target, tree in (("a2a3", True), ("a5", False)):
        case = row_case("trowsum", target, "f32", (rows, cols, (rows, cols)), values)
        got = case.run().outputs["dst_after"].reshape(rows, -1)[:, 0]
        count = cols // 64 - 1
        assert got.tolist() == [float(count)] * rows
        if tree:
            part = row_case("trowsum", target, "f32", (rows, cols, (rows - 1, cols)), values)
            assert part.run().outputs["dst_after"].reshape(rows, -1)[0, 0] != count


def test_the_order_of_a_row_sum_is_that_of_the_target():
    """1 is lost beside 1e8. A2/A3 add the same lanes of all repeats first, A5 sums each chunk."""
    values = np.zeros((8, 128), np.float32)
    values[0, [0, 1, 64, 65]] = [1e8, 1.0, -1e8, 0.0]
    for target, expected in (("a2a3", 1.0), ("a5", 0.0)):
        case = row_case("trowsum", target, "f32", (8, 128, (1, 128)), values)
        assert case.check().outputs["dst_after"][0] == expected


def test_a_sum_of_negative_zeros_is_positive_where_it_starts_from_zero():
    values = np.full((8, 64), -0.0, np.float32)
    for target in TARGETS:
        case = row_case("trowsum", target, "f32", (8, 64, (1, 64)), values)
        got = case.check().outputs["dst_after"][0]
        assert np.signbit(got) == (target == "a2a3")


# -- columns ---------------------------------------------------------------------------------------


def column_case(op: str, target: str, dtype: str, rows: int, values, **keys) -> Case:
    cols = 256 // width_of(dtype) * 2
    operands: dict[str, Operand] = {
        "src": Spec(dtype, rows + 1, cols, (rows, cols - 3), values=values),
        "dst": Spec(dtype, 2, cols, (1, cols - 3), values=mixture(dtype, 2 * cols, 9)),
    }
    return Case(op, target, operands, **keys)


@pytest.mark.sampled(0, 23)
@pytest.mark.parametrize(("op", "target", "dtype"), cases(COLUMNS))
def test_columns_from_top_to_bottom(op, target, dtype):
    cols = 256 // width_of(dtype) * 2
    for rows in (1, 2, 7):
        column_case(op, target, dtype, rows, numbers(dtype, (rows + 1) * cols, rows)).check()
    for rule in ("cpu", "spec"):
        values = mixture(dtype, 7 * cols, 3)
        column_case(op, target, dtype, 6, values, switches={"maxmin.nan": rule}).check()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 8, 13])
def test_binary_column_sums_add_rows_in_pairs(target, dtype, rows):
    cols = 256 // width_of(dtype) * 2
    values = numbers(dtype, (rows + 1) * cols, rows)
    case = column_case("tcolsum", target, dtype, rows, values, attrs={"isBinary": True})
    case.operands["tmp"] = Spec(dtype, rows + 1, cols)
    case.compared = ["src", "dst"]
    case.check()


def test_the_odd_row_of_a_binary_sum_joins_the_first_pair_on_a2a3_and_the_last_on_a5():
    values = np.zeros((6, 8), np.float32)
    values[:5, 0] = [1e8, 0.0, 2.0, 2.0, 4.0]
    values[:5, 1] = [2.0, 2.0, 1e8, 0.0, 4.0]
    for target, expected in (("a2a3", [1e8, 1e8 + 8]), ("a5", [1e8 + 8, 1e8])):
        operands = {
            "src": Spec("f32", 6, 8, (5, 8), values=values),
            "tmp": Spec("f32", 6, 8),
            "dst": Spec("f32", 1, 8),
        }
        attrs = {"isBinary": True}
        got = Case("tcolsum", target, operands, attrs=attrs, results=["src", "dst"]).check()
        assert got.outputs["dst_after"][:2].tolist() == expected


# -- arguments -------------------------------------------------------------------------------------


@pytest.mark.sampled(0, 26)
@pytest.mark.parametrize("form", ["index", "value_index"])
@pytest.mark.parametrize(("op", "target", "dtype"), cases(ARGUMENTS))
def test_arguments(op, target, dtype, form):
    """The first of equal elements wins; a NaN is never taken."""
    by_row = op.startswith("trow")
    rows, cols = 8, 256 * 8 // width_of(dtype) * 2
    valid = (3, cols - 7) if by_row else (7, cols - 7)
    for values in (mixture(dtype, rows * cols, 1), numbers(dtype, rows * cols, 2)):
        out = (3, 1) if by_row else (1, cols - 7)
        operands: dict[str, Operand] = {
            "src": Spec(dtype, rows, cols, valid, values=values),
            "tmp": Spec(dtype, rows, cols, valid),
            "dst": Spec("i32", rows, cols, out, values=mixture("i32", rows * cols, 5)),
        }
        if form == "value_index":
            operands["value"] = Spec(dtype, rows, cols, out)
        results = [n for n in operands if n != "tmp"]
        Case(op, target, operands, variant=form, results=results).check()


def test_the_first_of_equal_elements_is_the_argument():
    values = np.array([[3, 7, 7, 1, 7, -2, -2, 0]] * 8, np.float32)
    for op, place in (("trowargmax", 1), ("trowargmin", 5)):
        case = row_case(op, "a5", "f32", (8, 8, (8, 8)), values)
        assert set(case.check().outputs["dst_after"].reshape(8, -1)[:, 0].tolist()) == {place}


def test_a_row_of_nan_gives_the_start_value_and_index_zero():
    values = np.full((8, 8), np.nan, np.float32)
    for op, expected in (("trowmax", -np.inf), ("trowmin", np.inf), ("trowargmax", 0)):
        case = row_case(op, "a5", "f32", (8, 8, (8, 8)), values)
        got = case.check().outputs["dst_after"].reshape(8, -1)[:, 0]
        assert got.tolist() == [expected] * 8


# -- neighbors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("op", "target", "dtype"), cases(["tpairreducesum"]))
def test_pair_sums(op, target, dtype):
    cols = 256 // width_of(dtype)
    operands = {
        "src": Spec(dtype, 4, 2 * cols, values=mixture(dtype, 8 * cols, 1)),
        "dst": Spec(dtype, 4, cols, (3, cols - 1), values=mixture(dtype, 4 * cols, 2)),
    }
    Case(op, target, operands).check()
