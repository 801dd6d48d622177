"""Changes of a text leave what they do not change."""

from __future__ import annotations

from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.source import Source
from ptosim.language.build import Builder
from ptosim.language.rewrite.abstract import Edit, after, before, edited, line_of, loop_head
from ptosim.language.syntax.parser import parse

TEXT = """func.func @f() {
    pto.barrier <PIPE_V>   // of vectors
    pto.barrier <PIPE_M>
    return
}
"""


def operations():
    return parse(Source("<text>", TEXT), Sink()).walk()[1:]


def test_insertions_at_one_place_are_in_their_order():
    edits = [Edit(1, 1, "b"), Edit(2, 3, "-"), Edit(1, 1, "c"), Edit(0, 0, "a")]
    assert edited("012", edits) == "a0bc1-"


def test_what_comes_after_an_operation_is_after_its_comment_and_indented_as_it_is():
    first, second, *_ = operations()
    b = Builder()
    give = b.flag("set", "V", "MTE3", 2)
    made = edited(TEXT, [after(TEXT, first, [give]), before(TEXT, second, [b.barrier("ALL")])])
    assert made.splitlines()[1:5] == [
        "    pto.barrier <PIPE_V>   // of vectors",
        "    pto.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID2>]",
        "    pto.barrier <PIPE_ALL>",
        "    pto.barrier <PIPE_M>",
    ]


def test_an_operation_has_its_line_if_nothing_else_is_on_it():
    first, second, *_ = operations()
    assert line_of(TEXT, first) == (first.start, first.end)
    start, end = line_of(TEXT, second)
    assert TEXT[start:end] == "    pto.barrier <PIPE_M>\n"


def test_the_head_of_a_loop_around_text():
    assert loop_head("%i", ["%a", "%b", "%c"]) == "scf.for %i = %a to %b step %c {"
