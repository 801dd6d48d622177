"""`ptosim ops`: every row, and one in detail."""

from __future__ import annotations

import json

import pytest

from ptosim.cli.main import main
from ptosim.ground.isa.rows import TARGETS, isa


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
