"""Each rule that boards taught has a program that breaks it and is found, and one that keeps it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.boards import board_rules, changed
from ptosim.ground.diagnostics.catalog import catalog
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions
from ptosim.launch.analysis.insert_sync.write import rewritten
from ptosim.tools.api import check_source

RULES = [rule for rule in board_rules().values() if rule.codes]
"""Without those about reading what is found (A29, A30, B8) and what needs no flag (A07e)."""
ON_READING = [rule for rule in board_rules().values() if rule.instead]


def findings(rule, side):
    text = rule.wrong if side == "wrong" else rule.right
    date = rule.dates[side == "right"]
    found = ptosim.check(text, args=dict(rule.args), compat=date)
    return [d for d in found if d.severity.word != "note" or d.code in rule.codes]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.id)
def test_what_breaks_a_rule_is_found(rule):
    assert {d.code for d in findings(rule, "wrong")} & set(rule.codes)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.id)
def test_what_keeps_a_rule_is_not_blamed(rule):
    assert findings(rule, "right") == []


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.id)
def test_findings_name_the_rule(rule):
    told = [d.to_dict() for d in findings(rule, "wrong")]
    assert rule.id in [d.get("rule_id") for d in told]
    assert catalog().keys() >= set(rule.codes)


@pytest.mark.parametrize("rule", ON_READING, ids=lambda r: r.id)
def test_rules_on_reading_are_shown_by_what_another_one_finds(rule):
    """A07e: by elements no flag is needed, by rows one is; A29: lines begin where the memory does,
    which is assumed; A30: numbers are in the help."""
    (found,) = [d for d in ptosim.check(rule.wrong) if d.severity.word != "note"]
    assert found.rule_id == rule.instead
    assert ("is assumed" in str(found.notes)) == (rule.id == "A29")
    assert ("boards say 507035" in (found.help or "")) == (rule.id == "A30")
    assert not [d for d in ptosim.check(rule.right) if d.severity.word != "note"]


SOFT = board_rules()["A23"].right


@pytest.mark.parametrize("blocks", [None, 4])
def test_a_soft_meeting_of_more_cores_than_are_followed_is_no_deadlock(blocks):
    """A23: `check` follows a few cores of a launch; a launch of too few is found in a run."""
    text = re.sub("    pto.store_scalar.*\n", "", SOFT).replace("constant 1 :", "constant 4 :")
    found = ptosim.check(text, blocks=blocks)
    assert not [d for d in found if d.is_error]
    assert ("PTO5217", "A23") in [(d.code, d.rule_id) for d in found]
    words = {"y": np.zeros(64, np.int32), "rank": 0}
    assert not ptosim.load(text).run(words, block_num=4).findings
    with pytest.raises(ptosim.Trap, match="PTO5040"):
        ptosim.load(text).run(words, block_num=2)


def test_only_what_no_text_shows_has_no_programs():
    assert [rule.id for rule in board_rules().values() if not rule.wrong] == ["B8"]


@pytest.mark.slow
def test_the_severity_of_a_rule_is_that_of_its_finding():
    for rule in RULES:
        worst = max(findings(rule, "wrong"), key=lambda d: d.severity)
        assert worst.severity.word == rule.severity, rule.id


NEGATIVE = """module attributes {{pto.target_arch = "a5"}} {{
  func.func @k(%n: index) attributes {{pto.kernel}} {{
    %c64 = arith.constant 64 : index
    %t = pto.alloc_tile valid_row = %n valid_col = %c64 : !pto.tile_buf<vec, 16x64xf32, valid=?x?>
    return
  }}
}}""".replace("{{", "{").replace("}}", "}")


@pytest.mark.parametrize(("n", "hangs"), [(-1, True), (17, False)])
def test_a_negative_extent_hangs_a_board(n, hangs):
    """A11: the time-out of a core is what a board shows of it; one too large is another fault."""
    (found,) = [d for d in ptosim.check(NEGATIVE, args={"n": n}) if d.code == "PTO6004"]
    assert ("boards say 507014" in (found.help or "")) is hangs
    assert ("arith.maxsi" in (found.help or "")) is hangs


@pytest.mark.parametrize(("number", "codes"), [
    ("507014", "PTO5006 PTO5040 PTO6002"), ("507015", "PTO6001"), ("507018", "PTO5216 PTO6001 PTO6460"),
    ("507035", "PTO4353 PTO6026 PTO6027 PTO6430"), ("507046", "PTO5006"),
])  # fmt: skip
def test_findings_say_the_numbers_of_boards(number, codes):
    """A30: time-outs, addresses that a cube core is given, bad indices, places in UB, the stream."""
    assert all(number in catalog()[code].boards for code in codes.split())


@pytest.mark.parametrize("size", ["%n40 nburst(%minus, ", "%minus nburst(%n1, "])
def test_a_transfer_of_a_negative_size_hangs_a_board(size):
    """A11: 0 moves nothing, and is no fault."""
    text = board_rules()["A10"].right.replace("%n40 nburst(%n1, ", size, 1)
    for value, told in ((-1, ["PTO6002"]), (0, [])):
        made = f"    %minus = arith.constant {value} : i64\n    pto.mte_gm_ub"
        found = ptosim.check(text.replace("    pto.mte_gm_ub", made, 1))
        assert [d.code for d in found if d.is_error] == told


@pytest.mark.parametrize(("blocks", "dtype", "told"), [
    (None, "f32", ["PTO5209"]), (None, "i32", []), (1, "f32", []),
])  # fmt: skip
def test_only_floats_of_several_blocks_depend_on_the_order(blocks, dtype, told):
    """A17: sums of integers are exact, and a block alone has no order."""
    text = board_rules()["A17"].wrong.replace("f32", dtype)
    text = text.replace(
        "outs(%part : !p)", "outs(%part : !p) {atomicType = #pto<atomic_type atomic_add>}"
    )
    found = ptosim.check(text, blocks=blocks, explore=False)
    assert [d.code for d in found if d.rule_id == "A17"] == told


@pytest.mark.parametrize(("test", "blocks", "told"), [
    ("", None, True), ("", 1, False), ("eq, %i, %c0", None, False), ("ne, %i, %c0", None, True),
    ("eq, %c0, %c1", None, True),
])  # fmt: skip
def test_one_block_alone_shares_no_line(test, blocks, told):
    """A02: in a launch of one block, and where a branch asks for one of them."""
    text = board_rules()["A02"].wrong
    store = "    pto.store_scalar %seven, %y[%at] : !pto.ptr<i32>, i32\n"
    asked = f"    %is = arith.cmpi {test} : index\n    scf.if %is {{\n{store}    }}\n"
    found = ptosim.check(text.replace(store, asked) if test else text, blocks=blocks)
    assert ("PTO6112" in [d.code for d in found]) is told


def test_flags_outside_of_the_branch_of_their_work_are_told():
    """A28: there they order what was before the branch."""
    text = board_rules()["A28"].right
    inside = "      pto.{}_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]\n"
    inside = inside.format("set") + inside.format("wait")
    assert inside in text
    out = text.replace(inside, "").replace("    scf.if", f"{inside}    scf.if")
    (found,) = [d for d in ptosim.check(out) if d.is_error]
    assert (found.code, found.rule_id, found.witness) == ("PTO5201", "A28", {"n": 1})


def test_a_flag_in_a_branch_orders_nothing_where_it_is_not_taken():
    """A28: what comes before and after the branch has no order on the other path."""
    text = board_rules()["A18"].right
    pair = text[text.index("    pto.set_flag[<PIPE_MTE3>") : text.rindex("    pto.tload")]
    some = "    %some = arith.cmpi sgt, %n, %c8 : index\n    scf.if %some {\n"
    (found,) = [d for d in ptosim.check(text.replace(pair, f"{some}{pair}    }}\n")) if d.is_error]
    assert (found.code, found.rule_id) == ("PTO5202", "A28")
    assert found.witness["n"] <= 8


def test_scratch_that_the_assembler_adds_makes_tci_vector_code():
    """B5: at levels 1 and 2 of A2/A3; its flags are from PIPE_S all the same before 0.63."""
    text = board_rules()["B5"].wrong.replace(", %s : i32, !pto.tile_buf<vec, 1x192xf32>", " : i32")
    text = re.sub(r" addr = %a\d+", "", text)
    assert [d.rule_id for d in ptosim.check(text) if d.is_error] == ["B5"]
    assert not [d for d in ptosim.check(text, compat="2026-09") if d.is_error]


def test_what_one_pipe_does_retires_on_that_pipe():
    """A01: effects at retirement are in order with the flags of that pipe."""
    text = board_rules()["A01"].right
    got = ptosim.load(text).run(commit="retire")
    assert [d.code for d in got.findings if d.severity.word != "note"] == []


STREAM = """
    %near = pto.addptr %ub, %c3 : !pto.ptr<f32, ub> -> !pto.ptr<f32, ub>
    %far = pto.addptr %near, %c8 : !pto.ptr<f32, ub> -> !pto.ptr<f32, ub>
    %long = arith.constant 512 : i64
    pto.mte_gm_ub %x, %ub, %a0, %long nburst(%n1, %long, %long) : !pto.ptr<f32, gm>, !pto.ptr<f32, ub>, i64, i64, i64, i64, i64
    pto.barrier <PIPE_ALL>
    pto.vecscope {
      %all = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
      %begun = pto.vldas BEGIN : !pto.ptr<f32, ub> -> !pto.align
      %b, %on = pto.vldus FIRST, %begun : !pto.ptr<f32, ub>, !pto.align -> !pto.vreg<64xf32>, !pto.align
      pto.vsts %b, %ub[%c8], %all : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>
    }"""


@pytest.mark.parametrize(("begin", "first", "told"), [
    ("%near", "%near", False), ("%ub", "%near", False), ("%ub", "%far", True), ("%far", "%near", True),
])  # fmt: skip
def test_a_stream_begins_where_its_first_load_does(begin, first, told):
    """A08: the block of 32 bytes that `vldas` brings holds the first bytes of the first `vldus`."""
    text = board_rules()["A08"].right
    region = text[text.index("    pto.vecscope") : text.index("    return")]
    text = text.replace(region, STREAM.replace("BEGIN", begin).replace("FIRST", first) + "\n")
    found = [d for d in ptosim.check(text, explore=False) if d.rule_id == "A08"]
    assert [d.code for d in found] == ["PTO6432"] * told


MASKED = """%small = pto.vcmps %b, %one, %all, "{cmp}" : !pto.vreg<64xf32>, f32, !pto.mask<b32> -> !pto.mask<b32>
      pto.vsts %b, %ub[%c{at}], %small :"""
MASK = """%place = pto.castptr %ub : !pto.ptr<f32, ub> -> !pto.ptr<ui8, ub>
      %other = pto.addptr %place, %c{at} : !pto.ptr<ui8, ub> -> !pto.ptr<ui8, ub>
      %bytes = pto.pset_b8 "PAT_ALL" : !pto.mask<b8>
      pto.{op} %bytes, %other[%c0], "{dist}" : !pto.mask<b8>, !pto.ptr<ui8, ub>, index
      pto.vsts %b, %ub[%c8], %all :"""


@pytest.mark.parametrize(("lines", "codes"), [
    *((MASKED.format(cmp=cmp, at=3), ["PTO6430"]) for cmp in ("lt", "ge", "ne")),
    (MASKED.format(cmp="lt", at=8), []),
    *((MASK.format(op=op, at=at, dist=dist), ["PTO6431"] * told) for op in ("psts", "psti")
      for at, dist, told in ((16, "PK", False), (8, "PK", True), (16, "NORM", True))),
])  # fmt: skip
def test_whatever_a_mask_leaves_out_the_address_counts(lines, codes):
    """A08: no lane, some lanes or all of them; masks that are stored have 16 or 32 bytes."""
    text = board_rules()["A08"].right.replace("pto.vsts %b, %ub[%c8], %all :", lines)
    text = text.replace("    %c3 =", "    %c16 = arith.constant 16 : index\n    %c3 =")
    assert [d.code for d in ptosim.check(text) if d.rule_id == "A08"] == codes


def test_places_that_the_caller_gives_are_required_to_be_aligned():
    """A08: a kernel that is right for multiples is no error."""
    text = board_rules()["A08"].right.replace("%ub[%c8]", "%ub[%n]")
    text = text.replace("%y: !pto.ptr<f32, gm>)", "%y: !pto.ptr<f32, gm>, %n: index)")
    (note,) = [d for d in ptosim.check(text) if d.rule_id == "A08"]
    assert (note.code, note.message) == ("PTO6052", "@k requires n is a multiple of 8")
    for n, told in ((16, []), (4, ["PTO6430"])):
        assert [d.code for d in ptosim.check(text, args={"n": n}) if d.is_error] == told


@pytest.mark.parametrize(("arch", "code"), [("a5", "PTO5218"), ("a3", "PTO5221")])
def test_stores_of_one_pipe_to_the_same_bytes(arch, code):
    """A20: certain on A5, assumed on A2/A3."""
    text = board_rules()["A20"].wrong.replace('"a5"', f'"{arch}"')
    found = [d for d in ptosim.check(text) if d.severity.word != "note"]
    assert [(d.code, d.rule_id) for d in found] == [(code, "A20")]


TILE, PART = "!pto.tile_buf<vec, 16x64xf32>", "!pto.partition_tensor_view<16x64xf32>"
WHOLE = "!pto.tensor_view<16x64xf32>"
STATIC = "pto.{}_flag[<PIPE_MTE2>, <PIPE_S>, <EVENT_ID1>]"
FLAGS = f"{STATIC.format('set')}\n{STATIC.format('wait')}"
EVENT = "pto.{}_event[#pto.sync_op_type<TLOAD>, #pto.sync_op_type<TVEC>, #pto.event<EVENT_ID0>]"
DYNAMIC = "pto.{}_flag_dyn[<PIPE_MTE2>, <PIPE_V>, %c1]"


def loads_computes_stores(line: str, arch: str) -> str:
    """A text with level 2 and automatic synchronisation, and one more line in it."""
    return f"""module attributes {{pto.target_arch = "{arch}"}} {{
  func.func @k(%x: {WHOLE}, %y: {WHOLE}) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %true = arith.constant true
    %px = pto.partition_view %x, offsets = [%c0, %c0], sizes = [%c16, %c64] : {WHOLE} -> {PART}
    %py = pto.partition_view %y, offsets = [%c0, %c0], sizes = [%c16, %c64] : {WHOLE} -> {PART}
    %a = pto.alloc_tile : {TILE}
    pto.tload ins(%px : {PART}) outs(%a : {TILE})
    {line}
    pto.tabs ins(%a : {TILE}) outs(%a : {TILE})
    pto.tstore ins(%a : {TILE}) outs(%py : {PART})
    return
  }}
}}"""


@pytest.mark.parametrize("arch", ["a3", "a5"])
@pytest.mark.parametrize(("line", "skipped"), [
    ("", False), ("pto.barrier <PIPE_V>", False), ("pto.barrier <PIPE_ALL>", False),
    ("pto.barrier_sync[<TVEC>]", False), ("pto.fence.barrier_all #pto.fence_scope<gm>", False),
    ('pto.get_buf "PIPE_V", 0, 0\npto.rls_buf "PIPE_V", 0, 0', False),
    (f"{DYNAMIC.format('set')}\n{DYNAMIC.format('wait')}", False),
    (FLAGS, True), (f"scf.if %true {{\n{FLAGS}\n}}", True),
    (f"{EVENT.format('record')}\n{EVENT.format('wait')}", True),
])  # fmt: skip
def test_static_flags_and_events_alone_switch_insertion_off(line, skipped, arch):
    """S14, S16: in the whole function, at any depth; whatever else orders is invisible to it."""
    races = {d.code for d in ptosim.check(loads_computes_stores(line, arch)) if d.is_error}
    assert bool(races) is skipped


@pytest.mark.parametrize("line", ["pto.barrier <PIPE_V>", "pto.barrier <PIPE_ALL>"])
def test_a_barrier_beside_inserted_flags_is_needless_if_asked(line):
    """C.2 (2): it stays, and only who asks is told that flags order the same."""
    found = check_source(Source("k.pto", loads_computes_stores(line, "a3")), redundant=True)
    assert "PTO5301" in [d.code for d in found.findings]
    text = loads_computes_stores(line, "a3")
    assert "PTO5301" not in [d.code for d in ptosim.check(text)]


SELECTS = "%s = pto.alloc_tile : !pto.tile_buf<vec, 16x64xui32>\npto.texpands ins(%k : ui32) outs(%s : !pto.tile_buf<vec, 16x64xui32>)\n"
GATHERS = f"%k = arith.constant 0 : ui32\n{SELECTS}%g = pto.alloc_tile : {TILE}\npto.tgatherb ins(%a, %s : {TILE}, !pto.tile_buf<vec, 16x64xui32>) outs(%g : {TILE})"


@pytest.mark.parametrize(("line", "flags"), [("", 2), (GATHERS, 4)])
def test_pairs_stay_where_a_function_gathers(line, flags):
    """C.2 (7): all three readers of what was loaded wait for it, though the first has."""
    source = Source("k.pto", loads_computes_stores(line, "a3"))
    text, _ = rewritten(source, FrontOptions(target="a2a3"), plan=False, insert_sync=True)
    assert text.count("pto.set_flag") == text.count("pto.wait_flag") == flags
    assert not [d for d in ptosim.check(text, sync="manual") if d.is_error]


@pytest.mark.parametrize(("line", "races"), [
    ("pto.barrier <PIPE_ALL>", 1), (f"{DYNAMIC.format('set')}\n{DYNAMIC.format('wait')}", 1),
    ("pto.fence.barrier_all #pto.fence_scope<gm>", 1), ("", None), (FLAGS, None),
])  # fmt: skip
def test_barriers_beside_inserted_flags_are_told_with_what_is_missing(line, races):
    """C.3: how many races a build without insertion has, where nobody says who synchronises."""
    text = loads_computes_stores(line, "a3")
    told = [d.message for d in ptosim.check(text) if d.code == "PTO5222"]
    assert [f"has {races} race" in message for message in told] == [True] * (races is not None)
    run = "// RUN: ptoas --enable-insert-sync --pto-arch=a3 %s\n"
    for given, choices in ((text, {"sync": "auto"}), (run + text, {})):
        assert "PTO5222" not in [d.code for d in ptosim.check(given, **choices)]


@pytest.mark.parametrize(("at", "told"), [(2, True), (3, True), (4, False)])
def test_the_scalar_unit_of_a5_takes_multiples_of_an_element(at, told):
    """A08, last line of its table."""
    lines = f"""
    %bytes = pto.castptr %y : !pto.ptr<i32> -> !pto.ptr<i8>
    %c{at}b = arith.constant {at} : index
    %odd = pto.addptr %bytes, %c{at}b : !pto.ptr<i8> -> !pto.ptr<i8>
    %place = pto.castptr %odd : !pto.ptr<i8> -> !pto.ptr<i32>
    pto.store_scalar %seven, %place[%c16] : !pto.ptr<i32>, i32
    return"""
    text = re.sub(r"\n    %r = .*?return", lines, board_rules()["A25"].right, flags=re.DOTALL)
    found = [d for d in ptosim.check(text.replace('"a3"', '"a5"')) if d.severity.word != "note"]
    assert [(d.code, d.rule_id) for d in found] == [("PTO6430", "A08")] * told


@pytest.mark.parametrize(("mode", "skipped"), [
    ("insert-sync", True), ("graph-sync-solver", True), ("inject-barrier-all-sync", False),
])  # fmt: skip
def test_two_modes_of_insertion_look_at_no_flag(mode, skipped):
    """C.2 (8): barriers of all pipes go into functions with flags of their own, too."""
    text = f"// RUN: ptoas --enable-{mode} --pto-arch=a3 %s\n{loads_computes_stores(FLAGS, 'a3')}"
    assert any(d.is_error for d in ptosim.check(text)) is skipped


MICRO = """{run}module attributes {{pto.target_arch = "a5"{attrs}}} {{
  func.func @k(%x: !pto.ptr<f32, gm>) attributes {{pto.kernel_kind = #pto.kernel_kind<vector>}} {{
    %z = arith.constant 0 : index
    %c0 = arith.constant 0 : i64
    %n1 = arith.constant 1 : i64
    %n = arith.constant 256 : i64
    %u = pto.castptr %c0 : i64 -> !pto.ptr<f32, ub>
    pto.mte_gm_ub %x, %u, %c0, %n nburst(%n1, %n, %n) : !pto.ptr<f32, gm>, !pto.ptr<f32, ub>, i64, i64, i64, i64, i64
    {line}
    pto.vecscope {{
      %k = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
      %v = pto.vlds %u[%z] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>
      pto.vsts %v, %u[%z], %k : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>
    }}
    return
  }}
}}"""


@pytest.mark.parametrize(("run", "attrs", "line", "sync"), [
    ("", "", "", None), ("", "", "", "auto"), ("", ', pto.mode = "auto"', "", None),
    ("// RUN: ptoas --enable-insert-sync --pto-arch=a5 %s\n", "", "", None),
    ("", "", "%t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>", "auto"),
])  # fmt: skip
def test_nothing_is_inserted_into_micro_code(run, attrs, line, sync):
    """S20: whatever asks for it, and whatever is only allocated."""
    text = MICRO.format(run=run, attrs=attrs, line=line)
    assert "PTO5201" in {d.code for d in ptosim.check(text, sync=sync)}


MEETING = """module attributes {{pto.target_arch = "a3"}} {{
  func.func @k(%f: !pto.ptr<i64>) attributes {{pto.kernel_kind = #pto.kernel_kind<vector>}} {{
    pto.set_ffts %f : !pto.ptr<i64>
    pto.sync.set <PIPE_MTE3>, 5 {{ffts_mode = {mode} : i32}}
    pto.sync.wait <PIPE_MTE2>, {number}
    return
  }}
}}"""


@pytest.mark.parametrize(("mode", "number", "hangs"), [
    (0, 5, False), (1, 5, False), (2, 5, True), (1, 6, True),
])  # fmt: skip
def test_what_waits_has_no_mode(mode, number, hangs):
    """A16: the instruction of A2/A3 that waits names a number alone: it takes the signals of all
    cores of the kind, or of the cluster, as they were given; those of mode 2 are the cube's."""
    found = ptosim.check(MEETING.format(mode=mode, number=number))
    assert ("PTO5006" in [d.code for d in found]) is hangs


