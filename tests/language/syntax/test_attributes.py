"""What attributes mean: spellings of enums, numbers of arrays and constants, members by date."""

from __future__ import annotations

import pytest

from ptosim.ground.ir.attributes import Dense, Enum, attr_value
from ptosim.ground.ir.types import VectorType
from ptosim.ground.isa.schema import enums
from ptosim.language.bind.structured import constant_value
from ptosim.language.syntax.parser import parse_type
from ptosim.tools.api import check
from tests.language.syntax.helpers import only_op

TILE = "!pto.tile_buf<vec, 16x64xf32>"
HALF = "!pto.tile_buf<vec, 16x64xf16>"


@pytest.mark.parametrize("text", ["#pto.round_mode<RINT>", "#pto<round_mode RINT>"])
def test_two_spellings_of_an_enum_are_the_same_value(text):
    op = only_op(f'"pto.x"() {{k = {text}}} : () -> ()')
    assert attr_value(op.attrs["k"]) == Enum("round_mode", "RINT")


@pytest.mark.parametrize(
    "word",
    ["<PIPE_ALL>", "#pto.pipe<PIPE_ALL>", "#pto<pipe PIPE_ALL>", '"PIPE_ALL"'],
)
def test_a_barrier_takes_its_pipe_in_every_spelling(word):
    program = f"module {{\n  func.func @f() {{\n    pto.barrier {word}\n    return\n  }}\n}}\n"
    assert not [d for d in check(program) if d.is_error]
    wrong = program.replace("PIPE_ALL", "PIPE_NONE")
    assert [d.code for d in check(wrong) if d.is_error] == ["PTO2004"]


def test_keys_may_be_quoted():
    op = only_op('"pto.x"() {"pto.device-spec" = "Ascend950", k} : () -> ()')
    assert attr_value(op.attrs["pto.device-spec"]) == "Ascend950"
    assert attr_value(op.attrs["k"]) is True


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("array<i32: 1, 0>", [1, 0]), ("array<i64>", []), ("array<i1: true, false>", [True, False]),
        ("array<f32: 1.5, -2.0e3>", [1.5, -2000.0]), ("array<i64: >", []),
        *((text, text) for text in ("array<i64: 1, f8E4M3FN>", "array<i64: 1.5>", "array<i64: 1 2>",
                                    "array<i64: 1,>", "array<i64: [1]>")),
    ],
)  # fmt: skip
def test_arrays_are_lists_of_numbers(text, numbers):
    op = only_op(f'"pto.x"() <{{k = {text}}}> : () -> ()')
    assert attr_value(op.props["k"]) == numbers


@pytest.mark.parametrize(
    ("literal", "type_", "value"),
    [
        ("dense<1.0>", "vector<2xf16>", (1.0, 1.0)),
        ("dense<[1.0, 2.0]>", "vector<2xf16>", (1.0, 2.0)),
        ("dense<[0x3C00, 0x0001]>", "vector<2xf16>", (1.0, 2.0**-24)),  # patterns of bits
        ("dense<[-1, 255]>", "vector<2xi8>", (-1, -1)),
        ("dense<[[1, 2], [3, 4]]>", "vector<2x2xi32>", (1, 2, 3, 4)),
        ("dense<[1, 2, 3]>", "vector<2xi32>", None),
        ("dense<[1, 256]>", "vector<2xi8>", None),
        # the shape is the type's, one comma between elements, and nothing else is an element
        ("dense<[[1.0, 2.0]]>", "vector<2xf16>", None),
        ("dense<[[1.0], [2.0]]>", "vector<2xf16>", None),
        ("dense<[[1], [2, 3]]>", "vector<2x2xi32>", None),
        ("dense<[1, 2, 3, 4]>", "vector<2x2xi32>", None),
        ("dense<[1, 2,]>", "vector<2xi32>", None),
        ("dense<[1 2]>", "vector<2xi32>", None),
        ("dense<[1, ?]>", "vector<2xi32>", None),
        ("dense<1, 2>", "vector<2xi32>", None),
        ("dense<?>", "vector<2xf16>", None),
        ("dense<nan>", "vector<2xf16>", None),
        ("dense<word>", "vector<2xf16>", None),
        ("dense<>", "vector<2xf16>", None),
        ("dense<[]>", "vector<2xf16>", None),
        # bytes in memory, the lowest first
        ('dense<"0x003C">', "vector<2xf16>", (1.0, 1.0)),
        ('dense<"0x003C0040">', "vector<2xf16>", (1.0, 2.0)),
        ('dense<"0xFF01">', "vector<2xi8>", (-1, 1)),
        ('dense<"0x0100">', "vector<1xi16>", (1,)),
        ('dense<"0x003C00">', "vector<2xf16>", None),
        ('dense<"0x01">', "vector<8xi1>", None),
    ],
)
def test_constants_of_small_vectors(literal, type_, value):
    op = only_op(f"%c = arith.constant {literal} : {type_}")
    vector = parse_type(type_).type
    assert isinstance(vector, VectorType)
    assert constant_value(op.items[0], vector) == value


