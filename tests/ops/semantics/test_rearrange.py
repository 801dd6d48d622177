"""Concatenation, transposition, packing and windows of vec tiles."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.harness import Case, Operand, Scalar, Spec, mixture, np_dtype
from tests.ops.semantics.helpers import codes
from tests.support.text import Kernel

pytestmark = pytest.mark.slow

TARGETS = ["a2a3", "a5"]
DTYPES = ["f32", "f16", "bf16", "i32", "ui16", "i8"]


def spec(dtype: str, rows: int, cols: int, valid=None, *, seed: int = 1, **keys) -> Spec:
    """A tile of edges and ordinary values."""
    return Spec(dtype, rows, cols, valid, values=mixture(dtype, rows * cols, seed), **keys)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", TARGETS)
def test_columns_of_two_tiles(target, dtype):
    """Odd tails, an empty source, and columns of dst beyond its valid ones."""
    for left, right, valid in ((32, 32, 96), (29, 3, 32), (0, 17, 17), (17, 0, 40), (0, 0, 32)):
        operands = {
            "src0": spec(dtype, 5, 32, (4, left), dynamic=left == 29),
            "src1": spec(dtype, 6, 32, (4, right), seed=2),
            "dst": spec(dtype, 4, 96, (4, valid), seed=3),
        }
        Case("tconcat", target, operands).check()


def test_columns_that_do_not_fit_stop_the_run():
    operands = {
        "src0": spec("f32", 4, 32, (4, 32), dynamic=True),
        "src1": spec("f32", 4, 32, (4, 32)),
        "dst": spec("f32", 4, 32),
    }
    with pytest.raises(ptosim.Trap) as trap:
        Case("tconcat", "a5", operands).run()
    assert trap.value.diagnostics[-1].code == "PTO6412"


def counted(dtype: str, target: str, counts: list[tuple[int, int]], index: str = "i32") -> Case:
    """A concatenation of as many bytes of each row as `counts` say."""
    size = np_dtype(dtype).itemsize
    width = 16 // np_dtype(index).itemsize * 2
    held = np.zeros((2, 5, width), int)
    held[:, : len(counts), 0] = np.array(counts).T * size
    operands = {
        "src0": spec(dtype, 5, 32, (4, 8), seed=4),
        "src1": spec(dtype, 5, 32, (4, 8), seed=5),
        **{f"src{n}Idx": Spec(index, 5, width, (4, 1), values=held[n].reshape(-1)) for n in (0, 1)},
        "dst": spec(dtype, 5, 64, (4, 8), seed=6),
        "dstIdx": spec(index, 5, width, (4, 1), seed=7),
    }
    return Case("tconcat", target, operands, variant="indexed")


@pytest.mark.parametrize("index", ["i32", "i16"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "i8"])
@pytest.mark.parametrize("target", TARGETS)
def test_as_many_bytes_as_the_counts_say(target, dtype, index):
    counted(dtype, target, [(3, 5), (32, 32), (0, 7), (1, 0)], index).check()


def test_a_form_that_rests_on_an_assumption_says_so():
    """Where the counts are is assumed: the run has a note."""
    assert "PTO6607" in [f.code for f in counted("f32", "a5", [(1, 1)]).run().findings]


@pytest.mark.parametrize("wrong", [(33, 1), (-1, 1), (0, 33), (0.5, 1)])
def test_counts_that_a_row_does_not_have_stop_the_run(wrong):
    """More than the row, fewer than none, a part of an element."""
    with pytest.raises(ptosim.Trap) as trap:
        counted("f32", "a5", [(1, 1), wrong]).run()
    fault = trap.value.diagnostics[-1]
    assert fault.code == "PTO6412"
    assert "of row 1" in fault.message


@pytest.mark.sampled(0, 15)
@pytest.mark.parametrize("extent", ["valid", "static"])
@pytest.mark.parametrize("dtype", [*DTYPES, "ui32", "i16", "ui8"])
@pytest.mark.parametrize("target", TARGETS)
def test_transposition(target, dtype, extent):
    """The valid region, or the whole shape as far as the destination has room."""
    shapes = (
        ((32, 64), (31, 3), (64, 32)),
        ((32, 64), (1, 5), (32, 64)),
        ((32, 32), (0, 5), (32, 32)),
        ((32, 64), (32, 64), (64, 32)),
    )
    for src, valid, dst in shapes[: 4 if dtype == "f32" else 1]:
        operands = {
            "src": spec(dtype, *src, valid, dynamic=valid == (31, 3)),
            "tmp": spec(dtype, 64, 32),
            "dst": spec(dtype, *dst, (valid[1], valid[0]), seed=3),
        }
        switches = {"ttrans.extent": extent}
        Case("ttrans", target, operands, switches=switches).check()


def test_transposition_in_place_reads_first_and_warns():
    operands = {
        "src": spec("f32", 32, 32),
        "tmp": spec("f32", 32, 32),
        "dst": Spec("f32", 32, 32, same="src"),
    }
    assert "PTO6401" in codes(Case("ttrans", "a5", operands).check())


def test_each_target_has_its_extent():
    """A5 transposes the whole shape, A2/A3 the valid region; the switch has that default."""
    for target in TARGETS:
        operands = {
            "src": spec("f32", 16, 16, (3, 2)),
            "tmp": spec("f32", 16, 16),
            "dst": spec("f32", 16, 16, (2, 3), seed=4),
        }
        Case("ttrans", target, operands).check()


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [("i32", "i16"), ("ui32", "ui8"), ("i16", "i8"), ("f32", "f16"), ("i32", "ui8")],
)
def test_packing_keeps_the_low_bits(wide, narrow):
    for valid in ((4, 32), (3, 29), (0, 32)):
        operands = {"src": spec(wide, 4, 32, valid), "dst": spec(narrow, 4, 32, valid, seed=2)}
        Case("tpack", "a5", operands).check()


# -- windows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "ui16"])  # which A5 does not move
@pytest.mark.parametrize(("row", "col"), [(0, 0), (3, 7), (8, 32)])
def test_a_window_of_a_tile(dtype, row, col):
    for valid in ((8, 32), (5, 29), (0, 32))[: 3 if dtype == "f32" else 2]:
        place = {"row": Scalar("index", row), "col": Scalar("index", col)}
        operands: dict[str, Operand] = {
            "src": spec(dtype, 16, 64),
            **place,
            "dst": spec(dtype, 8, 32, valid, seed=2, dynamic=valid == (5, 29)),
        }
        Case("textract", "a5", operands).check()
        operands = {
            "src": spec(dtype, 8, 32, valid, dynamic=valid == (5, 29)),
            **place,
            "dst": spec(dtype, 16, 64, seed=2),
        }
        Case("tinsert", "a5", operands).check()


@pytest.mark.parametrize(("row", "col"), [(9, 0), (0, 33), (-1, 0), (0, -1), (2**40, 0)])
def test_a_window_outside_the_tile_stops_the_run(row, col):
    place = {"row": Scalar("index", row), "col": Scalar("index", col)}
    small, large = spec("f32", 8, 32), spec("f32", 16, 64)
    for case in (
        Case("textract", "a5", {"src": large, **place, "dst": small}),
        Case("tinsert", "a5", {"src": small, **place, "dst": large}),
    ):
        with pytest.raises(ptosim.Trap) as trap:
            case.run()
        assert trap.value.diagnostics[-1].code == "PTO6005"


@pytest.mark.parametrize("target", TARGETS)
def test_a_window_that_shares_its_storage(target):
    """tsubview: what is written through the window is seen in the tile, at its rows' distance."""
    k = Kernel(target)
    whole = k.tile("whole", "f32", 8, 16)
    k.load("before", whole)
    part = k.tile("part", "f32", 4, 8)
    row, col = k.arg("row", "index"), k.arg("col", "index")
    k.op("pto.tsubview", [whole, (row, "index"), (col, "index")], [part])
    k.op("pto.tadds", [part, ("%one", "f32")], [part])
    k.lines.insert(0, "%one = arith.constant 1.0 : f32")
    k.store(whole, "after")
    values = np.arange(128, dtype=np.float32).reshape(8, 16)
    args = {"before": values, "after": np.zeros((8, 16), np.float32), "row": 2, "col": 8}
    expected = values.copy()
    expected[2:6, 8:] += 1
    assert k.run(args).outputs["after"].tolist() == expected.tolist()
    with pytest.raises(ptosim.Trap) as trap:
        k.run(args | {"row": 5})
    assert trap.value.diagnostics[-1].code == "PTO6005"


