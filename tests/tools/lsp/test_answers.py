"""What an editor is told of a program, asked without a protocol: on whole texts and on broken ones."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import ptosim
from ptosim.ground.errors import UsageError
from ptosim.launch.sources import open_source, shipped_names
from ptosim.tools.lsp import completion, hover, outline, refactor
from ptosim.tools.lsp.document import Document, Price, Settings, settings_of
from ptosim.tools.lsp.names import Kind
from ptosim.tools.lsp.predict import Scope
from tests.launch.paths.kernels import kernel
from tests.launch.paths.test_requirements import window
from tests.shell.test_typical_mistakes import TILE as MISTAKEN

SHIPPED = Path(__file__).parents[3] / "programs"
TEXT = """// Adds two tiles.
!tile = !pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=64, v_row=16, v_col=64, blayout=row_major, slayout=none_box, fractal=512, pad=0>
func.func private @helper(%a: index) -> index {
  %b = arith.addi %a, %a : index
  return %b : index
}
func.func @main() attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %x = pto.alloc_tile : !tile
  %y = pto.alloc_tile : !tile
  scf.for %i = %c0 to %c1 step %c1 {
    %n = arith.addi %i, %c1 : index
    pto.tadd ins(%x, %x : !tile, !tile) outs(%y : !tile)
  }
  scf.for %i = %c0 to %c1 step %c1 {
    pto.tmul ins(%y, %x : !tile, !tile) outs(%y : !tile)
  }
  return
}
"""


def document(text: str = TEXT) -> Document:
    return Document("t.pto", text, Settings(target="a5"))


def at(text: str, words: str, within: str) -> int:
    """Offset of `within` in the first place where `words` are."""
    return text.index(words) + words.index(within) + 1


def test_a_name_is_the_one_of_the_region_it_is_in():
    doc = document()
    first, second = (
        w for w in doc.names.words if w.text == "%i" and doc.names.definition(w).word == w
    )
    uses = [w.start for w in doc.names.uses(doc.names.definition(first))]
    assert uses == [first.start, TEXT.index("%i, %c1 : index")]
    assert [w.start for w in doc.names.uses(doc.names.definition(second))] == [second.start]


def test_functions_and_types_have_definitions_and_uses():
    doc = document()
    word = doc.names.at(at(TEXT, "alloc_tile : !tile", "!tile"))
    assert word.kind is Kind.ALIAS
    made = doc.names.definition(word)
    assert TEXT[made.word.start :].startswith("!tile = ")
    assert len(doc.names.uses(made)) == TEXT.count("!tile")
    assert doc.names.definition(doc.names.at(at(TEXT, "@main", "@"))).op.name == "func.func"


def test_hover_tells_type_address_and_lifetime_of_a_tile():
    text, begin, end = hover.hover(document(), at(TEXT, "outs(%y", "%"))
    assert TEXT[begin:end] == "%y"
    assert "rows=16, cols=64" in text
    assert "vec 0x1000 to 0x2000 (4,096 bytes)" in text
    assert "made on line 11, last used on line 17" in text


def test_hover_of_an_operation_is_its_card_with_pipe_and_cycles():
    doc = document()
    doc.measured = doc.measure()
    text, _, _ = hover.hover(doc, at(TEXT, "pto.tadd", "t"))
    assert "pipe V" in text
    assert "a2a3" in text
    assert "cycles" in text
    assert "ins(%src0" in text


def test_cycles_are_those_of_a_launch_that_is_told():
    """As the file beside the text launches it; else with values inside of what the kernel requires.
    A text that names its target has cycles of that alone."""
    source = open_source("@model/zero")
    text = source.text.replace("module {", 'module attributes {pto.target_arch = "a5"} {', 1)
    for folder, launch in (
        (str(SHIPPED / "model"), "as zero.toml launches it"),
        (None, "with rows = "),
    ):
        doc = Document("zero.pto", text, Settings(), folder=folder)
        doc.measured = doc.measure()
        (cycles,) = doc.measured.entries["zero"].items()
        told, _, _ = hover.hover(doc, at(text, "func.func @zero", "@"))
        assert f"{cycles[0]} {cycles[1]:,.0f} cycles · {launch}" in told
        told, _, _ = hover.hover(doc, at(text, "pto.tstore", "t"))
        assert list(doc.measured.lines) == [cycles[0]] == ["a5"]
        assert launch in told


def test_two_halves_of_a_pair_are_one_launch():
    text = open_source("@model/linear_relu").text
    doc = Document("k.pto", text, Settings(target="a5"))
    doc.measured = doc.measure()
    cube, vector = (doc.measured.entries[n] for n in ("cube_kernel", "vector_kernel"))
    assert cube == vector
    lines = doc.measured.lines["a5"]
    stores = [n for n, words in enumerate(text.split("\n"), 1) if "pto.tstore ins" in words]
    assert [lines[n].count for n in stores] == [4, 4]


def test_hints_are_addresses_pipes_and_cycles_and_only_in_the_range():
    doc = document()
    doc.measured = doc.measure()
    doc.measured.lines = {"a5": {14: Price(60, 3, "documented")}}
    found = dict(hover.hints(doc, 0, len(TEXT)))
    assert found[TEXT.index("%y = ") + 2] == " vec 0x1000, 4,096 bytes"
    assert found[TEXT.index("\n", TEXT.index("pto.tadd"))] == "  V · a5 20 cycles"
    assert hover.hints(doc, 0, 20) == []


def test_an_entry_shows_what_it_requires():
    text = kernel(window("%o = arith.addi %n, %c0 : index"))
    doc = Document("k.pto", text, Settings(sync="manual"))
    doc.measured = doc.measure()
    shown, _, _ = hover.hover(doc, at(text, "func.func @k", "k"))
    line = 1 + next(n for n, t in enumerate(text.splitlines()) if "%w = " in t)
    assert f"- requires `0 <= n <= 15` (line {line})" in shown
    end = text.index("\n", text.index("func.func @k"))
    assert dict(hover.hints(doc, 0, len(text)))[end] == "  requires 0 <= n <= 15"
    quiet = Document("k.pto", text, Settings(sync="manual", hints=frozenset(("cycles",))))
    quiet.measured = doc.measured
    assert end not in dict(hover.hints(quiet, 0, len(text)))


KINDS = {"addresses": " vec 0x1000", "sizes": " 4,096 bytes", "types": ": i64", "pipes": "  V", "cycles": "  a5 20 cycles"}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_hint_is_shown_alone_where_only_it_is_wanted(kind):
    """The type of a result is shown where its statement does not write it."""
    text = TEXT.replace("    pto.tadd", "    %b = pto.get_block_idx\n    pto.tadd", 1)
    doc = Document("k.pto", text, settings_of({"hints": [kind]}))
    doc.measured = doc.measure()
    doc.measured.lines = {"a5": {15: Price(60, 3, "documented")}}
    shown = {text for _, text in hover.hints(doc, 0, len(text))}
    assert KINDS[kind] in shown
    others = [text for name, text in KINDS.items() if name != kind]
    assert not any(other in one for one in shown for other in others)


@pytest.mark.parametrize(
    ("before", "first"),
    [
        ("    pto.tad", "pto.tadd"),
        ("    pto.tadd ins(%", "%i"),
        ("    func.call @", "@helper"),
        ("    %z = pto.alloc_tile : !t", "!tile"),
        ("    pto.barrier #pto.pipe<PIPE_", "PIPE_MTE2"),
        ("    %z = pto.tci {desc", "descending"),
    ],
)
def test_completion_in_the_middle_of_a_half_typed_statement(before, first):
    cut = TEXT.index("    pto.tmul")
    text = TEXT[:cut] + before + "\n" + TEXT[cut:]
    offers = completion.offers(document(text), cut + len(before))
    assert first in [o.label for o in offers]
    assert all(o.start <= cut + len(before) for o in offers)


def test_values_of_other_regions_are_not_offered():
    cut = TEXT.index("    pto.tmul")
    line = "    pto.tmul ins(%"
    labels = [
        o.label
        for o in completion.offers(document(TEXT[:cut] + line + "\n" + TEXT[cut:]), cut + len(line))
    ]
    assert "%n" not in labels
    assert "%b" not in labels
    assert {"%i", "%x", "%y", "%c0"} <= set(labels)


def test_a_value_of_a_statement_that_cannot_be_read_is_still_known():
    broken = TEXT.replace("%x = pto.alloc_tile : !tile", "%x = pto.alloc_tile : (")
    doc = document(broken)
    made = doc.names.definition(doc.names.at(at(broken, "ins(%x", "%")))
    assert made is not None
    assert made.value is None
    assert broken[made.word.start :].startswith("%x = ")


def test_rename_takes_every_use_and_no_other_name():
    doc = document()
    made = refactor.renamed(doc, at(TEXT, "ins(%x", "%"), "%source")
    text = TEXT
    for begin, end, new in sorted(made, reverse=True):
        text = text[:begin] + new + text[end:]
    assert text == TEXT.replace("%x", "%source")
    with pytest.raises(Exception, match="the name of something else"):
        refactor.renamed(doc, at(TEXT, "ins(%x", "%"), "y")
    with pytest.raises(Exception, match="is no name"):
        refactor.renamed(doc, at(TEXT, "ins(%x", "%"), "a b")


def test_the_outline_and_what_folds():
    doc = document()
    assert [(s.name, s.detail) for s in outline.symbols(doc)] == [
        ("@helper", ""),
        ("@main", "entry"),
    ]
    assert "%y" in [c.name for c in outline.symbols(doc)[1].children]
    assert [(a, b) for a, b, _ in outline.folds(doc)] == [(2, 4), (6, 18), (11, 13), (15, 16)]
    assert [lens.title for lens in outline.lenses(doc)] == [
        "run",
        "debug",
        "cost",
        "report",
    ]


def test_words_have_kinds_and_do_not_overlap():
    found = outline.tokens(Scope(document(), TEXT, 0))
    kinds = {TEXT[start : start + length]: kind for start, length, kind, _ in found}
    assert kinds["pto.tadd"] == "macro"
    assert kinds["scf.for"] == "keyword"
    assert kinds["%x"] == "variable"
    assert kinds["@main"] == "function"
    assert kinds["// Adds two tiles."] == "comment"
    ends = [start + length for start, length, _, _ in found]
    assert all(end <= nxt[0] for end, nxt in zip(ends, found[1:], strict=False))


def test_a_finding_with_a_cure_is_an_edit_that_cures_it():
    old = "%w = pto.subset %x[%c0, %c0] sizes [16, 32] : !tile\n    pto.tadd ins"
    text = TEXT.replace("pto.tadd ins", old)
    doc = document(text)
    made = [change for _, changes in refactor.fixes(doc, 0, len(text)) for change in changes]
    assert made
    for begin, end, new in sorted(made, reverse=True):
        text = text[:begin] + new + text[end:]
    assert len(document(text).findings) < len(doc.findings)


def test_a_deadlock_that_was_found_at_rest_has_its_edit():
    """A wait for another event than the one that is set: following finds it, the edit names the set's."""
    wrong = MISTAKEN.replace(
        "wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]",
        "wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID4>]",
    )
    doc = document(wrong)
    assert refactor.fixes(doc, 0, len(wrong)) == []
    doc = document(wrong)
    doc.measured = doc.measure()
    ((_, (change,)),) = refactor.fixes(doc, 0, len(wrong))
    begin, end, new = change
    assert wrong[:begin] + new + wrong[end:] == MISTAKEN


