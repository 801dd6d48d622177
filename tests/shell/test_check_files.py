"""`check` on folders, again and again, and in the forms that other tools read."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

GOOD = "func.func @good() { return }\n"
BAD = "func.func @f() {\n  pto.tabs ins(%no : f32) outs(%no : f32)\n  return\n}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "b.pto").write_text(BAD, encoding="utf-8")
    (tmp_path / "deep" / "er" / "a.pto").write_text(GOOD, encoding="utf-8")
    (tmp_path / "deep" / "note.txt").write_text("no program", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_is_all_programs_in_it_and_below(cli, folder) -> None:
    outcome = cli("check", ".")
    assert outcome.code == 3
    heads = [line.split(" · ")[1] for line in outcome.out.splitlines() if " · " in line]
    assert heads == ["b.pto", "deep/er/a.pto"]


def test_a_folder_without_programs_is_a_mistake(cli, folder) -> None:
    (folder / "none").mkdir()
    outcome = cli("check", "none")
    assert (outcome.code, "no .pto file in `none`" in outcome.err) == (2, True)


def test_a_line_for_each_finding(cli, folder) -> None:
    outcome = cli("check", "--format", "concise", "b.pto")
    first, *_, last = outcome.out.splitlines()
    assert first.startswith("b.pto:2:16: error[PTO1001]: use of undefined value `%no`")
    assert last.endswith("errors") or last == "1 error"


def test_annotations_of_github(cli, folder) -> None:
    """Workflow commands: `::error file=…,line=…::message`, with %, line ends, colons and commas as
    GitHub's documentation of workflow commands escapes them."""
    from ptosim.ground.diagnostics.model import finding
    from ptosim.ground.source import Source, Span
    from ptosim.views.finding_forms import github

    outcome = cli("check", "--format", "github", "b.pto")
    assert outcome.out.startswith("::error file=b.pto,line=2,endLine=2,")
    odd = finding("PTO1001", "50% of a\nline", Span(Source("a,b:c.pto", "xyz"), 0, 2), help="x")
    assert github([odd]) == (
        "::error file=a%2Cb%3Ac.pto,line=1,endLine=1,title=ptosim PTO1001,col=1,endColumn=3::"
        "50%25 of a%0Aline%0Ahelp: x\n"
    )


def test_sarif_says_how_bad_a_rule_is_and_where_it_is_explained(cli, folder) -> None:
    import json

    driver = json.loads(cli("check", "--format", "sarif", "b.pto").out)["runs"][0]["tool"]["driver"]
    assert driver["version"] == driver["semanticVersion"]
    rule = driver["rules"][0]
    assert rule["defaultConfiguration"] == {"level": "error"}
    assert rule["helpUri"].endswith(rule["id"])


@pytest.mark.parametrize("words", [("--fix", "b.pto"), ("--diff", "b.pto"), ("-",)])
def test_what_cannot_be_watched(cli, folder, words) -> None:
    outcome = cli("check", "--watch", *words)
    assert (outcome.code, "contradict each other" in outcome.err) == (2, True)


def _heed_interrupts() -> None:
    """What is started in the background of a shell ignores them, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
def test_watching_checks_again_when_a_file_changes(folder) -> None:
    command = [sys.executable, "-m", "ptosim", "check", "--watch", "b.pto"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_heed_interrupts,
    ) as process:
        guard = threading.Timer(60, process.kill)
        guard.start()
        assert process.stdout is not None
        assert any("watching" in line for line in process.stdout)
        (folder / "b.pto").write_text(GOOD, encoding="utf-8")
        assert any("entry good" in line for line in process.stdout)
        assert any("watching" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
        guard.cancel()


@pytest.mark.parametrize(
    ("environment", "colored"),
    [({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False), ({}, False)],
)
def test_colours_as_the_environment_asks(cli, folder, monkeypatch, environment, colored) -> None:
    """https://no-color.org and https://force-color.org; who wants no colours gets none."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[" in cli("check", "b.pto").err) is colored


@pytest.mark.slow
def test_a_check_of_the_text_alone_does_without_numpy() -> None:
    """The verdict of a commit hook is there before NumPy would be loaded."""
    code = (
        "import sys; from ptosim.shell.main import main; "
        "main(['check', '@basics/vadd', '--no-dry-run', '-q']); "
        "sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_programs_are_checked_beside_kernels_whose_extra_is_missing(
    cli, folder, monkeypatch
) -> None:
    """One line says what brings the extra, and which files wait for it; alone such a file is the
    same mistake."""
    for package in ("pcpp", "tree_sitter", "tree_sitter_cpp"):
        monkeypatch.setitem(sys.modules, package, None)
    (folder / "b.pto").write_text(GOOD, encoding="utf-8")
    for name in ("k.cpp", "l.cpp"):
        (folder / name).write_text("__global__ AICORE void k(__gm__ float *y) { y[0] = 1; }\n")
    outcome = cli("check", ".")
    heads = [line.split(" · ")[1] for line in outcome.out.splitlines() if " · " in line]
    assert (outcome.code, heads) == (2, ["b.pto", "deep/er/a.pto"])
    assert outcome.err.count("error:") == 1
    assert "not checked: k.cpp, l.cpp" in outcome.err
    assert "pip install 'ptosim[cpp]'" in outcome.err
    outcome = cli("check", "k.cpp")
    assert (outcome.code, outcome.out) == (2, "")
    assert "kernels in C++ need an extra" in outcome.err
