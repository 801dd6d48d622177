"""Comparisons, packed masks, and selection by them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.semantics.harness import Case, Operand, Scalar, Spec, mixture
from tests.ops.semantics.rows import cases
from tests.oracle.tile import FLOATS, width_of
from tests.support.text import Kernel

pytestmark = pytest.mark.slow

MODES = ["eq", "ne", "lt", "le", "gt", "ge"]


def codes(result) -> set[str]:
    return {f.code for f in result.findings}


def shape_of(target: str, dtype: str) -> tuple[int, int, tuple[int, int]]:
    """Rows of whole repeats (A2/A3 compare all of one) and a valid region that ends inside them."""
    repeat = 256 * 8 // width_of(dtype)
    return 3, repeat, (2, repeat - 5)


def similar(dtype: str, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays with many equal elements."""
    first, second = mixture(dtype, count, seed), mixture(dtype, count, seed + 1)
    same = np.random.default_rng(seed).random(count) < 0.3
    return first, np.where(same, first, second).astype(first.dtype)


@pytest.mark.sampled(0, 31)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("op", "target", "dtype"), cases(["tcmp"]))
def test_tcmp(op, target, dtype, mode):
    """A2/A3 compare whole repeats, i32 for equality only; A5 writes zeros after the columns."""
    rows, cols, valid = shape_of(target, dtype)
    first, second = similar(dtype, rows * cols, MODES.index(mode))
    operands = {
        "src0": Spec(dtype, rows, cols, valid, values=first),
        "src1": Spec(dtype, rows, cols, valid, values=second),
        "dst": Spec("i8", rows, cols, valid, values=mixture("i8", rows * cols, 3)),
    }
    result = Case(op, target, operands, attrs={"cmpMode": mode}).check()
    quirk = target == "a2a3" and dtype in ("i32", "ui32") and mode not in ("eq", "ne")
    assert ("PTO7026" in codes(result)) == quirk


@pytest.mark.sampled(0, 11)
@pytest.mark.parametrize("layout", ["linear", "rows"])
@pytest.mark.parametrize(("op", "target", "dtype"), cases(["tcmps"]))
def test_tcmps_in_both_mask_layouts(op, target, dtype, layout):
    """linear: groups back to back, 32-bit elements numbered through; rows: at the mask's rows."""
    rows, cols, valid = shape_of(target, dtype)
    values = mixture(dtype, rows * cols, 4)
    for mode in MODES:
        operands = {
            "src": Spec(dtype, rows, cols, valid, values=values),
            "scalar": Scalar(dtype, values[7].item() if dtype in FLOATS else int(values[7])),
            "dst": Spec("i8", rows, cols, (2, cols), values=mixture("i8", rows * cols, 3)),
        }
        switches = {"tcmps.mask": layout}
        Case(op, target, operands, attrs={"cmpMode": mode}, switches=switches).check()


def test_tcmps_of_16_bit_integers_compares_f16_patterns_on_a2a3():
    """-1 is the pattern of a NaN, and negative numbers are ordered backwards."""
    values = np.array([-1, -2, 1, 2, -30000, 0, 100, -32768] * 16, np.int16)
    expected = {"a2a3": [0, 0, 1, 1, 1, 1, 1, 1], "a5": [1, 1, 1, 1, 1, 1, 0, 1]}
    for target, bits in expected.items():
        operands = {
            "src": Spec("i16", 1, 128, values=values),
            "scalar": Scalar("i16", 50 if target == "a5" else 20000),
            "dst": Spec("i8", 1, 32),
        }
        result = Case("tcmps", target, operands, attrs={"cmpMode": "lt"}).check()
        mask = int(result.outputs["dst_after"].view(np.uint8)[0])
        assert [mask >> i & 1 for i in range(8)] == bits
        assert ("PTO7027" in codes(result)) == (target == "a2a3")


