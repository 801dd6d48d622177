"""`fmt --lower-quant` of tiles with unsigned storage of 16 and 32 bits, and beyond f16."""

from __future__ import annotations

import numpy as np
import pytest

from tests.models.lower.test_casts import lower, outputs
from tests.oracle import tensor_arith

SHAPE = (8, 64)
CASES = [
    ("u16", "f32", "1.23:512"),
    ("u16<0:1023>", "f32", "1.23:512"),
    ("u32", "f32", "1.0:7"),
    ("u32", "f32", "0.5"),
    ("u16", "f16", "0.25:3"),
    ("i32", "f16", "0.25"),
    ("i32", "f16", "0.25:3"),
]


def data(expressed):
    rng = np.random.default_rng(5)
    x = (rng.integers(-600, 600, SHAPE) / 4).astype(np.float32)
    x *= rng.choice(np.float32([1, 1.01, 1000.3, 1e7]), SHAPE)
    edges = [np.inf, -np.inf, 1e30, 3e9, 2**31, 2**31 - 128, 2**31 + 256, 2**32 - 256, 2**32, -0.0]
    x[0, : len(edges)] = edges
    with np.errstate(over="ignore"):
        return x.astype({"f16": np.float16, "f32": np.float32}[expressed])


def tile(element):
    return f"!pto.tile<8x64x{element}>"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("given", CASES, ids=":".join)
def test_every_value_is_kept(given, target):
    """By the cast, by the lowered text, and by the formula in Python's numbers."""
    storage, expressed, parameters = given
    type_ = tile(f"!quant.uniform<{storage}:{expressed}, {parameters}>")
    text = (
        f"%q = quant.qcast %x : {tile(expressed)} to {type_}\n"
        f"%y = quant.dcast %q : {type_} to {tile(expressed)}\n"
        f"%i = quant.scast %q : {type_} to {tile('i' + storage[1:3])}\n"
    )
    x, plain = data(expressed), lower(text, target)
    assert "quant." not in plain
    before, after = outputs(text, target, x), outputs(plain, target, x)
    for name in ("i", "y"):
        np.testing.assert_array_equal(before[name], after[name], err_msg=name)
    want = tensor_arith.qcast(x, storage, expressed, parameters)
    np.testing.assert_array_equal(after["i"].view(want.dtype), want)
    if storage == "u32":
        assert (want > 2**31).any()


@pytest.mark.parametrize("storage", ["u16", "u32"])
def test_a_destination_of_the_program_is_written(cli, tmp_path, storage):
    real = "!pto.tile_buf<vec, 8x64xf32>"
    held = f"!pto.tile_buf<vec, 8x64x!quant.uniform<{storage}:f32, 0.5>>"
    path = tmp_path / "p.pto"
    path.write_text(
        f"module {{\n  func.func @f(%p: !pto.ptr<f32>) {{\n    %x = pto.alloc_tile : {real}\n"
        f"    %q = pto.alloc_tile : {held}\n    quant.qcast ins(%x : {real}) outs(%q : {held})\n"
        "    return\n  }\n}\n"
    )
    got = cli("fmt", "--lower-quant", path)
    assert got.code == 0
    (tmp_path / "lowered.pto").write_text(got.out)
    assert cli("check", tmp_path / "lowered.pto").code == 0
    assert got.out.count("pto.treshape %q") == 1
