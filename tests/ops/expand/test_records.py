"""Sorts, merges, histograms, dequantisation, shifts by tiles and pairs of 4-bit floats give the same
bytes as the instructions that they are written as.

Tiles and instructions have separate implementations: numpy's sort of whole rows against blocks and
lists of records in memory, a count of all bytes against cumulative bins of registers."""

from __future__ import annotations

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from ptosim.ground.source import Source
from ptosim.ops.lower.program import expand
from tests.ops.expand.test_forms import same
from tests.support.text import Kernel

RNG = np.random.default_rng(39)
KINDS = {"f32": np.float32, "f16": np.float16}


@pytest.mark.parametrize(("elem", "shared"), [*product(KINDS, (True, False))])
def test_blocks_are_sorted(elem, shared):
    """Rows of two blocks in a wider tile; one row of indices may serve all rows."""
    k, rows, cols = Kernel("a5"), 3, 64
    record = 64 // (32 if elem == "f32" else 16)
    scores = k.tile("a", elem, rows, 96, (rows, cols))
    lines = 1 if shared else rows
    places = k.tile("i", "i32", lines, 96, (lines, cols))
    dst = k.tile("d", elem, rows, 96 * record, (rows, cols * record))
    k.load("in", scores, (rows, cols))
    k.load("at", places, (lines, cols))
    k.op("pto.tsort32", [scores, places], [dst])
    k.store(dst, "out", (rows, cols * record))
    data = np.round(RNG.normal(0, 3, (rows, cols))).astype(KINDS[elem])
    at = np.arange(lines * cols, dtype=np.int32).reshape(lines, cols)
    same(k, {"in": data, "at": at}, {"out": np.zeros((rows, cols * record), KINDS[elem])})


def records(count: int) -> np.ndarray:
    """A sorted list, with equal scores."""
    scores = np.sort(np.round(RNG.normal(0, 5, count)).astype(np.float32))[::-1]
    return np.stack([scores, np.arange(count, dtype=np.float32)], 1).reshape(-1)


@pytest.mark.parametrize("cols", [256, 512, 608])
def test_runs_are_merged(cols):
    """Groups of four runs of 32 records; the last group has less than a run and a half."""
    k = Kernel("a5")
    src, dst = (k.tile(n, "f32", 1, 1024, (1, cols)) for n in "ad")
    k.load("in", src, (1, cols))
    k.op("pto.tmrgsort", [src, (k.const(64, "i32"), "i32")], [dst])
    k.store(dst, "out", (1, cols))
    data = np.concatenate([records(32) for _ in range(10)])[None, :cols]
    same(k, {"in": data}, {"out": np.zeros((1, cols), np.float32)})


@pytest.mark.parametrize(("count", "stops", "cols"), [(2, False, 256), (3, True, 64), (2, True, 256),
                                                       (4, False, 64), (4, True, 512)])  # fmt: skip
def test_lists_are_merged(count, stops, cols):
    """The destination takes what it has room for; a merge may stop when a list is empty."""
    k = Kernel("a5")
    lists = [k.tile(f"a{n}", "f32", 1, 128) for n in range(count)]
    tmp, dst = k.tile("t", "f32", 1, 512), k.tile("d", "f32", 1, 512, (1, cols))
    for number, each in enumerate(lists):
        k.load(f"in{number}", each)
    k.op("pto.tmrgsort", [*lists, tmp], [dst], f"exhausted = {str(stops).lower()}")
    k.store(dst, "out", (1, cols))
    args = {f"in{number}": records(64)[None] for number in range(count)}
    same(k, args, {"out": np.zeros((1, cols), np.float32)})


@pytest.mark.parametrize(("elem", "byte"), [("ui16", 1), ("ui16", 0), ("ui32", 3), ("ui32", 0)])
def test_bytes_are_counted(elem, byte):
    """Of keys whose higher bytes are those of the row (16 bits) or of the column (32 bits)."""
    k, rows, cols, pitch = Kernel("a5"), 4, 300, 320
    kind = np.dtype(f"u{4 if elem == 'ui32' else 2}")
    keys, bins = k.tile("a", elem, rows, pitch, (rows, cols)), k.tile("d", "ui32", rows, 256)
    shape = (rows, 1) if elem == "ui16" else (max(3 - byte, 1), cols)
    if elem == "ui16":
        wanted = k.tile("f", "ui8", 32, 1, shape, layout="dn")
    else:
        wanted = k.tile("f", "ui8", shape[0], pitch, shape)
    k.load("in", keys, (rows, cols))
    k.load("of", wanted, shape)
    k.op("pto.thistogram", [keys, wanted], [bins], f"byte = {byte} : i32")
    k.store(bins, "out")
    data = RNG.integers(0, 4, (rows, cols, kind.itemsize)).astype(np.uint8).view(kind)[:, :, 0]
    of = RNG.integers(0, 4, shape).astype(np.uint8)
    found = same(k, {"in": data, "of": of}, {"out": np.zeros((rows, 256), np.uint32)})
    assert found.outputs["out"].any()


