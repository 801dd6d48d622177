"""Bands hold what other orders of accumulation give: orders tried at random, here with NumPy, one
addition after the other in the type of the sum, never leave them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.ground.isa.dates import make_profile
from ptosim.ground.records import replace
from ptosim.launch.compare import Choices
from ptosim.tools.bands import Bands, bands, widest
from tests.support.paths import PROGRAMS
from tests.support.text import Kernel

ROWS, COLUMNS = 16, 64
Reference = Callable[[dict[str, np.ndarray], np.random.Generator], np.ndarray]


def in_some_order(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The sum along the last axis in f32: any order, any tree."""
    parts = [values[..., i].astype(np.float32) for i in rng.permutation(values.shape[-1])]
    while len(parts) > 1:
        at = int(rng.integers(0, len(parts) - 1))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts[0]


def row_kernel(target: str, steps: list[str]) -> tuple[Kernel, Reference]:
    """A chain over a tile of f32, and what it means with a sum in some order."""
    k = Kernel(target)
    t, u = k.tile("t", "f32", ROWS, COLUMNS), k.tile("u", "f32", ROWS, COLUMNS)
    tmp = k.tile("tmp", "f32", ROWS, COLUMNS)
    col = k.tile("col", "f32", ROWS, 1, layout="dn")
    half = k.tile("half", "bf16", ROWS, COLUMNS)
    k.load("x", t)
    k.load("w", u)
    k.line("%factor = arith.constant 0.75 : f32")
    for step in steps:
        if step == "mul":
            k.op("pto.tmul", [t, u], [t])
        elif step == "scale":
            k.op("pto.tmuls", [t, ("%factor", "f32")], [t])
        elif step == "exp":
            k.op("pto.tmins", [t, ("%factor", "f32")], [t])
            k.op("pto.texp", [t], [t])
        elif step == "half":
            k.op("pto.tcvt", [t], [half], "rmode = #pto<round_mode CAST_RINT>")
            k.op("pto.tcvt", [half], [t], "rmode = #pto<round_mode CAST_RINT>")
        else:
            word = step.removeprefix("sum_")
            k.op("pto.trowsum", [t, tmp], [col])
            k.op(f"pto.trowexpand{word}", [t, col, tmp], [t])
    k.store(t, "y")

    def reference(args: dict[str, np.ndarray], rng: np.random.Generator) -> np.ndarray:
        x = args["x"]
        for step in steps:
            x = _step(step, x, args, rng)
        return x

    return k, reference


def _step(step: str, x: np.ndarray, args: dict[str, Any], rng: np.random.Generator) -> np.ndarray:
    if step == "mul":
        return x * args["w"]
    if step == "scale":
        return x * np.float32(0.75)
    if step == "exp":
        return np.exp(np.minimum(x, np.float32(0.75)))
    if step == "half":
        return x.astype(ml_dtypes.bfloat16).astype(np.float32)
    total = in_some_order(x, rng)[:, None]
    word = step.removeprefix("sum_")
    return {"div": np.divide, "sub": np.subtract, "mul": np.multiply}[word](x, total)


STEPS = ["mul", "scale", "exp", "half", "sum_div", "sum_sub", "sum_mul"]


@pytest.mark.sampled(6, 24)
@pytest.mark.parametrize("number", range(200))
def test_a_random_order_is_inside(number) -> None:
    """Random chains with at least one sum, on ordinary and on cancelling data."""
    rng = np.random.default_rng((43, number))
    steps = list(rng.choice(STEPS, 4)) + [str(rng.choice(STEPS[4:]))] + ["half"] * (number % 2)
    kernel, reference = row_kernel(["a2a3", "a5"][number % 2], [str(s) for s in steps])
    args = {n: rng.standard_normal((ROWS, COLUMNS)).astype(np.float32) for n in "xw"}
    if number % 3 == 0:
        args["x"][:, 3] = 2.0**20
        args["x"][:, 40] = -(2.0**20)
    args["y"] = np.zeros((ROWS, COLUMNS), np.float32)
    found = bands(kernel.program(), args, each_switch=False).outputs["y"]
    assert found.holds(found.value).all()
    for _ in range(50):
        with np.errstate(all="ignore"):
            other = reference(args, rng)
        inside = found.holds(other)
        assert inside.all(), (steps, np.argwhere(~inside)[0])


def product(dtype: str, parts: int) -> ptosim.Program:
    """16 x 64 by 64 x 16, k in `parts` pieces."""
    k, size = Kernel("a2a3"), 64 // parts
    acc = k.tile("acc", "f32", 16, 16, layout="nz", fractal=1024, loc="acc")
    for at in range(parts):
        lm = k.tile(f"lm{at}", dtype, 16, size, layout="nz", loc="mat")
        rm = k.tile(f"rm{at}", dtype, size, 16, layout="nz", loc="mat")
        left = k.tile(f"l{at}", dtype, 16, size, layout="nz", loc="left")
        right = k.tile(f"r{at}", dtype, size, 16, layout="zn", loc="right")
        k.load("a", lm, (16, size), offsets=(0, at * size), shape=(16, 64))
        k.load("b", rm, (size, 16), offsets=(at * size, 0), shape=(64, 16))
        k.op("pto.tmov", [lm], [left])
        k.op("pto.tmov", [rm], [right])
        if at:
            k.op("pto.tmatmul.acc", [acc, left, right], [acc])
        else:
            k.op("pto.tmatmul", [left, right], [acc])
    k.store(acc, "c")
    return k.program()


