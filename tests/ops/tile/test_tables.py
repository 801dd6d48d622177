"""Tables in global memory in the language of August 2026, on both targets: rows and elements by index,
out-of-bounds modes, into L1, scattered.

The model goes element by element: where an element of the table is follows from sizes and strides."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.helpers import codes
from tests.oracle import layouts
from tests.support.text import Kernel, Tile

TARGETS = ["a2a3", "a5"]
SIZES, STRIDES = (3, 4, 32), (200, 48, 1)  # gaps between rows and between groups of rows
TABLE = np.arange(700, dtype=np.float32)
RNG = np.random.default_rng(3)


def row_of(number: int) -> int:
    """The first element of a row of the table."""
    return number // SIZES[1] * STRIDES[0] + number % SIZES[1] * STRIDES[1]


def element_of(number: int) -> int:
    """An element of the table in the row-major order of its sizes."""
    return row_of(number // SIZES[2]) + number % SIZES[2]


LIMITS = {"row": SIZES[0] * SIZES[1], "elem": SIZES[0] * SIZES[1] * SIZES[2]}


def named(index: int, mode: str, limit: int) -> int | None:
    """What an index names under a mode, None where it is nothing."""
    index %= 2**32
    if mode == "clamp":
        return min(index, limit - 1)
    if mode == "wrap":
        return index % limit
    return index if index < limit else None


def table(k: Kernel) -> tuple[str, str]:
    return k.view("table", "f32", SIZES, STRIDES, shape=SIZES)


def index_tile(k: Kernel, values: np.ndarray, how: str) -> tuple[Tile, dict[str, Any]]:
    """An index tile: one row, one column, or the shape of the values."""
    if how == "column":
        tile = k.tile("idx", "i32", 8, 1, (len(values), 1), layout="dn")
    elif how == "line":
        tile = k.tile("idx", "i32", 1, 8, (1, len(values)))
    else:
        tile = k.tile("idx", "i32", 8, 32, values.shape)
    k.load("indices", tile)
    return tile, {"indices": values}


@pytest.mark.parametrize("mode", ["undefined", "clamp", "wrap", "zero"])
@pytest.mark.parametrize("how", ["line", "column", "elem"])
@pytest.mark.parametrize("target", TARGETS)
def test_gathering_rows_and_elements(target, how, mode):
    """Rows have the stride of the view, elements count in the order of its sizes."""
    word = "elem" if how == "elem" else "row"
    limit, valid = LIMITS[word], (5, 7)
    shape = valid if how == "elem" else (5,)
    indices = RNG.integers(0, limit, shape).astype(np.int32)
    if mode != "undefined":
        indices.reshape(-1)[:3] = [limit, -1, limit + 17]
    k = Kernel(target)
    view = table(k)
    idx, args = index_tile(k, indices, how)
    dst = k.tile("dst", "f32", 8, 32, valid)
    attrs = f"coalesce = #pto<coalesce {word}>, gatherOob = #pto<gather_oob {mode}>"
    k.op("pto.mgather", [view, idx], [dst], attrs)
    k.store(dst, "y")
    result = k.run({"table": TABLE, **args, "y": np.full(valid, -5, np.float32)})
    for r, c in itertools.product(range(5), range(7)):
        at = named(int(indices[r, c] if how == "elem" else indices[r]), mode, limit)
        place = None if at is None else element_of(at) if how == "elem" else row_of(at) + c
        assert result.outputs["y"][r, c] == (0 if place is None else TABLE[place]), (r, c)
    assert not {"PTO6402", "PTO6460"} & set(codes(result))


@pytest.mark.parametrize(("uninit", "value"), [("zero", 0.0), ("poison", None)])
def test_an_index_outside_without_a_mode(uninit, value):
    """A warning, and the value of memory that nothing has written; nothing else is read."""
    k = Kernel("a5")
    view = table(k)
    idx, args = index_tile(k, np.array([1, 12, -1], np.int32), "line")
    dst = k.tile("dst", "f32", 8, 32, (3, 4))
    k.op("pto.mgather", [view, idx], [dst], "coalesce = #pto<coalesce row>")
    k.store(dst, "y")
    result = k.run({"table": TABLE, **args, "y": np.zeros((3, 4), np.float32)}, uninit=uninit)
    y = result.outputs["y"]
    np.testing.assert_array_equal(y[0], TABLE[48:52])
    assert np.isnan(y[1:]).all() if value is None else (y[1:] == value).all()
    assert "PTO6460" in codes(result)


@pytest.mark.parametrize("word", ["row", "elem"])
@pytest.mark.parametrize("target", TARGETS)
def test_gathering_into_l1(target, word):
    """NZ in L1; elements go through a scratch that has the image of the whole tile afterwards."""
    k = Kernel(target)
    valid = (9, 11)
    view = table(k)
    count = (9,) if word == "row" else valid
    indices = RNG.integers(0, LIMITS[word], count).astype(np.int32)
    idx = k.view("indices", "i32", count)
    mat = k.tile("mat", "f32", 16, 16, valid, layout="nz", loc="mat")
    ins = [view, idx]
    args = {"table": TABLE, "indices": indices}
    if word == "elem":
        ins.append(k.view("scratch", "f32", (16, 16)))
        args["scratch"] = np.full((16, 16), 7, np.float32)
    k.op("pto.mgather", ins, [mat], f"coalesce = #pto<coalesce {word}>")
    seen = []

    class Look:
        def on_commit(self, core, inst, bound) -> None:
            if inst.op is not None and inst.op.name == "pto.mgather":
                seen.append(bytes(core.space("mat").data[:1024]))

    outputs = k.run(args, observers=[Look()], uninit="zero").outputs
    image = np.frombuffer(seen[0], np.float32)
    for r, c in itertools.product(range(16), range(16)):
        got = image[layouts.tile_offset("nz", (16, 16), (r, c), 32, 512)]
        inside = r < 9 and c < 11
        if word == "row":
            expected = TABLE[row_of(int(indices[r])) + c] if inside else 0
        else:
            expected = TABLE[element_of(int(indices[r, c]))] if inside else 0
        assert got == expected, (r, c)
    if word == "elem":
        assert outputs["scratch"].tobytes() == seen[0]


def test_a_scratch_that_is_too_small_stops_the_run():
    k = Kernel("a5")
    view, idx = table(k), k.view("indices", "i32", (9, 11))
    mat = k.tile("mat", "f32", 16, 16, (9, 11), layout="nz", loc="mat")
    k.op(
        "pto.mgather",
        [view, idx, k.view("s", "f32", (8, 16))],
        [mat],
        "coalesce = #pto<coalesce elem>",
    )
    args = {
        "table": TABLE,
        "indices": np.zeros((9, 11), np.int32),
        "s": np.zeros((8, 16), np.float32),
    }
    with pytest.raises(ptosim.Trap) as stopped:
        k.run(args)
    assert stopped.value.diagnostics[-1].code == "PTO6461"


def scattered(target: str, how: str, indices: np.ndarray, valid: tuple[int, int], attrs: str):
    k = Kernel(target)
    src = k.tile("src", "f32", 8, 32, valid)
    k.load("x", src)
    idx, args = index_tile(k, indices, how)
    k.op("pto.mscatter", [src, idx], [table(k)], attrs)
    x = RNG.standard_normal(valid).astype(np.float32)
    return x, k.run({"table": TABLE, "x": x, **args})


@pytest.mark.sampled(12)
@pytest.mark.parametrize("mode", ["skip", "clamp", "wrap"])
@pytest.mark.parametrize("operation", ["none", "add", "max", "min"])
@pytest.mark.parametrize("how", ["line", "elem"])
@pytest.mark.parametrize("target", TARGETS)
def test_scattering_rows_and_elements(target, how, operation, mode):
    word, valid = ("elem" if how == "elem" else "row"), (5, 6)
    limit = LIMITS[word]
    indices = RNG.integers(0, 4, valid if how == "elem" else (5,)).astype(np.int32)
    indices.reshape(-1)[:2] = [limit + 1, -1]
    attrs = (
        f"coalesce = #pto<coalesce {word}>, scatterAtomicOp = #pto<scatter_atomic_op {operation}>, "
        f"scatterOob = #pto<scatter_oob {mode}>"
    )
    x, result = scattered(target, how, indices, valid, attrs)
    expected = TABLE.copy()
    for r, c in itertools.product(range(valid[0]), range(valid[1])):
        at = named(int(indices[r, c] if how == "elem" else indices[r]), mode, limit)
        if at is None:
            continue
        place = element_of(at) if how == "elem" else row_of(at) + c
        old, new = expected[place], x[r, c]
        expected[place] = {
            "none": new,
            "add": old + new,
            "max": max(old, new),
            "min": min(old, new),
        }[operation]
    np.testing.assert_array_equal(result.outputs["table"], expected)


@pytest.mark.parametrize("how", ["column of rows", "elem"])
def test_without_coalesce_the_shape_of_the_indices_decides(how):
    """One column of indices names rows, the shape of the data elements."""
    k = Kernel("a5")
    src = k.tile("src", "f32", 8, 32, (4, 6))
    k.load("x", src)
    shape = (4, 1) if how != "elem" else (4, 6)
    idx = k.tile("idx", "i32", 8, 8, shape)
    indices = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    k.load("indices", idx)
    k.op("pto.mscatter", [src, idx], [table(k)])
    x = RNG.standard_normal((4, 6)).astype(np.float32)
    got = k.run({"table": TABLE, "x": x, "indices": indices}).outputs["table"]
    for r, c in itertools.product(range(4), range(6)):
        at = element_of(r * 6 + c) if how == "elem" else row_of(r) + c
        assert got[at] == x[r, c]


@pytest.mark.parametrize(("target", "attrs", "noted"), [
    ("a5", "coalesce = #pto<coalesce row>", True),
    ("a5", "coalesce = #pto<coalesce row>, scatterConflict = #pto<scatter_conflict last>", False),
    ("a5", "coalesce = #pto<coalesce row>, scatterConflict = #pto<scatter_conflict default>", True),
    ("a2a3", "coalesce = #pto<coalesce row>", False),
])  # fmt: skip
def test_of_two_stores_to_one_place_the_last_stays(target, attrs, noted):
    """Where the hardware may keep any of them a note says so."""
    x, result = scattered(target, "line", np.array([2, 5, 2], np.int32), (3, 4), attrs)
    np.testing.assert_array_equal(result.outputs["table"][96:100], x[2])
    assert ("PTO6462" in codes(result)) == noted


def test_a_scatter_outside_without_a_mode_stores_nothing():
    x, result = scattered(
        "a5", "line", np.array([2, 99], np.int32), (2, 4), "coalesce = #pto<coalesce row>"
    )
    expected = TABLE.copy()
    expected[96:100] = x[0]
    np.testing.assert_array_equal(result.outputs["table"], expected)
    assert "PTO6460" in codes(result)


@pytest.mark.parametrize("name", ["mgather", "mscatter"])
def test_an_empty_tile_moves_nothing(name):
    k = Kernel("a5")
    n = k.arg("n", "index")
    data = k.dynamic("data", "f32", 8, 32, (n, k.const(4)))
    idx = k.tile("idx", "i32", 1, 8, (1, 0))
    pair = ([table(k), idx], [data]) if name == "mgather" else ([data, idx], [table(k)])
    k.op(f"pto.{name}", *pair, "coalesce = #pto<coalesce row>")
    got = k.run({"table": TABLE, "n": 0}).outputs
    np.testing.assert_array_equal(got.get("table", TABLE), TABLE)
