"""A bracket that is missing is one mistake: one finding, on its line, that says which bracket."""

from __future__ import annotations

import pytest

import ptosim

TEXT = """module attributes {pto.target_arch = "a5"} {
  // a comment with ( and {
  func.func @f(%a: !pto.ptr<f32>, %n: index) attributes {pto.entry} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
    scf.for %i = %c0 to %n step %c1 {
      %p = arith.cmpi eq, %i, %c0 : index
      scf.if %p {
        pto.tadds ins(%t, %f : !pto.tile_buf<vec, 16x64xf32>, f32) outs(%t : !pto.tile_buf<vec, 16x64xf32>)
      } else {
        pto.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]
      }
    }
    return
  }
}
"""
BRACKETS = [
    pytest.param(at, id=f"{TEXT.count(chr(10), 0, at) + 1}:{at}{TEXT[at]}")
    for at, sign in enumerate(TEXT)
    if sign in "(){}[]<" + ">" and TEXT.count("\n", 0, at) != 1
]


@pytest.mark.parametrize("at", BRACKETS)
def test_one_missing_bracket_is_one_error_on_its_line(at: int) -> None:
    errors = [d for d in ptosim.check(TEXT[:at] + TEXT[at + 1 :]) if d.is_error]
    assert len(errors) == 1, [d.message for d in errors]
    assert errors[0].is_syntax_error
    line = TEXT.count("\n", 0, at) + 1
    ends = line if TEXT[at] != "}" or "{" in TEXT.splitlines()[line - 1] else None
    spans = [span.line for span in errors[0].spans]
    if ends is not None:
        assert line in spans
    else:  # the brace that begins a line: the text it should stand after, or what it leaves open
        assert any(abs(line - other) <= 2 for other in spans)


def test_the_finding_shows_the_open_bracket_and_where_it_should_end() -> None:
    text = TEXT.replace(
        "alloc_tile : !pto.tile_buf<vec, 16x64xf32>", "alloc_tile : !pto.tile_buf<vec, 16x64xf32"
    )
    (error,) = ptosim.check(text)
    assert (error.code, error.message) == ("PTO0003", "this `<` is not closed")
    assert error.help == "write `>`"
    here, opening = error.labels
    assert text[: here.span.end].endswith("16x64xf32")
    assert text[opening.span.start] == "<"


def test_a_missing_brace_points_at_the_end_of_the_line_before() -> None:
    (error,) = ptosim.check(TEXT.replace("step %c1 {", "step %c1"))
    assert error.message == "expected `{` at the end of the line"
    assert (error.spans[0].line, TEXT.splitlines()[6][error.spans[0].column - 1]) == (7, "1")


def test_only_the_syntax_errors_of_a_text_are_told() -> None:
    """What a name means in a text that cannot be read is a guess."""
    text = TEXT.replace("%c0 = arith.constant 0 : index", "%c0 = arith.constant 0 index %%")
    assert {d.code for d in ptosim.check(text)} == {"PTO0002"}


def test_the_target_of_a_text_that_cannot_be_read() -> None:
    """The header names the target that the text names, although its module was lost."""
    from ptosim.ground.source import Source
    from ptosim.language.frontend import FrontOptions, run_frontend

    broken = Source("k.pto", TEXT.replace("module attributes {", "module attributes "))
    assert run_frontend(broken, FrontOptions()).target == "a5"


def test_an_expected_statement_is_one_thing() -> None:
    (error,) = ptosim.check("%c0 = arith.constant 0 index\n")
    assert "a statement" in error.notes[0]
    assert "arith.constant" not in error.notes[0]