def test_a_half_that_nothing_reads_is_told():
    """S09: both results of an interleave are there for their own sake."""
    lines = "".join(f"%{n} = pto.alloc_tile : {TILE}\n" for n in "cd")
    lines += f"pto.tinterleave ins(%a, %a : {TILE}, {TILE}) outs(%c, %d : {TILE}, {TILE})"
    text = loads_computes_stores(lines, "a5").replace("tabs ins(%a", "tabs ins(%c")
    unread = [d for d in ptosim.check(text, compat="2026-09") if d.code == "PTO7404"]
    assert ["%d" in d.message for d in unread] == [True]


def test_a_pipe_that_only_an_operation_of_the_library_uses_is_a_pipe():
    """A07v: on A5 mgather is on PIPE_V, also where nothing else is: a flag from S does not cover it."""
    rule = board_rules()["A07v"]
    text = rule.right.replace("<PIPE_V>, <PIPE_MTE3>", "<PIPE_S>, <PIPE_MTE3>")
    assert "PTO5201" in [d.code for d in ptosim.check(text)]


def test_flags_of_assemblers_before_0_63_take_tci_for_the_scalar_unit():
    """B5: the finding says whose flags they are, and offers no flag alone, for one static flag
    switches insertion off."""
    rule = board_rules()["B5"]
    (found,) = [d for d in ptosim.check(rule.wrong) if d.is_error]
    assert ["PIPE_S" in found.notes[-1], "0.63" in (found.help or "")] == [True, True]
    assert not found.fixes


