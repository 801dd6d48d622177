"""What modules and functions say of themselves: entries, back ends, kinds of cores, by date."""

from __future__ import annotations

from pathlib import Path

import pytest

import ptosim
from ptosim.ground.diagnostics.model import ProgramError
from ptosim.launch.compare import Choices

TODAY = "2026-08"
APRIL = "2026-04"


def messages(text: str, compat: str = TODAY) -> list[str]:
    found = ptosim.check(text, target="a5", compat=compat)
    return [d.message for d in found if d.is_rejection]


def entries(text: str, compat: str = TODAY) -> list[str]:
    return ptosim.load(text, target="a5", compat=compat).entries


def refused(text: str, words: str) -> None:
    """Today's language refuses the text with these words; April's has no such rule."""
    assert any(words in m for m in messages(text)), messages(text)
    assert messages(text, APRIL) == []


# -- entries --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["pto.entry", "pto.kernel", "pto.aicore", "hacc.entry"])
def test_only_marked_functions_are_entries(mark: str):
    text = f"func.func @a() {{ return }} func.func @b() attributes {{{mark}}} {{ return }}"
    assert entries(text) == ["b"]
    assert entries(text, APRIL) == ["a", "b"]


def test_the_only_public_function_may_be_run_where_none_is_marked():
    assert entries("func.func @a() { return } func.func private @b() { return }") == ["a"]


VALUE = "%c = arith.constant 1 : i32 return %c : i32"


def test_an_unmarked_function_may_return_anything():
    text = f"func.func @a() -> i32 {{ {VALUE} }}"
    assert messages(text) == []
    assert "PTO entry functions must return void" in messages(text, APRIL)[0]


@pytest.mark.parametrize("mark", ["pto.entry", "pto.kernel", "pto.aicore", '"pto.entry"'])
def test_a_marked_function_returns_nothing(mark: str):
    text = f"func.func @a() -> i32 attributes {{{mark}}} {{ {VALUE} }}"
    assert "PTO entry functions must return void" in messages(text)[0]


def test_a_mark_is_only_valid_on_function_definitions():
    refused(
        "func.func private @a() attributes {pto.entry}", "is only valid on function definitions"
    )


# -- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["emitc", "vpto", "VPTO", "EmitC"])
def test_a_back_end_is_named_in_any_case(word: str):
    text = f'module attributes {{pto.backend = "{word}"}} {{ func.func @a() {{ return }} }}'
    assert messages(text) == []


def test_other_back_ends_are_refused():
    module = "module attributes {pto.backend = %s} { func.func @a() { return } }"
    refused(module % '"gpu"', "invalid pto.backend 'gpu'. Expected 'emitc' or 'vpto'.")
    refused(module % "1 : i32", "Expected string value")


def test_hints_of_the_tail():
    function = 'func.func @a() attributes {pto.auto_sync_tail_hint = "%s"} { return }'
    for word in ("barrier-all", "default", "mte3-to-s-event0"):
        assert messages(function % word) == []
    refused(function % "all", "invalid pto.auto_sync_tail_hint")


def test_the_attribute_of_the_planner_is_reserved():
    refused(
        "func.func @a() { %t = pto.alloc_tile {pto.multi_buffer_addrs = 0 : i64}"
        " : !pto.tile_buf<vec, 8x64xf32> return }",
        "attribute 'pto.multi_buffer_addrs' is reserved for pto-plan-memory",
    )


# -- containers -----------------------------------------------------------------------------------

FLAG = """module {
  module attributes {pto.backend = "vpto"} { func.func @v() { %s return } }
  module attributes {pto.backend = "emitc"} { func.func @e() { return } }
}"""


def test_a_member_for_the_micro_back_end_has_a_kind_or_operations_that_show_it():
    """A member with an empty function is rejected; a flag from FIX votes cube, and one between
    MTE2 and the scalar unit is ambiguous."""
    words = "expected VPTO kernel submodule to carry 'pto.kernel_kind'"
    refused(FLAG % "", words)
    flag = 'pto.set_flag["PIPE_MTE2", "PIPE_S", "EVENT_ID0"]'
    assert any(words in m for m in messages(FLAG % flag))
    fix = 'pto.set_flag["PIPE_FIX", "PIPE_V", "EVENT_ID0"]'
    assert not any(words in m for m in messages(FLAG % fix))
    kind = FLAG.replace('"vpto"}', '"vpto", pto.kernel_kind = #pto.kernel_kind<vector>}')
    assert messages(kind % "") == []


def test_a_mixed_container_holds_modules_only():
    text = FLAG.replace("module {", "module { func.func @f() { return }", 1)
    words = "mixed pto.backend fatobj mode expects either a single module or an outer module"
    refused(text % 'pto.set_flag["PIPE_FIX", "PIPE_V", "EVENT_ID0"]', words)


def test_a_container_for_the_micro_back_end_holds_kernels_only():
    inner = "module attributes {pto.kernel_kind = #pto.kernel_kind<vector>} { func.func @k() { return } }"
    text = 'module attributes {pto.backend = "vpto"} { %s %s }'
    words = "expected VPTO container top level to contain only kernel submodules"
    refused(text % (inner, "func.func @f() { return }"), words)
    assert messages(text % (inner, "")) == []


def test_a_section_against_the_kind_of_its_module():
    text = """module attributes {pto.kernel_kind = #pto.kernel_kind<cube>} {
      func.func @f() { pto.section.%s { pto.barrier <PIPE_ALL> } return } }"""
    refused(text % "vector", "conflicts with explicit pto.kernel_kind on its module")
    assert messages(text % "cube") == []


CALL = """module {
  module { func.func @k() { func.call @g() : () -> () return } func.func private @g() }
  module { %s }
}"""


def test_a_logical_name_is_that_of_one_function():
    one = 'func.func @g1() attributes {pto.ptodsl.logical_name = "g"} { return }'
    assert messages(CALL % one) == []
    text = CALL % (one + one.replace("g1", "g2"))
    refused(text, "does not yet support ambiguous in-child logical reference")


def test_what_is_taken_from_another_module_calls_nothing_there():
    local = "func.func @g() { func.call @h() : () -> () return } func.func private @h() { return }"
    refused(CALL % local, "does not yet support transitive cross-child function closure")


# -- one function without the others --------------------------------------------------------------

WRONG = """
func.func @wrong() { %x = pto.no_such_thing : i32 return }
func.func @called() { return }
func.func @right() { func.call @called() : () -> () return }
"""


def test_a_run_verifies_the_entry_and_what_it_calls(tmp_path: Path):
    file = tmp_path / "two.pto"
    file.write_text(WRONG)
    assert Choices(str(file), target="a5", entry="right").program().entries == ["right"]
    with pytest.raises(ProgramError, match="no_such_thing"):
        Choices(str(file), target="a5", entry="wrong").program()
    with pytest.raises(ProgramError, match="no_such_thing"):
        Choices(str(file), target="a5").program()
    called = WRONG.replace("func.call @called() : () -> ()", "func.call @wrong() : () -> ()")
    file.write_text(called)
    with pytest.raises(ProgramError, match="no_such_thing"):
        Choices(str(file), target="a5", entry="right").program()
