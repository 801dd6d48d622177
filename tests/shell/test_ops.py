"""`ptosim ops`: every row, and one in detail."""

from __future__ import annotations

import contextlib
import io
import json
import re

import pytest
from markdown_it import MarkdownIt

from ptosim.ground.isa.rows import TARGETS, isa
from ptosim.shell.main import main

pytestmark = pytest.mark.sampled(40)


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
