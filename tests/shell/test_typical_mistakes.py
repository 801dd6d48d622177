"""Forty mistakes that people make, and what a good compiler says of each: one error, at its place,
with a cure that mends it.

Each row changes one place of a program without faults. `says` is in the message, `cure` in the help
line: the text that was there before, or that belongs there. Applying the cure is undoing the change, so
that the cure works is what the programs without faults show; cures that ptosim applies itself are
applied."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import ptosim
from ptosim.ground.diagnostics.fix import applied
from ptosim.ground.diagnostics.model import Severity

TILE = """module attributes {pto.target_arch = "a2a3"} {
  func.func @kernel(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) attributes {pto.entry} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %f = arith.constant 2.0 : f32
    %vx = pto.make_tensor_view %x, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<16x64xf32>
    %vy = pto.make_tensor_view %y, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<16x64xf32>
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<16x64xf32> -> !pto.partition_tensor_view<16x64xf32>
    %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<16x64xf32> -> !pto.partition_tensor_view<16x64xf32>
    %a = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
    %b = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
    pto.tload ins(%px : !pto.partition_tensor_view<16x64xf32>) outs(%a : !pto.tile_buf<vec, 16x64xf32>)
    pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
    pto.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
    pto.tmuls ins(%a, %f : !pto.tile_buf<vec, 16x64xf32>, f32) outs(%b : !pto.tile_buf<vec, 16x64xf32>)
    pto.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]
    pto.wait_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]
    pto.tstore ins(%b : !pto.tile_buf<vec, 16x64xf32>) outs(%py : !pto.partition_tensor_view<16x64xf32>)
    return
  }
}
"""
MICRO = """module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {
  func.func @kernel(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) attributes {pto.kernel} {
    %c0 = arith.constant 0 : index
    %z = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %len = arith.constant 256 : i64
    %two = arith.constant 2.0 : f32
    %ub = pto.castptr %z : i64 -> !pto.ptr<f32, ub>
    pto.mte_gm_ub %x, %ub, %z, %len nburst(%one, %len, %len) : !pto.ptr<f32>, !pto.ptr<f32, ub>, i64, i64, i64, i64, i64
    pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
    pto.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
    pto.vecscope {
      %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
      %v = pto.vlds %ub[%c0] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>
      %w = pto.vmuls %v, %two, %m : !pto.vreg<64xf32>, f32, !pto.mask<b32> -> !pto.vreg<64xf32>
      pto.vsts %w, %ub[%c0], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>
    }
    pto.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]
    pto.wait_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]
    pto.mte_ub_gm %ub, %y, %len nburst(%one, %len, %len) : !pto.ptr<f32, ub>, !pto.ptr<f32>, i64, i64, i64, i64
    return
  }
}
"""


class Mistake(NamedTuple):
    """What is changed, and the one error that comes of it."""

    program: str
    old: str
    new: str
    code: str
    says: str
    cure: str = ""


M2V = "[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]"
V2M = "[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]"
PART = "!pto.partition_tensor_view<16x64xf32>"
BUF = "!pto.tile_buf<vec, 16x64xf32>"
MISTAKES = [
    Mistake(TILE, "ins(%a, %f", "ins(%aa, %f", "PTO1001", "undefined value `%aa`", "`%a`"),
    Mistake(TILE, "pto.tmuls", "pto.tmul_s", "PTO1003", "unknown operation", "`pto.tmuls`"),
    Mistake(TILE, "    pto.tmuls", "    tmuls", "PTO1003", "unknown operation", "`pto.tmuls`"),
    Mistake(
        TILE, "%f = arith.constant", "%f = arith.costant", "PTO1003", "unknown", "`arith.constant`"
    ),
    Mistake(
        TILE,
        f"outs(%b : {BUF}",
        "outs(%b : !pto.tile_buf<vec, 16x32xf32>",
        "PTO1005",
        "cols is 64",
        BUF,
    ),
    Mistake(
        TILE,
        f"%a = pto.alloc_tile : {BUF}",
        "%a = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf16>",
        "PTO1005",
        "dtype is f16 there and f32 here",
    ),
    Mistake(
        TILE,
        f"%a = pto.alloc_tile : {BUF}",
        "%a = pto.alloc_tile : !pto.tile_buf<left, 16x64xf32>",
        "PTO1005",
        "loc is left there and vec here",
    ),
    Mistake(
        TILE,
        f"%b = pto.alloc_tile : {BUF}",
        "%b = pto.alloc_tile : !pto.tile_bf<vec, 16x64xf32>",
        "PTO1006",
        "is not a type",
        "`!pto.tile_buf`",
    ),
    Mistake(
        TILE,
        f"%a = pto.alloc_tile : {BUF}",
        "%a = pto.alloc_tile : !pto.tile_buf<vector, 16x64xf32>",
        "PTO1006",
        "unknown loc `vector`",
        "`vec`",
    ),
    Mistake(
        TILE,
        "%x: !pto.ptr<f32>",
        "%x: !pto.ptr<f33>",
        "PTO1006",
        "unknown element type `f33`",
        "f32",
    ),
    Mistake(TILE, "2.0 : f32", "2.0 : i32", "PTO1008", "does not fit type i32", "float"),
    Mistake(TILE, '"a2a3"', '"a7"', "PTO3004", "unknown target `a7`", "a2a3"),
    Mistake(
        TILE,
        f"set_flag{M2V}",
        "set_flag[<PIPE_MTE2>, <PIPE_VEC>, <EVENT_ID0>]",
        "PTO2004",
        "`PIPE_VEC` is not a member",
        "`PIPE_V`",
    ),
    Mistake(
        TILE,
        f"set_flag{V2M}",
        "set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID8>]",
        "PTO2004",
        "`EVENT_ID8` is not a member",
    ),
    Mistake(
        TILE,
        f"wait_flag{M2V}",
        "wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID1>]",
        "PTO5006",
        "deadlock",
        "signal each flag before",
    ),
    Mistake(
        TILE,
        f"    pto.set_flag{M2V}\n    pto.wait_flag{M2V}\n",
        "",
        "PTO5201",
        "data race",
        f"pto.set_flag{M2V}",
    ),
    Mistake(
        TILE,
        "%b = pto.alloc_tile :",
        "%b = pto.alloc_tile addr = %c0 :",
        "PTO3011",
        "requires 'addr'",
        "--level 2",
    ),
    Mistake(TILE, "sizes = [%c16, %c64]", "sizes = [%c16]", "PTO2027", "size count (1)"),
    Mistake(
        TILE, "offsets = [%c0, %c0]", "offsets = [%c1, %c0]", "PTO2026", "exceeds static source dim"
    ),
    Mistake(
        TILE, f"(%px : {PART}) outs(%a : {BUF})", "(%px) outs(%a)", "PTO0002", "unexpected `)`"
    ),
    Mistake(
        TILE,
        f"(%a, %f : {BUF}, f32)",
        f"(%a : {BUF})",
        "PTO2001",
        "takes 2 inputs, not 1",
        "ops tmuls",
    ),
    Mistake(
        TILE,
        f"(%a, %f : {BUF}, f32)",
        f"(%a, %f : {BUF})",
        "PTO1014",
        "2 inputs but 1 type",
        "one type",
    ),
    Mistake(
        TILE,
        f"(%a, %f : {BUF}, f32)",
        f"(%f, %a : f32, {BUF})",
        "PTO2001",
        "operand #0 must be tile",
    ),
    Mistake(TILE, "pto.tmuls ins", "pto.tabs ins", "PTO2001", "takes 1 input, not 2", "ops tabs"),
    Mistake(
        TILE,
        f"ins(%b : {BUF}) outs(%py : {PART})",
        f"ins(%py : {PART}) outs(%b : {BUF})",
        "PTO2001",
        "operand #0 must be tile",
        "ops tstore",
    ),
    Mistake(
        TILE, f"ins(%b : {BUF}) outs", f"ins(%b : {BUF} outs", "PTO0003", "`(` is not closed", "`)`"
    ),
    Mistake(TILE, "{pto.entry} {", "{pto.entry}", "PTO0002", "expected `{`", "`{`"),
    Mistake(
        TILE,
        f"%b = pto.alloc_tile : {BUF}",
        f"%b = pto.alloc_tile : {BUF[:-1]}",
        "PTO0003",
        "`<` is not closed",
        "`>`",
    ),
    Mistake(
        TILE, "func.func @kernel", "func @kernel", "PTO0002", "unexpected `func`", "`func.func`"
    ),
    Mistake(TILE, "@kernel(%x:", "@kernel(x:", "PTO0002", "unexpected `x`", "`%x`"),
    Mistake(
        TILE, "    return\n", "    return %a\n", "PTO0002", "not complete at the end of its line"
    ),
    Mistake(MICRO, "pto.vlds", "pto.vld", "PTO1003", "unknown operation", "`pto.vlds`"),
    Mistake(
        MICRO,
        "    pto.vecscope {",
        "    pto.vecscop {",
        "PTO1003",
        "unknown operation",
        "`pto.vecscope`",
    ),
    Mistake(
        MICRO,
        '%m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>',
        '%m = pto.pset_b16 "PAT_ALL" : !pto.mask<b16>',
        "PTO1005",
        "granule is 16 there and 32 here",
    ),
    Mistake(
        MICRO,
        "-> !pto.vreg<64xf32>\n      %w",
        "-> !pto.vreg<32xf32>\n      %w",
        "PTO1006",
        "exactly 256 bytes",
        "!pto.vreg<64xf32>",
    ),
    Mistake(
        MICRO,
        "!pto.ptr<f32, ub>, !pto.mask<b32>",
        "!pto.ptr<f32, ub>, !pto.mask<b33>",
        "PTO1006",
        "unknown mask granularity",
        "b32",
    ),
    Mistake(MICRO, '"PAT_ALL"', '"PAT_ALLL"', "PTO2004", "is not a member", "`PAT_ALL`"),
    Mistake(
        MICRO, "vmuls %v, %two, %m", "vmuls %v, %m", "PTO2001", "takes 3 inputs, not 2", "ops vmuls"
    ),
    Mistake(MICRO, "vlds %ub[%c0]", "vlds %ub", "PTO2001", "takes 2 inputs, not 1", "ops vlds"),
    Mistake(
        MICRO,
        "i64 -> !pto.ptr<f32, ub>",
        "i64 -> !pto.ptr<f32, ubb>",
        "PTO1006",
        "memory space `ubb`",
        "`ub`",
    ),
    Mistake(MICRO, "vsts %w, %ub[%c0]", "vsts %w, %x[%c0]", "PTO2015", "vec address space"),
    Mistake(
        MICRO,
        f"    }}\n    pto.set_flag{V2M}",
        f"      pto.wait_flag{V2M}\n    }}\n    pto.set_flag{V2M}",
        "PTO3070",
        "must be outside 'pto.vecscope'",
        "after it",
    ),
    Mistake(
        MICRO,
        "%two, %m : !pto.vreg<64xf32>, f32",
        "%z, %m : !pto.vreg<64xf32>, i64",
        "PTO2020",
        "same element type",
    ),
]


def errors(text: str):
    return [d for d in ptosim.check(text) if d.severity is Severity.ERROR]


@pytest.mark.parametrize("program", [TILE, MICRO], ids=["tile", "micro"])
def test_the_programs_have_no_faults(program: str) -> None:
    assert [d for d in ptosim.check(program) if d.severity > Severity.NOTE] == []


def test_there_are_forty() -> None:
    assert len(MISTAKES) >= 40


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: f"{m.code}-{m.new[-24:].strip()}")
def test_one_error_at_its_place_with_its_cure(mistake: Mistake) -> None:
    before, found, after = mistake.program.partition(mistake.old)
    assert found
    text = before + mistake.new + after
    (error,) = errors(text)
    assert (error.code, mistake.says in error.message) == (mistake.code, True), error.message
    first = before.count("\n") + 1
    changed = range(first, first + max(mistake.new.count("\n"), mistake.old.count("\n")) + 1)
    assert any(span.line in changed for span in error.spans), [s.line for s in error.spans]
    assert mistake.cure in (error.help or "")
    if error.fixes:
        mended = applied(text, error.fixes)
        assert mended is not None
        assert errors(mended) == []