@pytest.mark.parametrize(("offset", "cure"), [
    (1, "an offset of at most 0, or a size of at most 7"), (9, "an offset of at most 0"),
])  # fmt: skip
def test_a_window_that_leaves_the_constants_of_its_view_says_by_how_much(offset, cure):
    """B1: 0.61 counts constants of make_tensor_view as extents where the type says `?`."""
    text = board_rules()["B1"].wrong
    text = text.replace("[%c1, %c0]", "[%far, %c0]")
    text = text.replace("    %w = ", f"    %far = arith.constant {offset} : index\n    %w = ")
    (found,) = [d for d in ptosim.check(text, compat="2026-09") if d.is_error]
    assert (found.code, found.rule_id, found.help) == ("PTO2026", "B1", cure)


def test_bytes_are_gathered_with_zeros_above_in_september():
    """B9: 16-bit offsets count bytes of the table; lanes are 16-bit integers."""
    rule = board_rules()["B9"]
    table = np.arange(-20, 108, dtype=np.int8)
    got = ptosim.load(rule.right, compat="2026-09").run({"x": table, "y": np.zeros(128, np.int16)})
    assert got.outputs["y"].tolist() == [256 - 13] * 128
    wide = rule.right.replace("<128x", "<640x")
    told = [d.message for d in ptosim.check(wide, compat="2026-09") if d.is_rejection]
    assert any("at most 4 registers" in text for text in told)