def test_linear_masks_pack_32_bit_rows_without_a_gap():
    values = np.array([[1.0] * 3 + [9.0] * 5] * 4, np.float32)
    operands = {
        "src": Spec("f32", 4, 8, (4, 3), values=values),
        "scalar": Scalar("f32", 5.0),
        "dst": Spec("i8", 4, 32, values=np.full(128, -1, np.int8)),
    }
    packed = Case("tcmps", "a5", operands, attrs={"cmpMode": "lt"}).check().outputs["dst_after"]
    assert packed.view(np.uint8)[:17].tolist() == [0xFF, 0x0F, *[0] * 14, 0xFF]
    switches = {"tcmps.mask": "rows"}
    case = Case("tcmps", "a5", operands, attrs={"cmpMode": "lt"}, switches=switches)
    rows = case.check().outputs["dst_after"].view(np.uint8).reshape(4, 32)
    assert rows[:, :17].tolist() == [[7, *[0] * 15, 0xFF]] * 4


@pytest.mark.parametrize(
    ("dtype", "cols", "written"),
    [("i8", 100, 32), ("i16", 100, 16), ("f32", 60, 16), ("f32", 130, 32)],
)
def test_a_mask_row_of_a5_is_whole_groups(dtype, cols, written):
    """16 bytes for 128 elements, 32 bytes for 256 of 8 bits; zeros after the columns."""
    for op in ("tcmp", "tcmps"):
        operands: dict[str, Operand] = {
            "src0" if op == "tcmp" else "src": Spec(dtype, 1, 256, (1, cols), values=np.ones(256)),
            "dst": Spec("i8", 1, 256, (1, cols), values=np.full(256, 85)),
        }
        if op == "tcmp":
            operands["src1"] = Spec(dtype, 1, 256, (1, cols), values=np.ones(256))
        else:
            operands["scalar"] = Scalar(dtype, 1)
        switches = {"tcmps.mask": "rows"}
        result = Case(op, "a5", operands, attrs={"cmpMode": "eq"}, switches=switches).check()
        untouched = result.outputs["dst_after"] == 85
        assert untouched.tolist() == [False] * written + [True] * (256 - written)


def test_mask_rows_that_are_too_short_overwrite_each_other_in_order():
    """16 bytes are written for each row of a mask with 8-byte rows: the last row keeps all of
    them."""
    operands = {
        "src0": Spec("f32", 4, 8, (2, 8), values=np.ones(32)),
        "src1": Spec("f32", 4, 8, (2, 8), values=np.ones(32)),
        "dst": Spec("i8", 4, 8, (2, 8), values=np.full(32, 85, np.int8)),
    }
    result = Case("tcmp", "a5", operands, attrs={"cmpMode": "eq"}).check()
    expected = [-1, *[0] * 7, -1, *[0] * 15, *[85] * 8]
    assert result.outputs["dst_after"].tolist() == expected
    assert "PTO7028" in codes(result)


def test_a5_walks_the_second_source_with_the_rows_of_the_first():
    first, second = similar("f32", 64, 1)
    wide = np.zeros((2, 64), np.float32)
    wide.reshape(-1)[:64] = second
    operands = {
        "src0": Spec("f32", 2, 32, values=first),
        "src1": Spec("f32", 2, 64, (2, 32), values=wide),
        "dst": Spec("i8", 2, 32),
    }
    result = Case("tcmp", "a5", operands, attrs={"cmpMode": "eq"}).run()
    bits = np.unpackbits(
        result.outputs["dst_after"].view(np.uint8).reshape(2, 32), axis=1, bitorder="little"
    )
    assert (bits[:, :32].astype(bool) == (first == second).reshape(2, 32)).all()
    assert "PTO7030" in codes(result)


# -- selection -------------------------------------------------------------------------------------


@pytest.mark.sampled(0, 19)
@pytest.mark.parametrize(("op", "target", "dtype"), cases(["tsel"]))
@pytest.mark.parametrize("place", [None, "src0", "src1"])
def test_tsel(op, target, dtype, place):
    cols = 256 // width_of(dtype) * 2
    tile = {"rows": 4, "cols": cols, "valid": (3, cols - 3)}
    operands = {
        "mask": Spec("i8", 4, 32, values=mixture("i8", 128, 1)),
        "src0": Spec(dtype, **tile, values=mixture(dtype, 4 * cols, 2)),
        "src1": Spec(dtype, **tile, values=mixture(dtype, 4 * cols, 3)),
        "tmp": Spec("i32", 1, 16),
        "dst": Spec(dtype, **tile, values=mixture(dtype, 4 * cols, 4), same=place),
    }
    case = Case(op, target, operands)
    case.compared = [n for n in case.storage if n != "tmp"]
    case.check()