def operands(dtype: str, seed: int) -> dict[str, np.ndarray]:
    kind = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}[dtype]
    rng = np.random.default_rng(seed)
    args = {"a": rng.standard_normal((16, 64)), "b": rng.standard_normal((64, 16))}
    args = {n: v.astype(kind) for n, v in args.items()}
    return {**args, "c": np.zeros((16, 16), np.float32)}


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_a_product_in_any_order_is_inside(dtype, parts) -> None:
    args = operands(dtype, 7)
    found = bands(product(dtype, parts), args, each_switch=False)
    band, rng = found.outputs["c"], np.random.default_rng(8)
    assert band.open.all()
    a, b = args["a"].astype(np.float32), args["b"].astype(np.float32)
    for _ in range(50):
        terms = (a[:, None, :] * b.T[None, :, :]).astype(np.float32)
        assert band.holds(in_some_order(terms, rng)).all()
    assert not band.holds(band.value * np.float32(1.001)).all()


def test_whole_numbers_have_one_sum() -> None:
    """Every partial sum is exact, so that no order changes a bit."""
    args = operands("f16", 1)
    args["a"] = np.round(args["a"] * 8).astype(np.float16)
    args["b"] = np.round(args["b"] * 8).astype(np.float16)
    assert not bands(product("f16", 2), args, each_switch=False).outputs["c"].open.any()


def one_sum(row: np.ndarray, to: str = "") -> Bands:
    """The sum of each row, stored as it is or rounded to another type."""
    k = Kernel("a2a3")
    t, tmp = k.tile("t", "f32", 16, 64), k.tile("tmp", "f32", 16, 64)
    col, wide = k.tile("col", "f32", 16, 1, layout="dn"), k.tile("wide", "f32", 16, 64)
    k.load("x", t)
    k.op("pto.trowsum", [t, tmp], [col])
    k.op("pto.trowexpand", [col], [wide])
    out = wide
    if to:
        out = k.tile("out", to, 16, 64)
        k.op("pto.tcvt", [wide], [out], "rmode = #pto<round_mode CAST_RINT>")
    k.store(out, "y")
    x = np.broadcast_to(row, (16, 64)).astype(np.float32)
    return bands(k.program(), {"x": x}, each_switch=False)


def test_a_tie_is_decided_by_the_conversion() -> None:
    """A sum of 0.1 ten times and 1.5: near 2.5, which rounds down or up with the order."""
    row = np.zeros(64)
    row[:10], row[10] = 0.1, 1.5
    found = one_sum(row, "i32")
    assert found.outputs["y"].open.all()
    assert set(np.unique([found.outputs["y"].low, found.outputs["y"].high])) == {2, 3}
    (tie,) = [d for d in found.decisions if d.outputs]
    assert (tie.kind, tie.op.name, tie.outputs["y"]) == ("tie", "pto.tcvt", 16 * 64)


def test_a_sum_that_may_overflow_may_be_anything() -> None:
    row = np.zeros(64)
    row[0], row[1], row[2] = 3e38, 3e38, -3e38
    band = one_sum(row).outputs["y"]
    for value in (np.inf, -np.inf, np.nan, 3e38):
        assert band.holds(np.full((16, 64), value, np.float32)).all()


def test_nan_and_infinity_stay() -> None:
    row = np.zeros(64)
    row[0], row[1] = np.nan, 1
    band = one_sum(row).outputs["y"]
    assert band.holds(np.full((16, 64), np.nan, np.float32)).all()
    assert not band.holds(np.zeros((16, 64), np.float32)).any()
    row[0] = np.inf
    band = one_sum(row).outputs["y"]
    assert band.holds(np.full((16, 64), np.inf, np.float32)).all()
    assert not band.holds(np.zeros((16, 64), np.float32)).any()


def test_what_no_order_changes_has_one_value() -> None:
    found = bands(ptosim.load("@basics/vadd"))
    assert not any(band.open.any() for band in found.outputs.values())


def test_blocks_that_add_to_memory() -> None:
    """Four blocks add their products to what is there: 50 orders of them are inside."""
    program = ptosim.load("@model/linear_splitk")
    band = bands(program, each_switch=False).outputs["y"]
    assert band.open.all()
    args = program.run(timing=False).outputs
    x, w = (args[n].astype(np.float32) for n in "xw")
    begun = np.random.default_rng(253).standard_normal((16, 256)).astype(np.float32)
    rng = np.random.default_rng(5)
    parts = [x[:, i : i + 128] @ w[i : i + 128] for i in range(0, 512, 128)]
    for _ in range(50):
        total = begun
        for at in rng.permutation(4):
            total = total + parts[at]
        assert band.holds(total).all()