def test_formatting_is_the_canonical_form_and_a_broken_text_has_none():
    assert refactor.formatted(document(TEXT + "\n\n")) is not None
    assert refactor.formatted(document(TEXT + "func.func @")) is None


@pytest.mark.sampled(0, 8)
@pytest.mark.parametrize("name", shipped_names())
@pytest.mark.parametrize("kept", [1.0, 0.61, 0.3])
def test_every_question_has_an_answer_on_texts_of_all_levels_cut_anywhere(name, kept):
    whole = open_source(f"@{name}").text
    text = whole[: int(len(whole) * kept)]
    doc = Document("t.pto", text, Settings())
    for offset in range(0, len(text), max(len(text) // 40, 1)):
        hover.hover(doc, offset)
        completion.offers(doc, offset)
        word = doc.names.at(offset)
        if word is not None and (made := doc.names.definition(word)) is not None:
            assert word in doc.names.uses(made)
    for ask in (outline.symbols, outline.folds, outline.lenses, refactor.formatted):
        ask(doc)
    outline.tokens(Scope(doc, text, 0))
    hover.hints(doc, 0, len(text))


def test_what_is_around_a_place_are_words_statements_and_regions_each_in_the_next():
    found = outline.around(document(), at(TEXT, "pto.tmul ins(%y", "%"))
    texts = [TEXT[begin:end] for begin, end in found]
    assert texts[0] == TEXT
    assert texts[-1] == "%y"
    assert texts[-2].startswith("pto.tmul ins")
    assert any(text.startswith("scf.for") for text in texts)
    assert all(a[0] <= b[0] and b[1] <= a[1] for a, b in pairwise(found))


def test_actions_on_the_whole_text_mend_it_or_write_it_in_another_way():
    wrong = document(TEXT.replace("pto.tmul", "pto.tmull").replace("ins(%x, %x :", "ins(%xx, %x :"))
    assert refactor.offered(wrong) == ["fix"]
    text, _ = refactor.made(wrong, "fix")
    assert not any(f.is_error for f in document(text).findings)
    assert refactor.offered(document()) == ["flags", "plan", "buffers", "ssa", "dps", "quoted"]
    placed, _ = refactor.made(document(), "plan")
    assert "addr = " in placed
    ssa, _ = refactor.made(document(open_source("@basics/vadd").text), "ssa")
    assert "pto.tadd ins" not in ssa
    assert "pto.tadd ins" in refactor.made(document(ssa), "dps")[0]
    with pytest.raises(UsageError, match="no loop that loads"):
        refactor.made(document(), "buffers")
    with pytest.raises(UsageError, match="no action"):
        refactor.made(document(), "nothing")


def test_second_buffers_come_with_the_verdict_of_the_proof():
    text = open_source("@quant/int8_sym").text
    made, told = refactor.made(document(text), "buffers")
    assert "proven equal" in told
    assert not any(f.is_error for f in document(made).findings)


def _selected(name: str, first: str, last: str) -> tuple[Document, str]:
    text = open_source(f"@{name}").text
    doc = Document("k.pto", text, Settings())
    begin, end = text.index(first), text.index(last) + len(last)
    assert refactor.chosen(doc, begin, end) != []
    return doc, refactor.made(doc, refactor.FUNCTION, begin, end)[0]


def test_statements_become_a_function_that_is_called_in_their_place():
    """What they use is its arguments, what is used after them its results; constants are made there
    again, for a shape may have to be one. The program computes what it did."""
    doc, text = _selected("basics/softmax", "%left = ", "%n = arith.minsi")
    assert "      %n = func.call @part_1(%cols, %j) : (index, index) -> index\n" in text
    assert "  func.func private @part_1(%cols: index, %j: index) -> index {\n    %c256 = " in text
    args = {"x": np.linspace(-1, 1, 32 * 100, dtype=np.float32).reshape(32, 100), "cols": 100}
    args["y"] = np.zeros_like(args["x"])
    was, is_ = (ptosim.load(t).run(args).outputs["y"] for t in (doc.text, text))
    np.testing.assert_array_equal(np.asarray(was), np.asarray(is_))


def test_a_part_of_a_kernel_for_the_cube_is_one_too():
    _, text = _selected("cube/gemm_f16", "pto.tload", "pto.tmatmul")
    head = next(line for line in text.split("\n") if "@part_1(" in line and "private" in line)
    assert head.endswith("attributes {pto.kernel_kind = #pto.kernel_kind<cube>} {")
    assert not [f for f in Document("k.pto", text, Settings()).findings if f.is_error]


def test_what_is_no_statement_is_not_offered_and_what_cannot_be_is_refused():
    doc = document()
    assert refactor.chosen(doc, 0, 5) == []
    assert refactor.chosen(doc, len(TEXT) - 12, len(TEXT) - 8) == []  # `return`
    with pytest.raises(UsageError, match="selected"):
        refactor.made(doc, refactor.FUNCTION)