def test_september_is_read_as_the_rules_say():
    """What no rule of a date changes is as in August; `ops` says which of the others are certain."""
    rules = changed("2026-09")
    assert changed("2026-08") == {}
    assert (rules["tload"].id, rules["store"].id) == ("B2", "B4")
    assert {rule.certainty for rule in rules.values()} == {"sources", "open"}


@pytest.mark.parametrize("word", ["barrier-all", "barrier_all", "default", "mte3-to-s-event0", "x"])
def test_what_is_inserted_at_a_return_has_four_words(word):
    """C.2: anything else is an error of the assembler."""
    text = loads_computes_stores("", "a3").replace(
        "%y: " + WHOLE + ") {",
        "%y: " + WHOLE + f''') attributes {{pto.auto_sync_tail_hint = "{word}"}} {{''',
    )
    assert [d.code for d in ptosim.check(text) if d.is_error] == ["PTO1021"] * (word == "x")


@pytest.mark.parametrize(("lines", "told"), [
    ("%s = arith.remui %i, %c2 : index", True), ("%s = arith.andi %i, %c1 : index", True),
    ("%r = arith.divui %i, %c2 : index\n%s = arith.andi %r, %c1 : index", False),
])  # fmt: skip
def test_a_slot_that_a_mask_picks_is_a_remainder(lines, told):
    """A12: `i & 1` in steps of 2 is slot 0 in each round, as `i % 2` is."""
    text = board_rules()["A12"].wrong.replace("%s = arith.remui %i, %c2 : index", lines)
    found = [d.message for d in ptosim.check(text) if d.code == "PTO7408"]
    assert found == ["slot 1 of 2 is never selected by 'pto.multi_tile_get'"] * told


