"""`ptosim map`: what is where, when, and what to shrink."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from tests.engine.sanitize.test_planner import HEAD, alloc, fill, use
from tests.ops.semantics.test_sync import program
from tests.shell.programs import TILE, copy_program


def spaces(cli, *arguments) -> dict:
    report = json.loads(cli("map", *arguments, "--format", "json").out)
    return {s["space"]: s for s in report["spaces"]}


def planner(tmp_path, body: str) -> str:
    path = tmp_path / "k.pto"
    path.write_text(f"{HEAD}{body}return\n  }}\n}}\n")
    return str(path)


def test_lifetimes_are_those_of_the_run(cli, tmp_path):
    """A load, an addition in place, a store: the tile is in use from the first to the last."""
    path = tmp_path / "k.pto"
    add = f"pto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%b : {TILE})"
    path.write_text(program(f"%b = pto.alloc_tile : {TILE}\nLOAD\n{add}\nLOAD\nSTORE"))
    found = spaces(cli, path)["vec"]
    buffers = {b["name"]: b for b in found["buffers"]}
    assert found["steps"] == 4
    assert buffers["%a"]["live"] == [[1, 2], [3, 4]]  # loaded anew in step 3
    assert buffers["%b"]["live"] == [[2, 2]]
    assert found["high_water"] == 8192
    assert found["peak"] == {"step": 2, "live_bytes": 8192, "buffers": ["%a", "%b"]}


def test_reuse_is_told_from_overlap(cli, tmp_path):
    names = ("a", "b")
    body = "".join(alloc(n, 128) + fill(n, 128) + use(n, n, n, 128) for n in names)
    (pair,) = spaces(cli, planner(tmp_path, body), "--arg", "n=1", "--arg", "cond=1")["vec"][
        "overlaps"
    ]
    assert (pair["first"], pair["second"], pair["kind"]) == ("%a", "%b", "reuse")
    shared = spaces(cli, "@broken/tiles_overlap")["vec"]["overlaps"]
    assert [o["kind"] for o in shared] == ["overlap"]
    assert {o["kind"] for o in spaces(cli, "@basics/rmsnorm")["vec"]["overlaps"]} == {"same"}


def test_a_program_over_budget_is_drawn_and_told_what_to_shrink(cli):
    outcome = cli("map", "@broken/over_budget")
    assert outcome.code == 3
    assert (
        "98,304 bytes over the planner limit of 196,608: shrink %a (line 8) by 49,152"
        in outcome.out
    )
    assert "PTO4001" in outcome.err
    advice = spaces(cli, "@broken/over_budget")["vec"]["advice"]
    assert len(advice) == 2


def test_the_safe_limit_of_a2a3_is_told(cli, tmp_path):
    """The library's hidden scratch is between 184 and 192 KiB."""
    body = (
        alloc("a", 96)
        + alloc("b", 90)
        + fill("a", 96)
        + fill("b", 90)
        + use("a", "a", "a", 96)
        + use("b", "b", "b", 90)
    )
    (advice,) = spaces(cli, planner(tmp_path, body), "--arg", "n=1", "--arg", "cond=1")["vec"][
        "advice"
    ]
    assert "2,048 bytes over the safe limit of 188,416: shrink %a" in advice


class Page(HTMLParser):
    """Counts tags and refuses what comes from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not {"src", "href"} & {name for name, _ in attrs}


def test_a_page_of_its_own(cli, tmp_path):
    path = tmp_path / "map.html"
    assert cli("map", "@basics/rmsnorm", "-o", path).code == 0
    text = path.read_text()
    page = Page()
    page.feed(text)
    assert page.tags.count("figure") == 3  # bytes over time, lanes of tiles, addresses
    assert page.tags.count("path") >= 20
    assert "safe limit" in text
    assert "http" not in text
    assert "%part_col and %part_row: two names of the same bytes" in text


def test_programs_of_every_kind_have_a_map(cli, tmp_path):
    for name in ("@page/ssa", "@quant/mxfp8_nd", "@gather/paged_gather", "@basics/matmul_moves"):
        assert cli("map", name).code == 0
    path = tmp_path / "k.pto"
    path.write_text("func.func @f() { return }\n")
    assert "no tiles on chip" in cli("map", path).out


@pytest.mark.parametrize(
    ("text", "code"), [(copy_program("    pto.tmow ins(%a : f32)"), 3), ("module {", 3)]
)
def test_other_faults_are_refused(cli, tmp_path, text, code):
    path = tmp_path / "k.pto"
    path.write_text(text)
    outcome = cli("map", path)
    assert outcome.code == code
    assert outcome.out == ""


def test_windows_lie_in_the_tile_that_they_are_windows_of(cli):
    """The merge of @sort/topk reads four windows of one tile: they are no tiles of their own."""
    result = cli("map", "@sort/topk", "--format", "json")
    (space,) = json.loads(result.out)["spaces"]
    names = [b["name"] for b in space["buffers"]]
    tiles = ["%scores", "%places", "%one", "%two", "%tmp", "%top", "%best", "%words"]
    assert [name for name in names if name != "scratch tmp of tci"] == tiles
    assert space["overlaps"] == []
