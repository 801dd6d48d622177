"""Proofs of what cores do together: a pop hands out the elements of its push, of what several add to
an element the order is not given, and a vector core that writes to L1 writes to the cube core's."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.tools.search.prove import EQUAL, REFUSED, UNEQUAL, Launched, Proof, prove
from tests.ops.semantics.pair_harness import Pair
from tests.ops.semantics.test_fifo import COLS, ROWS, frontend, half, place
from tests.support.text import Tile, date_of

ONE = np.eye(COLS, dtype=np.float16)


PLAIN = (("x", "tadd"), ("d", "tmul"))
Trips = tuple[tuple[str, str], ...]
"""What is pushed, and what is done with what comes back."""


def there_and_back(target: str, split: int, trips: Trips = PLAIN) -> Launched:
    """Both vector cores push halves of x, or of its double, and get halves of it times a matrix,
    which they add to what they hold, or multiply it by."""
    pair = Pair(target)
    frontend(pair, 3)
    cube, vector = pair.cube, pair.vector
    part, wide = half(vector, "x", split, "f16"), half(vector, "w", split)
    x = vector.tile("x", "f16", part.rows, part.cols)
    double = vector.tile("d", "f16", part.rows, part.cols)
    window = place(vector, split)
    vector.tile("w", "f32", wide.rows, wide.cols)
    vector.op("pto.tload", [window], [wide])
    vector.op("pto.tcvt", [wide], [x])
    vector.op("pto.tadd", [x, x], [double])
    mat = Tile("m", "f16", ROWS, COLS, None, None, "col_major", "row_major", loc="mat")
    unit = cube.tile("unit", "f16", COLS, COLS, layout="nz", loc="mat")
    left = cube.tile("left", "f16", ROWS, COLS, layout="nz", loc="left")
    right = cube.tile("right", "f16", COLS, COLS, layout="zn", loc="right")
    acc = cube.tile("acc", "f32", ROWS, COLS, layout="nz", fractal=1024, loc="acc")
    cube.load("one", unit)
    cube.op("pto.tmov", [unit], [right])
    for n in range(len(trips)):
        cube.line(f"%m{n} = pto.tpop_from_aiv {{split = {split}}} -> {mat.type}")
        cube.line(f"pto.tmov ins(%m{n} : {mat.type}) outs(%left : {left.type})")
        cube.line(f"pto.tfree_from_aiv {{split = {split}}}")
        cube.op("pto.tmatmul", [left, right], [acc])
        cube.line(f"pto.tpush_to_aiv(%acc : {acc.type}) {{split = {split}}}")
    back = half(vector, "b", split)
    for n, (name, word) in enumerate(trips):
        given = {"x": x, "d": double}[name]
        vector.line(f"pto.tpush_to_aic(%{given.name} : {given.type}) {{split = {split}}}")
        vector.line(f"%b{n} = pto.tpop_from_aic {{split = {split}}} -> {back.type}")
        line = f"pto.{word} ins(%b{n}, %w : {back.type}, {wide.type}) outs(%w : {wide.type})"
        vector.line(line)
        vector.line(f"pto.tfree_from_aic {{split = {split}}}")
    vector.op("pto.tstore", [wide], [window])
    text = pair.text()
    known = {**cube.args, **vector.args}
    data = {"y": np.ones((640, COLS), np.float32), "slots": np.zeros(16 * 1024, np.float32)}
    args = {n: v for n, v in {**data, "one": ONE}.items() if n in known}
    return Launched(ptosim.load(text, compat=date_of(text)), "vector_kernel", args)


@pytest.mark.sampled(2, 4)
@pytest.mark.parametrize(("target", "split"), [("a2a3", 1), ("a5", 2), ("a2a3", 2), ("a5", 1)])
def test_tiles_go_through_a_fifo_as_they_are(target: str, split: int) -> None:
    """On A2/A3 through slots in global memory, on A5 on the chip; halves of rows or of columns."""
    one = there_and_back(target, split)
    assert prove(one, there_and_back(target, split)).verdict == EQUAL
    told = prove(one, there_and_back(target, split, (("d", "tadd"), ("x", "tmul"))))
    assert told.verdict == UNEQUAL
    assert "are other expressions" in told.why


@pytest.mark.slow
@pytest.mark.sampled(1, 2)
@pytest.mark.parametrize("seed", range(60))
def test_trips_that_data_tell_apart_are_not_called_equal(seed: int) -> None:
    """Some trips, and others with one change: another tile, word or order, or one trip less."""
    rng = random.Random(seed)
    target, split = ("a2a3", "a5")[seed % 2], rng.choice((1, 2))
    words = ("tadd", "tmul", "tmax", "tsub")
    trips = [(rng.choice("xd"), rng.choice(words)) for _ in range(rng.randint(1, 3))]
    other, at = list(trips), rng.randrange(len(trips))
    change = rng.choice(("tile", "word", "order", "drop" if len(trips) > 1 else "tile", "none"))
    if change == "tile":
        other[at] = ("d" if other[at][0] == "x" else "x", other[at][1])
    elif change == "word":
        other[at] = (other[at][0], rng.choice(words))
    elif change == "order":
        rng.shuffle(other)
    elif change == "drop":
        del other[at]
    one, two = (there_and_back(target, split, tuple(each)) for each in (trips, other))
    proof = prove(one, two)
    assert proof.is_equal is (other == trips), (trips, other, proof.why)
    if not proof.is_equal:
        assert proof.verdict == UNEQUAL


# -- sums ------------------------------------------------------------------------------------------

ADDS = """
func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %block64 = pto.get_block_idx
  %block = arith.index_cast %block64 : i64 to index
  %last = arith.subi %c1, %block : index
  %vx = pto.make_tensor_view %x, shape = [%c16, %c32], strides = [%c32, %c1] : !pto.tensor_view<16x32xf32>
  %vy = pto.make_tensor_view %y, shape = [%c8, %c32], strides = [%c32, %c1] : !pto.tensor_view<8x32xf32>
  %q = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c8, %c32] : !pto.tensor_view<8x32xf32> -> !pto.partition_tensor_view<8x32xf32>
  {parts}
  return
}}
"""
PART = """
  %at{n} = arith.muli {row}, %c8 : index
  %p{n} = pto.partition_view %vx, offsets = [%at{n}, %c0], sizes = [%c8, %c32] : !pto.tensor_view<16x32xf32> -> !pto.partition_tensor_view<8x32xf32>
  %a{n} = pto.alloc_tile : !pto.tile_buf<vec, 8x32xf32>
  pto.tload ins(%p{n} : !pto.partition_tensor_view<8x32xf32>) outs(%a{n} : !pto.tile_buf<vec, 8x32xf32>)
  pto.tstore ins(%a{n} : !pto.tile_buf<vec, 8x32xf32>) outs(%q : !pto.partition_tensor_view<8x32xf32>){how}
