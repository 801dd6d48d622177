"""Every page in a real browser: three widths, light and dark. Without a browser the tests say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptosim.shell.main import main
from tests.support.browser import Page, browser, executable

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        executable() is None, reason="no Chromium on this machine: pages not looked at"
    ),
]

PAGES = {
    "report": "report @cube/flash_attention",
    "report of a rejected program": "report @broken/over_budget --target a2a3",
    "report of a wrong value": "report @broken/overlapping_parameters",
    "run": "run @basics/softmax --target a5",
    "cost": "cost @quant/int8_asym --target a2a3,a5",
    "cost with a cast chain": "cost @quant/mxfp8_nd --target a5",
    "map": "map @basics/rmsnorm",
    "chain": "run --chain @model/mlp",
    "two programs": "diff @page/ssa @page/dps",
    "two targets": "port @basics/softmax --from a2a3 --to a5",
    "tuned": "tune @basics/softmax --target a5 --seeds 0",
    "explore": "quant explore randn:f32:64x128:3",
    "checked": "check @broken/missing_flag @broken/left_operand_in_vec",
    "points": "sweep @search/gemm.pto.j2 --space @search/gemm.toml --param TM=256 --param TN=128 "
    "--param TK=32,64 --target a5 --no-store",
}
SWEEP = (
    "sweep @search/gemm.pto.j2 --space @search/gemm.toml --param TM=64,256 --param TN=128 "
    "--param TK=32,64 --target a5 --no-store --top 2 --reports"
)
WIDTHS = (420, 900, 1600)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for number, (name, words) in enumerate(PAGES.items()):
        found[name] = folder / f"{number}.html"
        assert main([*words.split(), "-o", str(found[name]), "-q"]) in (0, 1, 3)
    found["sweep"] = folder / "sweep.html"
    points = str(folder / "points")
    assert main([*SWEEP.split(), points, "-o", str(found["sweep"]), "-q"]) == 0
    return found


@pytest.fixture(scope="module")
def tab():
    with browser() as page:
        yield page


OVERLAPS = """(() => {
  const found = [];
  for (const figure of document.querySelectorAll("figure")) {
    const labels = [...figure.querySelectorAll(".tick, .label, .name, .axis, figcaption, .legend li")]
      .map((e) => [e.textContent, e.getBoundingClientRect()]).filter(([, r]) => r.width && r.height);
    for (let i = 0; i < labels.length; i++)
      for (let j = i + 1; j < labels.length; j++) {
        const [a, p] = labels[i], [b, q] = labels[j];
        if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 2 && q.top < p.bottom - 2)
          found.push(`${a} / ${b}`);
      }
  }
  return found;
})()"""
OUTSIDE = """[...document.querySelectorAll("body *")].filter((e) => {
  const r = e.getBoundingClientRect();
  return r.width && !e.closest("svg, .scroll > *, pre > *") && (r.left < -0.5 || r.right > innerWidth + 0.5);
}).map((e) => e.tagName + " " + e.textContent.slice(0, 40))"""
FAINT = """(() => {
  const light = (c) => c.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const paper = light(getComputedStyle(document.body).backgroundColor);
  return [...document.querySelectorAll("p, td, th, li, .tick, .label, .name, pre")].filter((e) => {
    const ink = light(getComputedStyle(e).color);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05) < 4.5;
  }).map((e) => e.textContent.slice(0, 40));
})()"""
SMALL = """[...document.querySelectorAll("figure *, td, p")].filter((e) => e.textContent.trim() &&
  !e.closest("svg, script") && parseFloat(getComputedStyle(e).fontSize) < 11)
  .map((e) => e.textContent.slice(0, 40))"""


@pytest.mark.sampled(3, 40)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [*PAGES, "sweep"])
def test_a_page_can_be_read(files, tab: Page, name, width, dark):
    """Nothing is wider than the window, no label covers another one, text is dark on light or light on
    dark (contrast 4.5, as WCAG asks for) and no smaller than 11 pixels."""
    tab.open(files[name], width, dark=dark)
    assert tab.value("getComputedStyle(document.body).backgroundColor") == (
        "rgb(21, 24, 28)" if dark else "rgb(255, 255, 255)"
    )
    assert tab.value(OVERLAPS) == []
    assert tab.value(OUTSIDE) == []
    assert tab.value(FAINT) == []
    assert tab.value(SMALL) == []


def test_the_measures_find_what_they_look_for(tab: Page, tmp_path):
    path = tmp_path / "bad.html"
    path.write_text(
        "<!DOCTYPE html><body style='background:#fff;color:#eee'><figure style='width:2000px'>"
        "<span class=tick style='position:absolute;font-size:8px'>one</span>"
        "<span class=tick style='position:absolute'>two</span></figure><p>faint</p>"
    )
    tab.open(path, 420, dark=False)
    assert tab.value(OUTSIDE) == ["FIGURE onetwo"]
    assert tab.value(OVERLAPS) == ["one / two"]
    assert "faint" in tab.value(FAINT)
    assert "one" in tab.value(SMALL)


def test_a_page_asks_for_nothing_from_outside(files, tab: Page):
    for name, path in files.items():
        tab.open(path, 900, dark=False)
        assert tab.value("performance.getEntriesByType('resource').length") == 0, name


def test_timelines_zoom_move_and_tell_together(files, tab: Page):
    """The button + shows half of the time in every figure, pipes and tiles of both targets, which
    are on one scale."""
    tab.open(files["report"], 900, dark=False)
    boxes = "[...document.querySelectorAll('figure.lanes[data-group] svg[viewBox]')].map((s) => s.getAttribute('viewBox'))"
    whole = set(tab.value(boxes))
    assert len(whole) == 1
    tab.value("document.querySelector('figure.lanes [data-do=in]').click()")
    (near,) = set(tab.value(boxes))
    assert float(near.split()[2]) == pytest.approx(float(whole.pop().split()[2]) / 2)
    assert tab.value(OVERLAPS) == []
    told = tab.value("""(() => {
      const figure = document.querySelector('figure.lanes');
      const svg = figure.querySelectorAll(".bar-of svg")[0], box = svg.getBoundingClientRect();
      const at = { clientX: box.left + box.width / 2, clientY: box.top + 3, bubbles: true };
      svg.dispatchEvent(new PointerEvent("pointermove", at));
      return figure.querySelector(".told").textContent;
    })()""")
    assert " · from " in told


KEYS = """((element, ...keys) => keys.forEach((key) =>
  element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }))))"""


def test_a_line_shows_its_spans_and_a_span_its_line_and_what_it_waited_for(files, tab: Page):
    """With the keyboard alone: from span to span with the arrows, Enter chooses one."""
    tab.open(files["report"], 1400, dark=False)
    tab.value("document.querySelector('tr[data-line]').click()")
    line = tab.value("+document.querySelector('tr.chosen').dataset.line")
    assert tab.value("document.querySelectorAll('.of-line').length") > 1
    assert tab.value("document.querySelector('figure.lanes .told').textContent").startswith(
        f"line {line}: "
    )
    tab.value("document.querySelector('tr.chosen').click()")  # again: none is chosen
    assert tab.value("document.querySelectorAll('.of-line').length") == 0
    lane = "[...document.querySelectorAll('figure.lanes')][0].querySelectorAll('.bar-of > svg')[5]"
    keys = "'ArrowRight', " * 8 + "'Enter'"
    tab.value(f"{KEYS}({lane}, {keys})")
    told = tab.value("document.querySelector('.detail').innerText")
    assert "starts after" in told
    assert " cycles; figures " in told or " cycles, its result " in told
    chosen = tab.value("document.querySelector('tr.chosen').dataset.line")
    assert f"line {chosen} ·" in told
    assert tab.value("document.querySelectorAll('figure.lanes > .arrow').length") == 1
    box, row = (
        tab.value(f"(() => {{ const r = document.querySelector('{of}').getBoundingClientRect();"
                  "return [r.top, r.bottom]; })()")
        for of in (".code", "tr.chosen")
    )  # fmt: skip
    assert box[0] <= row[0] < row[1] <= box[1]  # scrolled to where it is seen
    tab.value("document.querySelector('.detail button').click()")  # to what it waited for
    assert tab.value("document.querySelector('.detail').innerText") != told
    tab.value(f"{KEYS}({lane}, 'Escape')")
    assert tab.value("document.querySelector('.detail').hidden") is True


def test_tables_are_sorted_and_filtered(files, tab: Page):
    tab.open(files["report"], 1400, dark=False)
    tab.value("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    table = "document.querySelector('#stages table')"
    column = (
        f"[...{table}.tBodies[0].rows].filter((r) => !r.hidden).map((r) => r.cells[2].textContent)"
    )

    def numbers() -> list[int]:
        return [int(t.replace(",", "")) for t in tab.value(column) if t != "-"]

    before = numbers()
    tab.value(f"{table}.tHead.rows[0].cells[2].querySelector('button').click()")
    assert numbers() == sorted(before)
    tab.value(f"{table}.tHead.rows[0].cells[2].querySelector('button').click()")
    assert numbers() == sorted(before, reverse=True)
    tab.value(f"{table}.tHead.rows[0].cells[2].querySelector('button').click()")
    assert numbers() == before
    tab.value("""(() => { const field = document.querySelector("#stages input");
      field.value = "tload"; field.dispatchEvent(new Event("input")); })()""")
    names = tab.value(
        f"[...{table}.tBodies[0].rows].filter((r) => !r.hidden).map((r) => r.cells[0].textContent)"
    )
    assert set(names) == {"tload"}


def test_points_of_charts_are_told_of_with_the_keyboard(files, tab: Page):
    tab.open(files["report"], 1400, dark=False)
    area = "document.querySelector('#roofline .area')"
    tab.value(f"{KEYS}({area}, 'ArrowRight')")
    assert "attainable operations a cycle" in tab.value(
        "document.querySelector('#roofline .told').textContent"
    )


def test_a_range_of_parallel_coordinates_is_chosen_by_dragging(files, tab: Page):
    """The lower half of the axis of cycles: lines that are above it give way; a click takes it
    back."""
    tab.open(files["sweep"], 1400, dark=False)
    drag = """((from, to) => {
      const area = document.querySelector("path.thread").closest(".area");
      const box = area.getBoundingClientRect(), x = box.right - 3;
      const at = (part) => ({ clientX: x, clientY: box.bottom - part * box.height, bubbles: true });
      area.dispatchEvent(new PointerEvent("pointerdown", at(from)));
      area.dispatchEvent(new PointerEvent("pointermove", at(to)));
      area.dispatchEvent(new PointerEvent("pointerup", at(to)));
      const all = [...document.querySelectorAll("path.thread")];
      return all.map((p) => [+p.dataset.at.split(" ").at(-1), p.classList.contains("out")]);
    })"""
    found = tab.value(f"{drag}(0.01, 0.5)")
    assert {out for at, out in found if at < 0.45} == {False}
    assert {out for at, out in found if at > 0.55} == {True}
    told = tab.value(
        "document.querySelector('path.thread').closest('figure').querySelector('.told').textContent"
    )
    assert told == f"{sum(not out for _, out in found)} of {len(found)} points"
    assert not any(out for _, out in tab.value(f"{drag}(0.2, 0.2)"))


def test_a_point_of_a_sweep_opens_its_report(files, tab: Page):
    tab.open(files["sweep"], 1400, dark=False)
    assert tab.value("document.querySelectorAll('a.point').length") >= 2
    page = files["sweep"].parent / tab.value(
        "document.querySelector('a.point').getAttribute('href')"
    )
    tab.open(page, 1400, dark=False)
    assert tab.value("document.querySelector('figure.listing figcaption').textContent").endswith(
        ".pto"
    )
    assert page.with_suffix(".pto").read_text().startswith(("//", "module"))


def test_a_point_opens_its_report_in_the_page_where_no_folder_is_asked_for(files, tab: Page):
    tab.open(files["points"], 1400, dark=False)
    opened = "document.querySelector('details[open] figure.listing figcaption')"
    assert tab.value(f"{opened} === null")
    tab.value("document.querySelector('a.point').click()")
    assert tab.value(f"{opened}.textContent") == "gemm.pto.j2"


def test_no_page_writes_an_error_to_the_console(files, tab: Page):
    tab.call("Page.enable")
    tab.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source="window.wrong = []; addEventListener('error', (e) => wrong.push(e.message));"
        "console.error = (...words) => wrong.push(words.join(' '));",
    )
    for name, path in files.items():
        tab.open(path, 900, dark=False)
        assert tab.value("window.wrong") == [], name


def test_the_page_of_a_large_program_stays_small(files):
    """Flash attention on two targets, with text, spans, dependences and stages: at most 400 kB, and
    the operation of the cube has a colour of its own."""
    text = files["report"].read_text()
    assert len(text.encode()) <= 400_000
    legend = text[text.index("timeline, a2a3") :]
    assert "tmatmul" in legend[: legend.index("</ul>")]


def test_paper_has_no_buttons_and_whole_tables(files, tab: Page):
    tab.open(files["report"], 900, dark=False)
    tab.call("Emulation.setEmulatedMedia", media="print")
    assert tab.value("getComputedStyle(document.querySelector('.tools')).display") == "none"
    assert tab.value("getComputedStyle(document.querySelector('.long')).overflowY") == "visible"
    tab.call("Emulation.setEmulatedMedia", media="")
