"""Charts: where values are, how they are written, and that labels do not cover each other."""

from __future__ import annotations

import itertools
import json
import math
import re

import numpy as np
import pytest

from ptosim.views.charts.chart import Chart, place
from ptosim.views.charts.lanes import MOST, Lane, Lanes, Span, page
from ptosim.views.charts.listing import MOST as MOST_LINES
from ptosim.views.charts.listing import Beside, Listing, Remark
from ptosim.views.charts.marks import (
    Axis,
    Bars,
    Cells,
    Line,
    Point,
    Points,
    Rule,
    around,
    short_text,
)
from ptosim.views.table import bytes_text, table


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (9072, "9,072"), (20_000, "20k"), (123_456, "123.5k"), (3_500_000, "3.5M"),
     (0.25, "0.25"), (1.2e-7, "1.2e-07"), (-4096, "-4,096")],
)  # fmt: skip
def test_numbers_of_ticks_are_short(value, text):
    assert short_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (128, "128 B"), (1024, "1 KiB"), (41_216, "40.25 KiB"), (5 << 20, "5 MiB")],
)
def test_bytes_have_units_of_1024(value, text):
    assert bytes_text(value) == text


@pytest.mark.parametrize(
    ("axis", "texts"),
    [
        (Axis("time", 0, 9072, "cycles"), ["0", "5,000"]),
        (Axis("time", 0, 8000, "cycles"), ["0", "2,000", "4,000", "6,000", "8,000"]),
        (Axis("address", 0, 262_144, "bytes"), ["0 B", "64 KiB", "128 KiB", "192 KiB", "256 KiB"]),
        (Axis("size", 0.001, 10, log=True), ["0.001", "0.01", "0.1", "1", "10"]),
        (Axis("target", names=("a2a3", "a5")), ["a2a3", "a5"]),
        (Axis("step", 1, 3, "steps"), ["1", "2", "3"]),
        (Axis("row", 8, 0, "steps"), ["0", "2", "4", "6", "8"]),
    ],
)
def test_ticks_are_round_numbers_in_their_unit(axis, texts):
    assert [t.text for t in axis.ticks()] == texts


def test_a_tick_is_where_its_value_is():
    axis = Axis("time", 100, 300)
    assert [(t.at, t.text) for t in axis.ticks(3)] == [(0, "100"), (0.5, "200"), (1, "300")]
    assert Axis("row", 4, 0).place(1) == 0.75  # the first row is at the top
    assert Axis("x", 1, 100, log=True).place(10) == pytest.approx(0.5)
    assert Axis("x", 1, 100, "us", log=True).title == "x (us, logarithmic)"
    assert Axis("x", 1, 100, log=True).place(0) == 0  # a logarithm of nothing: the low end
    assert Axis("x", 0, 1).place(math.inf) == 1


def test_of_many_names_some_give_way_on_narrow_pages():
    ticks = Axis("block", names=tuple(map(str, range(20)))).ticks(5)
    assert len(ticks) == 20
    assert sum(not t.minor for t in ticks) == 5


def test_an_axis_around_nothing_is_still_one():
    assert around([], "cycles").high > 0
    assert around([math.nan, -2.0, 6.0], "error").low < -2


def test_labels_never_cover_each_other_or_a_point():
    """Names of points on top of each other and at the rim: whatever has no room is a number."""
    rng = np.random.default_rng(3)
    points = [
        (float(x), float(y), f"format {i} of many") for i, (x, y) in enumerate(rng.random((24, 2)))
    ]
    placed, keys = place(points, 300)
    assert len([p for p in placed if not p.text.isdecimal()]) + len(keys) == len(points)
    for width in (250, 400, 760, 1000):
        boxes = [(p.x * width + p.right, p.y * 300 + p.up, len(p.text) * 7.2) for p in placed]
        for (a, low, wide), (b, other, wide2) in itertools.combinations(boxes, 2):
            apart = a + wide <= b or b + wide2 <= a or abs(low - other) >= 15
            assert apart or width == 400  # 400 is between the widths that are tried
        for (left, low, wide), (x, y, _) in itertools.product(boxes, points):
            inside = left < x * width < left + wide and low < y * 300 < low + 15
            assert not inside or width == 400


def test_a_chart_says_what_its_axes_are():
    text = Chart(
        "bytes in use", Axis("time", 0, 100, "cycles"), Axis("bytes", 0, 2048, "bytes"),
        [Line("in use", [(0, 0), (50, 1024)], stepped=True), Rule("safe limit", 2000)], note="why",
    ).to_html()  # fmt: skip
    assert "time (cycles)" in text
    assert "1 KiB" in text
    assert text.count("<li>") == 2  # the legend
    assert 'd="M0 1000H500V500"' in text
    assert 'role="img" aria-label="bytes in use"' in text


def test_bars_and_points_are_on_the_axes():
    x, y = Axis("x", 0, 4), Axis("y", 0, 2)
    bars = Bars("", [(0, 1, 2), (1, 2, 0), (2, 4, 1)]).draw(x, y)
    assert 'd="M0 1000V0H250V1000ZM500 1000V500H1000V1000Z"' in bars.svg
    points = Points("two", [Point(1, 1, "a < b")]).draw(x, y)
    assert "left:25.00%;bottom:50.00%" in points.html
    assert "a &lt; b" in points.html
    assert points.keys[0].sign == "●"


