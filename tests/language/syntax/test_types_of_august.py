"""Types that August 2026 has (PTOAS 0.28 to 0.60): an accepted and a refused text for each, their
sizes, and the dates that have them. The quoted words are those of the assembler."""

from __future__ import annotations

import pytest

from ptosim.ground.ir.types import (
    ErrorType,
    HandleType,
    LocalArrayType,
    MemRefType,
    MultiTileType,
    OpaqueType,
    PackedDType,
    PtrType,
    ScalarType,
    StructType,
    TileType,
    VirtualMaskType,
    VirtualVRegType,
    VRegType,
)
from ptosim.language.syntax.parser import parse_type
from ptosim.tools.api import check

ACCEPTED = {
    "!pto.hif8": ScalarType,
    "!pto.f8E8M0": ScalarType,
    "!pto.f4E1M2x2": ScalarType,
    "!pto.f4E2M1x2": ScalarType,
    "!pto.hif8x2": ScalarType,
    "!pto.bf16x2": ScalarType,
    "!pto.ptr<!pto.f4E2M1x2>": PtrType,
    "!pto.ptr<!pto.hif8x2, ub>": PtrType,
    "!pto.ptr<vector<2xf16>, ub>": PtrType,
    "!pto.ptr<vector<2xi8>>": PtrType,
    "!pto.ptr<vector<4xf8E4M3FN>>": PtrType,
    "!pto.ptr<vector<8xf8E5M2>>": PtrType,
    "!pto.vreg<256x!pto.hif8>": VRegType,
    "!pto.vreg<256x!pto.f4E1M2x2>": VRegType,
    "!pto.vreg<64x!pto.bf16x2>": VRegType,
    "memref<?x!pto.hif8, #pto.address_space<mat>>": MemRefType,
    "!pto.tile<16x32x!pto.f4E2M1x2>": TileType,
    "!pto.local_array<8x4xi32>": LocalArrayType,
    "!pto.local_array<4xbf16>": LocalArrayType,
    "!pto.struct<i32, f16, !pto.struct<f32, i8>>": StructType,
    "!pto.struct<si8, ui16, i64, bf16, f64>": StructType,
    "!pto.async_session": HandleType,
    "!pto.async_event": HandleType,
    "!pto.prefetch_async_context": HandleType,
    "!pto.pipe": HandleType,
    "!pto.align": HandleType,
    "!pto.eventid_array<4>": HandleType,
    "!pto.vmi.vreg<192xf32>": VirtualVRegType,
    "!pto.vmi.vreg<8xf32, #pto.vmi.layout<num_groups = 8, slots = 1>>": VirtualVRegType,
    "!pto.vmi.mask<64xpred>": VirtualMaskType,
    "!pto.vmi.mask<64xb16, #pto.vmi.layout<deinterleaved = 2>>": VirtualMaskType,
    "!pto.vmi.vreg<1000xui8>": VirtualVRegType,
    "!pto.vmi.vreg<64x!pto.hif8x2>": VirtualVRegType,
    "!pto.vmi.vreg<64x!pto.bf16x2>": VirtualVRegType,
    "!pto.vmi.vreg<128x!pto.f4E2M1x2>": VirtualVRegType,
    "!pto.vmi.vreg<128xf8E4M3FN>": VirtualVRegType,
    "!pto.vmi.vreg<64xf32, #pto.vmi.layout<contiguous>>": VirtualVRegType,
    "!pto.vmi.vreg<64xf32, #pto.vmi.layout<contiguous, lane_stride = 2>>": VirtualVRegType,
    "!pto.vmi.vreg<64xf32, #pto.vmi.layout<deinterleaved = 4, lane_stride = 1>>": VirtualVRegType,
    "!pto.vmi.vreg<64xf32, #pto.vmi.layout<block_deinterleaved = 2>>": VirtualVRegType,
    "!pto.vmi.mask<8xb8, #pto.vmi.layout<num_groups = 4>>": VirtualMaskType,
    "!llvm.ptr": OpaqueType,
}


@pytest.mark.parametrize("text", ACCEPTED)
def test_printing_what_was_read_gives_the_same_text(text):
    parsed = parse_type(text)
    assert parsed.fault is None
    assert isinstance(parsed.type, ACCEPTED[text])
    assert str(parsed.type) == text


