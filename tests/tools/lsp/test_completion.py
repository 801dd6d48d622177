"""Completion: what is offered can be written there, compiles, and is what comes next as a rule."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from ptosim.ground.isa.examples import Example, example_of
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import Status
from ptosim.launch.sources import open_source, shipped_names
from ptosim.tools.lsp.completion import MOST, Offer, offers_at, signature_at
from ptosim.tools.lsp.document import Document, Settings
from ptosim.tools.lsp.names import Piece, pieces
from ptosim.tools.lsp.predict import Scope

KERNEL = """module attributes {pto.target_arch = "a5"} {
  func.func @k(%x: !pto.ptr<f32>) {
    %c0 = arith.constant 0 : index
    %a = pto.alloc_tile : !pto.tile_buf<vec, 32x32xf16>
    %b = pto.alloc_tile : !pto.tile_buf<vec, 32x32xf16>
    %q = pto.alloc_tile : !pto.tile_buf<vec, 32x32xi8>
    %c = pto.alloc_tile : !pto.tile_buf<vec, 32x32xf16>
    HERE
    return
  }
}
"""


def asked(typed: str, text: str = KERNEL) -> list[Offer]:
    """What is offered after `typed` in a kernel that was checked without it."""
    before, _, after = text.partition("HERE")
    document = Document("t.pto", before + after, Settings())
    return offers_at(Scope(document, before + typed + after, len(before + typed)))


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("pto.tquant ins(%a : f16) outs(%q : i8) {quant_type = #pto<quant_type ", "INT8_SYM"),
        ("pto.tquant ins(%a : f16) outs(%q : i8) {", "quant_type"),
        ("pto.tquant ins(%a : f16) outs(%q : i8) {quant_type ", "="),
        ("pto.tquant ins(%a : f16) outs(%q : i8) {quant_type = ", "#pto<quant_type INT8_ASYM>"),
        ("%t = pto.alloc_tile ", "addr"),
        ("%t = pto.alloc_tile addr ", "="),
        ("%t = pto.alloc_tile : !pto.tile_buf<", "vec"),
        ("%t = pto.alloc_tile : !pto.tile_buf<", "loc="),
        ("%t = pto.alloc_tile : !pto.tile_buf<loc=", "vec"),
        ("%t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32, bl", "blayout="),
        ("%t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32, blayout=", "col_major"),
        ("%t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xb", "bf16"),
        ("pto.set_flag[<", "PIPE_MTE2"),
        ("pto.set_flag[<PIPE_MTE2>, <", "PIPE_V"),
        ("pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <", "EVENT_ID0"),
        ("pto.barrier #pto.pipe<PIPE_", "PIPE_ALL"),
        ("pto.tcvt ins(%a : f16) outs(%q : i8) {rmode = #pto<", "round_mode "),
        ("%", "%c0"),
    ],
)
def test_members_keys_spaces_and_attributes_are_offered_where_they_belong(typed, wanted):
    assert wanted in [o.text for o in asked(typed)] + [o.label for o in asked(typed)]


def test_nothing_is_offered_in_comments_and_texts():
    assert asked("// pto.ta") == []
    assert asked('pto.print "pto.ta') == []


def test_an_attribute_that_is_there_is_not_offered_again():
    labels = [o.label for o in asked("pto.tci ins(%c0 : index) outs(%a : f16) {")]
    assert labels == ["descending"]
    again = asked("pto.tci ins(%c0 : index) outs(%a : f16) {descending = true, ")
    assert "descending" not in [o.label for o in again]


def test_at_most_fifty_items_the_best_first_and_letters_in_order_are_enough():
    found = [o.label for o in asked("pto.tro")]
    assert len(found) <= MOST
    assert all(label.startswith("pto.tro") for label in found[:10])
    assert "pto.trowexpandmul" in [o.label for o in asked("pto.trexmul")]
    assert len(asked("pto.t")) == MOST


def test_operands_are_the_values_of_the_type_that_fits_and_their_types_follow():
    """`%q` is made after `%b`, but its elements are not those of the others."""
    first = next(o for o in asked("pto.tmu") if o.label == "pto.tmul")
    assert "ins(%c, %b : " in first.text
    assert "outs(%a : !pto.tile_buf<vec, 32x32xf16>)" in first.text
    assert first.snippet.startswith("pto.tmul ins(${1:%c}, ${2:%b}")
    assert first.snippet.endswith("$0")


def test_a_result_has_a_name_that_is_not_taken():
    text = next(o.text for o in asked("pto.alloc_til") if o.label == "pto.alloc_tile")
    assert text.partition(" =")[0] not in KERNEL


def test_signatures_say_which_operand_comes_next():
    def at(typed: str) -> tuple[str, list[str], int] | None:
        text = KERNEL.replace("HERE", typed, 1)
        scope = Scope(Document("t.pto", text, Settings()), text, text.index(typed) + len(typed))
        return signature_at(scope)

    assert at("pto.tadd ins(%a, ")[1:] == (["src0", "src1", "dst"], 1)
    assert at("pto.tadd ins(%a, %b : f16, f16) outs(")[2] == 2
    assert at("pto.tad") is None


def test_a_value_of_the_lines_typed_since_the_check_is_known():
    typed = "%new = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32>\n    pto.tabs ins(%"
    assert "%new" in [o.label for o in asked(typed)]


def _examples() -> Iterator[tuple[str, Example]]:
    for name in sorted(isa().names()):
        row = isa().get(name)
        example = example_of(row) if row is not None else None
        if row is None or example is None or example.compat or example.is_dump:
            continue
        if {*row.status.values()} == {Status.ABSENT}:
            continue
        if not example.line.endswith("… }") and f'"{name}"' not in example.line:
            yield name, example


EXAMPLES = dict(_examples())


@pytest.mark.slow
def test_completed_operations_compile_as_a_rule():
    """The line of an example is taken away and its operation typed, but for the last letter: what
    the offer of that name writes, with the values that are there, has no more errors. Where it has,
    the operation asks more of its operands than their types, and only its name is offered."""
    names = list(EXAMPLES)[::4]
    errors = {name: errors_of(EXAMPLES[name], completed(name)) for name in names}
    worse = [name for name in names if errors[name] > errors_of(EXAMPLES[name], None)]
    assert len(worse) <= 0.08 * len(names), worse


def completed(name: str) -> str:
    example, word = EXAMPLES[name], {"func.return": "return"}.get(name, name)
    line = example.line
    place = example.program.index(line) + line.find(word)
    before = example.program[:place]
    after = example.program[place + len(line) - line.find(word) :]
    document = Document("t.pto", before + after, Settings(target=example.target))
    typed = before + word[:-1]
    found = offers_at(Scope(document, typed + after, len(typed)))
    return before + next(o.text for o in found if o.label == word) + after


def errors_of(example: Example, text: str | None) -> int:
    settings = Settings(target=example.target)
    found = Document("t.pto", text or example.program, settings).findings
    return sum(f.is_error for f in found)


@pytest.mark.slow
def test_the_next_word_of_shipped_programs_is_offered_and_first_as_a_rule():
    """Lines of shipped programs are typed word by word, in the text as far as it is written then.
    What nobody can know is not asked for: new names and numbers."""
    random_ = random.Random(49)
    names = [n for n in shipped_names() if n.partition("/")[0] not in ("broken", "page")]
    asked = offered = first = 0
    for name in random_.sample(names, 24):
        for offers, word in _typed(open_source(f"@{name}").text.split("\n"), random_):
            words = [one.next_word for one in offers]
            asked += 1
            offered += word in words
            first += words[:1] == [word]
    assert asked >= 200
    assert offered / asked >= 0.95
    assert first / asked >= 0.70


def _typed(lines: list[str], random_: random.Random) -> Iterator[tuple[list[Offer], str]]:
    told = [n for n, x in enumerate(lines) if x.strip() and not x.strip().startswith(("//", "!"))]
    number = random_.choice(told)
    before = "".join(f"{line}\n" for line in lines[:number])
    words = pieces(before)
    depth = sum(p.text == "{" for p in words) - sum(p.text == "}" for p in words)
    after = "\n" + "}\n" * depth
    document = Document("t.pto", before + after, Settings())
    for word in _asked(pieces(lines[number])):
        text = before + lines[number][: word.start]
        yield offers_at(Scope(document, text + after, len(text))), word.text


def _asked(words: list[Piece]) -> list[Piece]:
    is_made = words[0].kind == "value"
    begin = next((n for n, w in enumerate(words) if w.text == "="), 0) if is_made else 0
    is_head = words[0].text == "func.func"
    new = ("value", "function") if is_head else ()
    return [w for w in words[begin:] if w.kind not in ("number", *new)]


@pytest.mark.slow
def test_every_statement_that_is_offered_whole_could_be_there():
    """In shipped programs an operation is begun on a line of its own, or a line is cut anywhere: what
    is offered as a whole statement, written into the whole text, adds no error to those that the text
    has without the line. What has another one is offered as its next word alone."""
    random_ = random.Random(49)
    names = [n for n in shipped_names() if n.partition("/")[0] not in ("broken", "page")]
    whole = 0
    for name in random_.sample(names, 30):
        lines = open_source(f"@{name}").text.split("\n")
        number = random_.choice([n for n, line in enumerate(lines) if _is_plain(line)])
        line = lines[number]
        indent = len(line) - len(line.lstrip())
        is_new = random_.random() < 0.6
        typed = line[:indent] + random_.choice(("pto.t", "pto.ta", "pto.ts", "pto.a", "%new = ")) if is_new else line[: random_.randrange(indent, len(line))]  # fmt: skip
        before, after = "\n".join([*lines[:number], typed]), "\n".join(["", *lines[number + (not is_new):]])  # fmt: skip
        base = Document(
            "t.pto", "\n".join([*lines[:number], *lines[number + (not is_new) :]]), Settings()
        )
        known = {(f.code, f.message) for f in base.findings if f.is_error}
        for offer in offers_at(Scope(base, before + after, len(before))):
            if offer.kind not in ("operation", "rest") or offer.text == offer.next_word:
                continue
            text = before[: offer.start] + offer.text + after
            found = Document("t.pto", text, Settings()).findings
            new = [f for f in found if f.is_error and (f.code, f.message) not in known]
            assert new == [], (name, offer.text)
            whole += 1
    assert whole > 30


def _is_plain(line: str) -> bool:
    words = line.split()
    return (
        line.startswith("  ") and "{" not in line and words[0].startswith(("pto.", "%", "arith."))
    )
