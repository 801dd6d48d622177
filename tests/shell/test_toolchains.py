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


def test_what_september_brought_goes_on_the_way_back(cli, tmp_path):
    """B2, B4: A2/A3 of August has the older names, and no `cache_policy`, which changes no value."""
    back = ("fmt", "--compat", "2026-09", "--compat-to", "2026-08")
    moved = cli(*back, str(BOARD / "S07.pto")).out
    assert "pto.load_scalar %x" in moved
    assert "pto.store_scalar %v" in moved
    assert ptosim.check(moved) == []
    for attrs in (
        "{cache_policy = #p}",
        "{cache_policy = #p, a.b = 1}",
        "{a = 1, cache_policy = #p}",
    ):
        text = (BOARD / "S03.pto").read_text()
        policy = "cache_policy = #pto.load_cache_policy<l2_bypass>"
        text = text.replace(f"{{{policy}}}", attrs.replace("cache_policy = #p", policy))
        (tmp_path / "k.pto").write_text(text)
        outcome = cli(*back, str(tmp_path / "k.pto"))
        assert (outcome.code, "left out attribute" in outcome.err) == (0, True)
        assert "cache_policy" not in outcome.out
        assert [d.code for d in ptosim.check(outcome.out) if d.is_error] == []


def test_what_a_date_refuses_is_not_moved(cli):
    """B1: the window is beyond the constants of its view, which 0.61 refuses."""
    assert cli("fmt", "--compat-to", "2026-09", str(BOARD / "S01.pto")).code == 1
    assert cli("fmt", "--compat-to", "2026-09", str(BOARD / "S02.pto")).code == 0


@pytest.mark.parametrize(("line", "target"), [
    ("// RUN: ptoas --pto-arch=a5 %s", "a5"), ("// RUN: ptoas --pto-arch a3 %s", "a2a3"),
    ("// RUN: not ptoas --pto-arch=a5 %s", "a2a3"), ("", "a2a3"),
])  # fmt: skip
def test_the_line_that_runs_the_assembler_names_the_target(line, target):
    """C.5: it is obeyed where the module names none."""
    text = f"{line}\nfunc.func @k(%x: !pto.ptr<f32>) {{\n  return\n}}\n"
    assert ptosim.load(text).target == target
    named = f'{line}\nmodule attributes {{pto.target_arch = "a3"}} {{\n{text[len(line) :]}}}\n'
    assert ptosim.load(named).target == "a2a3"
