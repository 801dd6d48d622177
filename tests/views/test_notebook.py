"""A real notebook, executed by nbclient in a kernel of its own, and what its cells show."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import ptosim
from ptosim.shell.magic import load_ipython_extension
from tests.support.browser import browser, executable

TOUR = Path(__file__).with_name("tour.ipynb")


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """The code cells after execution."""
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    import nbformat

    notebook = nbformat.read(TOUR, as_version=4)
    root = str(Path(ptosim.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": root, "COLUMNS": "80"}
    os.environ.setdefault("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3")
    client.execute(env=env)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def html(cell) -> str:
    return "".join(o["data"].get("text/html", "") for o in cell.outputs if "data" in o)


def plain(cell) -> str:
    return "".join(o.get("text", "") or o["data"].get("text/plain", "") for o in cell.outputs)


@pytest.mark.slow
def test_a_notebook_runs_and_has_its_pictures(cells):
    extension, arrays, run, equal, program, cost, memory, broken, findings, command = cells
    assert extension.outputs == arrays.outputs == []
    assert "<svg" in html(run)
    assert "Result: " in plain(run)
    assert plain(equal) == "True"
    assert "argument" in html(program)
    assert html(cost).count("<svg") >= 3
    assert "roofline" in html(cost)
    assert "safe limit" in html(memory)
    assert "error[PTO" in html(broken)
    assert "Traceback" not in json.dumps(broken.outputs)
    assert "no findings" in html(findings)
    assert "cycles" in plain(command)
    assert "<svg" in html(command)
    assert all("<script>" not in html(cell) for cell in cells)


_TABLES_OF_JUPYTER = ".jp-RenderedHTMLCommon td, .jp-RenderedHTMLCommon th { text-align: right; }"


@pytest.mark.slow
def test_texts_are_left_and_numbers_right_whatever_the_notebook_says(tmp_path):
    """JupyterLab puts every cell of a table right; its rule comes last here."""
    if executable() is None:
        pytest.skip("no Chromium on this machine")
    shown = ptosim.load("programs/basics/vadd.pto", target="a5").cost()._repr_html_()
    page_text = f'<!DOCTYPE html><body class="jp-RenderedHTMLCommon">{shown}<style>{_TABLES_OF_JUPYTER}</style>'
    (tmp_path / "notebook.html").write_text(page_text, encoding="utf-8")
    with browser() as page:
        page.open(tmp_path / "notebook.html", 1000, dark=False)
        aligned = (
            "Array.from(document.querySelectorAll('td')).map(c =>"
            " (c.className.includes('n') ? 'number ' : 'text ') + getComputedStyle(c).textAlign)"
        )
        found = set(page.value(f"{aligned}.join()").split(","))
    assert found == {"text left", "number right"}


def test_a_command_with_a_page_is_drawn_and_others_are_printed():
    """What `%pto` does: pictures where a command has them, unless another form is asked for."""
    from ptosim.shell.main import main

    drawn: list[tuple[str, str]] = []
    assert main(["quant", "explore", "randn:f32:8x64"], lambda *shown: drawn.append(shown)) == 0
    ((text, html_text),) = drawn
    assert "SQNR dB" in text
    assert html_text.count("<svg") > 3
    assert (
        main(["cost", "@basics/vadd", "--format", "json"], lambda *shown: drawn.append(shown)) == 0
    )
    assert main(["explain", "PTO5201"], lambda *shown: drawn.append(shown)) == 0
    assert len(drawn) == 1


def test_a_check_is_drawn_with_its_text_and_its_findings(tmp_path):
    """On a page and in a notebook as in a terminal, where findings are beside the report."""
    from ptosim.shell.main import main

    (tmp_path / "k.pto").write_text("func.func @f() {\n  pto.tadd_\n  return\n}\n")
    drawn: list[tuple[str, str]] = []
    assert main(["check", str(tmp_path / "k.pto")], lambda *shown: drawn.append(shown)) == 3
    ((text, html_text),) = drawn
    assert "1 error" in text
    for told in (text, html_text):
        assert "unknown operation `pto.tadd_`" in told
        assert "did you mean `pto.tadd`?" in told
    page = tmp_path / "check.html"
    assert main(["check", str(tmp_path / "k.pto"), "-o", str(page)]) == 3
    written = page.read_text()
    assert "<h1>Check of" in written
    assert written.count("unknown operation") == 2, "below its line, and as a frame"


def test_a_line_whose_quotation_mark_is_open_is_said(capsys):
    shell = _Shell()
    load_ipython_extension(shell)
    shell.magics["line"]('cost "@basics/vadd')
    shell.magics["cell"]('"kernel', "")
    assert capsys.readouterr().out.count("a quotation mark is not closed") == 2


class _Shell:
    """What an extension sees of IPython."""

    def __init__(self) -> None:
        self.magics: dict[str, Callable[..., object]] = {}

    def register_magic_function(self, made, magic_kind: str, magic_name: str) -> None:
        self.magics[magic_kind] = made


X = "func.func @f(%a: !pto.ptr<f32>) {\n return\n}\n"


def test_representations_are_short():
    program = ptosim.load("programs/basics/vadd.pto", target="a5")
    result = program.run()
    found = ptosim.check(X, target="a5", filename="k.pto")
    for shown in (program, result, result.cost, program.map(), *found):
        assert len(repr(shown)) < 200
        assert "\n" not in repr(shown)
    assert repr(program) == "<Program programs/basics/vadd.pto for a5: @vadd>"
    assert repr(result).startswith("<Result: 3 outputs (x, y, z), ")


def test_everything_has_a_form_in_html():
    program = ptosim.load("programs/basics/vadd.pto", target="a5")
    result = program.run()
    found = ptosim.check("func.func @f() { pto.tmow\n return }", target="a5")
    chain = ptosim.run_chain("programs/model/mlp.toml", target="a5")
    for shown in (program, result, result.cost, program.map(), found, found[0], chain):
        text = shown._repr_html_()
        assert text.startswith("<style>")
        assert ":root" not in text, "a notebook's own page keeps its colours"
    assert "<svg" in result._repr_html_()


def test_names_can_be_completed():
    assert set(ptosim.__all__) <= set(dir(ptosim))
    assert {"load", "check", "CostReport", "MemoryMap"} <= set(ptosim.__all__)
