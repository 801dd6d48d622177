"""The site is whole: every link leads to a page and an anchor that are there, nothing is fetched,
and the search has every operation and code."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ptosim.ground.diagnostics.catalog import catalog, shown_by_programs
from ptosim.ground.isa.rows import isa
from ptosim.launch.sources import shipped_programs
from ptosim.shell.main import main
from ptosim.tools.lessons.course import lessons
from ptosim.tools.site import build
from ptosim.views import manual


class Reader(HTMLParser):
    """What a page links to, what it loads, its anchors, and whether its tags are closed."""

    VOID = frozenset(("meta", "link", "input", "br", "hr", "img"))

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        if tag == "a":
            self.links.append(given["href"])
        if tag in ("script", "link", "img"):
            self.loads.append(given.get("src") or given.get("href") or "")
        if "id" in given:
            self.anchors.add(given["id"])
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert main(["site", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def read(site) -> dict[Path, Reader]:
    found = {}
    for path in site.rglob("*.html"):
        reader = found[path] = Reader()
        reader.feed(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.slow
def test_every_link_leads_somewhere(site, read):
    for path, reader in read.items():
        for link in reader.links:
            if "://" in link:
                continue
            file, _, anchor = link.partition("#")
            target = (path.parent / file).resolve() if file else path
            assert target in read, f"{path.relative_to(site)}: {link}"
            assert not anchor or anchor in read[target].anchors, f"{path}: {link}"


def test_nothing_is_fetched_from_elsewhere(read):
    for path, reader in read.items():
        assert all((path.parent / load).is_file() for load in reader.loads), path


def test_tags_are_closed(read):
    assert all(reader.open == ["html"] or reader.open == [] for reader in read.values())


def test_everything_has_a_page(site):
    pages = {p.relative_to(site).with_suffix("").as_posix() for p in site.rglob("*.html")}
    assert {f"codes/{code}" for code in catalog()} <= pages
    assert {f"lessons/{one.name}" for one in lessons()} <= pages
    assert {f"programs/{one.name[1:]}" for one in shipped_programs()} <= pages
    assert len([p for p in pages if p.startswith("manual/")]) == len(manual.pages())


def test_the_search_knows_operations_and_where_they_are(site, read):
    text = (site / "search-data.js").read_text(encoding="utf-8")
    data = json.loads(re.fullmatch(r"const PAGES = (.*);\n", text, re.DOTALL)[1])
    by_title = {title: address for address, title, _, _ in data}
    for name in isa().names():
        file, _, anchor = by_title[name].partition("#")
        assert anchor in read[site / file].anchors, name


def test_html_in_a_text_is_text(site):
    """A manual that shows `<…>` does not make tags of it."""
    page = (site / "manual" / "language" / "types.html").read_text(encoding="utf-8")
    assert "!pto.ptr&lt;element" in page


def test_the_contents_have_each_group_once(site) -> None:
    """Whoever reads the first page finds all of a subject in one place."""
    text = (site / "index.html").read_text(encoding="utf-8")
    groups = re.findall(r"<h2[^>]*>([^<]*)", text)
    assert len(groups) == len(set(groups)) > 3


@pytest.mark.slow
def test_a_program_links_to_its_report(tmp_path, monkeypatch) -> None:
    from ptosim.shell import site_command

    programs = [page for page in build.pages() if page.group == "Programs"]
    monkeypatch.setattr(build, "pages", lambda: programs)
    one = next(each for each in shipped_programs() if each.name == "@basics/vadd")
    monkeypatch.setattr(site_command, "shipped_programs", lambda: [one])
    assert main(["site", str(tmp_path), "--reports", "-q"]) == 0
    page = (tmp_path / "programs" / "basics" / "vadd.html").read_text(encoding="utf-8")
    assert 'href="./vadd.report.html"' in page
    report = (tmp_path / "programs" / "basics" / "vadd.report.html").read_text(encoding="utf-8")
    assert "timeline" in report
    other = (tmp_path / "programs" / "basics" / "softmax.html").read_text(encoding="utf-8")
    assert "report.html" not in other


def test_right_arguments_are_named_where_these_are_what_is_wrong(site) -> None:
    shown = next((c, s) for c, s in shown_by_programs().items() if s.right == s.wrong)
    page = (site / "codes" / f"{shown[0]}.html").read_text(encoding="utf-8")
    assert page.count("func.func @") == shown[1].wrong.count("func.func @")
    assert shown[1].right_command in page