def test_a_heat_map_grows_brighter_and_says_its_range():
    drawn = Cells("time", np.array([[1.0, 10.0], [np.nan, 100.0]]), "us", log=True).draw(
        Axis("x"), Axis("y")
    )
    colours = re.findall(r'fill="#(\w+)"', drawn.svg)
    lights = [sum(bytes.fromhex(c)) for c in colours]
    assert lights[0] < lights[1] < lights[3]
    assert colours[2] == "888888"
    assert drawn.keys[0].text == "time (us): 1 to 100"


def test_lanes_that_move_carry_their_data():
    row = Lane("MTE2", [Span(0, 10, "tload </script>"), Span(10, 30, "tload </script>", 1)])
    text = Lanes(
        "timeline", Axis("time", 0, 40, "cycles"), [Lane("block 0", None), row], group="time"
    ).to_html()
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', text)
    assert json.loads(data) == {"texts": ["tload </script>"], "lanes": [[[0, 10, 0], [10, 30, 0]]]}
    assert "<button" in text
    still = Lanes("timeline", Axis("time", 0, 40, "cycles"), [row]).to_html()
    assert "<script" not in still
    assert still.count("<title>") == 2


def test_a_lane_of_very_many_spans_stays_small_and_whole():
    spans = [Span(i, i + 0.5, f"op {i}") for i in range(10 * MOST)]
    text = Lanes("t", Axis("time", 0, 10 * MOST), [Lane("V", spans)], group="t").to_html()
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', text)
    (kept,) = json.loads(data)["lanes"]
    assert len(kept) <= 2 * MOST
    assert (kept[0][0], kept[-1][1]) == (0, 10 * MOST - 0.5)


def test_a_page_needs_nothing_else():
    made = table("", ("name", ">bytes"), [("%a", 1)]).to_html()
    text = page("a & b", [("empty", "", False), ("one", made, False)])
    assert text.count("<h2>") == 1
    assert "<nav" not in text  # one section needs no contents
    assert "a &amp; b" in text
    assert '<td class="n">1</td>' in text
    assert not re.search(r"(src|href|url)\W+http|fetch\(|import ", text)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_a_long_page_has_contents_and_folds_what_is_looked_up():
    parts = [(f"part {n}", "<p>text</p>", n == 3) for n in range(4)]
    text = page("t", parts, heads=["ptosim", "because sync manual: set_flag"])
    assert '<p class="head">because sync manual: set_flag</p>' in text
    assert re.findall(r'<a href="#(.*?)">', text) == [f"part-{n}" for n in range(4)]
    assert text.count("<details>") == 1
    assert '<section id="part-3"><details><summary><h2>part 3</h2></summary><p>text' in text


def test_a_listing_has_figures_beside_and_findings_below_a_line():
    text = Listing(
        "a.pto", ["func {", "  tadd < 1", "}"], "p", [("a5", 2)], ("path", "busy"),
        {2: [Beside("7", 0.5, "half"), Beside("9")]}, {2: [Remark("error", "error PTO1: no & no")]},
        frozenset((1,)),
    ).to_html()  # fmt: skip
    assert text.count("<tr") == 5  # names, three lines, a finding
    row = text[text.index('data-line="2"') :]
    assert '<td class="n heat" style="--part:50%" title="half">7</td><td class="n may">9' in row
    assert "<code>  tadd &lt; 1</code>" in row
    assert '<tr class="remark error"><td colspan="4">error PTO1: no &amp; no' in row
    assert text.count("tabindex") == 2  # the box, and the one line that can be chosen


def test_of_a_very_long_text_a_listing_shows_what_something_is_beside():
    lines = [f"line {n}" for n in range(1, MOST_LINES + 102)]
    text = Listing("a", lines, "p", (), ("busy",), {800: [Beside("1")]}).to_html()
    assert re.findall(r"<code>line (\d+)</code>", text) == ["798", "799", "800", "801", "802"]
    assert "… 797 lines" in text


def test_spans_carry_their_line_what_is_told_of_them_and_what_they_wait_for():
    rows = [
        Lane("MTE2", [Span(0, 10, "tload", 0, 3, 0)]),
        Lane("V", [Span(12, 20, "tadd", 1, 4, 1, (0, 0)), Span(20, 30, "tadd", 1, 4, 1, (1, 0))]),
    ]
    axis = Axis("time", 0, 40, "cycles")
    made = Lanes("t", axis, rows, group="time", program="p", details=[["load"], ["add"]])
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', made.to_html())
    found = json.loads(data)
    assert found["lanes"] == [[[0, 10, 0]], [[12, 20, 1, 0, 0], [20, 30, 1, 1, 0]]]
    assert (found["lines"], found["of"], found["names"]) == ([3, 4], [0, 1], ["MTE2", "V"])
    assert found["details"] == [["load"], ["add"]]


def test_columns_give_way_on_narrow_pages():
    text = table("", ("name", ">of f32"), [("a", 1)], drop=("of f32",)).to_html()
    assert '<td class="n may">1</td>' in text


def test_numbers_from_a_hundred_on_are_whole_and_an_axis_without_a_label_has_no_ticks():
    assert [short_text(v) for v in (6553.6, 381.2, 12.34, 0.5)] == ["6,554", "381", "12.3", "0.5"]
    assert Axis("").ticks() == []
    assert Axis("cycles").ticks()
    assert len(Axis("", names=("n", "cycles")).ticks()) == 2