@pytest.mark.parametrize(("uninit", "shown"), [("poison", -1), ("zero", 0)])
def test_the_rest_of_a_last_block_shows_no_value(uninit, shown):
    """A10: also where UB had values before."""
    text = board_rules()["A10"].wrong
    whole = "    pto.mte_gm_ub %y, %ub, %a0, %n64 nburst(%n1, %n64, %n64) : !pto.ptr<f32, gm>, "
    whole += "!pto.ptr<f32, ub>, i64, i64, i64, i64, i64\n    pto.barrier <PIPE_MTE2>\n"
    text = text.replace("    pto.mte_gm_ub", f"{whole}    pto.mte_gm_ub", 1)
    ones, halves = np.ones(16, np.float32), np.full(16, 0.5, np.float32)
    got = ptosim.load(text).run({"x": ones, "y": halves}, uninit=uninit)
    assert got.outputs["y"].view(np.int32)[10:].tolist() == [shown] * 6
    assert got.definedness["y"].tolist() == [True] * 10 + [False] * 6
    assert got.outputs["y"][:10].tolist() == [1.0] * 10


@pytest.mark.parametrize(("apart", "told"), [(64, False), (72, True)])
def test_bursts_on_chip_are_blocks_apart(apart, told):
    """A10: strides in UB are multiples of 32, as addresses are; in global memory any byte will do."""
    text = board_rules()["A10"].right
    text = text.replace("nburst(%n1, %n40, %n64)", "nburst(%two, %n40, %apart)")
    text = text.replace(
        "    pto.mte_gm_ub",
        f"    %two = arith.constant 2 : i64\n    %apart = arith.constant {apart} : i64\n    pto.mte_gm_ub",
        1,
    )
    assert ("PTO6605" in [d.code for d in ptosim.check(text)]) is told


