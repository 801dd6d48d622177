"""Every spelling of a type, and what it means."""

from __future__ import annotations

import pytest

from ptosim.ground.ir.types import (
    AbstractTileType,
    ErrorType,
    HandleType,
    MaskType,
    MemRefType,
    PtrType,
    TileType,
    VectorType,
    ViewType,
    VRegType,
)
from ptosim.ground.isa import cache
from ptosim.language.syntax.parser import parse_type


def test_tile_defaults_of_the_compact_form():
    tile = parse_type("!pto.tile_buf<vec, 16x64xf32>").type
    assert isinstance(tile, TileType)
    assert (tile.v_row, tile.v_col, tile.blayout, tile.slayout) == (16, 64, "row_major", "none_box")
    assert (tile.fractal, tile.pad, tile.compact) == (512, 0, 0)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("!pto.tile_buf<vec, 8x16xf32, valid=?x1>", (None, 1)),
        ("!pto.tile_buf<vec, 8x16xf32, valid=4x?>", (4, None)),
        (
            "!pto.tile_buf<loc=vec, dtype=f32, rows=8, cols=16, v_row=-1, v_col=?, "
            "blayout=row_major, slayout=none_box, fractal=512, pad=0>",
            (None, None),
        ),
    ],
)
def test_dynamic_valid_shapes(text, valid):
    tile = parse_type(text).type
    assert isinstance(tile, TileType)
    assert (tile.v_row, tile.v_col) == valid


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("!pto.ptr<f32>", "!pto.ptr<f32>"),
        ("!pto.ptr<f32, ub>", "!pto.ptr<f32, ub>"),
        ("<i8, gm>", "!pto.ptr<i8>"),
        ("!pto.tensor_view<1x?x16xf32>", "!pto.tensor_view<1x?x16xf32>"),
        ("!pto.vreg<64xf32>", "!pto.vreg<64xf32>"),
        ("!pto.mask<b16>", "!pto.mask<b16>"),
        ("!pto.eventid_array<4>", "!pto.eventid_array<4>"),
        ("vector<4xi16>", "vector<4xi16>"),
        ("!pto.tile<16x1xf32>", "!pto.tile<16x1xf32>"),
        ("!pto.tile<...>", "!pto.tile<...>"),
        (
            "!pto.tile<loc=vec, f32, 16, 16, RowMajor, NoneBox, None, Zero>",
            "!pto.tile<16x16xf32, pad=1>",
        ),
        ("memref<16x16xf16, strided<[16, 1], offset: ?>, #pto.address_space<vec>>",) * 2,
        ("memref<4x4xf32, affine_map<(d0, d1) -> (d0, d1)>>",) * 2,
    ],
)
def test_canonical_spelling(text, canonical):
    parsed = parse_type(text)
    assert parsed.fault is None
    assert str(parsed.type) == canonical
    assert str(parse_type(canonical).type) == canonical


@pytest.mark.parametrize(
    ("words", "wrong", "known"),
    [
        ("RowMajor, RowMajor, RowMajor, NoneBox", "NoneBox", "Null, Zero, Max, Min"),
        ("NoneBox, NoneBox, None, Zero", "NoneBox", "RowMajor, ColMajor"),
        ("RowMajor, Zero, None, Zero", "Zero", "RowMajor, ColMajor, NoneBox"),
    ],
)
def test_words_of_the_documentation_have_their_places(words: str, wrong: str, known: str) -> None:
    parsed = parse_type(f"!pto.tile<loc=vec, f32, 16, 64, {words}>")
    assert parsed.fault == f"unknown word `{wrong}` in tile"
    assert parsed.hint == f"known: {known}"


def test_a_column_of_the_ssa_form_is_column_major():
    """A tile of one column and several rows is column-major unless it says otherwise."""
    assert parse_type("!pto.tile<16x1xf32>").type.blayout == "col_major"
    assert parse_type("!pto.tile<1x1xf32>").type.blayout == "row_major"
    assert parse_type("!pto.tile<16x1xf32, blayout=row_major>").type.blayout == "row_major"


def test_classes():
    kinds = {
        "!pto.pipe": HandleType, "!pto.align": HandleType, "!pto.mask<b8>": MaskType,
        "!pto.vreg<256xi8>": VRegType, "memref<?xi8>": MemRefType, "tensor<16xf32>": VectorType,
        "!pto.partition_tensor_view<16xf16>": ViewType, "!pto.ptr<bf16>": PtrType,
        "!pto.tile_buf<...>": AbstractTileType,
    }  # fmt: skip
    for text, kind in kinds.items():
        assert isinstance(parse_type(text).type, kind), text


@pytest.mark.parametrize(
    "text",
    [
        "!pto.tile_view<16x16xf32>",
        "<loc=left, dtype=f16, rows=16, cols=64, v_row=16, v_col=64, blayout=row_major, "
        "slayout=row_major, fractal=512, pad=0>",
        "!pto.tile_buf<32x64xf32, strided<[64, 1], offset: [?, ?]>, #pto.address_space<vec>>",
        "!pto.tile_buf<loc=mat, dtype=f16, rows=16, cols=16, blayout=col_major, v_row=16, v_col=16, "
        "slayout=row_major, fractal=512, pad=0>",
    ],
)
def test_legacy_spellings_are_read_and_marked(text):
    parsed = parse_type(text)
    assert parsed.fault is None
    assert parsed.legacy


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("!pto.tile_buf<vec, 16x64xf32, foo=3>", "unknown key"),
        ("!pto.tile_buf<vec, 16x64xf32, pad=3, pad=1>", "duplicate pad in tile_buf compact syntax"),
        ("!pto.tile_buf<vex, 16x64xf32>", "unknown loc"),
        ("!pto.tile_buf<loc=vec, dtype=f32>", "misses"),
        ("!pto.tile_buf<vec, 16x64xf31>", "element type"),
        ("!pto.tile_buf<vec, 0x64xf32>", "positive"),
        ("!pto.vreg<63xf32>", "256 bytes"),
        ("!pto.mask<b7>", "granularity"),
        ("!pto.blah<3>", "is not a type"),
        ("!pto.tile_buf<vec, 16x64xf32, fractal=7>", "fractal"),
        ("!pto.ptr<f32, mars>", "memory space"),
        ("memref<16xf32, strided<[4, 1]>>", "number of strides to match the rank"),
    ],
)
def test_wrong_types_say_why(text, words):
    parsed = parse_type(text)
    assert isinstance(parsed.type, ErrorType)
    assert words in (parsed.fault or "") + (parsed.hint or "")


def test_many_types_read_the_data_once(monkeypatch):
    """A template that is followed for each of its sizes has as many types."""
    parse_type("!pto.tile_buf<vec, 1x16xf32>")
    asked: list[str] = []
    monkeypatch.setattr(cache, "recalled", lambda kind, inputs: asked.append(kind))
    for cols in range(16, 336, 16):
        parsed = parse_type(f"!pto.tile_buf<vec, 7x{cols}xf32>")
        assert parsed.fault is None
        assert parsed.type.cols == cols
    assert asked == []
