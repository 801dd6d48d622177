"""Modules in modules: each has its own symbol table, and its functions reach those of its siblings
through private declarations."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import UnsupportedError
from ptosim.language.place.scopes import segments
from ptosim.launch.program import LoadedProgram

CALLER = """
  module @caller attributes {pto.backend = "emitc"} {
    func.func @k(%out: !pto.ptr<i32, gm>) attributes {pto.entry} {
      %five = arith.constant 5 : i32
      func.call @store(%five, %out) : (i32, !pto.ptr<i32, gm>) -> ()
      return
    }
    func.func private @store(i32, !pto.ptr<i32, gm>)
  }
"""
CALLEE = """
  module attributes {pto.backend = "vpto", pto.kernel_kind = #pto.kernel_kind<vector>} {
    func.func @k() { return }
    func.func @store(%value: i32, %out: !pto.ptr<i32, gm>) {
      %zero = arith.constant 0 : index
      %twice = arith.addi %value, %value : i32
      pto.store_scalar %twice, %out[%zero] : !pto.ptr<i32, gm>, i32
      return
    }
  }
"""


def container(*units: str) -> str:
    return f'module attributes {{pto.target_arch = "a5"}} {{{"".join(units)}}}'


def codes(text: str) -> list[str]:
    return [d.code for d in ptosim.check(text) if d.is_error]


def outcome(text: str, entry: str) -> list[int]:
    result = ptosim.load(text).run({"out": np.zeros(2, np.int32)}, entry=entry)
    return result.outputs["out"].tolist()


def test_the_same_name_in_sibling_modules_is_legal():
    """A symbol lives in its own module."""
    assert codes(container(CALLER, CALLEE)) == []


def test_a_duplicate_inside_one_module_stays_an_error():
    twice = "module { func.func @k() { return } func.func @k() { return } }"
    assert "PTO1007" in codes(container(twice))
    assert codes("func.func @k() { return } func.func @k() { return }") == ["PTO1007"]


def test_the_body_of_a_second_definition_is_read_too():
    text = "func.func @k() { return } func.func @k() { arith.addd\n return }"
    assert codes(text) == ["PTO1007", "PTO1003"]


def test_a_declaration_refers_to_the_public_definition_of_a_sibling():
    """A call between sibling units is written as a private declaration in the unit that calls; the
    callee doubles 5."""
    assert outcome(container(CALLER, CALLEE), "caller::k") == [10, 0]
    assert outcome(container(CALLEE, CALLER), "caller::k") == [10, 0]


def test_a_call_looks_into_its_own_unit_first():
    own = """
  module attributes {pto.backend = "emitc"} {
    func.func @run(%out: !pto.ptr<i32, gm>) {
      %five = arith.constant 5 : i32
      func.call @store(%five, %out) : (i32, !pto.ptr<i32, gm>) -> ()
      return
    }
    func.func private @store(%value: i32, %out: !pto.ptr<i32, gm>) {
      %zero = arith.constant 0 : index
      pto.store_scalar %value, %out[%zero] : !pto.ptr<i32, gm>, i32
      return
    }
  }
"""
    assert outcome(container(own, CALLEE), "run") == [5, 0]


@pytest.mark.parametrize("units", [(CALLER,), (CALLER, CALLEE.replace("@store", "private @store"))])
def test_what_no_unit_defines_in_public_is_checked_and_not_run(units: tuple[str, ...]):
    """A missing definition says nothing about the text; only a run needs the body."""
    assert codes(container(*units)) == []
    with pytest.raises(UnsupportedError, match="only declared"):
        outcome(container(*units), "caller::k")


def test_a_call_without_a_declaration_does_not_reach_a_sibling():
    user = "module { func.func @run() { func.call @there() : () -> () return } }"
    there = "module { func.func @there() { return } }"
    assert codes(container(user, there)) == ["PTO1009"]


def test_a_module_of_the_file_may_follow_another():
    text = "module { func.func @k() { return } } module { func.func @k() { return } }"
    program = ptosim.load(text, target="a5")
    assert program.entries == ["0::k", "1::k"]


def test_one_module_needs_no_path():
    assert ptosim.load("module { func.func @k() { return } }", target="a5").entries == ["k"]


def test_the_kernel_kind_of_a_module_is_the_default_of_its_functions_alone():
    text = """module {
      module attributes {pto.kernel_kind = #pto.kernel_kind<cube>} {
        func.func @a() { return }
        func.func @b() attributes {pto.kernel_kind = #pto.kernel_kind<vector>} { return }
      }
      module { func.func @c() { return } }
    }"""
    functions = ptosim.load(text, target="a5").front.resolved.functions
    assert [f.kernel_kind for f in functions.values()] == ["cube", "vector", None]


@pytest.mark.parametrize("entry", ["caller::k", "@caller::k"])
def test_an_entry_is_named_by_its_unit_where_the_name_is_not_enough(entry: str):
    program: LoadedProgram = ptosim.load(container(CALLER, CALLEE))
    assert program.entry(entry) == "caller::k"


ENTRY = """module attributes {{pto.target_arch = "a5"}} {{
  func.func @k(%x: !pto.ptr<f32, gm>, %part: !pto.partition_tensor_view<16x16xf32>) attributes {{pto.entry}} {{
    %a0 = arith.constant 0 : i64
    %m = pto.alloc_tile : !pto.tile_buf<mat, 16x16xf32>
    %pm = pto.tile_buf_addr %m : !pto.tile_buf<mat, 16x16xf32> -> !pto.ptr<f32, mat>
    %left = pto.castptr %a0 : i64 -> !pto.ptr<f32, left>
    %v = pto.alloc_tile : !pto.tile_buf<vec, 16x16xf32>
    %pv = pto.tile_buf_addr %v : !pto.tile_buf<vec, 16x16xf32> -> !pto.ptr<f32, ub>
    {line}
  }}
}}"""
OF_VECTOR = (
    "pto.tabs ins(%v : !pto.tile_buf<vec, 16x16xf32>) outs(%v : !pto.tile_buf<vec, 16x16xf32>)"
)
OF_CUBE = "pto.tload ins(%part : !pto.partition_tensor_view<16x16xf32>) outs(%m : !pto.tile_buf<mat, 16x16xf32>)"


@pytest.mark.parametrize(("lines", "sides"), [
    ((OF_VECTOR,), ["vector"]), ((OF_CUBE,), ["cube"]), ((OF_CUBE, OF_VECTOR), ["cube", "vector"]),
])  # fmt: skip
def test_only_what_has_a_pipe_votes_for_a_section(lines, sides):
    """R12: addresses of tiles, casts of pointers, views and allocations stay outside, whatever the
    space that they name."""
    text = ENTRY.format(line="\n".join((*lines, "return")))
    function = ptosim.load(text).front.resolved.functions["k"]
    assert [segment.side for segment in segments(function, "a5")] == sides