REFUSED = {
    "!pto.hif9": "is not a type",
    "!pto.f4E2M1": "is not a type",
    "!pto.ptr<i24>": "unknown element type `i24`",
    "!pto.ptr<vector<3xf16>>": "a pointer has no elements of type",
    "!pto.ptr<vector<4xf16>>": "a pointer has no elements of type",
    "!pto.ptr<vector<2x2xf16>>": "a pointer has no elements of type",
    "!pto.ptr<!pto.ptr<f32>>": "an element type is a scalar",
    "!pto.ptr<f32, mars>": "address space must be one of",
    "!pto.tensor_view<4xvector<2xf16>>": "an element type is a scalar",
    "!pto.vreg<128x!pto.hif8>": "expected exactly 256 bytes",
    "!pto.vreg<128x!pto.bf16x2>": "expected exactly 256 bytes",
    "!pto.vreg<0xf32>": "positive",
    "!pto.vreg<32xindex>": "expected integer, floating-point, or PTO low-precision",
    "!pto.multi_tile_buf<vec, 16x64xf32, count=1>": "multi_tile_buf count must be >= 2",
    "!pto.multi_tile_buf<vec, 16x64xf32, count=17>": "multi_tile_buf count must be <= 16",
    "!pto.multi_tile_buf<vec, 16x64xf32, count=2, pad=1>": "`count=N` ends",
    "!pto.multi_tile_buf<vec, 16x64xf32>": "`count=N` ends",
    "!pto.tile_buf<vec, 16x64xf32, count=2>": "unknown key `count`",
    "!pto.local_array<i32>": "requires at least one dimension",
    "!pto.local_array<0x4xi32>": "must be a positive static size",
    "!pto.local_array<?x4xi32>": "must be a positive static size",
    "!pto.local_array<4xindex>": "element type must be a scalar integer or float",
    "!pto.local_array<4x!pto.hif8>": "element type must be a scalar integer or float",
    "!pto.local_array<4x!pto.ptr<f32>>": "element type must be a scalar integer or float",
    "!pto.struct<>": "at least one field",
    "!pto.struct<i1>": "is not scalar-storable",
    "!pto.struct<i24>": "is not scalar-storable",
    "!pto.struct<f32, f8E4M3FN>": "is not scalar-storable",
    "!pto.struct<!pto.hif8>": "is not scalar-storable",
    "!pto.struct<i8, !pto.ptr<f32>>": "is not scalar-storable",
    "!pto.struct<!pto.local_array<4xi8>>": "is not scalar-storable",
    "!pto.struct<!pto.tile_buf<vec, 16x64xf32>>": "is not scalar-storable",
    "!pto.async_sessions": "is not a type",
    "!pto.eventid_array": "is not a type",
    "!pto.pipe<4>": "is not a type",
    "!pto.vmi.vreg<4x4xf32>": "one dimension",
    "!pto.vmi.thing": "is not a type",
    "!pto.vmi.vreg<0xf32>": "positive element count",
    "!pto.vmi.mask<0xpred>": "positive element count",
    "!pto.vmi.vreg<64xi1>": "8-bit, 16-bit, or 32-bit logical element type",
    "!pto.vmi.vreg<64xi64>": "8-bit, 16-bit, or 32-bit logical element type",
    "!pto.vmi.vreg<64xf64>": "8-bit, 16-bit, or 32-bit logical element type",
    "!pto.vmi.vreg<64xindex>": "8-bit, 16-bit, or 32-bit logical element type",
    "!pto.vmi.vreg<64x!quant.uniform<i8:f32, 0.5>>": "expected an integer, index, floating-point",
    "!pto.vmi.mask<64xb64>": "granularity to be one of pred, b8, b16, b32",
    "!pto.vmi.mask<64xpred, #pto.vmi.layout<contiguous>>": "pred mask must not carry layout",
    "!pto.vmi.vreg<64xf32, #pto.layout<nd>>": "expected #pto.vmi.layout attribute",
    "!pto.vmi.vreg<64xf32, #pto.vmi.layout<num_groups = 8>>": "exactly one logical result lane per group",
    "!pto.vmi.vreg<64xf32, #pto.vmi.layout<deinterleaved = 3>>": "expected factor to be 2 or 4",
    "!pto.vmi.vreg<64xf32, #pto.vmi.layout<block_deinterleaved = 8>>": "expected factor to be 2 or 4",
    "!pto.vmi.vreg<64xf32, #pto.vmi.layout<contiguous, lane_stride = 0>>": "lane_stride to be positive",
    "!pto.vmi.vreg<8xf32, #pto.vmi.layout<num_groups = 8, slots = -1>>": "slots to be omitted or positive",
    "!pto.vmi.mask<8xb8, #pto.vmi.layout<num_groups = 0>>": "num_groups to be positive",
    "!pto.vmi.vreg<64xf32, #pto.vmi.layout<contiguous, slots = 1>>": "expected 'lane_stride = <integer>'",
    "!pto.vmi.vreg<8xf32, #pto.vmi.layout<num_groups = 8, width = 1>>": "expected 'slots = <integer>'",
    "!pto.vmi.vreg<64xf32, #pto.vmi.layout<other>>": "expected one of contiguous",
    "!pto.tile_buf<vec, 0x64xf32>": "tile_buf rows/cols must be positive",
    "!pto.tile_buf<vec, 16x64xf32, valid=-2x4>": "must be '?', -1, or a non-negative integer",
    "!pto.tile_buf<vec, 16x64xf32, fractal=64>": "unsupported s_fractal_size: 64, must be one of",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_refused_text_says_the_rule(text):
    parsed = parse_type(text)
    assert isinstance(parsed.type, ErrorType)
    assert REFUSED[text] in (parsed.fault or "")


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("vec", "ub"), ("mat", "l1"), ("left", "l0a"), ("right", "l0b"), ("acc", "l0c"),
        ("bias", "bt"), ("scaling", "fb"),
    ],
)  # fmt: skip
def test_the_two_words_of_a_space_are_the_same_type(word, other):
    types = {
        parse_type(f"!pto.ptr<f32, {text}>").type
        for text in (word, other, f"#pto.address_space<{word}>", f"#pto<address_space {other}>")
    }
    assert len(types) == 1
    memrefs = {parse_type(f"memref<4xf32, #pto.address_space<{w}>>").type for w in (word, other)}
    assert len(memrefs) == 1


