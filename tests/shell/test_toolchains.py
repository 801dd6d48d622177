"""`--as` says who made a text where its marks do not; `fmt --compat-to 2026-09` moves a program to
the language of September."""

from __future__ import annotations

import pytest

import ptosim
from tests.support.paths import DATA

BOARD = DATA / "board"


@pytest.mark.parametrize(
    ("maker", "told"),
    [("pypto", "sync auto"), ("ptodsl", "sync auto"), ("pto-dsl", "level 2 · sync auto")],
)
def test_a_text_without_marks_is_taken_as_what_is_said(cli, tmp_path, maker, told):
    """All three synchronise; pto-dsl always at level 2, where addresses are refused."""
    path = tmp_path / "k.pto"
    path.write_text((BOARD / "S02.pto").read_text())
    outcome = cli("check", str(path), "--as", maker)
    assert told in outcome.out.splitlines()[0]
    assert ("level 2" in outcome.out.splitlines()[0]) == (maker != "pypto")


def test_marks_are_not_looked_for_in_a_text_of_nobody(cli):
    path = str(BOARD / "S21.pto")
    assert "pypto text" in cli("check", path).out
    assert "pypto text" not in cli("check", path, "--as", "none").out


def test_loads_of_the_scalar_unit_have_new_names_in_september(cli):
    """0.64 has `pto.load` and `pto.store` only, with the same operands."""
    moved = cli("fmt", "--compat-to", "2026-09", str(BOARD / "S08.pto")).out
    assert "pto.load %x" in moved
    assert "pto.store %v" in moved
    assert "_scalar" not in moved
    assert [d.code for d in ptosim.check(moved, compat="2026-09") if d.is_error] == []


def test_a_program_of_both_dates_stays_as_it_is(cli):
    text = (BOARD / "S02.pto").read_text()
    moved = cli("fmt", "--compat-to", "2026-09", str(BOARD / "S02.pto")).out
    again = cli("fmt", str(BOARD / "S02.pto")).out
    assert moved == again
    assert text.count("pto.") == moved.count("pto.")