LEFT = "!pto.tile_buf<left, 16x32xf8E4M3FN, blayout=col_major, slayout=row_major>"
SCALE = "!pto.tile_buf<scaling, 1x64xf8E8M0FNU>"


@pytest.mark.parametrize("name", ["tget_scale_addr", "get_scale_addr"])
def test_a_scale_tile_follows_its_operand(name):
    """The scales of a tile at A of L0A begin at A / 16, which has to be in their memory. (August's
    shapes of scales always fit there.)"""
    text = f"""module attributes {{pto.target_arch = "a5"}} {{
      func.func @kernel(%at: i64) {{
        %zero = arith.constant 0 : i64
        %l = pto.alloc_tile addr = %at : {LEFT}
        %s = pto.alloc_tile addr = %zero : {SCALE}
        pto.{name} ins(%l : {LEFT}) outs(%s : {SCALE})
        return
      }}
    }}"""
    program = ptosim.load(text, level=3, compat="2026-04")
    assert program.run({"at": 0x2000}).findings == []
    with pytest.raises(ptosim.Trap) as trap:
        program.run({"at": 0xFE00})
    assert "[0xfe0, 0x1020) is out of bounds of left_scale" in trap.value.diagnostics[-1].message


def test_copy_by_its_manual_name():
    """tmov.v2v is tmov between vec tiles."""
    for target in TARGETS:
        made = []
        for name in ("pto.tmov", "pto.tmov.v2v"):
            k = Kernel(target)
            a, b = k.tile("a", "f32", 4, 32, (4, 30)), k.tile("b", "f32", 4, 32, (4, 30))
            k.load("x", a)
            k.op(name, [a], [b])
            k.store(b, "y")
            x = mixture("f32", 120, 1)
            made.append(k.run({"x": x, "y": np.zeros(120, np.float32)}).outputs["y"].tobytes())
        assert made[0] == made[1] == mixture("f32", 120, 1).astype(np_dtype("f32")).tobytes()
