"""Results need no names: how many there are comes from the operation (scf.for: its carried values;
scf.if: the types after `->`), and names, if there are any, are as many as the results."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.language.bind.unknown import coming

PROGRAM = """module attributes {pto.target_arch = "a5"} {
  func.func private @g(%a: i32) -> i32 {
    return %a : i32
  }
  func.func @f(%p: !pto.ptr<i32>, %n: index) attributes {pto.entry} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = arith.constant 3 : i32
    %go = arith.cmpi slt, %c0, %n : index
    scf.for %i = %c0 to %n step %c1 iter_args(%a = %z) -> i32 {
      pto.store_scalar %a, %p[%c0] : !pto.ptr<i32>, i32
      %b = arith.addi %a, %a : i32
      scf.yield %b : i32
    }
    scf.if %go -> i32 {
      scf.yield %z : i32
    } else {
      scf.yield %z : i32
    }
    func.call @g(%z) : (i32) -> i32
    arith.addi %z, %z : i32
    arith.index_cast %z : i32 to index
    arith.mulsi_extended %z, %z : i32
    pto.load_scalar %p[%c0] : !pto.ptr<i32> -> i32
    pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
    "arith.constant"() <{value = 3 : i32}> : () -> i32
    return
  }
}
"""


def codes(old: str, new: str) -> list[str]:
    assert old in PROGRAM
    return [d.code for d in ptosim.check(PROGRAM.replace(old, new, 1), dry_run=False)]


def test_results_without_names_are_accepted():
    assert [d.message for d in ptosim.check(PROGRAM, dry_run=False)] == []


def test_a_loop_without_names_for_its_results_runs():
    """3 is doubled after each store: the fourth one stores 24."""
    import numpy as np

    outputs = ptosim.load(PROGRAM).run({"p": np.zeros(2, np.int32), "n": 4}).outputs
    assert outputs["p"].tolist() == [24, 0]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("    scf.for", "    %x, %y = scf.for", "PTO1004"),
        ("    scf.if", "    %x, %y = scf.if", "PTO1004"),
        ("    func.call", "    %x, %y = func.call", "PTO1004"),
        ("    arith.addi %z", "    %x, %y = arith.addi %z", "PTO1004"),
        ("    arith.index_cast", "    %x:2 = arith.index_cast", "PTO2023"),
        ("    arith.mulsi_extended", "    %x = arith.mulsi_extended", "PTO1004"),
        ("    pto.load_scalar", "    %x, %y = pto.load_scalar", "PTO2023"),
        ("    pto.alloc_tile", "    %x:2 = pto.alloc_tile", "PTO2023"),
        ("      pto.store_scalar", "      %x = pto.store_scalar", "PTO2023"),
        ("      scf.yield %b : i32", "      scf.yield", "PTO1015"),
        ("      scf.yield %z : i32", "      scf.yield", "PTO1015"),
        ("      scf.yield %z : i32", "      scf.yield %c0 : index", "PTO1015"),
    ],
)
def test_names_and_yields_are_as_many_as_the_results(old, new, code):
    assert codes(old, new) == [code]


def test_one_name_can_represent_all_results():
    assert codes("    arith.mulsi_extended", "    %x:2 = arith.mulsi_extended") == []


@pytest.mark.parametrize("name", ["pto.vmi.add", "pto.comm.tnothing", "llvm.nothing"])
def test_an_operation_that_nobody_knows_is_one_finding(name):
    """Whatever its operands, clauses and regions are."""
    for text in (
        f"%x:2 = {name} %z, buf(%c0) key = 3 {{a = 1}} : i32, index -> i32, i32",
        f"{name} ins(%z : i32 fp %c0 : index) outs(%c1 : index) no_tmp",
        f'"{name}"(%z) <{{a = 1 : i32}}> ({{ ^bb0(%q: i32): pto.trap }}) : (i32) -> ()',
        f"{name}<<<1, 2, 3>>> {{ pto.trap\n }}",
    ):
        found = codes("    pto.alloc_tile", f"    {text}\n    pto.alloc_tile")
        assert found == ["PTO8004" if coming(name) else "PTO1003"], text


@pytest.mark.parametrize("step", ["0", "-1"])
def test_a_constant_step_is_positive(step):
    """The rule: "'scf.for' op constant step operand must be positive"."""
    found = ptosim.check(
        PROGRAM.replace("%c1 = arith.constant 1", f"%c1 = arith.constant {step}"), dry_run=False
    )
    assert "'scf.for' op constant step operand must be positive" in found[0].message
    assert found[0].code == "PTO1032"


def test_the_type_list_of_an_addition_with_carry_ends_with_that_of_the_carry() -> None:
    """MLIR writes the types of both results, `: i32, i1`; the operands have the first one."""
    text = """func.func @f(%a: i32, %b: i32) {
  %sum, %carry = arith.addui_extended %a, %b : i32, i1
  %r = arith.select %carry, %a, %sum : i32
  return
}"""
    assert [d.code for d in ptosim.check(text) if d.severity.word == "error"] == []
