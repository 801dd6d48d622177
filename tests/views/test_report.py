"""A report is data: each form is made of the same sections, and what it has no room for is left out."""

from __future__ import annotations

import json

import pytest

from ptosim.ground.diagnostics.model import finding
from ptosim.views.charts.chart import Chart
from ptosim.views.charts.marks import Axis
from ptosim.views.charts.marks import Line as Curve
from ptosim.views.render import FORMS, fragment, render
from ptosim.views.report import (
    Findings,
    Frames,
    Line,
    Lines,
    Pair,
    Records,
    Report,
    Room,
    Section,
    Verbatim,
)
from ptosim.views.table import Text, number, table

TIMES = table("times", ("step", number("cycles"), number("share", ".1%")), [("load", 1200, 0.25)])
CHART = Chart("over time", Axis("time", 0, 4), Axis("bytes", 0, 2), [Curve("in use", [(0, 1)])])
FOUND = finding("PTO7647", "a budget is not met")
REPORT = Report(
    [
        Section("Time", [Text("all is well", "green"), TIMES]),
        Section("Source", lambda room: [Verbatim(f"{room.width} columns\n")]),
    ],
    lambda: {"time": TIMES},
    lambda: Records([{"step": "load", "cycles": 1200}], ("step", "cycles")),
    title="a < b",
    heads=["ptosim · of a test"],
    findings=Findings([FOUND]),
)


def test_text_has_the_heads_and_every_part():
    lines = render(REPORT, "text", Room(60)).splitlines()
    assert lines[:2] == ["ptosim · of a test", "all is well"]
    assert "load    1,200   25.0%" in lines[-3].strip()
    assert lines[-1] == "60 columns"


def test_a_page_has_the_titles_of_sections_too():
    page = render(REPORT, "html", Room())
    assert "<title>a &lt; b</title>" in page
    assert '<p class="head">ptosim · of a test</p>' in page
    assert '<p class="good">all is well</p>' in page
    assert "<h2>Time</h2>" in page
    assert '<td class="n">1,200</td>' in page
    assert "<pre>100 columns\n</pre>" in page


def test_data_are_the_values_that_cells_were_written_from():
    (row,) = json.loads(render(REPORT, "json", Room()))["time"]["rows"]
    assert row == ["load", 1200, 0.25]
    assert render(REPORT, "csv", Room()) == "step,cycles\nload,1200\n"


@pytest.mark.parametrize("form", ["jsonl", "sarif", "junit", "concise", "github"])
def test_forms_for_findings_write_the_findings(form):
    assert "PTO7647" in render(REPORT, form, Room())


def test_a_page_can_have_sections_of_its_own():
    report = Report(
        [Section("", [Text("for a terminal")])],
        page=lambda: [
            Section("Pictures", [Pair([CHART, Text("beside it")]), Lines(["one", "two"])]),
            Section("Nothing", []),
            Section("Findings", [Frames([FOUND])]),
        ],
    )
    page = render(report, "html", Room())
    assert "for a terminal" not in page
    assert "Nothing" not in page
    assert page.count("<li>one</li>") == 1
    assert 'aria-label="over time"' in page
    assert '<pre class="error">error[PTO7647]' in page
    assert "Pictures" in fragment(report.page() if report.page else ())


def test_a_line_is_whole_in_a_pipe_and_continued_on_a_screen():
    report = Report([Section("", [Line("of ten words", 4)])])
    assert render(report, "text", Room(8)) == "of ten words\n"
    assert render(report, "text", Room(8, is_screen=True)) == "of ten\n    words\n"


def test_a_wide_table_is_whole_in_a_pipe():
    """`ops` for grep: one line for each row, whatever the width; a screen cuts."""
    made = table(
        "", ("name", "what"), [("a", words := " ".join(["words"] * 30))], cut=True, pipe=400
    )
    report = Report([Section("", [made])])
    assert words in render(report, "text", Room(40))
    assert "…" in render(report, "text", Room(40, is_screen=True))


def test_a_document_of_its_own_kind_is_the_reports():
    report = Report(own={"man": lambda: ".TH"})
    assert "man" not in FORMS
    assert render(report, "man", Room()) == ".TH"


def test_a_column_of_numbers_writes_its_numbers_and_keeps_them():
    made = table("", (number("us", ",.2f", unit="us"),), [(1234.567,), (None,), ("-",)])
    assert [row[0].plain for row in made.rows] == ["1,234.57", "", "-"]
    assert made.to_dict()["columns"] == [{"name": "us", "unit": "us"}]
    assert made.to_dict()["rows"] == [[1234.567], [None], ["-"]]
