"""Tables in global memory: every out-of-bounds mode and atomic operation, one element at a time."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.harness import assert_same, mixture, np_dtype
from tests.ops.semantics.helpers import codes
from tests.oracle.gathering import combined, table_index
from tests.oracle.tile import Tile
from tests.support.text import Kernel

ROWS, COLS = 12, 32
LIMITS = {True: ROWS, False: ROWS * COLS}  # by rows, by elements


def image(dtype: str, array: np.ndarray, rows: int, cols: int) -> Tile:
    """A tile of the model over an array's bytes."""
    return Tile(dtype, rows, cols, (rows, cols), memory=bytearray(array.tobytes()))


def places(indices: np.ndarray, valid: tuple[int, int], *, by_rows: bool, mode: str):
    """Where each element of the tile is in the table; None where an index names nothing."""
    found = {}
    for r in range(valid[0]):
        for c in range(valid[1]):
            named = int(indices[r, 0] if by_rows else indices[r, c])
            at = table_index(named, mode, LIMITS[by_rows])
            found[r, c] = None if at is None else at * valid[1] + c if by_rows else at
    return found


def some_indices(valid: tuple[int, int], *, by_rows: bool, wild: bool, seed: int) -> np.ndarray:
    """Indices with repetitions; wild ones outside the table on both sides."""
    rng = np.random.default_rng(seed)
    limit = LIMITS[by_rows]
    values = rng.integers(0, limit // 2, (4, 8 if by_rows else COLS)).astype(np.int32)
    if wild:
        values[1, 0], values[2, 0], values[3, 0] = limit, -1, -(2**31)
    return values


class Access:
    """A program with one access: index tile, data tile, table."""

    def __init__(self, dtype: str, valid: tuple[int, int], indices: np.ndarray, **view) -> None:
        self.dtype, self.valid, self.indices = dtype, valid, indices
        self.k = Kernel("a5", switches=view.pop("switches", {}), compat="2026-04")
        by_rows = indices.shape[1] == 8
        width = 8 if by_rows else COLS
        self.idx = self.k.tile("idx", "i32", 4, width)
        self.k.load("indices", self.idx)
        named = (valid[0], 1 if by_rows else valid[1])
        self.idx = self.k.alias("pto.treshape", "named", self.idx, v_row=named[0], v_col=named[1])
        self.data = self.k.tile("data", dtype, 4, COLS)
        self.k.load("before", self.data)
        self.part = self.k.alias("pto.treshape", "part", self.data, v_row=valid[0], v_col=valid[1])
        self.table = self.k.view("table", dtype, view.pop("sizes", (ROWS, valid[1])), **view)

    def run(self, table: np.ndarray, data: np.ndarray) -> ptosim.Result:
        args = {"indices": self.indices.reshape(-1), "before": data, "table": table}
        if "%after" in self.k.text():
            args["after"] = np.zeros_like(data)
        return self.k.run(args)


def gathered(dtype, valid, indices, mode, table, data, **view) -> ptosim.Result:
    access = Access(dtype, valid, indices, **view)
    access.k.op(
        "pto.mgather",
        [access.table, access.idx],
        [access.part],
        f"gatherOob = #pto.gather_oob<{mode}>",
    )
    access.k.store(access.data, "after")
    return access.run(table, data)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("mode", ["undefined", "clamp", "wrap", "zero"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "i32", "ui8", "bf16"])
def test_gathering_rows_and_elements(dtype, mode, by_rows):
    for seed, valid in enumerate([(4, COLS), (3, COLS), (4, 5)][: 3 if dtype == "f32" else 1]):
        indices = some_indices(valid, by_rows=by_rows, wild=mode != "undefined", seed=seed)
        table = mixture(dtype, ROWS * COLS, seed)
        data = mixture(dtype, 4 * COLS, 7)
        size = (ROWS, valid[1] if by_rows else COLS)
        result = gathered(dtype, valid, indices, mode, table, data, sizes=size)
        model, source = image(dtype, data, 4, COLS), image(dtype, table, 1, ROWS * COLS)
        for (r, c), at in places(indices, valid, by_rows=by_rows, mode=mode).items():
            bits = 0 if at is None else source.bits(at)
            start = model.at(r, c) * model.size
            model.memory[start : start + model.size] = bits.to_bytes(model.size, "little")
        expected = np.frombuffer(bytes(model.memory), np_dtype(dtype))
        assert_same(f"mgather {mode}", result.outputs["after"], expected)


def scattered(dtype, valid, indices, table, data, attrs, **view) -> ptosim.Result:
    access = Access(dtype, valid, indices, **view)
    access.k.op("pto.mscatter", [access.part, access.idx], [access.table], attrs)
    return access.run(table, data)


def model_scatter(dtype, valid, indices, table, data, mode, word, *, by_rows) -> np.ndarray:
    """The table after each element was stored, in row order."""
    target, source = image(dtype, table, 1, ROWS * COLS), image(dtype, data, 4, COLS)
    for (r, c), at in places(indices, valid, by_rows=by_rows, mode=mode).items():
        if at is not None:
            target.write(at, combined(target.read(at), source.get(r, c), word, dtype))
    return np.frombuffer(bytes(target.memory), np_dtype(dtype))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("word", ["none", "add", "max", "min"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "i16", "i8", "ui32"])
def test_atomic_stores_meet_each_other_in_row_order(dtype, word):
    """Repeated indices: the sum rounds after each addition, and the last plain store stays."""
    for by_rows in (True, False):
        indices = some_indices((4, COLS), by_rows=by_rows, wild=False, seed=by_rows) % 5
        table, data = mixture(dtype, ROWS * COLS, 1), mixture(dtype, 4 * COLS, 2)
        attrs = f"scatterAtomicOp = #pto.scatter_atomic_op<{word}>"
        result = scattered(dtype, (4, COLS), indices, table, data, attrs)
        expected = model_scatter(
            dtype, (4, COLS), indices, table, data, "undefined", word, by_rows=by_rows
        )
        assert_same(f"mscatter {word}", result.outputs["table"], expected)


@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("mode", ["skip", "clamp", "wrap"])
def test_scattering_outside_the_table(mode, by_rows):
    for word in ("none", "add"):
        valid = (4, COLS)
        indices = some_indices(valid, by_rows=by_rows, wild=True, seed=3)
        table, data = mixture("i32", ROWS * COLS, 1), mixture("i32", 4 * COLS, 2)
        attrs = (
            f"scatterAtomicOp = #pto.scatter_atomic_op<{word}>, "
            f"scatterOob = #pto.scatter_oob<{mode}>"
        )
        result = scattered("i32", valid, indices, table, data, attrs)
        expected = model_scatter("i32", valid, indices, table, data, mode, word, by_rows=by_rows)
        assert_same(f"mscatter {mode}", result.outputs["table"], expected)


@pytest.mark.parametrize("rule", ["cpu", "spec"])
def test_the_nan_rule_of_atomic_extremes_is_the_switch(rule):
    """0 in the table, NaN stored: `cpu` keeps the first operand, `spec` the number; NaN in the
    table, 1 stored: `cpu` keeps the NaN."""
    indices = np.zeros((4, COLS), np.int32)
    indices[0, :2] = 0, 1
    table, data = np.zeros(ROWS * COLS, np.float32), np.zeros(4 * COLS, np.float32)
    table[1], data[0], data[1] = np.nan, np.nan, 1.0
    attrs = "scatterAtomicOp = #pto.scatter_atomic_op<max>"
    result = scattered(
        "f32",
        (1, 2),
        indices,
        table,
        data,
        attrs,
        sizes=(ROWS, COLS),
        switches={"maxmin.nan": rule},
    )
    left, right = result.outputs["table"][:2]
    assert left == 0
    assert np.isnan(right) == (rule == "cpu")


# -- undefined, sparse, empty ----------------------------------------------------------------------


def test_undefined_reaches_behind_the_view_with_a_warning_and_behind_the_buffer_not_at_all():
    table, data = mixture("f32", ROWS * COLS, 1), mixture("f32", 4 * COLS, 2)
    indices = np.full((4, 8), 7, np.int32)
    result = gathered("f32", (4, COLS), indices, "undefined", table, data, sizes=(6, COLS))
    assert "PTO6405" in codes(result)
    assert_same("row", result.outputs["after"][:COLS], table[7 * COLS : 8 * COLS])
    for wrong in (ROWS, -1):
        indices[2, 0] = wrong
        with pytest.raises(ptosim.Trap) as trap:
            gathered("f32", (4, COLS), indices, "undefined", table, data)
        fault = trap.value.diagnostics[-1]
        assert fault.code == "PTO6402"
        assert f"index {wrong} at (2, 0)" in fault.message


def test_a_table_with_gaps_is_addressed_densely_and_warns():
    table, data = mixture("f32", ROWS * COLS, 1), mixture("f32", 4 * COLS, 2)
    indices = np.full((4, 8), 1, np.int32)
    result = gathered(
        "f32", (4, 16), indices, "undefined", table, data, sizes=(6, 16), strides=(COLS, 1)
    )
    assert "PTO6404" in codes(result)
    assert_same("row", result.outputs["after"][:16], table[16:32])


@pytest.mark.parametrize("op", ["mgather", "mscatter"])
def test_an_empty_tile_moves_nothing(op):
    table, data = mixture("f32", ROWS * COLS, 1), mixture("f32", 4 * COLS, 2)
    indices = np.full((4, 8), -1, np.int32)
    if op == "mgather":
        result = gathered("f32", (0, COLS), indices, "undefined", table, data)
        assert_same("tile", result.outputs["after"], data)
    else:
        result = scattered("f32", (0, COLS), indices, table, data, "")
    assert_same("table", result.outputs["table"], table)
