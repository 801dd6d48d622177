"""Every cure that is offered mends: after it the text has one finding fewer and no new one.

Each row changes one place of a program without faults (on one of the three levels); `=` says that
the edit gives the program back, any other text that it has to be in what the edit writes."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import ptosim
from ptosim.ground.diagnostics.fix import applied
from ptosim.ground.diagnostics.model import Diagnostic
from tests.shell.test_typical_mistakes import BUF, M2V, MICRO, MISTAKES, TILE, V2M

COLUMN = "!pto.tile_buf<vec, 16x1xf32, blayout=col_major>"
ROW = "!pto.tile_buf<vec, 1x16xf32>"
SUMS = f"""module attributes {{pto.target_arch = "a2a3"}} {{
  func.func @sums(%x: !pto.ptr<f32>) attributes {{pto.entry}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %vx = pto.make_tensor_view %x, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<16x64xf32>
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<16x64xf32> -> !pto.partition_tensor_view<16x64xf32>
    %a = pto.alloc_tile : {BUF}
    %t = pto.alloc_tile : {BUF}
    %s = pto.alloc_tile : {COLUMN}
    %d = pto.alloc_tile : {ROW}
    pto.tload ins(%px : !pto.partition_tensor_view<16x64xf32>) outs(%a : {BUF})
    pto.trowsum ins(%a, %t : {BUF}, {BUF}) outs(%s : {COLUMN})
    %r = pto.treshape %s : {COLUMN} -> {ROW}
    pto.tdiv ins(%r, %r : {ROW}, {ROW}) outs(%d : {ROW})
    pto.tcvt ins(%d {{rmode = #pto<round_mode CAST_RINT>}} : {ROW}) outs(%d : {ROW})
    return
  }}
}}
"""
PLACED = f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @placed(%x: !pto.ptr<f32>) attributes {{pto.entry}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %a0 = arith.constant 0 : i64
    %a1 = arith.constant 4096 : i64
    %vx = pto.make_tensor_view %x, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<16x64xf32>
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<16x64xf32> -> !pto.partition_tensor_view<16x64xf32>
    %a = pto.alloc_tile addr = %a0 : {BUF}
    %b = pto.alloc_tile addr = %a1 : {BUF}
    pto.tload ins(%px : !pto.partition_tensor_view<16x64xf32>) outs(%a : {BUF})
    pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
    pto.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
    pto.tabs ins(%a : {BUF}) outs(%b : {BUF})
    return
  }}
}}
"""


class Change(NamedTuple):
    """What is changed, and what the edit gives."""

    program: str
    old: str
    new: str
    edit: str = "="


CHANGES = [
    # misspelled operations, types, members, keys, values
    *(Change(TILE, old, new) for old, new in [
        ("pto.tload", "pto.tlod"), ("pto.tstore", "pto.tstor"), ("pto.tmuls", "pto.tmulss"),
        ("pto.alloc_tile", "pto.aloc_tile"), ("pto.make_tensor_view", "pto.make_tensorview"),
        ("pto.partition_view", "pto.partiton_view"),
        ("%f :", "%ff :"), ("%b :", "%bb :"), ("ins(%px", "ins(%pxx"), ("!pto.ptr<f32>", "!pto.prt<f32>"),
        (BUF, "!pto.tile_buff<vec, 16x64xf32>"), (BUF, "!pto.tile_buf<vecc, 16x64xf32>"),
        (BUF, "!pto.tile_buf<vec, 16x64xf23>"),
        ("<PIPE_MTE2>", "<PIPE_MT2>"), ("<EVENT_ID0>", "<EVENT_ID_0>"),
        ("set_flag", "setflag"), ("wait_flag", "wait_flg"), ("pto.wait_flag", "pto.waitflag"), ("PIPE_MTE3>, <EVENT_ID0>]", "PIPE_MT3>, <EVENT_ID0>]"),
    ]),
    *(Change(MICRO, old, new) for old, new in [
        ("pto.vsts", "pto.vst"), ("pto.vmuls", "pto.vmulls"), ("pto.castptr", "pto.cast_ptr"),
        ("pto.mte_gm_ub", "pto.mte_gm2ub"), ("pto.mte_ub_gm", "pto.mte_ub_gmm"),
        ("PAT_ALL", "PATALL"), ("pto.pset_b32", "pto.pset_b23"),
        ("!pto.vreg<64xf32>\n", "!pto.verg<64xf32>\n"), ("!pto.vreg<64xf32>\n", "!pto.vreg<63xf32>\n"),
        ("!pto.mask<b32>\n", "!pto.mask<b31>\n"), ("%v, %two", "%vv, %two"), ("%two, %m", "%twoo, %m"),
    ]),
    *(Change(SUMS, old, new) for old, new in [
        ("pto.trowsum", "pto.trow_sum"), ("pto.treshape", "pto.reshape"), ("CAST_RINT", "CAST_RNT"),
        ("blayout=col_major", "blayot=col_major"), ("blayout=col_major", "blayout=colmajor"),
    ]),
    # words of the syntax, signs, names without their sign, lists that are too short
    *(Change(TILE, old, new) for old, new in [
        ("module attributes", "module attriubtes"), ("shape = [", "shpe = ["), ("strides =", "stries ="),
        ("offsets =", "ofsets ="), ("%px = pto", "px = pto"), ("sizes = [%c16", "sizes = [c16"),
        ("pto.tmuls ins", "tmuls ins"), ("%a : !", "%a !"), ("%x, shape", "x, shape"),
        ("] : !pto.tensor_view", "] !pto.tensor_view"), ("%f : !", "%f, : !"),
        ("ins(%a, %f", "ins(%a %f"), ("sizes = [%c16, %c64]", "sizes = [%c16]"), ("strides = [%c64, %c1]", "strides = [%c64]"),
        ("offsets = [%c0, %c0]", "offsets = [%c0]"), ("%b = pto", "%bb = pto"),
    ]),
    Change(TILE, "    %c64 = arith.constant 64 : index\n", "", "%c64 = arith.constant 64 : index"),
    # types that were left out, or repeated wrongly
    Change(TILE, f"ins(%a, %f : {BUF}, f32)", "ins(%a, %f)"),
    Change(TILE, f"outs(%b : {BUF})", "outs(%b)"),
    Change(SUMS, f"(%a, %t : {BUF}, {BUF})", f"(%a, %t : {BUF})"),
    Change(TILE, f"outs(%a : {BUF})", "outs(%a : !pto.tile_buf<vec, 16x64xf16>)"),
    Change(PLACED, f"ins(%a : {BUF})", "ins(%a : !pto.tile_buf<vec, 8x64xf32>)"),
    # brackets
    Change(TILE, f"outs(%a : {BUF})", f"outs(%a : {BUF}"),
    Change(TILE, "sizes = [%c16, %c64]", "sizes = [%c16, %c64"),
    Change(TILE, "attributes {pto.entry} {", "attributes {pto.entry}"),
    # layouts, valid shapes
    Change(SUMS, f"    %r = pto.treshape %s : {COLUMN} -> {ROW}\n    pto.tdiv ins(%r, %r : {ROW}, {ROW}) outs(%d : {ROW})",
           f"    %q = pto.alloc_tile : {COLUMN}\n    pto.tdiv ins(%s, %s : {COLUMN}, {COLUMN}) outs(%q : {COLUMN})", "pto.treshape"),
    Change(SUMS, f"    %r = pto.treshape %s : {COLUMN} -> {ROW}\n    pto.tdiv ins(%r, %r : {ROW}, {ROW})",
           f"    pto.tdiv ins(%s, %s : {COLUMN}, {COLUMN})", "pto.treshape"),
    Change(TILE, f"    %b = pto.alloc_tile : {BUF}", f"    %u = pto.alloc_tile : !pto.tile_buf<vec, 16x1xf32>\n    %b = pto.alloc_tile : {BUF}", "blayout=col_major"),
    Change(TILE, f"    %b = pto.alloc_tile : {BUF}", f"    %u = pto.alloc_tile : !pto.tile_buf<vec, 1x100xf32>\n    %b = pto.alloc_tile : {BUF}", "1x104xf32, valid=1x100"),
    Change(TILE, f"    %b = pto.alloc_tile : {BUF}", f"    %u = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32, valid=?x?>\n    %b = pto.alloc_tile : {BUF}", "valid_row = %c16 valid_col = %c64"),
    Change(TILE, f"    %b = pto.alloc_tile : {BUF}", f"    %u = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32, valid=16x?>\n    %b = pto.alloc_tile : {BUF}", "valid_col = %c64"),
    # order, number
    Change(TILE, f"(%a, %f : {BUF}, f32)", f"(%f, %a : f32, {BUF})"),
    Change(TILE, f"tload ins(%px : !pto.partition_tensor_view<16x64xf32>) outs(%a : {BUF})",
           f"tload ins(%a : {BUF}) outs(%px : !pto.partition_tensor_view<16x64xf32>)"),
    Change(MICRO, "%v, %two, %m : !pto.vreg<64xf32>, f32, !pto.mask<b32>", "%two, %v, %m : f32, !pto.vreg<64xf32>, !pto.mask<b32>"),
    Change(MICRO, "vsts %w, %ub[%c0], %m", "vsts %w, %ub, %m", "[%c0]"),
    Change(MICRO, "%v, %two, %m : !pto.vreg<64xf32>, f32, !pto.mask<b32>", "%v, %two : !pto.vreg<64xf32>, f32"),
    Change(TILE, "2.0 : f32", "2 : f32", "2.0"),
    Change(TILE, "64 : index", "64.0 : index"),
    # level 3: addresses
    Change(PLACED, "4096 : i64", "4100 : i64", "4128"),
    Change(PLACED, "4096 : i64", "0x1004 : i64", "4128"),
    Change(PLACED, "    %b = pto.alloc_tile addr", f"    %u = pto.alloc_tile : {BUF}\n    %b = pto.alloc_tile addr", " addr = %at8192"),
    Change(TILE, "%b = pto.alloc_tile :", "%b = pto.alloc_tile addr = %c0 :"),
    Change(TILE, f"set_flag{V2M}", "set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID9>]"),
    Change(TILE, f"set_flag{M2V}", "set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID8>]"),
]  # fmt: skip


def _errors(text: str) -> list[Diagnostic]:
    return [d for d in ptosim.check(text) if d.is_error]


def _refused(text: str) -> list[Diagnostic]:
    return [d for d in ptosim.check(text) if d.is_rejection]


@pytest.mark.parametrize("program", [SUMS, PLACED], ids=["sums", "placed"])
def test_the_programs_have_no_faults(program: str) -> None:
    assert _errors(program) == []


def test_there_are_sixty() -> None:
    assert len(CHANGES) >= 60


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.new.strip()[:40])
def test_a_cure_is_an_edit(change: Change) -> None:
    assert change.old in change.program
    text = change.program.replace(change.old, change.new, 1)
    found = _refused(text)
    assert found
    cured = next((d for d in found if d.fixes), None)
    assert cured is not None, [(d.code, d.message, d.help) for d in found]
    mended = applied(text, cured.fixes)
    assert mended is not None
    assert len(_refused(mended)) < len(found)
    if change.edit == "=":
        assert mended == change.program
    else:
        assert change.edit in "".join(fix.replacement for fix in cured.fixes)


@pytest.mark.slow
def test_typical_mistakes_are_mended() -> None:
    """Of the forty typical mistakes all but the operand too many, of which nobody knows which."""
    texts = [m.program.replace(m.old, m.new, 1) for m in MISTAKES]
    left = [d.message for text in texts for d in _errors(text) if not d.fixes]
    assert left == ["'pto.tabs' op does not take these operands: it takes 1 input, not 2"]


ALIASES = f"""!t = {BUF}
!column = {COLUMN}
!open = !pto.tile_buf<vec, 16x64xf32, valid=?x64>
func.func @k(%x: !t, %n: index) {{
  %tmp = pto.alloc_tile : !t
  %s = pto.alloc_tile : !column
  %o = pto.alloc_tile valid_row = %n : !open
  pto.trowsum ins(%x, %tmp : !t, !t) outs(%s : !column)
  return
}}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("!t = !pto.tile_buf", "!t = !pto.tile_bfu"),
        (", blayout=", ", bayout="),
        (", blayout=col_major", ", blayout=col_mjor"),
        (", blayout=col_major", ""),
        ("(%x, %tmp : !t, !t)", "(%x, %tpm : !t, !t)"),
    ],
)
def test_a_fault_of_an_alias_is_one_finding_where_the_alias_is_made(old: str, new: str) -> None:
    """However often it is used; its edit mends all uses."""
    wrong = ALIASES.replace(old, new, 1)
    assert _refused(ALIASES) == []
    found = _refused(wrong)
    assert applied(wrong, found[0].fixes) == ALIASES
    assert [d.code for d in found if d.code == "PTO1006"] in ([], ["PTO1006"])


def test_a_valid_shape_that_an_alias_leaves_open_is_given() -> None:
    wrong = ALIASES.replace("valid=?x64", "valid=?x?")
    (error,) = [d for d in _refused(wrong) if d.code == "PTO2028"]
    assert "valid_col = %c64" in "".join(fix.replacement for fix in error.fixes)


def test_an_attribute_that_is_required_is_written() -> None:
    """Where the statement goes on, too; of the members of its enum one that fits."""
    types = "!pto.tile_buf<vec, 16x64xf32>, !pto.tile_buf<vec, 16x1xf32, blayout=col_major>"
    head, end = f"func.func @k(%x: {types.split(', !')[0]}) {{\n", "  return\n}\n"
    right = f"""{head}  %s = pto.alloc_tile : {COLUMN}
  %q = pto.alloc_tile : !pto.tile_buf<vec, 16x64xui8>
  pto.tquant ins(%x, %s, %s : {types}, {COLUMN}) outs(%q : !pto.tile_buf<vec, 16x64xui8>) {{quant_type = #pto<quant_type INT8_ASYM>}}
{end}"""
    wrong = right.replace(" {quant_type = #pto<quant_type INT8_ASYM>}", "")
    assert [d.code for d in ptosim.check(right, target="a2a3") if d.is_rejection] == []
    for text in (wrong, right.replace("{quant_type", "{quat_type")):
        (error,) = [d for d in ptosim.check(text, target="a2a3") if d.is_rejection]
        assert applied(text, error.fixes) == right


def test_a_wait_for_another_event_waits_for_the_set() -> None:
    """Following finds the deadlock; the edit is offered where the text shows which event is meant,
    and not where two may be."""
    text = TILE.replace(f"wait_flag{M2V}", "wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID3>]")
    (error,) = _errors(text)
    assert error.code == "PTO5006"
    assert applied(text, error.fixes) == TILE
    other = "pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID5>]"
    text = text.replace("    pto.set_flag", f"    {other}\n    pto.set_flag", 1)
    assert all(d.fixes == () for d in _errors(text))


@pytest.mark.parametrize(("flags", "where"), [(M2V, "before"), (V2M, "after")])
def test_flags_leave_a_vector_region(flags: str, where: str) -> None:
    """A wait of the vector pipe goes before the region, a set by it after the region."""
    word = "wait" if where == "before" else "set"
    line = f"    pto.{word}_flag{flags}\n"
    text = MICRO.replace(line, "", 1)
    inside = "      %m = pto.pset_b32" if where == "before" else "      pto.vsts"
    text = text.replace(inside, f"  {line}{inside}", 1)
    (error,) = _refused(text)
    assert error.code == "PTO3070"
    assert applied(text, error.fixes) == MICRO


def test_a_tile_over_another_one_gets_the_next_free_address() -> None:
    """The constant of its address, or a new one where another tile has that, too."""
    text = PLACED.replace("4096 : i64", "2048 : i64").replace(
        "    pto.tabs", f"    pto.texpands ins(%f : f32) outs(%b : {BUF})\n    pto.tabs"
    ).replace("%a0 =", "%f = arith.constant 1.0 : f32\n    %a0 =")  # fmt: skip
    shared = text.replace(
        "%b = pto.alloc_tile", f"%c = pto.alloc_tile addr = %a1 : {BUF}\n    %b = pto.alloc_tile"
    )
    for wrong, written in ((text, "4096"), (shared, "%at6144 = arith.constant 6144 : i64")):
        (found,) = [d for d in ptosim.check(wrong) if d.code == "PTO7104"]
        assert written in "".join(fix.replacement for fix in found.fixes)
        mended = applied(wrong, found.fixes)
        assert mended is not None
        assert [d.code for d in ptosim.check(mended) if d.severity.word != "note"] == []


OTHERS = """func.func @k(%x: T) {
  %z = pto.alloc_tile : Z
  pto.tadd ins(%x, %x : T, T) outs(%z : Z)
  return
}
"""
ALIASED = "!t = !pto.tile_buf<vec, 16x64xf16, valid=16x60>\n" + OTHERS.replace("%z : Z", "%z : !t")


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        (OTHERS, "!pto.tile_buf<vec, 16x64xf32>"),
        (OTHERS, "!pto.tile_buf<vec, 16x64xf16, valid=16x60>"),
        (OTHERS, "!pto.tile_buf<mat, 16x64xf32, valid=16x60>"),
        (ALIASED, "!t"),
    ],
)
def test_a_tile_is_like_the_other_operands(text: str, type_: str) -> None:
    """Where only an allocated tile has another valid shape, element type or memory, it gets what
    the other operands have, wherever its type is written."""
    like = "!pto.tile_buf<vec, 16x64xf32, valid=16x60>"
    wrong = text.replace(": Z", f": {type_}").replace("T", like)
    found = _refused(wrong)
    assert found
    mended = applied(wrong, found[0].fixes)
    assert mended is not None
    assert _refused(mended) == []
    assert mended.endswith(text[text.index("func") :].replace(": Z", f": {like}").replace("T", like)
                           .replace("%z : !t", f"%z : {like}"))  # fmt: skip


ALONE = """func.func @k() {
  %z = pto.alloc_tile : Z
  pto.texp ins(%z : Z) outs(%z : Z)
  return
}
"""


@pytest.mark.parametrize(
    ("wrong", "mended"),
    [
        ("!pto.tile_buf<vec, 16x64xi32>", "!pto.tile_buf<vec, 16x64xf16>"),
        ("!pto.tile_buf<mat, 16x64xf32>", "!pto.tile_buf<vec, 16x64xf32>"),
        ("!pto.tile_buf<vec, 16x64xf32, blayout=col_major>", "!pto.tile_buf<vec, 16x64xf32>"),
    ],
)
def test_a_tile_gets_the_element_the_memory_or_the_layout_that_the_rule_names(
    wrong, mended
) -> None:
    """In its definition and wherever its type is repeated; a tile that an argument is, too."""
    argument = ALONE.replace("@k()", "@k(%z: Z)").replace("  %z = pto.alloc_tile : Z\n", "")
    for program in (ALONE, argument):
        text = program.replace("Z", wrong)
        (error,) = [d for d in ptosim.check(text, target="a2a3") if d.is_rejection]
        assert applied(text, error.fixes) == program.replace("Z", mended)


def test_what_a_help_line_gives_the_function_or_takes_from_a_statement_is_an_edit() -> None:
    acc = "!pto.tile_buf<acc, 16x64xf32, blayout=col_major, slayout=row_major, fractal=1024>"
    text = f"""func.func @k(%n: index) {{
  %t = pto.alloc_tile valid_row = %n : {acc}
  return
}}
"""
    (error,) = _refused(text)
    assert applied(text, error.fixes) == text.replace(" valid_row = %n", "")
    pushed = text.replace(" valid_row = %n", "").replace(
        "  return", f"  pto.tpush_to_aiv(%t : {acc}) {{split = 0}}\n  return"
    )
    found = next(d for d in _refused(pushed) if d.code == "PTO5011")
    assert "attributes {pto.kernel_kind = #pto.kernel_kind<cube>}" in found.fixes[0].replacement


def test_a_misspelled_attribute_is_mended() -> None:
    """It has no effect, so that the text is accepted: a note, with the edit."""
    tile = "!pto.tile_buf<vec, 16x64xf32>"
    right = f"""func.func @k(%x: {tile}, %z: !pto.tile_buf<vec, 16x64xi8>) {{
  pto.tcmp ins(%x, %x : {tile}, {tile}) outs(%z : !pto.tile_buf<vec, 16x64xi8>) {{cmpMode = #pto<cmp gt>}}
  return
}}
"""
    wrong = right.replace("cmpMode", "cmpMod")
    (note,) = [d for d in ptosim.check(wrong, target="a2a3") if d.code == "PTO2003"]
    assert applied(wrong, note.fixes) == right


def test_what_nobody_can_know_is_left(tmp_path) -> None:
    """An operand too many may be any; an edit that only makes the text pass is no cure."""
    text = TILE.replace("pto.tmuls ins", "pto.tabs ins")
    (error,) = _errors(text)
    assert error.fixes == ()


def test_fix_writes_it(cli, tmp_path) -> None:
    path = tmp_path / "k.pto"
    path.write_text(TILE.replace("pto.tmuls", "pto.tmul_s").replace("%f :", "%ff :"))
    assert cli("check", path, "--fix").code == 0
    assert path.read_text() == TILE


def test_a_long_text_is_checked_a_few_times_only() -> None:
    """What is looked for is bounded by the characters that are checked, however many errors."""
    from ptosim.ground.diagnostics.model import finding
    from ptosim.ground.source import Source, Span
    from ptosim.language.cures.offer import MOST_CHECKED, with_cures

    source = Source("k.pto", "pto.tadd %x\n".ljust(MOST_CHECKED // 2, " "))
    found = [
        finding("PTO1001", "undefined", Span(source, 9, 11), help="did you mean `%a` or `%b`?"),
        finding("PTO1001", "undefined", Span(source, 9, 11), help="did you mean `%c` or `%d`?"),
    ]
    checked = []
    assert with_cures(source, found, lambda text: checked.append(text) or found) == found
    assert len(checked) == 2
