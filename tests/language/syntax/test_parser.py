"""What the parser makes of each syntactic form."""

from __future__ import annotations

import logging

import lark
import pytest

from ptosim.ground.isa.cache import isa_directory
from ptosim.language.syntax.driver import load_tables
from ptosim.language.syntax.parser import MAX_BYTES
from ptosim.language.syntax.scanner import ProgramScanner
from tests.language.syntax.helpers import clean, only_op, parsed


def texts(tokens):
    return [t.value for t in tokens]


def test_statements_need_no_line_end_and_results_stay_with_their_operation():
    module = clean('%a = arith.constant 1 : i32 %b, %c = "x.y"(%a) : (i32) -> (i32, i32) return')
    assert [(op.name, [r[0] for r in op.result_tokens]) for op in module.ops] == [
        ("arith.constant", ["a"]),
        ("x.y", ["b", "c"]),
        ("func.return", []),
    ]


def test_dps_operands_types_and_attributes():
    op = only_op(
        "pto.tcmp ins(%a, %b {cmpMode = #pto<cmp lt>} : f32, i32) outs(%d : i8) {k = true}"
    )
    assert op.form == "dps"
    assert texts(op.ins[:2]) == ["%a", "%b"]
    assert texts(op.ins_types) == ["f32", "i32"]
    assert texts(op.outs) == ["%d"]
    assert list(op.attrs) == ["cmpMode", "k"]


def test_clauses_behind_outs():
    op = only_op(
        "pto.tload ins(%p : i8) outs(%t : i8) pad_mode = #pto.padmode<PadValue> pad_value = %v : f32"
    )
    assert [texts(c.parts) for c in op.clauses] == [
        ["pad_mode", "#pto.padmode<PadValue>"],
        ["pad_value", "%v", "f32"],
    ]


def test_result_counts_and_selectors():
    module = clean('%r:2 = "a.b"() : () -> (i32, i32) "c.d"(%r#1) : (i32) -> ()')
    assert module.ops[0].result_tokens[0][:2] == ("r", 2)
    assert texts(module.ops[1].ins) == ["%r#1"]


def test_loop_variable_and_carried_values_are_block_arguments():
    loop = only_op(
        "%x = scf.for %i = %a to %b step %c iter_args(%s = %t, %u = %v) -> (f32, i32) : i32 {"
        " scf.yield %s, %u : f32, i32 }"
    )
    assert [tok.value for tok, _ in loop.regions[0].blocks[0].args] == ["%i", "%s", "%u"]
    assert texts(loop.outs) == ["%t", "%v"]


@pytest.mark.parametrize(
    "spelling",
    [
        "<PIPE_V>, <PIPE_M>, <EVENT_ID0>",
        '"PIPE_V", "PIPE_M", "EVENT_ID0"',
        "#pto.pipe<PIPE_V>, %i, 3",
    ],
)
def test_flag_lists_in_every_spelling(spelling):
    op = only_op(f"pto.set_flag[{spelling}]")
    assert op.items[0].kind == "list"
    assert len(op.items[0].parts) == 3


def test_regions_of_every_structured_operation():
    module = clean(
        """
        scf.if %c { pto.trap } else { pto.trap }
        %w = scf.while (%q = %a) : (i32) -> i32 { scf.condition(%c) %q : i32 } do { ^bb0(%z: i32): scf.yield %z : i32 }
        %e = scf.execute_region -> i32 { scf.yield %a : i32 }
        scf.index_switch %a case 1 { scf.yield } case -2 { scf.yield } default { scf.yield }
        pto.section.cube { pto.trap } pto.section.vector { pto.trap } pto.vecscope { pto.trap }
        pto.strict_vecscope(%a) { ^bb0(%x: i32): pto.trap } : (i32) -> ()
        """
    )
    assert [len(op.regions) for op in module.ops] == [2, 2, 1, 3, 1, 1, 1, 1]


def test_words_are_keywords_only_where_they_can_be():
    op = only_op('"a.b"() {loc = 1, to = 2, step = 3, ins = 4, module = 5, default = 6} : () -> ()')
    assert list(op.attrs) == ["loc", "to", "step", "ins", "module", "default"]


def test_aliases_and_locations():
    module = clean(
        '#m = affine_map<(d0) -> (d0)>\n!t = f32\npto.trap loc("file.py":3:4)\npto.trap loc(callsite("a" at "b"))'
    )
    assert module.attr_aliases.keys() == {"#m"}
    assert module.type_aliases == {"!t": "f32"}
    assert [op.loc is not None for op in module.ops] == [True, True]


def test_comments_are_kept_apart():
    module = clean("// one\npto.trap // two\n# three\n#! four\n")
    assert texts(module.comments) == ["// one", "// two", "# three", "#! four"]


@pytest.mark.parametrize(
    "literal", ["1", "-1", "0x7F800000", "-0x10", "1.0", "-1.0e+00", "5.", "1e5", "true"]
)
def test_literals(literal):
    assert only_op(f"%c = arith.constant {literal} : f32").items[0].value == literal


def test_line_form_is_chosen_by_undotted_statements():
    module = clean("tadd %d, %a, %b : !pto.tile<...>\n%t = tload %sv[%c0, %c1] : !pto.tile<...>")
    assert [(op.form, op.name) for op in module.ops] == [("line", "tadd"), ("line", "tload")]
    module = clean(
        "%dst = pto.tquant %src, %qp : (!pto.tile<...>, !pto.tile<...>) -> !pto.tile<...>"
    )
    assert module.ops[0].form == "items"


