"""Windows of accumulators and vec tiles in the language of August 2026: a scale for each column or one
for all is an operand of textract, tinsert and tstore; windows go to UB too.

Expected values come from the model of the fixpipe (`oracle.cube`) and from the descriptions of the
layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.acc_harness import Filled, word
from tests.ops.semantics.helpers import ARRAYS, codes
from tests.oracle import cube, layouts
from tests.support.text import LAYOUTS, Kernel

TARGETS = ["a2a3", "a5"]
SHAPE = (32, 64)
NZ: dict[str, Any] = dict(zip(("blayout", "slayout"), LAYOUTS["nz"], strict=True))
RNG = np.random.default_rng(7)
SCALES = [2.0 ** (i % 5 - 2) for i in range(64)]
VALUES = RNG.integers(-900, 900, SHAPE).astype(np.float32) / 2


def kernel(target: str) -> tuple[Kernel, Any]:
    k = Kernel(target)
    return k, k.tile("acc", "f32", *SHAPE, fractal=1024, loc="acc", layout="nz")


def scaled(k: Kernel, form: str, dtype: str = "i64") -> tuple[str, str, dict[str, Any]]:
    """Return what follows the operands (values, types) for a form of the scale, and arguments."""
    if form == "none":
        return "", "", {}
    if form == "scalar":
        k.line(f"%word = arith.constant {word(0.25)} : i64")
        return "%word", "i64", {}
    words = k.tile("words", dtype, 1, 64, loc="mat")
    table = k.tile("table", dtype, 1, 64, loc="scaling")
    k.load("w", words)
    k.op("pto.tmov", [words], [table])
    given = [word(s) for s in SCALES] if dtype == "i64" else SCALES
    return "%table", table.type, {"w": np.array([given], ARRAYS[dtype])}


def code(value: float, col: int, form: str) -> int:
    """The byte of a value in a column of the window."""
    scale = 0.25 if form == "scalar" else SCALES[col]
    return int(cube.requantised(float(value), scale, 0, signed=True)) & 0xFF


class Bytes:
    """What is in the destination after the last move of a window."""

    def __init__(self, loc: str) -> None:
        self.loc, self.bytes = loc, b""

    def on_commit(self, core, inst, bound) -> None:
        if inst.op is not None and inst.op.name in ("pto.textract", "pto.tinsert"):
            first = bound.binding.values["dst"].addr
            self.bytes = bytes(core.space(self.loc).data[first : first + 64 * 128 * 4])


@pytest.mark.parametrize("form", ["scalar", "columns"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_window_of_an_accumulator_with_a_scale(target, form):
    """textract: the scale of a column is the word of that column of the window."""
    k, acc = kernel(target)
    value, type_, args = scaled(k, form)
    mat = k.tile("mat", "i8", 16, 32, layout="nz", loc="mat")
    extra = (f", {value}", f", {type_}") if form == "scalar" else ("", "")
    clause = "" if form == "scalar" else f" fp {value} : {type_}"
    r, c = k.arg("row", "index"), k.arg("col", "index")
    k.line(
        f"pto.textract ins(%acc, {r}, {c}{extra[0]} : {acc.type}, index, index{extra[1]}{clause}) "
        f"outs(%mat : {mat.type})"
    )
    look = Bytes("mat")
    k.run({**args, "row": 16, "col": 32}, observers=[Filled(VALUES), look])
    for at in np.ndindex(16, 32):
        got = look.bytes[layouts.tile_offset("nz", (16, 32), at, 8, 512)]
        assert got == code(VALUES[16 + at[0], 32 + at[1]], at[1], form), at


@pytest.mark.parametrize("form", ["scalar", "columns"])
@pytest.mark.parametrize("target", TARGETS)
def test_an_accumulator_with_a_scale_into_a_window(target, form):
    """tinsert: `fp` or `pre_quant`, and only the valid region of the accumulator."""
    k, _ = kernel(target)
    part = k.tile("part", "f32", *SHAPE, (20, 40), layout="nz", fractal=1024, loc="acc")
    value, type_, args = scaled(k, form)
    mat = k.tile("mat", "i8", 64, 64, layout="nz", loc="mat")
    word_ = "pre_quant" if form == "scalar" else "fp"
    r, c = k.arg("row", "index"), k.arg("col", "index")
    k.load("x", mat)
    k.lines = [line for line in k.lines if "%acc " not in line]
    k.line(
        f"pto.tinsert ins(%part, {r}, {c} : {part.type}, index, index {word_} {value} : {type_}) "
        f"outs(%mat : {mat.type})"
    )
    look = Bytes("mat")
    x = RNG.integers(-128, 127, (64, 64)).astype(np.int8)
    k.run({**args, "x": x, "row": 32, "col": 16}, observers=[Filled(VALUES), look])
    for at in np.ndindex(64, 64):
        got = look.bytes[layouts.tile_offset("nz", (64, 64), at, 8, 512)]
        row, col = at[0] - 32, at[1] - 16
        inside = 0 <= row < 20 and 0 <= col < 40
        assert got == (code(VALUES[row, col], col, form) if inside else int(x[at]) & 0xFF), at


def store(dtype: str, scales: list[float] | None = None) -> ptosim.Result:
    k, acc = kernel("a5")
    value, type_, args = scaled(k, "columns", dtype)
    view, spelled = k.view("y", "i8", SHAPE)
    k.line(f"pto.tstore ins(%acc : {acc.type} fp {value} : {type_}) outs({view} : {spelled})")
    if scales is not None:
        args["w"] = np.array([scales], ARRAYS[dtype])
    y = np.zeros(SHAPE, np.int8)
    return k.run({**args, "y": y}, observers=[Filled(VALUES)])


@pytest.mark.parametrize("dtype", ["i64", "f32", "f16", "bf16"])
def test_a_store_with_a_scale_for_each_column(dtype):
    """Words, or the numbers themselves; different numbers have a note, a tile of ones has none."""
    result = store(dtype)
    for at in np.ndindex(SHAPE):
        assert int(result.outputs["y"][at]) & 0xFF == code(VALUES[at], at[1], "columns")
    assert ("PTO7060" in codes(result)) == (dtype != "i64")


def test_ones_mean_the_same_in_every_type():
    assert "PTO7060" not in codes(store("f16", [1.0] * 64))


@pytest.mark.parametrize(
    ("name", "layout"), [("textract", "nd"), ("tinsert", "nd"), ("tinsert", "nz")]
)
def test_between_an_accumulator_and_ub(name, layout):
    """A5 moves windows to the memory of a vector core; NZ only for an insertion."""
    k, acc = kernel("a5")
    r, c = k.arg("row", "index"), k.arg("col", "index")
    shape = (16, 32) if name == "textract" else (64, 128)
    vec = k.tile("vec", "f32", *shape, layout=layout)
    x = RNG.standard_normal(shape).astype(np.float32)
    if name == "tinsert" and layout == "nd":
        k.load("x", vec)
    k.line(f"pto.{name} ins(%acc, {r}, {c} : {acc.type}, index, index) outs(%vec : {vec.type})")
    look = Bytes("vec")
    args = {"row": 16, "col": 32} | ({"x": x} if "x" in k.args else {})
    k.run(args, observers=[Filled(VALUES), look])
    for at in np.ndindex(*(SHAPE if name == "tinsert" else shape)):
        place = (at[0] + 16, at[1] + 32)
        first = layouts.tile_offset(layout, shape, place if name == "tinsert" else at, 32, 512) * 4
        if first + 4 > len(look.bytes):
            continue
        got = np.frombuffer(look.bytes[first : first + 4], np.float32)[0]
        assert got == VALUES[at if name == "tinsert" else place], at


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["i8", "f16", "bf16", "f32"])
def test_between_vec_tiles(target, dtype):
    """Both targets; insertion takes the valid region, and what is around it stays."""
    k = Kernel(target)
    whole = k.tile("whole", dtype, 32, 64)
    part = k.tile("part", dtype, 16, 32, (5, 9))
    r, c = k.arg("row", "index"), k.arg("col", "index")
    k.load("x", whole)
    k.load("z", part)
    k.op("pto.tinsert", [part, (r, "index"), (c, "index")], [whole])
    k.store(whole, "y")
    cut = k.tile("cut", dtype, 16, 32)
    k.op("pto.textract", [whole, (k.const(3), "index"), (k.const(7), "index")], [cut])
    k.store(cut, "w")
    x, z = (RNG.integers(-99, 99, s).astype(ARRAYS[dtype]) for s in (SHAPE, (5, 9)))
    empty = {"y": np.zeros(SHAPE, ARRAYS[dtype]), "w": np.zeros((16, 32), ARRAYS[dtype])}
    done = k.run({"x": x, "z": z, **empty, "row": 20, "col": 50}).outputs
    expected = x.copy()
    for at in np.ndindex(5, 9):
        expected[20 + at[0], 50 + at[1]] = z[at]
    np.testing.assert_array_equal(done["y"], expected)
    np.testing.assert_array_equal(done["w"], expected[3:19, 7:39])


@pytest.mark.parametrize("target", TARGETS)
def test_boxed_vec_tiles_keep_their_order(target):
    """tinsert between NZ tiles goes element by element through both layouts."""
    k = Kernel(target)
    whole = k.tile("whole", "f16", 32, 64, layout="nz")
    part = k.tile("part", "f16", 16, 32, layout="nz")
    r = k.const(16)
    k.load("z", part)
    k.op("pto.tinsert", [part, (r, "index"), (r, "index")], [whole])
    look = Bytes("vec")
    z = RNG.standard_normal((16, 32)).astype(np.float16)
    k.run({"z": z}, uninit="zero", observers=[look])
    for at in np.ndindex(16, 32):
        place = (at[0] + 16, at[1] + 16)
        first = layouts.tile_offset("nz", SHAPE, place, 16, 512) * 2
        assert np.frombuffer(look.bytes[first : first + 2], np.float16)[0] == z[at]


@pytest.mark.parametrize("name", ["textract", "tinsert"])
def test_a_window_outside_stops_the_run(name):
    k = Kernel("a5")
    whole, part = k.tile("whole", "f32", 32, 64), k.tile("part", "f32", 16, 32)
    r, c = k.arg("row", "index"), k.arg("col", "index")
    pair = (whole, part) if name == "textract" else (part, whole)
    k.op(f"pto.{name}", [pair[0], (r, "index"), (c, "index")], [pair[1]])
    with pytest.raises(ptosim.Trap) as stopped:
        k.run({"row": 17, "col": 0}, uninit="zero")
    assert stopped.value.diagnostics[-1].code == "PTO6005"