"""
ADDED = " {atomicType = #pto<atomic_type atomic_add>}"


def adding(blocks: int, *rows: str, how: str = ADDED) -> Launched:
    """Each block adds parts of x, which have eight rows, to y."""
    parts = "".join(PART.format(n=n, row=row, how=how) for n, row in enumerate(rows))
    args: dict[str, Any] = {n: np.zeros((r, 32), np.float32) for n, r in (("x", 16), ("y", 8))}
    return Launched(ptosim.load(ADDS.format(parts=parts), target="a5"), None, args, blocks)


def sums(blocks: int, first: tuple[str, ...], second: tuple[str, ...], **how: str) -> Proof:
    return prove(adding(blocks, *first), adding(blocks, *second, **how))


def test_blocks_add_in_any_order() -> None:
    """Which block adds what decides nothing, and the proof says what it is about; what is added
    does."""
    proof = sums(2, ("%block",), ("%last",))
    assert proof.verdict == EQUAL
    assert proof.about.endswith(", and what blocks add to %y coming in the same order")
    assert sums(2, ("%block",), ("%c0",)).verdict == UNEQUAL
    assert sums(2, ("%block", "%last"), ("%block",)).verdict == UNEQUAL


def test_one_block_adds_in_its_order() -> None:
    """(y + a) + b is not (y + b) + a, and no sum without what was there."""
    proof = sums(1, ("%c0", "%c1"), ("%c0", "%c1"))
    assert proof.verdict == EQUAL
    assert "blocks that add" not in proof.about
    assert sums(1, ("%c0", "%c1"), ("%c1", "%c0")).verdict == UNEQUAL
    assert sums(1, ("%c0",), ("%c0",), how="").verdict == UNEQUAL


def test_two_orders_of_two_blocks_are_not_one() -> None:
    """Each block has an order of its own; of both together none is given."""
    assert sums(2, ("%c0", "%c1"), ("%c0", "%c1")).verdict == EQUAL
    assert sums(2, ("%c0", "%c1"), ("%c1", "%c0")).verdict == UNEQUAL


# -- memory of another core ------------------------------------------------------------------------


def test_what_the_cube_core_gets_in_ub_is_not_followed() -> None:
    """Nothing orders the vector core's reads there after the move for the proof."""
    text = """
    !acc = !pto.tile_buf<acc, 16x64xf32, blayout=col_major, slayout=row_major, fractal=1024>
    !out = !pto.tile_buf<vec, 16x64xf32>
    func.func @k() {
      pto.section.cube {
        %acc = pto.alloc_tile : !acc
        %out = pto.alloc_tile : !out
        pto.tmov ins(%acc : !acc) outs(%out : !out)
      }
      pto.section.vector {
        %other = pto.alloc_tile : !out
        pto.tabs ins(%other : !out) outs(%other : !out)
      }
      return
    }
    """
    one = Launched(ptosim.load(text, target="a5"), None, {})
    proof = prove(one, one)
    assert proof.verdict == REFUSED
    assert "moves to the memory of another core" in proof.why