GATHER = """module attributes {pto.target_arch = "a3"} {
  func.func @k(%x: !pto.ptr<f16>, %i: !pto.ptr<i32>) attributes {pto.kernel_kind = #pto.kernel_kind<cube>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %a0 = arith.constant 0 : i64
    %seven = arith.constant 7 : i32
    %v = pto.make_tensor_view %x, shape = [%c16, %c16], strides = [%c16, %c1] : !pto.tensor_view<16x16xf16>
    %p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c16] : !pto.tensor_view<16x16xf16> -> !pto.partition_tensor_view<16x16xf16>
    %w = pto.make_tensor_view %i, shape = [%c1, %c16], strides = [%c16, %c1] : !pto.tensor_view<1x16xi32>
    %q = pto.partition_view %w, offsets = [%c0, %c0], sizes = [%c1, %c16] : !pto.tensor_view<1x16xi32> -> !pto.partition_tensor_view<1x16xi32>
    %m = pto.alloc_tile addr = %a0 : !pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>
    pto.store_scalar %seven, %i[%c0] : !pto.ptr<i32>, i32
    pto.mgather ins(%p, %q : !pto.partition_tensor_view<16x16xf16>, !pto.partition_tensor_view<1x16xi32>) outs(%m : !pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>) {coalesce = #pto<coalesce row>}
    return
  }
}
"""


