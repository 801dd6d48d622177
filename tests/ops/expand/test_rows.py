"""Reductions of rows and broadcasts, and their vector regions, give the same bytes, in the form in
which models write kernels too: valid shapes that constants give.

The two levels have separate implementations. Rows have NaN, infinities, zeros of both signs, and
more than one register with a rest."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.ops.lower import rows
from ptosim.ops.lower.program import expand
from tests.support.text import Kernel

ARRAYS = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "i16": np.int16, "i8": np.int8}
ROWS = 16
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 3.5]


def numbers(elem: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    kind = np.dtype(ARRAYS[elem])
    if kind.kind == "i":
        return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape).astype(kind)
    found = rng.normal(0, 30, shape).astype(kind)
    found.reshape(-1)[::7] = rng.choice(SPECIAL, found.reshape(-1)[::7].shape)
    found[0] = np.nan
    found[1], found[2] = -0.0, np.tile([0.0, -0.0], shape[1])[: shape[1]]
    return found


def tile(k: Kernel, name: str, elem: str, cols: int, pitch: int, *, known: bool):
    """A tile of ROWS rows; its valid shape is in its type, or constants give it (`known`)."""
    if known:
        return k.tile(name, elem, ROWS, pitch, (ROWS, cols))
    return k.dynamic(name, elem, ROWS, pitch, (k.const(ROWS), k.const(cols)))


def same(k: Kernel, op: str, args: dict[str, np.ndarray], out: np.ndarray) -> None:
    expanded = expand(Source("tile.pto", k.text()))
    assert [s.name for s in expanded.stages] == [op]
    assert not expanded.kept
    expected = k.run({**args, "out": out}).outputs["out"]
    found = ptosim.load(expanded.text).run({**args, "out": out}).outputs["out"]
    assert found.tobytes() == expected.tobytes()


REDUCED = [(op, e) for op, (_, es) in rows.SUMS.items() for e in es.split()]
REDUCED += [(op, e) for op, (*_, es) in rows.BEST.items() for e in es.split()]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("cols", [64, 200])
@pytest.mark.parametrize(("op", "elem"), REDUCED)
def test_reductions_of_rows(op, elem, cols, known):
    k = Kernel("a5")
    a = tile(k, "a", elem, cols, 256, known=known)
    tmp = tile(k, "tmp", elem, cols, 256, known=known)
    dst = k.tile("dst", elem, ROWS, 1, layout="dn")
    k.load("in", a, (ROWS, cols))
    k.op(op, [a, tmp], [dst])
    k.store(dst, "out")
    same(k, op, {"in": numbers(elem, (ROWS, cols), cols)}, np.zeros((ROWS, 1), ARRAYS[elem]))


BROADCAST = [
    (op, e)
    for table in (rows.ROW_FORMS, rows.COLUMN_FORMS)
    for op, (_, es) in table.items()
    for e in es.split()
    if e in ARRAYS and e != "i8"
]


@pytest.mark.sampled(3, 44)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("op", "elem"), BROADCAST)
def test_one_value_for_each_row_or_one_row_for_all(op, elem, known):
    k = Kernel("a5")
    cols, by_rows = 144, op.startswith("pto.trow")
    a, dst = (tile(k, n, elem, cols, 160, known=known) for n in ("a", "dst"))
    b = k.tile("b", elem, ROWS, 1, layout="dn") if by_rows else k.tile("b", elem, 1, 160, (1, cols))
    k.load("in0", a, (ROWS, cols))
    k.load("in1", b)
    k.op(op, [a, b], [dst])
    k.store(dst, "out", (ROWS, cols))
    vector = numbers(elem, (ROWS, cols), 5)
    vector = vector[:, 3:4] if by_rows else vector[5:6]
    args = {"in0": numbers(elem, (ROWS, cols), 4), "in1": np.ascontiguousarray(vector)}
    same(k, op, args, np.zeros((ROWS, cols), ARRAYS[elem]))


@pytest.mark.parametrize("op", rows.COPIES)
def test_copies_of_a_column_and_of_a_row(op):
    k = Kernel("a5")
    by_rows = op == rows.COPIES[0]
    dst = tile(k, "dst", "f32", 100, 104, known=False)
    a = (
        k.tile("a", "f32", ROWS, 1, layout="dn")
        if by_rows
        else k.tile("a", "f32", 1, 104, (1, 100))
    )
    k.load("in", a)
    k.op(op, [a], [dst])
    k.store(dst, "out", (ROWS, 100))
    given = numbers("f32", (ROWS, 100), 9)
    given = np.ascontiguousarray(given[:, :1] if by_rows else given[3:4])
    same(k, op, {"in": given}, np.zeros((ROWS, 100), np.float32))


def test_a_column_and_a_scalar():
    """Tiles of one column, as results of reductions are, are one run of elements."""
    k = Kernel("a5")
    a, dst = (k.tile(n, "f32", ROWS, 1, layout="dn") for n in ("a", "dst"))
    k.load("in", a)
    k.op("pto.tmaxs", [a, (k.arg("s", "f32"), "f32")], [dst])
    k.store(dst, "out")
    given = np.ascontiguousarray(numbers("f32", (ROWS, 3), 1)[:, :1])
    args = {"in": given, "s": np.float32(0.5)}
    same(k, "pto.tmaxs", args, np.zeros((ROWS, 1), np.float32))


def test_a_valid_shape_that_changes_is_asked_of_the_tile():
    """Rows after those that are valid then stay as they were."""
    k = Kernel("a5")
    a, b = (tile(k, n, "f32", 64, 64, known=False) for n in "ab")
    k.load("in", a, (ROWS, 64))
    k.load("in", b, (ROWS, 64))
    for name in "ab":
        k.line(f"pto.set_validshape %{name}, {k.const(4)}, {k.const(64)} : {b.type}")
    k.op("pto.tabs", [a], [b])
    k.line(f"pto.set_validshape %b, {k.const(ROWS)}, {k.const(64)} : {b.type}")
    k.store(b, "out", (ROWS, 64))
    given = -np.abs(numbers("f32", (ROWS, 64), 6))
    same(k, "pto.tabs", {"in": given}, np.zeros((ROWS, 64), np.float32))
