"""Findings on a terminal: frames of its width, marks under what they mean, many of a kind as one."""

from __future__ import annotations

import re
from itertools import takewhile

import pytest

import ptosim
from ptosim.shell.main import main
from ptosim.views.frames import Mark, excerpt, render
from tests.support.paths import TREE

BROKEN = sorted(TREE.joinpath("programs/broken").glob("*.pto"))
LONG = "    pto.tadd ins(%first, %second : !pto.tile_buf<vec, 64x64xf32>, !km) outs(%third : !km)"


def shown(capsys, monkeypatch, width: int | None, *words: str) -> list[str]:
    """What `check` writes about findings on a terminal of so many columns; None: into a pipe."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if width is not None:
        monkeypatch.setenv("COLUMNS", str(width))
    main(["check", *words])
    return capsys.readouterr().err.splitlines()


def frames(lines: list[str]) -> list[str]:
    """The rows of frames and notes, without the head line of each finding."""
    return [row for row in lines if not re.match(r"(error|warning|note)\[PTO", row)]


@pytest.mark.sampled(36)
@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
@pytest.mark.parametrize("width", [80, 100, 140, None])
def test_no_frame_is_wider_than_the_terminal(path, width, capsys, monkeypatch) -> None:
    rows = frames(shown(capsys, monkeypatch, width, str(path)))
    assert [row for row in rows if len(row) > (width or 100) and "`" not in row] == []


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_no_word_of_the_program_is_cut(path, capsys, monkeypatch) -> None:
    words = set(re.findall(r"[\w.$!#%@-]+", path.read_text(encoding="utf-8")))
    for row in shown(capsys, monkeypatch, 80, str(path)):
        line = re.match(r" *\d+ \| (.*)", row)
        if line is not None:
            assert set(re.findall(r"[\w.$!#%@-]+", line[1])) <= words, row


@pytest.mark.sampled(16)
@pytest.mark.parametrize("width", range(32, len(LONG) + 1))
def test_marks_are_under_what_they_mark(width: int) -> None:
    names = ("pto.tadd", "%first", "%second", "%third")
    marks = [Mark(LONG.index(n), LONG.index(n) + len(n), "-", f"about {n}") for n in names]
    line, rows = excerpt(LONG, marks, width)
    assert max(map(len, [line, *rows])) <= width
    marked = {
        line[found.start() : found.end()] for found in re.finditer("-+", rows[0].split("about")[0])
    }
    assert marked <= {*names, "…"}
    if width >= 60:
        assert marked == set(names)
        assert sum(row.count("about") for row in rows) == len(names)


def test_the_line_ends_with_a_sign_that_it_goes_on() -> None:
    line, rows = excerpt(LONG, [Mark(LONG.index("%third"), LONG.index("%third") + 6, "^")], 40)
    assert line.startswith("…")
    assert line.endswith(("!km)", "…"))
    assert line[rows[0].index("^") :].startswith("%third")


def test_many_findings_of_a_kind_are_one(tmp_path, capsys, monkeypatch) -> None:
    tile = "!pto.tile_buf<vec, 16x64xf32>"
    lines = "".join(f"    pto.tabs ins(%no{i} : {tile}) outs(%t : {tile})\n" for i in range(40))
    text = f"func.func @f() {{\n    %t = pto.alloc_tile : {tile}\n{lines}    return\n}}\n"
    path = tmp_path / "many.pto"
    path.write_text(text, encoding="utf-8")
    folded = shown(capsys, monkeypatch, 80, str(path))
    assert sum("undefined value" in row for row in folded) == 1
    assert any("and 39 more: lines 4, 5, 6" in row for row in folded)
    assert len(folded) < 20
    every = shown(capsys, monkeypatch, 80, "-v", str(path))
    assert sum("undefined value" in row for row in every) == 40


def test_the_source_of_a_rule_is_for_those_who_ask(capsys, monkeypatch, tmp_path) -> None:
    text = "%y = pto.tabs %x : !pto.tile<16x64xi64> -> !pto.tile<16x64xi64>\n"
    path = tmp_path / "abs.pto"
    path.write_text(text, encoding="utf-8")
    plain = shown(capsys, monkeypatch, 80, "--target", "a5", str(path))
    verbose = shown(capsys, monkeypatch, 80, "--target", "a5", "-v", str(path))
    assert not any("rule of tabs" in row for row in plain)
    assert any("rule of tabs" in row for row in verbose)


@pytest.mark.sampled(36)
@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
@pytest.mark.parametrize("width", [80, 100, 140])
def test_a_screen_breaks_the_first_line_between_words(path, width) -> None:
    for finding in ptosim.check(path):
        first = render(finding, width=width).splitlines()[0]
        rows = render(finding, width=width, is_screen=True).splitlines()
        head = list(takewhile(lambda row: not re.match(r" *(-->|=) ", row), rows))
        assert [row for row in head if len(row) > width and "`" not in row] == []
        assert " ".join(" ".join(head).split()) == " ".join(first.split())


IN_PLACE = """!t = !pto.tile_buf<vec, 16x64xf32>
func.func @k(%x: !pto.ptr<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %v = pto.make_tensor_view %x, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<16x64xf32>
  %p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<16x64xf32> -> !pto.partition_tensor_view<16x64xf32>
  %a = pto.alloc_tile : !t
  pto.tload ins(%p : !pto.partition_tensor_view<16x64xf32>) outs(%a : !t)
  pto.tabs ins(%a : !t) outs(%a : !t)
  return
}
"""


def test_findings_with_one_cause_are_one(capsys, monkeypatch, tmp_path) -> None:
    """An operation in place reads and writes too early: one flag is what is missing."""
    path = tmp_path / "in_place.pto"
    path.write_text(IN_PLACE, encoding="utf-8")
    words = ("--sync", "manual", "--target", "a5", str(path))
    rows = shown(capsys, monkeypatch, 120, *words)
    assert [row[:14] for row in rows if row.startswith("error")] == ["error[PTO5201]"]
    assert any("= note: the same edit mends PTO5203: data race" in row for row in rows)
    every = shown(capsys, monkeypatch, 120, "-v", *words)
    assert sum(row.startswith("error") for row in every) == 2
    assert {d.code for d in ptosim.check(path, sync="manual", target="a5") if d.is_error} == {
        "PTO5201", "PTO5203",
    }  # fmt: skip