def test_indices_that_the_scalar_unit_reads_come_from_its_cache():
    """A07v, A04: a gather to L1 reads its indices in global memory with the scalar unit; its table
    comes past the cache."""
    assert not [d for d in ptosim.check(GATHER) if d.code == "PTO6110"]
    table = GATHER.replace("%i[%c0] : !pto.ptr<i32>, i32", "%j[%c0] : !pto.ptr<i32>, i32").replace(
        "    %seven", "    %j = pto.castptr %x : !pto.ptr<f16> -> !pto.ptr<i32>\n    %seven"
    )
    assert [d.rule_id for d in ptosim.check(table) if d.code == "PTO6110"] == ["A04"]


# -- a second program for each rule that has no other -----------------------------------------------

END_OF_FRAME = "    %u = pto.alloc_tile addr = %a8192 : !t\n"
LOAD, STORE = "pto.tload ins(%px : !p) outs(%t : !t)", "pto.tstore ins(%t : !t) outs(%py : !p)"
ABS, CLEAR = "pto.tabs ins(%t : !t) outs(%u : !t)", "pto.texpands ins(%one : f32) outs(%t : !t)"
PUT = "pto.tsetval ins(%c8, %one : index, f32) outs(%t : !t)"
ROUNDS = "scf.for %i = %c0 to %n step %c1 {"


DIVIDE = "pto.tdivs ins(%t, %one : !t, f32) outs(%u : !t)"


