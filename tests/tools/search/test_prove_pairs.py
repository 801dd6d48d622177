"""Pairs of programs that were called equal and are not, or not for the reason that was given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.ground.errors import UsageError
from ptosim.tools.certificate import certificate
from ptosim.tools.search.prove import (
    EQUAL,
    REFUSED,
    UNEQUAL,
    Launched,
    Proof,
    hard_values,
    prove,
)
from ptosim.tools.search.prove_memory import Hashed, Unprovable
from ptosim.tools.search.prove_run import Bytes, Told, try_account
from tests.support.text import Kernel

TARGETS = ["a2a3", "a5"]
ROW = np.zeros(64, np.float32)
ROW[0], ROW[1:9], ROW[9] = 2.0**60, 1, -(2.0**60)


def product(target: str, dtype: str, rows: int, **options: object) -> ptosim.Program:
    """4 x 64 by 64 x 64, `rows` rows at a time."""
    k = Kernel(target, **options)
    mat = k.tile("bm", dtype, 64, 64, layout="nz", loc="mat")
    right = k.tile("right", dtype, 64, 64, layout="zn", loc="right")
    k.load("b", mat)
    k.op("pto.tmov", [mat], [right])
    for at in range(0, 4, rows):
        here, whole = (rows, 64), (4, 64)
        lm = k.tile(f"lm{at}", dtype, 16, 64, here, layout="nz", loc="mat")
        left = k.tile(f"left{at}", dtype, 16, 64, here, layout="nz", loc="left")
        acc = k.tile(f"acc{at}", "f32", 16, 64, here, layout="nz", fractal=1024, loc="acc")
        k.load("a", lm, here, offsets=(at, 0), shape=whole)
        k.op("pto.tmov", [lm], [left])
        k.op("pto.tmatmul", [left, right], [acc])
        k.store(acc, "c", here, offsets=(at, 0), shape=whole)
    return k.program()


def of_products(target: str, dtype: str, **options: object) -> tuple[Proof, list[np.ndarray]]:
    array = np.float32 if dtype == "f32" else ml_dtypes.bfloat16
    args = {
        "a": np.broadcast_to(ROW, (4, 64)).astype(array), "b": np.ones((64, 64), array),
        "c": np.zeros((4, 64), np.float32),
    }  # fmt: skip
    both = [product(target, dtype, rows, **options) for rows in (4, 1)]
    values = [p.run(args, timing=False).outputs["c"] for p in both]
    return prove(*(Launched(p, None, args) for p in both)), values


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_sum_is_the_same_for_one_row_and_for_four(target, dtype):
    """It is exact, so that the proof and the values agree: 2^60 and -2^60 cancel, 8 is left."""
    proof, values = of_products(target, dtype)
    assert proof.verdict == EQUAL
    for found in values:
        np.testing.assert_array_equal(found, np.float32(8))


def test_a_sum_in_the_order_of_the_library_has_no_proof():
    for order in ("f64", "blocks"):
        proof, _ = of_products("a5", "f32", switches={"matmul.order": order})
        assert proof.verdict == REFUSED
        assert f"matmul.order={order}" in proof.why


# -- effects that the data hide --------------------------------------------------------------------


def dequantised() -> ptosim.Program:
    """80 of 128 columns of a tile that is stored whole. The library of A5 fills up to the next 64
    with 0xFF."""
    k = Kernel("a5", sync="manual")
    codes = k.tile("codes", "i8", 8, 128, (8, 80), addr=0)
    scale = k.tile("scale", "f32", 8, 1, layout="dn", addr=4096)
    offset = k.tile("offset", "f32", 8, 1, layout="dn", addr=8192)
    whole = k.tile("whole", "f32", 8, 128, addr=16384)
    part = k.tile("part", "f32", 8, 128, (8, 80), addr=16384)
    for name, tile in (("q", codes), ("s", scale), ("z", offset), ("x", whole)):
        k.load(name, tile)
    k.line("pto.barrier <PIPE_ALL>")
    k.op("pto.tdequant", [codes, scale, offset], [part])
    k.line("pto.barrier <PIPE_ALL>")
    k.store(whole, "y")
    return k.program()


@pytest.mark.parametrize("bits", [0, 0x3F800000, 0xFFFFFFFF])
def test_an_effect_that_no_rule_names_is_seen_whatever_is_there(bits):
    """Bytes that are overwritten with what they hold already are written all the same."""
    args = {
        "q": np.ones((8, 80), np.int8), "s": np.ones((8, 1), np.float32),
        "z": np.zeros((8, 1), np.float32), "x": np.full((8, 128), bits, np.uint32).view(np.float32),
        "y": np.zeros((8, 128), np.float32),
    }  # fmt: skip
    launched = Launched(dequantised(), None, args)
    proof = prove(launched, launched)
    assert proof.verdict == REFUSED
    assert "the rules do not name (`pto.tdequant`" in proof.why


def memory(*contents: int) -> Any:
    """One buffer of bytes, and a core without spaces."""
    held = [Hashed(np.array(contents, np.uint8), np.zeros(len(contents), np.uint64))]
    return SimpleNamespace(buffers=held, of=lambda place: held[place[1]])


NO_SPACES: Any = SimpleNamespace(spaces={})
GM = ("gm", 0)


def bytes_of(*numbers: int) -> list[Bytes]:
    return [(GM, np.array(numbers))]


@pytest.mark.parametrize("there", [0, 7, 0xFF])
def test_two_contents_show_every_byte_that_is_written(there):
    held = memory(5, 0, there)
    actual = held.buffers[0].actual

    def function() -> None:
        actual[1] = actual[0] + 1
        actual[2] = 7

    with pytest.raises(Unprovable, match="global memory that the rules do not name"):
        try_account(held, NO_SPACES, Told(bytes_of(0), bytes_of(1), []), function)
    assert actual.tolist() == [5, 0, there]  # as it was
    try_account(held, NO_SPACES, Told(bytes_of(0), bytes_of(1, 2), []), function)
    try_account(held, NO_SPACES, Told(bytes_of(0), bytes_of(1), bytes_of(2)), function)


def test_two_contents_show_a_byte_that_is_read():
    held = memory(5, 0, 3)
    actual = held.buffers[0].actual

    def function() -> None:
        actual[1] = actual[0] + (actual[2] & 1)

    with pytest.raises(Unprovable, match="depends on bytes that the rules do not name"):
        try_account(held, NO_SPACES, Told(bytes_of(0), bytes_of(1), []), function)
    try_account(held, NO_SPACES, Told(bytes_of(0, 2), bytes_of(1), []), function)


# -- blocks ----------------------------------------------------------------------------------------

BLOCKS = """module attributes {{pto.target_arch = "{target}"}} {{
  func.func @kernel(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    {block}
    %at = arith.muli %b, %c8 : index
    %vx = pto.make_tensor_view %x, shape = [%c16, %c64], strides = [%c64, %c1]
      : !pto.tensor_view<16x64xf32>
    %vy = pto.make_tensor_view %y, shape = [%c16, %c64], strides = [%c64, %c1]
      : !pto.tensor_view<16x64xf32>
    %t = pto.alloc_tile : !pto.tile_buf<vec, 8x64xf32>
    %px = pto.partition_view %vx, offsets = [%at, %c0], sizes = [%c8, %c64]
      : !pto.tensor_view<16x64xf32> -> !pto.partition_tensor_view<8x64xf32>
    %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c8, %c64]
      : !pto.tensor_view<16x64xf32> -> !pto.partition_tensor_view<8x64xf32>
    pto.tload ins(%px : !pto.partition_tensor_view<8x64xf32>)
      outs(%t : !pto.tile_buf<vec, 8x64xf32>)
    pto.tstore ins(%t : !pto.tile_buf<vec, 8x64xf32>)
      outs(%py : !pto.partition_tensor_view<8x64xf32>)
    return
  }}
}}
"""
LAST = "%b = arith.constant 1 : index"
OWN = "%n = pto.get_block_idx\n    %b = arith.index_cast %n : i64 to index"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("same", [False, True])
def test_blocks_that_overwrite_each_other_are_equal_to_nothing(target, same):
    """One after the other they leave what the last one stores; on a chip it is either's, also where
    the data make both the same."""
    x = np.ones((16, 64), np.float32) if same else np.arange(1024, dtype=np.float32)
    args = {"x": x.reshape(16, 64), "y": np.zeros((16, 64), np.float32)}
    one, two = (
        Launched(ptosim.load(BLOCKS.format(target=target, block=b), sync="auto"), None, args, n)
        for b, n in ((LAST, 1), (OWN, 2))
    )
    assert prove(one, one).verdict == EQUAL
    for pair in ((one, two), (two, one)):
        proof = prove(*pair)
        assert proof.verdict == REFUSED
        assert "data race" in proof.why


# -- what is no function of the arguments ----------------------------------------------------------


def filled(*, is_set: bool) -> ptosim.Program:
    """A tile filled with a number of the scalar unit's stack: -1, or one that nothing has set,
    which a run takes as FF in every byte: -1, too."""
    k = Kernel("a5")
    tile, array = k.tile("t", "i32", 8, 64), "!pto.local_array<4xi32>"
    k.line(f"%held = pto.declare_local_array -> {array}")
    if is_set:
        k.line("%one = arith.constant -1 : i32")
        k.line(f"pto.local_array_set %held[{k.const(1)}], %one : {array}, i32")
    k.line(f"%v = pto.local_array_get %held[{k.const(1)}] : {array} -> i32")
    k.op("pto.texpands", [("%v", "i32")], [tile])
    k.store(tile, "y")
    return k.program()


def test_a_number_that_nothing_has_set_is_no_constant():
    args = {"y": np.zeros((8, 64), np.int32)}
    unset, is_set = (Launched(filled(is_set=flag), None, args) for flag in (False, True))
    assert prove(is_set, is_set).verdict == EQUAL
    for pair in ((unset, is_set), (is_set, unset), (unset, unset)):
        assert "a number that nothing has set" in prove(*pair).why


def test_numbers_that_a_core_draws_are_no_expression():
    """Stochastic rounding takes other ones on another core, and after another operation."""
    program = ptosim.load("@quant/mxfp8_nd", switches={"tquant.rounding": "stochastic"})
    proof = prove(*[Launched(program)] * 2)
    assert (proof.verdict, "each core draws" in proof.why) == (REFUSED, True)


# -- several elements at one place -----------------------------------------------------------------


def added(first: str, strides: tuple[int, int]) -> Launched:
    """Eight rows are added to y, without a stride all to one: seven of an argument, one of x."""
    k, x = Kernel("a2a3"), np.arange(512, dtype=np.float32).reshape(8, 64)
    rows = k.tile("rows", "f32", 8, 64)
    k.load(first, rows)
    last, place = "!pto.tile_buf<vec, 1x64xf32>", f"[{k.const(7)}, {k.const(0)}] sizes [1, 64]"
    k.line(f"%last = pto.subview %rows{place} : {rows.type} -> {last}")
    k.op(
        "pto.tload", [k.view("x", "f32", (1, 64), offsets=(7, 0), shape=(8, 64))], [("%last", last)]
    )
    k.arg("z", "!pto.ptr<f32>")
    k.store(rows, "y", strides=strides, attrs="atomicType = #pto<atomic_type atomic_add>")
    return Launched(k.program(), None, {"x": x, "z": -2 * x, "y": np.zeros_like(x)})


def test_rows_that_are_added_to_one_row_are_no_expression_of_the_last():
    one, two = (added(first, (0, 1)) for first in "xz")
    assert "several elements to one place" in prove(one, two).why
    one, two = (added(first, (64, 1)) for first in "xz")
    assert (prove(one, one).verdict, prove(one, two).verdict) == (EQUAL, UNEQUAL)


# -- pairs of four-bit floats ----------------------------------------------------------------------


def halves(src: str, dst: str, where: int, at: int, left: int) -> Launched:
    """Half of the elements of a row are converted, and columns from `left` on are stored; before
    it those from `at` on get others, in this tile (0) or in one that nobody reads."""
    k = Kernel("a5", sync="manual")
    cols = {name: 64 if "x2" in name else 128 for name in (src, dst)}
    byte, half = ("ui8" if "x2" in src else src), {n: (8, c // 2) for n, c in cols.items()}
    other, part = (k.tile(n, byte, 8, 64, v, addr=a) for n, v, a in
                   (("other", None, 8192), ("part", (8, 32), 12288)))  # fmt: skip
    k.load("a", k.tile("all", src, 8, cols[src], addr=0))
    k.load("b", other)
    k.load("c", k.tile("rest", byte, 8, cols[src], addr=32768))
    k.line("pto.barrier <PIPE_ALL>")
    zero, target = k.const(0), k.tile("target", byte, 8, cols[src], addr=where)
    k.line(
        f"pto.textract ins(%other, {zero}, {zero} : {other.type}, index, index) outs(%part : {part.type})"
    )
    k.line("pto.barrier <PIPE_ALL>")
    k.line(
        f"pto.tinsert ins(%part, {zero}, {k.const(at)} : {part.type}, index, index) outs(%target : {target.type})"
    )
    k.line("pto.barrier <PIPE_ALL>")
    x, y = (
        k.tile(n, d, 8, cols[d], half[d], addr=a) for n, d, a in (("x", src, 0), ("y", dst, 4096))
    )
    k.op("pto.tcvt", [x], [y], "rmode = #pto<round_mode RINT>")
    k.line("pto.barrier <PIPE_ALL>")
    if left:
        kept = k.tile("kept", dst, 8, 64, (8, 32), addr=16384)
        k.line(
            f"pto.textract ins(%y, {zero}, {k.const(left)} : {y.type}, index, index) outs(%kept : {kept.type})"
        )
        k.line("pto.barrier <PIPE_ALL>")
    k.store(kept if left else y, "o")
    return Launched(k.program())


PAIR = "!pto.f4E2M1x2"


@pytest.mark.parametrize(
    ("src", "dst", "at", "left", "verdict"),
    [
        (PAIR, "bf16", 0, 32, UNEQUAL), (PAIR, "bf16", 32, 32, EQUAL),
        ("bf16", PAIR, 32, 0, UNEQUAL), ("bf16", PAIR, 64, 0, EQUAL),
    ],
)  # fmt: skip
def test_a_pair_of_numbers_is_made_of_two(src, dst, at, left, verdict):
    """Columns 32 to 63 are made of pairs 16 to 31: they were taken for those of pairs 32 to 63."""
    one, two = (halves(src, dst, where, at, left) for where in (32768, 0))
    proof = prove(one, two)
    assert proof.verdict == verdict, proof.why
    assert bool(hard_values(one, two)) is (verdict == UNEQUAL)
    assert certificate(one, one)
    if verdict == UNEQUAL:
        with pytest.raises(UsageError, match="not the same expression"):
            certificate(one, two)