def test_gm_is_the_space_of_a_pointer_that_names_none():
    assert parse_type("!pto.ptr<f32>").type == parse_type("!pto.ptr<f32, gm>").type


def test_a_multi_tile_has_two_spellings():
    short = parse_type("!pto.multi_tile_buf<vec, 16x64xf32, pad=1, count=3>").type
    long = parse_type("!pto.multi_tile_buf<!pto.tile_buf<vec, 16x64xf32, pad=1>, count=3>").type
    assert isinstance(short, MultiTileType)
    assert short == long == parse_type(str(short)).type


@pytest.mark.parametrize(
    ("text", "stride"),
    [
        ("!pto.multi_tile_buf<vec, 3x3xf32, count=2>", 64),  # 36 bytes, in units of 32
        ("!pto.multi_tile_buf<acc, 3x3xf32, count=2>", 512),  # L0 spaces: in units of 512
        ("!pto.multi_tile_buf<vec, 16x64xf32, count=2>", 4096),
    ],
)
def test_slots_of_a_multi_tile_begin_at_the_unit_of_their_space(text, stride):
    assert parse_type(text).type.stride == stride


def test_extents_count_pairs():
    """A tile `16x32x!pto.f4E2M1x2` has 32 bytes a row and 64 values a row."""
    tile = parse_type("!pto.tile_buf<vec, 16x32x!pto.f4E2M1x2>").type
    assert isinstance(tile, TileType)
    assert (tile.rows, tile.cols, tile.bytes) == (16, 32, 512)
    assert isinstance(tile.dtype, PackedDType)
    assert tile.cols * tile.dtype.count == 64
    long = str(tile)
    assert parse_type(long).type == tile