def test_a_dense_attribute_has_its_literals():
    op = only_op('"pto.x"() {k = dense<[1, 2]> : vector<2xi32>} : () -> ()')
    value = attr_value(op.attrs["k"])
    assert isinstance(value, Dense)
    assert [tok.value for tok in value.of((2,), 32) or ()] == ["1", "2"]
    assert value.of((3,), 32) is None
    assert value.of((1, 2), 32) is None


# Enums of August 2026 (PTOAS 0.28 to 0.60) with the values of their members.
NEW = {
    "mx_group_axis": {"axis0": 0, "axis1": 1},
    "quant_type": {"INT8_SYM": 0, "INT8_ASYM": 1, "MXFP8": 2, "MXFP4_E2M1": 3},
    "quant_scale_alg": {"ocp": 0, "nv": 1},
    "vec_store_mode": {"nd": 0, "nz": 1},
    **{
        f"{name}_precision": {"default": 0, "high_precision": 1}
        for name in ("div", "exp", "log", "recip", "rem", "rsqrt", "sqrt", "fmod", "pow")
    },
    "acc_phase": {"unspecified": 0, "partial": 2, "final": 3},
    "notify_op": {"atomic_add": 0, "set": 1},
    "wait_cmp": {"eq": 0, "ne": 1, "gt": 2, "ge": 3, "lt": 4, "le": 5},
    "reduce_op": {"sum": 0, "max": 1, "min": 2},
    "coalesce": {"row": 0, "elem": 1},
    "scatter_conflict": {"default": 0, "last": 1},
    "print_format": {
        "width8_precision4": 0,
        "width8_precision2": 1,
        "width10_precision6": 2,
    },
    "tinsert_mode": {"split2": 2, "split4": 3},
    "relu_pre_mode": {"scalar_relu": 2, "vector_relu": 3, "pwl": 4},
    "fence_scope": {"local_memory": 0, "gm": 1, "all": 2},
    "sync_all_mode": {"hard": 0, "soft": 1},
    "sync_core_type": {"aiv_only": 0, "aic_only": 1, "mix": 2},
    "mem_bar": {"SS_ALL": 12, "ST_LD": 13, "LD_ST": 14, "ST_ST": 15},
    "layout": {"nd": 0, "dn": 1, "nz": 2, "mx_a_zz": 3, "mx_b_nn": 4},
}


@pytest.mark.parametrize("name", NEW)
def test_members_of_the_enums_of_august(name):
    enum = enums()[name]
    for word, value in NEW[name].items():
        member = enum.member(word)
        assert member is not None, word
        assert enum.members[member] == value


def test_a_member_of_august_is_none_of_april():
    program = 'module {\n  func.func @f() {\n    pto.vecscope {\n      pto.mem_bar "SS_ALL"\n    }\n    return\n  }\n}\n'
    (found,) = [d for d in check(program, target="a5", compat="2026-04") if d.is_error]
    assert (found.code, found.message) == (
        "PTO2004",
        "'pto.mem_bar' op: `SS_ALL` of mem_bar needs PTOAS 2026-08",
    )
    assert "PTO2004" not in [d.code for d in check(program, target="a5", compat="2026-08")]


def test_the_dates_of_enums_are_those_of_their_members():
    assert enums()["layout"].members_at("2026-04") == ["nd", "dn", "nz"]
    assert enums()["layout"].members_at("2026-08")[3:] == ["mx_a_zz", "mx_b_nn"]
    assert enums()["coalesce"].members_at("2026-04") == []


@pytest.mark.parametrize("word", ["scalar_relu", "vector_relu", "pwl"])
def test_tile_operations_have_two_of_the_modes_of_relu(word):
    acc = "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
    mat = "!pto.tile_buf<mat, 16x16xf32, blayout=col_major, slayout=row_major>"
    text = f"pto.tmov ins(%a : {acc}) outs(%b : {mat}) {{reluPreMode = #pto<relu_pre_mode WORD>}}"
    assert "PTO2004" in [d.code for d in check(text.replace("WORD", word)) if d.is_error]
    usual = check(text.replace("WORD", "normal_relu"))
    assert "PTO2004" not in [d.code for d in usual if d.is_error]
