"""The language reference: every program in it runs, or fails as its first line says; every code in
a table is that of a finding; pictures of layouts are what the machine does."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.catalog import catalog
from ptosim.ground.ir.types import TileType
from ptosim.ground.isa.schema import dtype
from ptosim.machine.layout import tile_layout
from ptosim.views import manual
from tests.shell.manual.pages import blocks

PAGES = {
    name: manual.pages()[name]
    for name, path in manual.paths().items()
    if path.parent.name == "language"
}
PROGRAMS = [(page, text) for page, body in PAGES.items() for text in blocks(body, "mlir")]
_SAYS = re.compile(r"// (runs|fails (PTO\d{4}))(?: on (\w+))?\n")


@pytest.mark.parametrize(
    ("page", "text"), PROGRAMS, ids=[f"{page}-{n}" for n, (page, _) in enumerate(PROGRAMS)]
)
def test_a_program_does_what_its_page_says(page: str, text: str) -> None:
    says = _SAYS.match(text)
    assert says is not None, "the first line is `// runs` or `// fails PTOnnnn`"
    _, code, named = says.groups()
    for target in [named] if named else ["a5"] if '"a5"' in text else ["a2a3", "a5"]:
        findings = ptosim.check(text, target=target, dry_run=True)
        errors = {d.code for d in findings if d.severity.word == "error"}
        if code is not None:
            assert errors == {code}
            continue
        assert errors == set()
        result = _run(ptosim.load(text, target=target))
        assert [d for d in result.findings if d.severity.word == "error"] == []


def _run(program: ptosim.Program) -> ptosim.Result:
    """With data of its own, and 4,096 zeros behind pointers whose size no view says."""
    try:
        return program.run({})
    except ptosim.UsageError:
        return program.run({a.name: np.zeros(4096, np.float32) for a in program.signature()})


@pytest.mark.parametrize("page", [p for p in PAGES if p != "language"])
def test_a_page_has_a_program_and_tells_what_goes_wrong(page: str) -> None:
    assert "// runs" in PAGES[page]
    wrong = PAGES[page].partition("## What goes wrong")[2]
    codes = re.findall(r"PTO\d{4}", "".join(re.findall(r"^\| (PTO[^|]*) \|", wrong, re.MULTILINE)))
    assert codes
    assert set(codes) <= set(catalog())


def test_the_picture_of_layouts_is_what_the_words_say() -> None:
    """Each number is the place of an element in memory; computed here from the meaning of the two
    letters: Z goes right first, N down first, of boxes and inside of them."""
    picture = next(b for b in blocks(PAGES["tiles"]) if b.split()[:2] == ["ND", "DN"])
    rows = [line for line in picture.splitlines()[1:] if not line.strip().startswith("-")]
    drawn = [[int(n) for n in re.findall(r"\d+", row)] for row in rows]
    for number, (outer, inner, box) in enumerate(
        [("Z", "Z", 1), ("N", "N", 1), ("N", "Z", 2), ("Z", "N", 2), ("Z", "Z", 2)]
    ):
        expected = _order(outer, inner, box)
        assert [row[4 * number : 4 * number + 4] for row in drawn] == expected


def _order(outer: str, inner: str, box: int) -> list[list[int]]:
    def key(place: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
        i, j = place
        boxes, inside = (i // box, j // box), (i % box, j % box)
        return (
            boxes if outer == "Z" else boxes[::-1],
            inside if inner == "Z" else inside[::-1],
        )

    places = sorted(((i, j) for i in range(4) for j in range(4)), key=key)
    return [[places.index((i, j)) for j in range(4)] for i in range(4)]


def test_the_formula_of_an_nz_tile_is_that_of_the_machine() -> None:
    tile = TileType("mat", dtype("f16"), 64, 32, 64, 32, "col_major", "row_major")
    place, rows, wide = tile_layout(tile, 64, 32), 64, 16
    for i, j in [(0, 0), (0, 15), (1, 0), (15, 15), (16, 0), (3, 16), (63, 31)]:
        told = j // wide * rows * wide + i // 16 * 16 * wide + i % 16 * wide + j % wide
        assert place.offset(i, j) == told


@pytest.mark.parametrize(
    "topic", ["layout", "NZ", "tile_buf", "flags", "UB", "sidecar", "syntax", "language", "fractal",
              "L1", "DN", "barrier", "buffer token", "iter_args", "entry", "nburst", "slayout",
              "partition_view", "rank", "alias", "tutorial"],
)  # fmt: skip
def test_a_word_of_the_language_is_found(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    from ptosim.shell.main import main

    assert main(["help", *topic.split()]) == 0
    assert topic.split()[0].lower().rstrip("s") in capsys.readouterr().out.lower()


def test_pages_are_in_one_folder() -> None:
    assert {Path(p).parent.name for n, p in manual.paths().items() if n in PAGES} == {"language"}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_a_screen(cli, monkeypatch, page: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, cli("help", page).out.splitlines())) <= 80