@pytest.mark.parametrize(
    ("text", "size", "count", "part"),
    [
        ("!pto.f4E1M2x2", 1, 2, "f4E1M2FN"),
        ("!pto.f4E2M1x2", 1, 2, "f4E2M1FN"),
        ("!pto.hif8x2", 2, 2, "hif8"),
        ("!pto.bf16x2", 4, 2, "bf16"),
        ("vector<2xf16>", 4, 2, "f16"),
        ("vector<2xf32>", 8, 2, "f32"),
        ("vector<2xi8>", 2, 2, "i8"),
        ("vector<4xf8E5M2>", 4, 4, "f8E5M2"),
        ("vector<8xf8E4M3FN>", 8, 8, "f8E4M3FN"),
    ],
)
def test_a_packed_element_has_bytes_and_parts(text, size, count, part):
    elem = parse_type(f"!pto.ptr<{text}>").type.elem
    assert isinstance(elem, PackedDType)
    assert (elem.bytes_for(1), elem.count, elem.part.name) == (size, count, part)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("!pto.hif8", "since"), ("!pto.ptr<!pto.f8E8M0>", "since"),
        ("!pto.multi_tile_buf<vec, 16x64xf32, count=2>", "since"),
        ("!pto.local_array<4xi8>", "since"), ("!pto.struct<i8>", "since"),
        ("!pto.prefetch_async_context", "since"), ("!pto.vmi.mask<64xpred>", "since"),
        ("!pto.ptr<vector<2xf16>>", "since"), ("!llvm.ptr", "since"),
        ("!pto.tile_buf<vec, 16x64xf16, slayout=row_major, fractal=16>", "until"),
        (
            "!pto.tile_buf<loc=vec, dtype=!pto.hif8, rows=16, cols=64, v_row=16, v_col=64, "
            "blayout=row_major, slayout=none_box, fractal=512, pad=0>",
            "since",
        ),
    ],
)  # fmt: skip
def test_what_one_date_only_has_is_noted(text, what):
    (part,) = parse_type(text).dated
    assert part.row.get(what) == "2026-08"


@pytest.mark.parametrize("text", ["f32", "!pto.ptr<f8E4M3FN, ub>", "!pto.async_event", "hif8"])
def test_what_every_date_has_is_not(text):
    assert parse_type(text).dated == ()


def test_no_valid_rows_is_a_legal_tile():
    tile = parse_type("!pto.tile_buf<vec, 16x64xf32, valid=0x-1>").type
    assert isinstance(tile, TileType)
    assert (tile.v_row, tile.v_col) == (0, None)


def findings(text: str, date: str) -> list[tuple[str, str]]:
    """What a date says of a function that takes a value of a type."""
    program = f"module {{\n  func.func @f(%a: {text}) {{\n    return\n  }}\n}}\n"
    return [(d.code, d.message) for d in check(program, compat=date) if d.is_error]


LATER = (
    "!pto.ptr<!pto.hif8>", "!pto.ptr<vector<2xf16>>", "!pto.ptr<!pto.bf16x2>",
    "!pto.tensor_view<4x4x!pto.f4E2M1x2>", "!pto.prefetch_async_context", "!pto.vmi.vreg<64xf32>",
    "!pto.tile_buf<vec, 16x64x!pto.f8E8M0>", "!llvm.ptr",
)  # fmt: skip


@pytest.mark.parametrize("text", LATER)
def test_april_refuses_what_came_later_and_names_the_date(text):
    found = findings(text, "2026-04")
    assert [code for code, _ in found] == ["PTO1006"]
    assert "needs PTOAS 2026-08" in found[0][1]
    assert "PTO1006" not in [code for code, _ in findings(text, "2026-08")]


def test_a_fractal_of_16_is_aprils():
    text = "!pto.tile_buf<vec, 16x64xf16, slayout=row_major, fractal=16>"
    assert findings(text, "2026-04") == []
    ((code, message),) = findings(text, "2026-08")
    assert code == "PTO1006"
    assert message == "unsupported s_fractal_size: 16, must be one of 32, 512, 1024"


def test_a_bare_snippet_reads_the_types_of_every_date():
    text = "pto.tadd ins(%a, %a : T, T) outs(%a : T)".replace(
        "T", "!pto.tile_buf<vec, 16x64xf16, slayout=row_major, fractal=16>"
    )
    assert not [d for d in check(text, compat="2026-08") if d.code == "PTO1006"]


def test_aliases_name_types_wherever_one_may_be():
    program = """
    !T = !pto.tile_buf<vec, 16x64xf32>
    !U = !T
    module {
      !P = !pto.ptr<f32>
      module {
        func.func private @g(!P, !U) -> !T
        func.func @f(%a: !U, %b: !T) {
          pto.tadd ins(%a, %b : !T, !U) outs(%a : !T)
          return
        }
      }
    }
    """
    assert [d.message for d in check(program, compat="2026-08") if d.is_error] == []
    missing = program.replace("%a: !U", "%a: !V")
    assert "undefined type alias `!V`" in [d.message for d in check(missing, compat="2026-08")]