@pytest.mark.parametrize(("op", "target", "dtype"), cases(["tsels"]))
@pytest.mark.parametrize("mask_type", ["i8", "i16", "i32"])
def test_tsels_reads_the_mask_by_rows_of_its_tile(op, target, dtype, mask_type):
    cols = 256 // width_of(dtype) * 2
    tile = {"rows": 4, "cols": cols, "valid": (3, cols - 3)}
    mask_cols = 256 // width_of(mask_type)
    operands = {
        "mask": Spec(mask_type, 4, mask_cols, values=mixture(mask_type, 4 * mask_cols, 1)),
        "src": Spec(dtype, **tile, values=mixture(dtype, 4 * cols, 2)),
        "tmp": Spec(dtype, 1, cols),
        "scalar": Scalar(dtype, 5),
        "dst": Spec(dtype, **tile, values=mixture(dtype, 4 * cols, 4)),
    }
    Case(op, target, operands, results=["mask", "src", "dst"]).check()


@pytest.mark.parametrize(
    ("compare", "mask", "warned"),
    [("tcmps", "linear", True), ("tcmps", "rows", False), ("tcmp", "linear", False)],
)
def test_a_linear_mask_of_several_rows_warns_where_it_selects(compare, mask, warned):
    k = Kernel("a5", switches={"tcmps.mask": mask})
    x, y = k.tile("x", "f32", 4, 8), k.tile("y", "f32", 4, 8)
    m, tmp = k.tile("m", "i8", 4, 32, (4, 8)), k.tile("tmp", "f32", 1, 8)
    k.load("src", x)
    second = x if compare == "tcmp" else (k.arg("s", "f32"), "f32")
    k.op(f"pto.{compare}", [x, second], [m], "cmpMode = #pto<cmp le>")
    k.op("pto.tsel", [m, x, x, tmp], [y])
    k.store(y, "dst")
    values = np.ones((4, 8), np.float32)
    args = {"src": values, "dst": np.zeros((4, 8), np.float32)}
    result = k.run(args | ({"s": 2.0} if compare == "tcmps" else {}))
    assert ("PTO7029" in codes(result)) == warned


def test_nan_is_unequal_to_everything():
    values = np.full(128, np.nan, np.float16)
    for mode in MODES:
        operands = {
            "src0": Spec("f16", 1, 128, values=values),
            "src1": Spec("f16", 1, 128, values=values),
            "dst": Spec("i8", 1, 128),
        }
        result = Case("tcmp", "a5", operands, attrs={"cmpMode": mode}).check()
        assert set(result.outputs["dst_after"][:16].tolist()) == ({-1} if mode == "ne" else {0})


def test_signed_zeros_as_scalars_of_one_instruction_are_told_apart():
    """A loop multiplies by 0.0 and -0.0 in turn: equal as keys, different as operands."""
    k = Kernel("a5")
    x, y = k.tile("x", "f32", 1, 8), k.tile("y", "f32", 1, 8)
    k.load("src", x)
    zero, one, two = k.const(0), k.const(1), k.const(2)
    pointer = k.arg("factors", "!pto.ptr<f32>")
    k.line(f"scf.for %i = {zero} to {two} step {one} {{")
    k.line(f"%f = pto.load_scalar {pointer}[%i] : !pto.ptr<f32> -> f32")
    k.op("pto.tmuls", [x, ("%f", "f32")], [y])
    k.line("}")
    k.store(y, "dst")
    for factors in ([0.0, -0.0], [-0.0, 0.0]):
        args = {"src": np.ones(8, np.float32), "dst": np.zeros(8, np.float32)}
        result = k.run(args | {"factors": np.array(factors, np.float32)})
        assert np.signbit(result.outputs["dst"]).all() == np.signbit(factors[1])