@pytest.mark.parametrize("open_index", [False, True])
def test_a_gather_moves_ends_where_its_indices_have_one_value(open_index: bool) -> None:
    """Sums of rows are gathered by indices: each keeps its ends. What a sum says where to look
    may be anything, and is named."""
    k = Kernel("a5")
    x, tmp = k.tile("rows", "f32", 16, 64), k.tile("tmp", "f32", 16, 64)
    total, wide = k.tile("total", "f32", 16, 1, layout="dn"), k.tile("wide", "f32", 16, 64)
    index, found = k.tile("places", "i32", 16, 64), k.tile("found", "f32", 16, 64)
    scratch = k.tile("scratch", "i32", 16, 64)
    k.load("x", x)
    k.op("pto.trowsum", [x, tmp], [total])
    k.op("pto.trowexpand", [total], [wide])
    if open_index:
        k.op("pto.tcvt", [wide], [index], "rmode = #pto<round_mode FLOOR>")
    else:
        k.load("index", index)
    k.op("pto.tgather", [wide, index, scratch], [found])
    k.store(found, "y")
    rng = np.random.default_rng(4)
    values = rng.random((16, 64), np.float32)
    if open_index:  # sums around 32
        values = 0.5 + 1e-6 * rng.standard_normal((16, 64)).astype(np.float32)
    args: dict[str, Any] = {"x": values, "y": np.zeros((16, 64), np.float32)}
    places = rng.integers(0, 1024, (16, 64)).astype(np.int32)
    args |= {} if open_index else {"index": places}
    made = bands(k.program(), args, each_switch=False)
    assert bool(made.unfollowed) is open_index
    if open_index:
        return
    band = made.outputs["y"]
    assert 0 < widest(band) < 1e-3
    for _ in range(50):
        sums = in_some_order(values, rng)
        assert band.holds(np.repeat(sums, 64)[places]).all()


@pytest.mark.sampled(1, 2)
@pytest.mark.parametrize("name", ["model/linear_relu", "model/paged_attention", "cube/swiglu"])
def test_tiles_go_through_fifos_with_their_ends(name: str) -> None:
    """Views of slots on A2/A3 and A5, halves of rows, slots that hold elements of two sizes: other
    orders of the cube are inside, and the ends are near."""
    choices = Choices(str(PROGRAMS / f"{name}.pto")).completed()
    program, args = choices.program(), choices.arguments()
    how = {"entry": choices.entry, "block_num": choices.block_num}
    found = bands(program, args, **how, each_switch=False)
    assert not found.unfollowed
    result = list(found.outputs)[-1]
    assert 0 < widest(found.outputs[result]) < 0.01
    for order in ("sequential", "blocks"):
        profile = make_profile("hw", program.target, {"matmul.order": order})
        other = replace(program, profile=profile).run(args, **how, timing=False).outputs
        for output, band in found.outputs.items():
            assert band.holds(other[output]).all(), (order, output)


def test_products_by_pointers_in_any_order_are_inside() -> None:
    """A product in four pieces of k, a bias and the conversion on the way out: all by pointers.
    Small whole numbers have one sum."""
    choices = Choices(str(PROGRAMS / "micro/fractal_matmul.pto")).completed()
    args, rng = dict(choices.arguments()), np.random.default_rng(6)
    band = bands(choices.program(), args, each_switch=False)
    assert {d.kind for d in band.decisions} == {"sum", "tie"}
    assert not band.unfollowed
    made = ptosim.load("@micro/fractal_matmul").run(args).outputs
    left, right, bias = (made[n].astype(np.float32) for n in ("a", "b", "bias"))
    terms = left.reshape(32, 128)[:, None, :] * right.reshape(128, 64).T[None]
    every = np.concatenate([terms, np.broadcast_to(bias.reshape(1, 64, 1), (32, 64, 1))], axis=2)
    for _ in range(20):
        other = np.maximum(in_some_order(every, rng), 0).astype(np.float16)
        assert band.outputs["c"].holds(other.reshape(band.outputs["c"].value.shape)).all()
    whole = {n: np.rint(made[n]).astype(made[n].dtype) for n in ("a", "b", "bias")}
    found = bands(choices.program(), {**args, **whole}, each_switch=False).outputs["c"]
    assert not found.open.any()


@pytest.mark.slow
def test_what_vector_registers_take_of_such_products_is_named() -> None:
    found = bands(ptosim.load("@micro/flash_attention"), each_switch=False)
    assert {name for name, _ in found.unfollowed} == {"pto.vlds"}
    found = bands(ptosim.load("@micro/mxfp8_matmul"), each_switch=False)
    assert not found.unfollowed
    assert 0 < widest(found.outputs["c"]) < 1


def test_vector_registers_have_one_value_and_arguments_are_compared() -> None:
    found = bands(ptosim.load("@micro/row_sums"), each_switch=False)
    for band in found.outputs.values():
        assert band.holds(band.value).all()
