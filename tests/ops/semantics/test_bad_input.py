"""What is wrong around the cube, the FIFOs and the sorters: rejected where the text shows it, stopped
with place and reason where only the run does."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.pair_harness import Pair
from tests.ops.semantics.test_fifo import args, frontend, given, half
from tests.support.text import LAYOUTS, Kernel, Tile


def tile(loc: str, dtype: str, rows: int, cols: int, layout: str = "nz", fractal: int = 512) -> str:
    blayout, slayout = LAYOUTS[layout]
    return Tile("t", dtype, rows, cols, None, None, blayout, slayout, fractal, loc=loc).type


ACC = tile("acc", "f32", 16, 16, fractal=1024)
LEFT, RIGHT = tile("left", "f16", 16, 32), tile("right", "f16", 32, 16, "zn")
LEFT8, RIGHT8 = tile("left", "f8E4M3FN", 16, 64), tile("right", "f8E4M3FN", 64, 32, "zn")
VEC, ROW = tile("vec", "f32", 1, 256, "nd"), tile("vec", "f32", 1, 512, "nd")

STATIC = {
    "locations of a product": ("a5", f"pto.tmatmul ins(%a, %b : {VEC}, {RIGHT}) outs(%c : {ACC})"),
    "a move without a path": ("a5", f"pto.tmov ins(%a : {RIGHT}) outs(%c : {LEFT})"),
    "UB to L1 on A2/A3": (
        "a2a3", f"pto.tmov ins(%a : {tile('vec', 'f16', 16, 16)}) outs(%c : {tile('mat', 'f16', 16, 16)})",
    ),
    "k of both factors": (
        "a5", f"pto.tmatmul ins(%a, %b : {LEFT}, {tile('right', 'f16', 64, 16, 'zn')}) outs(%c : {ACC})",
    ),
    "m of the result": (
        "a2a3", f"pto.tmatmul ins(%a, %b : {LEFT}, {RIGHT}) "
        f"outs(%c : {tile('acc', 'f32', 32, 16, fractal=1024)})",
    ),
    "scale tiles left out": (
        "a5", f"pto.tmatmul.mx ins(%a, %b : {LEFT8}, {RIGHT8}) "
        f"outs(%c : {tile('acc', 'f32', 16, 32, fractal=1024)})",
    ),
    "runs that are no multiple of 64": ("a5", f"pto.tmrgsort ins(%a, %n : {ROW}, i32) outs(%c : {ROW})"),
    "an A5 operation on A2/A3": ("a2a3", f"pto.trandom ins(%n, %n : i32, i32) outs(%c : {VEC})"),
    "an A2/A3 operation on A5": ("a5", "pto.wait_flag_dev 3"),
}  # fmt: skip

CODES = {
    "locations of a product": "PTO2015", "a move without a path": "PTO2015",
    "UB to L1 on A2/A3": "PTO2015", "k of both factors": "PTO2016", "m of the result": "PTO2016",
    "scale tiles left out": "PTO2001", "runs that are no multiple of 64": "PTO2012",
    "an A5 operation on A2/A3": "PTO3001", "an A2/A3 operation on A5": "PTO3001",
}  # fmt: skip


ON_BOTH = ("locations of a product", "a move without a path", "k of both factors",
           "m of the result", "runs that are no multiple of 64")  # fmt: skip
REJECTED = [(what, STATIC[what][0]) for what in STATIC] + [
    (what, {"a5": "a2a3", "a2a3": "a5"}[STATIC[what][0]]) for what in ON_BOTH
]


@pytest.mark.parametrize(("what", "target"), REJECTED)
def test_rejected_in_the_text(what, target):
    line = STATIC[what][1]
    listed = [t for part in line.replace(" outs(", ", ").split(" : ")[1:] for t in _types(part)]
    args = ", ".join(f"%{n}: {t}" for n, t in zip(_order(line), listed, strict=False))
    text = (
        f'module attributes {{pto.target_arch = "{target}"}} {{\n'
        f"func.func @kernel({args}) {{\n%n = arith.constant 65 : i32\n{line}\nreturn\n}}\n}}\n"
    )
    findings = ptosim.check(text, compat="2026-04")
    errors = [f for f in findings if f.to_dict()["severity"] == "error"]
    assert CODES[what] in {f.code for f in errors}
    assert all(f.span is not None for f in errors)
    with pytest.raises(ptosim.ProgramError):
        ptosim.load(text, compat="2026-04")


def _order(line: str) -> list[str]:
    found = [part[0] for part in line.split("%")[1:]]
    return [n for n in found if n in "abc"]


def _types(part: str) -> list[str]:
    return [f"!pto.tile_buf<{p.split('>')[0]}>" for p in part.split("!pto.tile_buf<")[1:]]


# -- only the run knows ----------------------------------------------------------------------------


def stopped(k: Kernel, args: dict) -> str:
    with pytest.raises(ptosim.Trap) as trap:
        k.run(args, uninit="zero")
    finding = trap.value.diagnostics[-1]
    assert finding.span is not None
    assert finding.message
    return finding.code


@pytest.mark.parametrize("place", [256, -1, 2**31 - 1])
@pytest.mark.parametrize("op", ["tgather", "tscatter"])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_an_index_that_names_no_element(target, op, place):
    k = Kernel(target)
    src, index = k.tile("src", "f32", 1, 256), k.tile("index", "i32", 1, 256)
    tmp, dst = k.tile("tmp", "i32", 1, 256), k.tile("dst", "f32", 1, 256)
    k.load("x", index)
    k.op(f"pto.{op}", [src, index, tmp] if op == "tgather" else [src, index], [dst])
    x = np.arange(256, dtype=np.int32)[None]
    x[0, 77] = place
    assert stopped(k, {"x": x}).startswith("PTO6")


@pytest.mark.parametrize("sizes", [(33, 32, 16), (16, 49, 16), (16, 32, 33), (-1, 16, 16)])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_sizes_of_a_product_that_the_run_gets_wrong(target, sizes):
    """m, k and n beyond the tiles, known only to the run."""
    k = Kernel(target)
    m, depth, n = (k.arg(v, "index") for v in "mkn")
    nz = {"blayout": "col_major", "slayout": "row_major"}
    left = k.dynamic("left", "f16", 32, 48, (m, depth), loc="left", **nz)
    right = k.dynamic("right", "f16", 48, 32, (depth, n), loc="right", slayout="col_major")
    acc = k.tile("acc", "f32", 32, 32, layout="nz", fractal=1024, loc="acc")
    k.op("pto.tmatmul", [left, right], [acc])
    assert stopped(k, dict(zip("mkn", sizes, strict=True))) == "PTO6004"


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_vector_of_two_rows(target):
    """A tgemv multiplies one row: a valid extent that only the run knows may be no other."""
    k = Kernel(target)
    m, depth = (k.arg(v, "index") for v in "mk")
    nz = {"blayout": "col_major", "slayout": "row_major"}
    left = k.dynamic("left", "f16", 16, 32, (m, depth), loc="left", **nz)
    right = k.tile("right", "f16", 32, 16, layout="zn", loc="right")
    acc = k.tile("acc", "f32", 16, 16, layout="nz", fractal=1024, loc="acc", valid=(1, 16))
    k.op("pto.tgemv", [left, right], [acc])
    assert stopped(k, {"m": 2, "k": 32}) == "PTO6301"
    k.run({"m": 1, "k": 32}, uninit="zero")


def test_a_view_of_memory_on_chip(cli, tmp_path):
    """A tensor view is of global memory: the run stops where its pointer is not, and `check` says so."""
    path = tmp_path / "k.pto"
    path.write_text(VIEW)
    for command in ("check", "run"):
        outcome = cli(command, path)
        assert outcome.code == (1 if command == "check" else 4)
        assert "PTO6002" in outcome.err


VIEW = """func.func @k(%x: !pto.ptr<f32, vec>) {
  %c1 = arith.constant 1 : index
  %v = pto.make_tensor_view %x, shape = [%c1, %c1], strides = [%c1, %c1] : !pto.tensor_view<1x1xf32>
  return
}
"""


@pytest.mark.parametrize("length", [0, 63, -64])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_run_length_that_only_the_run_knows(target, length):
    k = Kernel(target)
    src, dst = k.tile("src", "f32", 1, 256), k.tile("dst", "f32", 1, 256)
    k.op("pto.tmrgsort", [src, (k.arg("length", "i32"), "i32")], [dst])
    assert stopped(k, {"length": length}) == "PTO6411"


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_pop_without_a_push_is_a_deadlock_that_names_the_fifo(target):
    pair = Pair(target)
    frontend(pair, 1)
    t = half(pair.vector, "t", 0)
    pair.vector.line(f"%t = pto.tpop_from_aic {{split = 0}} -> {t.type}")
    pair.vector.line("pto.tfree_from_aic {split = 0}")
    with pytest.raises(ptosim.Trap) as trap:
        pair.run(given(pair, args()), uninit="zero")
    finding = trap.value.diagnostics[-1]
    assert finding.code == "PTO5006"
    assert finding.span is not None
    assert any("a tile in its FIFO (c2v)" in label.text for label in finding.labels)
