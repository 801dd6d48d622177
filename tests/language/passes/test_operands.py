"""Clauses, flags, words and results: from the rows' notation to bound operands and findings."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.errors import IsaDataError
from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import Role
from ptosim.ground.source import Source
from ptosim.language.bind.clauses import Clause
from ptosim.language.bind.resolve import resolve
from ptosim.language.syntax.parser import parse
from ptosim.language.verify.rule_views import environment

FRAME = """
func.func @f(%gm: !pto.ptr<f32, gm>, %ub: !pto.ptr<f32, ub>, %n: i64, %s: f32) {{
  %c0 = arith.constant 0 : index
  {body}
  return
}}
"""
PAIR = "!pto.ptr<f32, gm>, !pto.ptr<f32, ub>"


def bound(body: str, name: str) -> Operation:
    """Resolve a body for A5; return the operation of that name."""
    sink = Sink()
    module = parse(Source("test.pto", FRAME.format(body=body)), sink)
    resolved = resolve(module, "a5", sink)
    assert [d.message for d in sink] == []
    return next(op for op in resolved.module.walk() if op.name == name)


def codes(body: str) -> list[str]:
    return [d.code for d in ptosim.check(FRAME.format(body=body), target="a5", dry_run=False)]


# -- notation -----------------------------------------------------------------------------------


def test_clauses_and_flags_of_a_row() -> None:
    row = isa().get("pto.mte_l0c_gm")
    assert row is not None
    named = {o.name: o for o in row.variants[0].named}
    quant = named["pre_quant"]
    assert quant.is_clause
    assert quant.optional
    assert [(p.name, p.keyword, p.optional) for p in quant.params] == [
        ("payload", False, True),
        ("mode", True, False),
    ]
    assert quant.params[1].enums == ("pre_quant",)
    assert named["nz2nd"].is_flag
    assert named["atomic"].is_clause  # a list that begins with `+` adds to the template's


def test_roles_of_operands() -> None:
    row = isa().get("pto.mad_acc")
    assert row is not None
    roles = {o.name: o.role for o in row.variants[0].ins}
    assert roles["dst"] is Role.INOUT
    row = isa().get("pto.mad")
    assert row is not None
    assert {o.name: o.role for o in row.variants[0].ins}["dst"] is Role.OUT


def test_wrong_notation_is_an_error_of_the_data() -> None:
    from ptosim.ground.isa.rows import _operands

    with pytest.raises(IsaDataError, match="is not `name:kind`"):
        _operands("src vreg", Role.IN, "here")
    with pytest.raises(IsaDataError, match="is not `name:kind`"):
        _operands("burst(count:number)", Role.IN, "here")


# -- binding ------------------------------------------------------------------------------------


def test_repeated_clauses_are_lists_of_named_operands() -> None:
    op = bound(
        f"pto.mte_gm_ub %gm, %ub, 0, 128 nburst(2, %n, 64) loop(3, 0, 0) loop(4, 0, 0) : {PAIR}",
        "pto.mte_gm_ub",
    )
    burst = op.bound["nburst"]
    assert isinstance(burst, Clause)
    assert burst["count"].const == 2
    assert burst["src_stride"].value.name == "n"
    assert [loop["count"].const for loop in op.bound["loop"]] == [3, 4]
    assert op.bound["pad"] is None
    names = environment(op, "a5")
    assert names["nburst"].dst_stride.const == 64
    assert len(names["loop"]) == 2


def test_optional_operands_of_a_clause() -> None:
    op = bound(f"pto.mte_gm_ub %gm, %ub, 0, 128 nburst(1, 0, 0) pad(%s) : {PAIR}", "pto.mte_gm_ub")
    assert op.bound["pad"]["value"].value.name == "s"
    assert op.bound["pad"]["left"] is None


def test_flags_and_words_stand_among_operands() -> None:
    body = """%a = pto.castptr %n : i64 -> !pto.ptr<f16, left>
  %b = pto.castptr %n : i64 -> !pto.ptr<f16, right>
  %c = pto.castptr %n : i64 -> !pto.ptr<f32, acc>
  pto.mad %a, %b, %c, %n, %n, %n unit_flag(check_only) n_dir
    : !pto.ptr<f16, left>, !pto.ptr<f16, right>, !pto.ptr<f32, acc>, i64, i64, i64"""
    op = bound(body, "pto.mad")
    assert op.bound["n_dir"] is True
    assert op.bound["sat"] is None
    assert environment(op, "a5")["unit_flag"].mode.const == "check_only"


def test_a_word_can_be_an_attribute_of_the_quoted_form() -> None:
    body = 'pto.vecscope { %m = "pto.pset_b32"() {pattern = "PAT_ALL"} : () -> !pto.mask<b32> }'
    assert bound(body, "pto.pset_b32").bound["pattern"].const == "PAT_ALL"
    assert codes(body) == []
    assert codes(body.replace("PAT_ALL", "PAT_SOME")) == ["PTO2004"]


def test_types_without_the_index() -> None:
    body = """%v = pto.load_scalar %ub[%c0] : !pto.ptr<f32, ub> -> f32
  pto.store_scalar %v, %ub[%c0] : !pto.ptr<f32, ub>, f32"""
    assert codes(body) == []
    assert codes(body.replace("ub>, f32", "ub>, i32")) == ["PTO1005"]


def test_a_short_pointer_type_keeps_the_space() -> None:
    body = """%q = pto.addptr %ub, %c0 : <f32> -> <f32>
  pto.vecscope { %x = pto.vlds %q[%c0] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32> }"""
    assert codes(body) == []


# -- findings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clauses", "code"),
    [
        ("", "PTO2008"),
        ("nburst(1, 0)", "PTO2009"),
        ("nburst(1, 0, 0, 0)", "PTO2009"),
        ("nburst(1, 0, 0) nburst(1, 0, 0)", "PTO2009"),
        ("nburst(1, 0, 0) lop(1, 0, 0)", "PTO2007"),
        ("nburst(1, 0, 0) pad(0.0, fill = 1)", "PTO2009"),
        ("nburst = 1", "PTO2009"),
    ],
)
def test_wrong_clauses(clauses: str, code: str) -> None:
    assert codes(f"pto.mte_gm_ub %gm, %ub, 0, 128 {clauses} : {PAIR}") == [code]


def test_an_unknown_word_names_the_nearest_member() -> None:
    text = FRAME.format(body='pto.vecscope { pto.mem_bar "VST_VLDS" }')
    (finding,) = ptosim.check(text, target="a5")
    assert finding.code == "PTO2004"
    assert finding.help == "did you mean `VST_VLD`?"
    assert "VV_ALL" in finding.notes[0]


def test_a_member_of_another_enum() -> None:
    assert codes("pto.vecscope { pto.mem_bar #pto.pipe<PIPE_V> }") == ["PTO2006"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("%x, %y = pto.get_ctrl : i64", "PTO2023"),
        ("%x = pto.set_ctrl %n : i64", "PTO2023"),
        ("%x = pto.get_ctrl : f32", "PTO2024"),
    ],
)
def test_results_that_the_row_does_not_have(line: str, code: str) -> None:
    assert codes(line) == [code]


def test_a_value_of_a_region_that_has_ended() -> None:
    body = """pto.vecscope { %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32> }
  pto.vecscope { %n2 = pto.pnot %m, %m : !pto.mask<b32>, !pto.mask<b32> -> !pto.mask<b32> }"""
    findings = ptosim.check(FRAME.format(body=body), target="a5")
    assert {d.code for d in findings} == {"PTO1001"}
    assert findings[0].labels[1].text == "defined here, in a region that has ended"
    assert "does not leave its vector region" in (findings[0].help or "")


def test_a_function_in_a_function() -> None:
    text = "func.func @a() { func.func @b() { return } return }"
    assert [d.code for d in ptosim.check(text, target="a5")] == ["PTO1020"]


def test_a_module_in_a_function() -> None:
    text = "func.func @a() { module { %c = arith.constant 1 : index } return }"
    assert [d.code for d in ptosim.check(text, target="a5")] == ["PTO1020"]


def test_a_result_that_nobody_names() -> None:
    body = """pto.vecscope {
    %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
    pto.pnot %m, %m : !pto.mask<b32>, !pto.mask<b32> -> !pto.mask<b32>
  }"""
    assert codes(body) == []


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("%d = pto.vmi.vinterpret_cast %k : !pto.ptr<i32, ub> -> !pto.vmi.vreg<64xsi16>",
         "(!pto.ptr<i32, ub>)"),
        ("%d = pto.vmi.vadd %a, %b : !pto.ptr<i32, ub>, !pto.vmi.vreg<64xf32> -> !pto.vmi.vreg<64xf32>",
         "(!pto.ptr<i32, ub>, !pto.vmi.vreg<64xf32>)"),
    ],
)  # fmt: skip
def test_a_list_of_types_gives_a_snippet_s_operand_another_kind(text: str, given: str) -> None:
    """What a snippet does not define has the type that the list says, and is refused by it as in a
    function: no rule is asked of lanes that a pointer does not have."""
    (found,) = [d for d in ptosim.check(text) if d.is_error]
    assert (found.code, found.labels[0].text) == ("PTO2001", f"given: {given}")
