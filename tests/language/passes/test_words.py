"""Operations of words only, flags and barriers, that say the same many times: each has its own
words as operands, and each that is wrong is told at its own place."""

from __future__ import annotations

import ptosim
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from tests.language.passes.test_operands import FRAME

FLAGS = "pto.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]\n" * 2
WRONG = "pto.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID9>]\n" * 2


def findings(body: str) -> list[tuple[str, int]]:
    text = FRAME.format(body=body)
    before = text[: text.index(body)].count("\n")
    found = ptosim.check(text, target="a5", dry_run=False)
    return [(d.code, d.span.line - before) for d in found if d.is_error]


def test_a_wrong_word_is_told_wherever_it_is():
    assert findings(FLAGS + WRONG) == [("PTO2004", 3), ("PTO2004", 4)]


def test_a_word_that_is_right_in_one_operation_is_wrong_in_another():
    body = "pto.barrier <PIPE_V>\npto.barrier <PIPE_V>\npto.barrier <EVENT_ID0>\n"
    assert [line for _, line in findings(body)] == [3]


def test_each_has_its_own_words():
    text = FRAME.format(body=FLAGS)
    ops = run_frontend(Source("test.pto", text), FrontOptions(target="a5")).resolved.ops
    flags = [op for op in ops if op.name == "pto.set_flag"]
    starts = [flag.bound["event"].tok.start for flag in flags]
    first = text.index("<EVENT_ID0>")
    assert starts == [first, text.index("<EVENT_ID0>", first + 1)]
    assert flags[0].bound is not flags[1].bound
    assert [str(flag.bound["event"].const) for flag in flags] == [
        str(flags[0].bound["event"].const)
    ] * 2
