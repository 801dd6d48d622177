"""Every production of the shared syntax: a text that is read (and printed the same again), and one
that is refused with one diagnostic.

The rules are those of the public assembler of August 2026: names, unnamed results, quoted forms,
blocks and branches, clauses. Operations that have no row yet are read all the same."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.language.syntax.printer import print_module
from tests.language.syntax.helpers import clean, only_op, parsed
from tests.language.syntax.test_parser import texts
from tests.language.syntax.test_printer import structure

ACCEPTED = {
    "dots and dashes in names": "%row.tail, %a-1, %x$ = a.b %row.tail, %a-1 : i32",
    "dots in operation names": "pto.comm.tput(%a, %b, buf(%c, %d) : !P, !P, !T, !T) {x = 1}",
    "operations of a level that is not there": "%r = pto.vmi.add %a, %b, %m : !pto.vmi.vreg<128xf32>, !pto.vmi.vreg<128xf32>, !pto.vmi.mask<128xpred> -> !pto.vmi.vreg<128xf32>",
    "one carried type": "scf.for %i = %a to %b step %c iter_args(%s = %t) -> i32 { scf.yield %s : i32 }",
    "one result type": "%x = scf.if %c -> i32 { scf.yield %a : i32 } else { scf.yield %b : i32 }",
    "results without names": "scf.for %i = %a to %b step %c iter_args(%s = %t) -> (i32) { scf.yield %s : i32 } scf.if %c -> (i32) { scf.yield %a : i32 } else { scf.yield %a : i32 }",
    "properties": '"pto.syncall"(%p) <{core_type = #pto.sync_core_type<mix>, operandSegmentSizes = array<i32: 1, 0>}> : (!pto.ptr<i32, gm>) -> ()',
    "a function type as an attribute": '"a.b"() {t = (i32, f32) -> i32, u = () -> ()} : () -> ()',
    "locations of definitions": '#l0 = loc("a":1:2) pto.trap loc(#l0) pto.trap loc(fused["a", #l0]) #l1 = loc(callsite("a" at #l0))',
    "blocks": "func.func @f(%c: i1) { cf.cond_br %c, ^a, ^b(%c : i1) ^a: cf.br ^b(%c : i1) {x} ^b(%x: i1): return }",
    "switch between blocks": "func.func @f(%v: i32) { cf.switch %v : i32, [default: ^a, 0: ^b(%v : i32), -1: ^a] ^a: return ^b(%x: i32): return }",
    "quoted branches": '"cf.cond_br"(%c, %x)[^a, ^b] <{operandSegmentSizes = array<i32: 1, 0, 1>}> : (i1, i32) -> () "cf.br"(%x)[^a] : (i32) -> ()',
    "quoted switch": '"cf.switch"(%v, %x, %y)[^a, ^b, ^c] <{case_operand_segments = array<i32: 1, 0>, case_values = dense<[5, -1]> : vector<2xi32>, operandSegmentSizes = array<i32: 1, 1, 1>}> : (i32, i32, i32) -> ()',
    "successors of another operation": '"a.b"(%v)[^a, ^b] <{x = 1}> : (i32) -> ()',
    "quoted loop": '%r = "scf.for"(%a, %b, %c, %d) ({ ^bb0(%i: index, %s: f32): "scf.yield"(%s) : (f32) -> () }) {pto.unroll = "full"} : (index, index, index, f32) -> f32',
    "quoted cast of a memref": '%r = "memref.reinterpret_cast"(%m, %o) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, static_offsets = array<i64: -9223372036854775808>, static_sizes = array<i64: 16, 16>, static_strides = array<i64: 16, 1>}> : (memref<256xf16>, index) -> memref<16x16xf16>',
    "quoted branch": '"scf.if"(%c) ({ pto.trap }, { }) : (i1) -> ()',
    "blocks of a region": "%r = scf.execute_region -> i32 { cf.br ^b ^b: scf.yield %a : i32 }",
    "flags": "%r = arith.addi %a, %b overflow<nsw, nuw> : index %f = arith.mulf %a, %b fastmath<nnan, ninf> : f32",
    "a comment sign in a string": 'pto.print ins("http://x", %a : i32) // comment',
    "words with a value": "pto.tstore ins(%a : !T fp %f : !F pre_quant %q : i64) outs(%c : !V) {a = 1}",
    "words among the values": "pto.foo ins(%a, no_tmp : !T) outs(%c : !T) pto.foo ins(%a, fp %f : !T, !F) outs(%c : !T)",
    "strings among the values": 'pto.foo ins(%a, "row" : !T) outs(%c : !T)',
    "a type after each value": "pto.foo ins(%a : !A, %b : !B) outs(%c : !T)",
    "a dictionary among the values": "pto.foo ins(%a, %b, {x = 1} : !T, !T) outs(%c, %d : !T, !T)",
    "words after the lists": "pto.foo ins(%a : !T) outs(%c : !T) no_tmp buf(%d) key = %e : !E -> !R",
    "sizes and valid": "%s = pto.subview %t[%a, %b] sizes [16, 16] valid [%c, %d] {x} : !T -> !T",
    "pipes": "pto.aic_initialize_pipe {id = 0, nosplit = true} (gm_slot_buffer = %a : !pto.ptr<f32>) {x = 1}",
    "push and pop": "pto.tpush_to_aic(%a : !T) {split = 0} aiv_subblockid(%s) {x} %t = pto.tpop_from_aic(%a, %b) {split = 0} aiv_subblockid(%s) -> !T",
    "groups": "pto.comm.tbroadcast(%a, %b, recv(%c, %d), group(%e, %f) : !P, !T, !T, !T, !P, !P) {root = 0 : i32}",
    "keys with an attribute": "pto.syncall(%a : !P) mode = #pto.sync_all_mode<soft>, core_type = #pto.sync_core_type<mix> {x}",
    "bare words": "pto.cmo.cacheinvalid all #pto.address_space<gm> pto.cmo.cacheinvalid %a single_cache_line : !pto.ptr<f32, gm>",
    "signs and rounding": "%v = pto.convert %x round(r) sat signed : f32 -> i32",
    "paths": "%r = pto.struct_get %s[0, 1] : !S -> f32 pto.struct_set %s[0, 1], %v : !S, f32",
    "a region with a list at its end": "%x = pto.fusion_region { pto.yield(%a) : (!T) -> () } {y} : !T",
    "a region after attributes": "pto.other %a {x = 1} { %b = a.b %a : i32 } {y}",
    "launch dimensions": "pto.section.simt<<<32, 2, 1>>> { pto.syncthreads\n } pto.simt_launch @f<<<%x, %y, %z>>>(%a, %b) : (i32, i32) -> ()",
    "types among the operands": "%f = llvm.alloca %n x i32 {pto.persistent} : (i32) -> !llvm.ptr",
    "typed indices": "%e = llvm.extractelement %v[%i : i32] : vector<2xf32>",
    "three lists": "%m2 = memref.subview %m[%o, 0] [16, %s] [1, 1] : memref<16x16xf32> to memref<16x16xf32>",
    "types in a list of loops": "pto.mte_ub_gm %s, %d, %len nburst(%n, %a, %b) l2_cache_ctl(%c) loop(%d, %e, %f) : !A, !B, i64, i64, i64, i64, i64, loop i64, i64, i64",
    "aliases in a module": "module { !T = i32 #x = 1 func.func private @f(!T, i32) -> i32 module { !U = i32 } }",
    "a while loop over tiles": "%r = scf.while (%a = %b) : (!T) -> !T { scf.condition(%c) %a : !T } do { ^bb0(%q: !T): scf.yield %q : !T }",
    "cases": "%r = scf.index_switch %i -> i32\ncase 0 { scf.yield %a : i32 }\ndefault { scf.yield %a : i32 }",
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_production_is_read_and_printed_the_same_again(name):
    first = clean(ACCEPTED[name])
    printed = print_module(first)
    second = clean(printed)
    assert [structure(op) for op in second.ops] == [structure(op) for op in first.ops]
    assert print_module(second) == printed


REFUSED = {
    "a sign without a name": "% = a.b %c : i32",
    "an operation name that ends in a dot": "pto.tquant. %a : i32",
    "two carried types without parentheses": "scf.for %i = %a to %b step %c iter_args(%s = %t) -> i32, i32 { pto.trap }",
    "a location without an end": 'pto.trap loc("a"',
    "properties without braces": '"a.b"() <x = 1> : () -> ()',
    "a branch without a block": "cf.br",
    "a conditional branch with one block": "cf.cond_br %c, ^a",
    "a switch without a default": "cf.switch %v : i32, [0: ^a]",
    "values of a block without types": "cf.br ^a(%x)",
    "flags without an end": "%r = arith.addi %a, %b overflow<nsw, : index",
    "two values without a comma": "pto.foo ins(%a %b : !T, !T) outs(%c : !T)",
    "a list that begins with types": "pto.foo ins(: !T) outs(%c : !T)",
    "two commas": "pto.foo ins(%a, , %b : !T) outs(%c : !T)",
    "a clause that is not closed": "pto.comm.tput(%a, buf(%c : !P",
    "launch dimensions without an end": "pto.simt_launch @f<<<%x, %y>>(%a) : (i32) -> ()",
    "empty launch dimensions": "pto.section.simt<<<>>> { pto.syncthreads\n }",
    "an index without a value": "%e = llvm.extractelement %v[: i32] : vector<2xf32>",
    "a region that is not closed": "pto.fusion_region { pto.yield() : () -> ()",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_text_that_is_no_production_is_refused(name):
    _, findings = parsed(REFUSED[name])
    assert findings
    assert {d.code for d in findings} <= {"PTO0001", "PTO0002", "PTO0003"}


def test_the_list_of_inputs_is_sorted():
    """`fp %f : F` is a word with a value and a type; a value has its type after the colon in order,
    also where each is written at its value."""
    op = only_op("pto.tstore ins(%a, %b : !A, !B fp %f : !F) outs(%c : !V)")
    assert texts(op.ins) == ["%a", "%b"]
    assert texts(op.ins_types) == ["!A", "!B"]
    assert [texts(c.parts) for c in op.clauses] == [["fp", "%f", "!F"]]
    each = only_op("pto.foo ins(%a : !A, %b : !B) outs(%c : !T)")
    repeated = only_op("pto.foo ins(%a, %b : %a : !A, %b : !B) outs(%c : !T)")
    assert texts(each.ins) == texts(repeated.ins) == ["%a", "%b"]
    assert texts(each.ins_types) == texts(repeated.ins_types) == ["!A", "!B"]
    among = only_op("pto.foo ins(%a, fp %f, %b : !A, !F, !B) outs(%c : !T)")
    assert [texts(c.parts) for c in among.clauses] == [["fp", "%f", "!F"]]
    assert texts(among.ins_types) == ["!A", "!B"]


def test_the_quoted_form_of_a_loop_is_the_loop():
    """The induction variable of the quoted form is the first argument of its block."""
    quoted = only_op(
        '%r = "scf.for"(%a, %b, %c, %d) ({ ^bb0(%i: index, %s: f32): scf.yield %s : f32 }) '
        ": (index, index, index, f32) -> f32"
    )
    short = only_op(
        "%r = scf.for %i = %a to %b step %c iter_args(%s = %d) -> (f32) { scf.yield %s : f32 }"
    )
    assert structure(quoted) == structure(short)


def test_a_quoted_conditional_branch_divides_its_operands_by_the_segments():
    quoted = only_op(
        '"cf.cond_br"(%c, %x, %y)[^a, ^b] <{operandSegmentSizes = array<i32: 1, 2, 0>}> '
        ": (i1, i32, f32) -> ()"
    )
    first, second = quoted.clauses
    assert (first.parts[0].value, texts(first.parts[1]), texts(first.parts[2])) == (
        "^a", ["%x", "%y"], ["i32", "f32"],
    )  # fmt: skip
    assert second.parts[0].value == "^b"
    assert not second.parts[1]


def test_aliases_and_comments_stay_in_their_region():
    text = (
        '#l0 = loc("a":1:2)\n// head\nmodule {\n  !T = i32\n  func.func private @f(!T) -> !T\n'
        "  // at the end of the module\n}\n#l1 = loc(#l0)\n"
    )
    assert print_module(clean(text)) == text


def test_a_program_in_the_quoted_form_is_the_same_program():
    quoted = """
    "builtin.module"() ({
      "func.func"() <{function_type = (i32, index) -> i32, sym_name = "f", sym_visibility = "private"}> ({
      ^bb0(%a: i32, %i: index):
        %r = "scf.index_switch"(%i) <{cases = array<i64: 2, 5>}> ({
          "scf.yield"(%a) : (i32) -> ()
        }, {
          %b = "arith.addi"(%a, %a) : (i32, i32) -> i32
          "scf.yield"(%b) : (i32) -> ()
        }, {
          "scf.yield"(%a) : (i32) -> ()
        }) : (index) -> i32
        %v = "scf.execute_region"() ({
          "cf.br"(%r)[^bb1] : (i32) -> ()
        ^bb1(%q: i32):
          "scf.yield"(%q) : (i32) -> ()
        }) : () -> i32
        "func.return"(%v) : (i32) -> ()
      }) {pto.entry} : () -> ()
      "func.func"() <{function_type = () -> (), sym_name = "g"}> ({ }) : () -> ()
    }) {pto.target_arch = "a5"} : () -> ()
    """
    short = """module attributes {pto.target_arch = "a5"} {
  func.func private @f(%a: i32, %i: index) -> i32 attributes {pto.entry} {
    %r = scf.index_switch %i -> i32 case 2 {
      %b = "arith.addi"(%a, %a) : (i32, i32) -> i32
      scf.yield %b : i32
    } case 5 {
      scf.yield %a : i32
    } default {
      scf.yield %a : i32
    }
    %v = scf.execute_region -> i32 {
      cf.br ^bb1(%r : i32)
    ^bb1(%q: i32):
      scf.yield %q : i32
    }
    return %v : i32
  }
  func.func @g()
}
"""
    assert print_module(clean(quoted)) == short
    assert print_module(clean(short)) == short


def test_a_quoted_switch_has_its_cases_in_properties():
    text = ACCEPTED["quoted switch"]
    assert print_module(clean(text)) == (
        "cf.switch %v : i32, [default: ^a(%x : i32), 5: ^b(%y : i32), -1: ^c]\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        '"func.func"() <{function_type = {}, sym_name = {}}> ({ }) : () -> ()',
        '"func.func"() <{function_type = () -> (), sym_name = "f", sym_visibility = [1]}> ({ }) : () -> ()',
        '"builtin.module"() <{sym_name = {}}> ({ }) : () -> ()',
        '"scf.for"() ({ }) : () -> ()',
        '"scf.while"(%a) ({ }) : (i32) -> ()',
        '"scf.if"(%a) : (i1) -> ()',
        '"cf.switch"()[^a] <{case_values = {}}> : () -> ()',
        '"cf.br"() : () -> ()',
        '"scf.index_switch"(%a) <{cases = array<i64: 3>}> ({ }) : (index) -> ()',
    ],
)
def test_a_quoted_form_whose_parts_do_not_fit_is_kept_as_it_is(text):
    """What is wrong with it is said when its operands are bound: never an exception."""
    found = [d.severity.name for d in ptosim.check(text, dry_run=False)]
    assert "ERROR" in found
    (op,) = clean(text).ops
    assert op.form == "generic"
    assert print_module(clean(print_module(clean(text)))) == print_module(clean(text))


def test_the_sign_of_a_dynamic_number_is_read_in_the_quoted_form():
    """The least number of 64 bits, which has more digits than other numbers may have."""
    (op,) = clean(ACCEPTED["quoted cast of a memref"]).ops
    assert op.form == "core"
