"""`ptosim ops`: every row, and one in detail."""

from __future__ import annotations

import contextlib
import io
import json
import re

import pytest
from markdown_it import MarkdownIt

from ptosim.ground.isa.rows import TARGETS, isa
from ptosim.language.verify.wording import condition_words
from ptosim.shell.main import main
from ptosim.views.operations import rule_texts

pytestmark = pytest.mark.sampled(40)


@pytest.mark.slow
def test_the_table_lists_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sorted(r["name"] for r in rows) == sorted(isa().names())
    assert all(set(r["status"]) == set(TARGETS) for r in rows)


def test_a_card_names_forms_switches_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "tquant"]) == 0
    text = capsys.readouterr().out
    for part in ("INT8_SYM", "switches", "tquant.int8_scale = mul | div, default mul", "source"):
        assert part in text


def test_a_card_shows_only_the_element_rules_of_its_form(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["ops", "tquant"])
    _, _, int8 = capsys.readouterr().out.partition("int8  pto.tquant")
    assert "when exp" not in int8.partition("\n\n")[0]


@pytest.mark.parametrize("name", isa().names())
def test_every_row_has_a_card(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", name]) == 0
    assert "source" in capsys.readouterr().out


def test_the_list_has_a_line_for_each_operation(capsys):
    """In a pipe: what `grep` finds is whole, brackets included."""
    assert main(["ops"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    for name in isa().names():
        definition = isa().get(name)
        assert lines[definition.mnemonic].endswith(definition.summary), name


@pytest.fixture(scope="module")
def sections() -> dict[str, str]:
    """The section of each operation, of the reference as a whole."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["ops", "--format", "markdown"]) == 0
    parts = re.split(r"^### `([^`]+)`$", out.getvalue(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


class TestReference:
    """`ptosim ops --format markdown`."""

    def test_every_row_has_a_section_once(self, sections):
        assert sorted(sections) == sorted(isa().names())

    @pytest.mark.parametrize("name", isa().names())
    def test_a_section_tells_what_the_row_says(self, name, sections):
        definition, text = isa().get(name), sections[name].replace("\\", "")
        status = " | ".join(str(definition.status[t]) for t in TARGETS)
        assert f"| status | {status} |" in text
        named = [definition.summary, definition.source, *definition.notes, *definition.switches]
        named += [f"`{o.name}`" for v in definition.variants for o in v.operands]
        named += [f"`{attr}`" for attr in definition.attrs]
        assert [n for n in named if n.replace("\\", "") not in text] == []

    @pytest.mark.slow
    def test_tables_have_as_many_cells_as_their_header(self, sections):
        """Checked by a reader of Markdown that is not ours."""
        for name, text in sections.items():
            lines = [line for line in text.splitlines() if line.startswith("| ")]
            tokens = MarkdownIt().enable("table").parse(text)
            assert sum(t.type == "tr_open" for t in tokens) == sum(
                not line.startswith("| ---") for line in lines
            ), name

    def test_one_operation_alone(self, capsys, sections):
        assert main(["ops", "tquant", "--format", "markdown"]) == 0
        alone = capsys.readouterr().out
        assert alone.startswith("### `pto.tquant`")
        assert alone.strip().splitlines()[1:][0] == sections["pto.tquant"].splitlines()[1]

    def test_families_are_chosen(self, capsys):
        assert main(["ops", "--family", "convert", "--format", "markdown"]) == 0
        chosen = capsys.readouterr().out
        assert re.findall(r"^## (.*)", chosen, re.MULTILINE) == ["Family convert"]


LEAKS = {
    "an expression": re.compile(r"(==|!=|<=|>=| is (not )?None\b|\bnot \w+\.|//)"),
    "a place to fill in": re.compile(r"\{=?[\w.]+"),
    "a call": re.compile(r"(?<![\w.])(?!shape|align16|align32|ceil|sizeof)[a-z]\w*\([a-z]\w*[,)]"),
    "a field": re.compile(r"\b(src\d?|dst\d?|lhs|rhs|tmp|mask|exp|tile|result|idx)\.[a-z]"),
}
"""What the language of rules has and sentences do not."""


def _said(name: str) -> list[str]:
    """What is said of an operation on rules, conditions and pipes."""
    definition = isa().get(name)
    conditions = [e.when for v in definition.variants for e in v.elements]
    conditions += [p.when for p in definition.pipes]
    return [*rule_texts(definition), *(condition_words(c) for c in conditions if c)]


@pytest.mark.parametrize("name", isa().names())
def test_no_rule_is_told_in_the_language_of_rules(name: str) -> None:
    """Whoever reads of an operation reads sentences: the rows of both targets are one."""
    found = [(what, line) for line in _said(name) for what, e in LEAKS.items() if e.search(line)]
    assert found == []


def test_a_rule_names_the_memories_and_the_operands():
    """One of predicates, one with a condition, one whose text has a place to fill in."""
    texts = rule_texts(isa().get("pto.tadd"))
    assert "expects `src0`, `src1` and `dst` to be in UB (vec)" in texts
    assert "expects A2/A3 tmp to have the same shape as src on a2a3, when `tmp` is given" in (
        rule_texts(isa().get("pto.tquant"))
    )
    assert "group must divide result logical lane count (lanes of `dst`)" in (
        text.partition(", when")[0] for text in rule_texts(isa().get("pto.vmi.vload"))
    )


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("tmp", "`tmp` is given"),
        ("not is_page", "outside of the manual page's notation"),
        ("src.loc == 'acc' and dst.loc in ('mat', 'vec')",
         "`src` is in L0C (acc) and `dst` is in L1 (mat) or UB (vec)"),
        ("src.v_col % 32 != 0", "valid columns of `src` are no multiple of 32"),
        ("tmp and (src.bits == 16 or exp is None)",
         "`tmp` is given and (elements of `src` have 16 bits or `exp` is left out)"),
        ("not (lhs.kind == 'vreg' and mask)", "`lhs` is not a register or `mask` is left out"),
    ],
)  # fmt: skip
def test_a_condition_is_a_clause(expression: str, words: str) -> None:
    assert condition_words(expression) == words
