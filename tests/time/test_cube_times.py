"""What the cube, the paths into L0 and the fixpipe take: one law through the fits that are published,
and what these differ by in the bar. Fits: pypto on boards (A2/A3) and a vendor's simulator (A5); the
GEMM table and the cost model of pto-isa."""

from __future__ import annotations

from math import log

import pytest

from ptosim.ground.ir.types import TileType
from ptosim.ground.isa.costs import cost_table
from ptosim.ground.isa.schema import dtype
from ptosim.time.laws.cost import Cost
from ptosim.time.laws.estimate import estimate
from ptosim.time.laws.shapes import OpShape, TileShape, ViewShape

SIZES = [(16, 64), (64, 64), (128, 64), (128, 128)]  # of f16: 2 to 32 KiB


def tile(loc: str, word: str, rows: int, cols: int) -> TileShape:
    return TileShape(TileType(loc, dtype(word), rows, cols, rows, cols), rows, cols)


def moved(target: str, loc: str, rows: int, cols: int) -> Cost:
    args = {"src": tile("mat", "f16", rows, cols), "dst": tile(loc, "f16", rows, cols)}
    return estimate(OpShape("tmov", target, args, {}, ("src",), ("dst",)), cost_table(target))


def product(target: str, word: str, m: int, k: int, n: int) -> Cost:
    args = {
        "lhs": tile("left", word, m, k),
        "rhs": tile("right", word, k, n),
        "dst": tile("acc", "f32", m, n),
    }
    return estimate(
        OpShape("tmatmul", target, args, {}, ("lhs", "rhs"), ("dst",)), cost_table(target)
    )


def drained(rows: int, cols: int, whole: int) -> Cost:
    """A store of an accumulator into rows of `whole` elements."""
    view = ViewShape((rows, cols), (whole, 1), dtype("f32"))
    args = {"src": tile("acc", "f32", rows, cols), "dst": view}
    return estimate(OpShape("tstore", "a2a3", args, {}, ("src",), ("dst",)), cost_table("a2a3"))


@pytest.mark.parametrize(
    ("target", "loc", "fits"),
    [
        ("a2a3", "left", (lambda b: b / 129.7, lambda b: 40 + b / 256)),
        ("a2a3", "right", (lambda b: b / 85.4, lambda b: 40 + b / 128)),
        ("a5", "left", (lambda b: b / 206, lambda b: 4 + b / 256)),
        ("a5", "right", (lambda b: b / 224, lambda b: 4 + b / 128)),
    ],
)
def test_the_paths_into_l0_go_through_both_fits(target, loc, fits) -> None:
    """The law is nearer to both than they are to each other, and says how far it may be off."""
    for rows, cols in SIZES:
        cost = moved(target, loc, rows, cols)
        one, other = (fit(rows * cols * 2) for fit in fits)
        apart = abs(log(one / other))
        assert max(abs(log(cost.cycles / x)) for x in (one, other)) < max(0.9 * apart, 0.36)
        assert cost.spread > 0
    off = [log(moved(target, loc, *s).cycles / f(s[0] * s[1] * 2)) for s in SIZES for f in fits]
    rms = (sum(x * x for x in off) / len(off)) ** 0.5
    assert moved(target, loc, 16, 64).spread == pytest.approx(rms, rel=0.25)


def test_a_product_has_a_start_that_products_in_a_row_do_not_pay() -> None:
    """21 (A2/A3) and 25 (A5) cycles + blocks of 16 x 16 results and 32 bytes of k; full f32 takes
    two passes there, eight here. In a row the GEMM table has 510 to 529 cycles of 128 x 64 x 256."""
    blocks = 8 * 4 * 16
    assert product("a2a3", "f16", 128, 64, 256).cycles == 21 + blocks
    assert 510 <= product("a2a3", "f16", 128, 64, 256).busy <= 529
    assert product("a5", "f16", 128, 64, 256).cycles == 25 + blocks
    assert product("a2a3", "f32", 128, 64, 256).cycles == 21 + 8 * 8 * 16 * 2
    assert product("a5", "f32", 128, 64, 256).cycles == 25 + 8 * 8 * 16 * 8


@pytest.mark.parametrize(("rows", "cols"), [(16, 16), (64, 64), (16, 64)])
def test_small_tiles_are_drained_by_row(rows: int, cols: int) -> None:
    """164 cycles, and 4.45 for each row of up to 434 bytes."""
    assert drained(rows, cols, 4096).cycles == round(164 + 4.45 * rows)
    assert drained(rows, cols, cols).cycles == drained(rows, cols, 4096).cycles


def test_large_tiles_are_drained_by_bytes() -> None:
    """128 x 256 of f32: 1,275 cycles in one source, 1,790 in the other."""
    cost = drained(128, 256, 4096)
    one, other = 164 + 128 * 1024 / 118, 1790
    assert one < cost.cycles < other
    assert abs(log(cost.cycles / one)) <= cost.spread
    assert abs(log(cost.cycles / other)) <= cost.spread


def test_rows_that_are_badly_cut_are_drained_slower() -> None:
    """2.6 cycles a row for each block of 16 columns over one in the odd part of their number."""
    for cols, odd in ((64, 1), (48, 3), (96, 3), (80, 5), (128, 1)):
        straight = 64 * max(4.45, 4 * cols / 97.5)
        expected = 164 + straight + 64 * 2.6 * (odd - 1)
        assert drained(64, cols, 4096).cycles == pytest.approx(expected, abs=1)