@pytest.mark.parametrize(("elem", "cols", "layout"), [("i8", 40, "dn"), ("i16", 128, "nd")])
def test_codes_become_numbers(elem, cols, layout):
    k, rows = Kernel("a5"), 8
    kind = np.dtype(elem.replace("i", "int"))
    codes, dst = (k.tile(n, e, rows, 128, (rows, cols)) for n, e in (("a", elem), ("d", "f32")))
    scale, offset = (
        k.tile(n, "f32", rows, *((1,) if layout == "dn" else (8, (rows, 1))), layout=layout)
        for n in "so"
    )
    for name, each, shape in (
        ("in", codes, (rows, cols)),
        ("sc", scale, (rows, 1)),
        ("of", offset, (rows, 1)),
    ):
        k.load(name, each, shape)
    k.op("pto.tdequant", [codes, scale, offset], [dst])
    k.store(dst, "out", (rows, cols))
    numbers = {n: RNG.normal(0, 3, (rows, 1)).astype(np.float32) for n in ("sc", "of")}
    data = RNG.integers(-100, 100, (rows, cols)).astype(kind)
    same(k, {"in": data, **numbers}, {"out": np.zeros((rows, cols), np.float32)})


def some(elem: str, shape: tuple[int, int]) -> np.ndarray:
    kind = np.dtype(KINDS[elem])
    return RNG.integers(0, 1 << 15, shape).astype(f"u{kind.itemsize}").view(kind)


@pytest.mark.parametrize(("elem", "cols"), [("f32", 128), ("f16", 200)])
def test_blocks_are_gathered(elem, cols):
    """The last register takes one block of eight: what is after its offsets counts for nothing."""
    k, rows, per = Kernel("a5"), 3, 32 // np.dtype(KINDS[elem]).itemsize
    blocks = -(-cols // per)
    src, dst = k.tile("a", elem, rows, 256), k.tile("d", elem, rows, blocks * per, (rows, cols))
    offsets = k.tile("f", "ui32", rows, -(-blocks // 8) * 8, (rows, blocks))
    k.load("in", src)
    k.load("of", offsets, (rows, blocks))
    k.op("pto.tgatherb", [src, offsets], [dst])
    k.store(dst, "out", (rows, cols))
    of = (RNG.integers(0, rows * 256 // per, (rows, blocks)) * 32).astype(np.uint32)
    same(k, {"in": some(elem, (rows, 256)), "of": of}, {"out": np.zeros((rows, cols), KINDS[elem])})


def test_tiles_side_by_side():
    k, rows = Kernel("a5"), 5
    sources = [k.tile(n, "f32", rows, 128, (rows, w)) for n, w in (("a", 72), ("b", 40))]
    dst = k.tile("d", "f32", rows, 256, (rows, 112))
    data = [some("f32", (rows, width)) for width in (72, 40)]
    for number, each in enumerate(sources):
        k.load(f"in{number}", each, data[number].shape)
    k.op("pto.tconcat", sources, [dst])
    k.store(dst, "out", (rows, 112))
    same(k, {f"in{n}": d for n, d in enumerate(data)}, {"out": np.zeros((rows, 112), np.float32)})


@pytest.mark.parametrize("pair", ["!pto.f4E2M1x2", "!pto.f4E1M2x2"])
def test_pairs_of_floats_of_four_bits(pair):
    """Two values an element (R7), to them and back."""
    k = Kernel("a5")
    src, dst = k.tile("a", "bf16", 16, 128), k.tile("d", "bf16", 16, 128)
    pairs = k.tile("b", pair, 16, 64)
    k.load("in", src)
    k.op("pto.tcvt", [src], [pairs])
    k.op("pto.tcvt", [pairs], [dst])
    k.store(dst, "out")
    data = RNG.normal(0, 2, (16, 128)).astype(ml_dtypes.bfloat16)
    found = same(k, {"in": data}, {"out": np.zeros((16, 128), ml_dtypes.bfloat16)})
    assert found.outputs["out"].astype(np.float32).any()


def test_what_has_no_memory_for_it_stays():
    """A partial block is filled up before it is sorted, and powers are rounded once."""
    k = Kernel("a5")
    scores, places = k.tile("a", "f32", 1, 64, (1, 40)), k.tile("i", "i32", 1, 64)
    dst = k.tile("d", "f32", 1, 128)
    k.op("pto.tsort32", [scores, places], [dst])
    k.op("pto.tpow", [scores, scores], [scores])
    kept = expand(Source("tile.pto", k.text())).kept
    assert [each.name for each in kept] == ["pto.tsort32", "pto.tpow"]