def flag(source, target, number=0, words=("set", "wait")):
    ends = f"_flag[<PIPE_{source}>, <PIPE_{target}>, <EVENT_ID{number}>]"
    return "\n".join(f"pto.{word}{ends}" for word in words)


def on_tiles(arch, *lines):
    """A program of the frame of two tiles with these lines."""
    text = board_rules()["A18"].right.replace('"a3"', f'"{arch}"')
    begin = text[: text.index(END_OF_FRAME) + len(END_OF_FRAME)]
    one = "    %one = arith.constant 1.0 : f32\n"
    return begin + one + "\n".join(lines) + "\n    return\n  }\n}\n"


SECOND = [
    ("A09", "a5", (LOAD, flag("MTE2", "V"), *(DYNAMIC.format(w).replace("MTE2", "V")
                   for w in ("set", "wait")), ABS), "PTO5214"),
    ("A09", "a5", (LOAD, flag("MTE2", "MTE2"), flag("MTE2", "V"), ABS), "PTO5215"),
    ("A09", "a3", (LOAD, flag("MTE2", "V"), flag("V", "V", 1), ABS), "PTO5215"),
    (None, "a3", (LOAD, flag("MTE2", "V"), "pto.barrier <PIPE_V>", ABS), None),
    ("A15", "a5", (ROUNDS, LOAD, flag("MTE2", "V"), ABS, flag("V", "MTE2", 0, ["set"]), "}",
                   flag("V", "MTE2", 0, ["wait"])), "PTO5006"),
    (None, "a5", (flag("V", "MTE2", 0, ["set"]), ROUNDS, flag("V", "MTE2", 0, ["wait"]), LOAD,
                  flag("MTE2", "V"), ABS, flag("V", "MTE2", 0, ["set"]), "}",
                  flag("V", "MTE2", 0, ["wait"])), None),
    ("A27", "a5", (CLEAR, flag("V", "S"), PUT, flag("V", "MTE3"), STORE), "PTO5201"),
    (None, "a5", (CLEAR, flag("V", "S"), PUT, flag("S", "MTE3"), STORE), None),
    ("A06", "a5", (CLEAR, flag("V", "S"), PUT, ABS), "PTO5201"),
    (None, "a5", (CLEAR, flag("V", "S"), PUT, flag("S", "V"), ABS), None),
    ("A06", "a3", (LOAD, flag("MTE2", "V"), PUT, flag("S", "MTE3"), STORE), "PTO5203"),
    (None, "a3", (LOAD, flag("MTE2", "S"), PUT, flag("S", "MTE3"), STORE), None),
    ("A24", "a3", (LOAD, flag("MTE2", "V"), flag("S", "V", 0, ["set"]), DIVIDE,
                   flag("S", "V", 0, ["wait"])), "PTO5212"),
    (None, "a3", (LOAD, flag("MTE2", "V"), flag("S", "V", 1, ["set"]), DIVIDE,
                  flag("S", "V", 1, ["wait"])), None),
    ("A24", "a5", (LOAD, flag("MTE2", "V"), flag("V", "S", 0, ["set"]), DIVIDE,
                   flag("V", "S", 0, ["wait"])), "PTO5212"),
    (None, "a5", (LOAD, flag("MTE2", "V"), flag("S", "V", 0, ["set"]), DIVIDE,
                  flag("S", "V", 0, ["wait"])), None),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "arch", "lines", "code"), SECOND)
def test_a_second_program_breaks_the_rule_and_one_keeps_it(rule, arch, lines, code):
    """A06, A09, A15, A24, A27: another form, another pipe, the other target."""
    found = [d for d in ptosim.check(on_tiles(arch, *lines)) if d.severity.word != "note"]
    assert bool(found) is bool(code)
    assert code is None or (code, rule) in [(d.code, d.rule_id) for d in found]


@pytest.mark.parametrize(("arch", "waits", "told"), [
    ("a5", "V", []), ("a5", "S", ["PTO5201", "PTO5202"]), ("a3", None, []),
])  # fmt: skip
def test_tiles_of_a_scatter_are_used_again(arch, waits, told):
    """A07s: on A5 the program waits for PIPE_V before it loads over them, on A2/A3 the library has."""
    again = f"{LOAD}\n    return"
    text = board_rules()["A07s"].right.replace('"a5"', f'"{arch}"')
    text = text.replace(flag("V", "MTE3", 1).replace("\n", "\n    "), "")
    text = text.replace("    return", (flag(waits, "MTE2", 2) + "\n" if waits else "") + again)
    assert [d.code for d in ptosim.check(text) if d.severity.word != "note"] == told