def test_line_form_attributes_with_a_hash():
    op = only_op("tcvt %d, %a #rmode=RINT : f32")
    assert op.attrs["rmode"].atom.value == "RINT"


def test_positions_survive_tabs_and_carriage_returns():
    module = clean("pto.trap\r\n\tpto.trap\r\n")
    assert module.source.line_column(module.ops[1].start) == (2, 2)


def test_the_grammar_has_no_conflict_but_the_two_it_means(caplog):
    """Lark resolves conflicts silently as shifts: `word (` is a clause and `%v [` an indexed value."""
    text = (isa_directory() / "pto.lark").read_text()
    lark.logger.setLevel(logging.DEBUG)
    try:
        with caplog.at_level(logging.DEBUG, logger=lark.logger.name):
            lark.logger.propagate = True
            lark.Lark(text, parser="lalr", lexer="basic", debug=True)
    finally:
        lark.logger.setLevel(logging.CRITICAL)
    conflicts = [r.getMessage() for r in caplog.records if "conflict" in r.getMessage()]
    assert len(conflicts) == 2
    assert any("LPAR" in c for c in conflicts)
    assert any("LSQB" in c for c in conflicts)


@pytest.mark.parametrize("grammar", ["pto_line.lark", "types.lark"])
def test_the_small_grammars_have_no_conflict(grammar, caplog):
    text = (isa_directory() / grammar).read_text()
    lark.logger.setLevel(logging.DEBUG)
    try:
        with caplog.at_level(logging.DEBUG, logger=lark.logger.name):
            lark.Lark(text, parser="lalr", lexer="basic", debug=True)
    finally:
        lark.logger.setLevel(logging.CRITICAL)
    assert not [r for r in caplog.records if "conflict" in r.getMessage()]


class _Scanned(lark.lexer.Lexer):
    """Our scanner in the place of Lark's lexers, which cannot count brackets."""

    __future_interface__ = True

    def __init__(self, conf) -> None:
        pass

    def lex(self, lexer_state, parser_state):
        text = getattr(lexer_state.text, "text", lexer_state.text)  # a slice in newer Larks
        scanner = ProgramScanner(load_tables("pto.lark"))
        states = parser_state.parse_conf.parse_table.states
        at = 0
        while True:
            kind, _, start, at = scanner.scan(text, at, states[parser_state.position])
            if kind == "$END":
                return
            yield lark.Token(kind, text[start:at])


def test_stock_lark_accepts_the_same_text():
    """The grammar is Lark's; our driver only runs its tables faster."""
    text = (isa_directory() / "pto.lark").read_text()
    parser = lark.Lark(text, parser="lalr", lexer=_Scanned)
    program = """
    module attributes {pto.target_arch = "a5"} {
      func.func @f(%a: !pto.ptr<f32>) {
        %c = arith.constant 1.0 : f32 // comment
        %t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
        pto.tadd ins(%t, %t : !pto.tile_buf<vec, 16x64xf32>, !pto.tile_buf<vec, 16x64xf32>) outs(%t : !pto.tile_buf<vec, 16x64xf32>)
        pto.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]
        %x, %y:2 = "q.r"(%a) <{k = 1 : i32}> {b} : (i32) -> (i32, i32, i32)
        return
      }
    }
    """
    assert parser.parse(program) is not None
    assert clean(program).ops[0].name == "module"


def test_an_oversized_file_is_refused_before_anything_is_built():
    _, findings = parsed(" " * (MAX_BYTES + 1))
    assert [d.code for d in findings] == ["PTO0005"]


@pytest.mark.parametrize(
    "text",
    [
        "!pto.struct<i32, !pto.struct<f16, !pto.struct<i8, !pto.struct<f32, !pto.struct<i8>>>>>",
        "!pto.vmi.vreg<64xf32, #pto.vmi.layout<deinterleaved = 2>>",
        "memref<4x4xf32, affine_map<(d0, d1) -> (d0, d1)>, #pto.address_space<vec>>",
        "!pto.multi_tile_buf<!pto.tile_buf<vec, 16x32x!pto.f4E2M1x2, valid=-1x?>, count=3>",
        "!llvm.ptr",
    ],
)
def test_a_type_is_one_token_however_deep_it_nests(text):
    op = only_op(f"%a = pto.thing %b : {text} -> {text}")
    assert (texts(op.types), texts(op.arrow)) == ([text], [text])


def test_an_attribute_is_one_token_however_deep_it_nests():
    deep = '#pto.a<b = <c<d<e<f>>>>, g = -1, h = "a > b">'
    op = only_op(f'"pto.thing"() <{{k = {deep}, n = array<i32: 1, 0>}}> : () -> ()')
    assert (op.props["k"].atom.value, op.props["n"].atom.value) == (deep, "array<i32: 1, 0>")


def test_flags_of_arithmetic_are_a_list_of_words():
    op = only_op("%c = arith.addi %a, %b overflow<nsw, nuw> : i32")
    assert texts(op.items[-1].parts) == ["overflow", "<nsw, nuw>"]


def test_a_bracket_that_nothing_closes_ends_its_type_before_it():
    _, findings = parsed("%a = pto.thing %b : !pto.ptr<f32\n%c = pto.other %d : !pto.ptr<f32>")
    assert [d.code for d in findings] == ["PTO0002"]
