"""`ptosim report` and `-o x.html`: what the page says, and what the exit code is."""

from __future__ import annotations

import json
import re

import pytest

from tests.shell.programs import copy_program


def page_of(cli, tmp_path, *words) -> tuple[int, str]:
    path = tmp_path / "page.html"
    outcome = cli(*words, "-o", path)
    assert outcome.out == ""
    return outcome.code, path.read_text()


def headings(page: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page)


def test_the_page_has_all_that_is_known(cli, tmp_path):
    code, page = page_of(cli, tmp_path, "report", "@basics/vadd")
    assert code == 0
    assert headings(page) == [
        "Verdict", "Hints", "Program", "Values", "Memory, a2a3", "Memory, a5", "Roofline",
        "Operations", "Pipes", "Critical path", "Stages", "Accuracy", "How this page was made",
    ]  # fmt: skip
    assert "✓ 1 output as expected" in page
    assert "✓ no findings" in page
    assert "ptosim report @basics/vadd" in page
    report = json.loads(cli("cost", "@basics/vadd", "--target", "a5", "--format", "json").out)
    assert f"a5: {report['cycles']:,} cycles" in page


def test_a_wrong_value_is_the_verdict(cli, tmp_path):
    code, page = page_of(cli, tmp_path, "report", "@broken/overlapping_parameters")
    assert code == 1
    assert "✗ q: not what is expected" in page
    assert "warning[PTO7104]" in page


def test_a_rejected_program_has_a_page_too(cli, tmp_path):
    """The page says why, with a frame of code; the exit code is the program's."""
    path = tmp_path / "k.pto"
    path.write_text(copy_program("    pto.tmow ins(%a : f32)"))
    code, page = page_of(cli, tmp_path, "report", path)
    assert code == 3
    assert "rejects the program" in page
    assert "did you mean" in page
    assert "timeline, " not in page
    listed = page[page.index('class="listing"') :]  # its text, with the finding below the line
    assert "pto.tmow" in listed
    assert '<tr class="remark error">' in listed
    code, page = page_of(
        cli, tmp_path, "report", "@broken/tquant_mx_on_a2a3", "--target", "a2a3,a5"
    )
    assert "✗ a2a3 rejects the program" in page


def test_a_run_that_stops_has_a_page_too(cli, tmp_path):
    code, page = page_of(cli, tmp_path, "report", "@broken/outside_the_buffer")
    assert code == 4
    assert '<p class="bad">✗ the run stopped' in page
    assert "error[PTO6001]" in page
    assert "Values" not in headings(page)


def test_the_data_of_the_page(cli):
    report = json.loads(cli("report", "@basics/vadd", "--format", "json").out)
    assert set(report["cost"]["targets"]) == {"a2a3", "a5"}
    assert report["run"]["expected"][0]["passed"]
    space = report["memory"]["a5"]["spaces"][0]
    assert space["steps"] == report["cost"]["targets"]["a5"]["cycles"]


def test_memory_over_cycles_is_that_of_the_operations(cli):
    """vadd on A5 loads x, then y, adds them, stores the sum: a tile is in use from the start of its
    load to the end of the addition, that of the sum to the end of its store."""
    data = json.loads(cli("report", "@basics/vadd", "--format", "json").out)
    (space,) = data["memory"]["a5"]["spaces"]
    live = {b["name"]: b["live"] for b in space["buffers"]}
    ends = sorted(span[-1][1] for span in live.values())
    assert len(live) == 3
    assert all(len(spans) == 1 for spans in live.values())
    assert ends[0] == ends[1] < ends[2] <= data["cost"]["targets"]["a5"]["cycles"]


@pytest.mark.parametrize("words", [("run", "@basics/softmax", "--target", "a5"),
                                   ("cost", "@basics/softmax", "--target", "a2a3,a5")])  # fmt: skip
def test_other_commands_write_pages(cli, tmp_path, words):
    code, page = page_of(cli, tmp_path, *words)
    assert code == 0
    assert "timeline, a5" in page
    assert 'class="listing"' in page
    assert ("Values" in headings(page)) == (words[0] == "run")


def test_two_programs_are_beside_each_other_on_one_scale(cli, tmp_path):
    """`diff`: two texts, each with its figures; timelines whose axis is that of the longer one."""
    _, page = page_of(cli, tmp_path, "diff", "@page/ssa", "@page/dps")
    assert headings(page) == ["What differs", "Time", "Programs"]
    assert re.findall(r'<figure class="listing" data-program="(.*?)"', page) == [
        "program-0", "program-1",
    ]  # fmt: skip
    assert "A: ssa.pto" in page
    assert len(set(re.findall(r'data-group="cycles" data-low="0" data-high="(.*?)"', page))) == 1
    assert re.findall(r"<figcaption>(timeline of .)", page) == ["timeline of A", "timeline of B"]


def test_one_text_on_two_targets_is_there_once(cli, tmp_path):
    _, page = page_of(cli, tmp_path, "port", "@basics/vadd", "--from", "a2a3", "--to", "a5")
    assert page.count('<figure class="listing"') == 1
    assert page.count("<figcaption>timeline of on a") == 2


@pytest.mark.slow
def test_what_tune_found_is_beside_the_reference(cli, tmp_path):
    code, page = page_of(cli, tmp_path, "tune", "@basics/softmax", "--target", "a5", "--seeds", "0")
    assert code == 0
    assert "timeline of reference" in page
    assert "timeline of 1: double buffering" in page


@pytest.mark.slow
def test_a_kernel_of_a_chain_has_its_text_and_timelines(cli, tmp_path):
    _, page = page_of(cli, tmp_path, "run", "--chain", "@model/mlp")
    kernels = [name for name in headings(page) if name.startswith("Kernel ")]
    assert len(kernels) == page.count('<figure class="listing"') > 1
    assert headings(page)[0] == "Verdict"


@pytest.mark.slow
def test_a_finding_of_a_chain_names_its_stage(cli):
    """It is found once, in the stage where it came first."""
    data = json.loads(
        cli("run", "--chain", "@model/decode_layer", "--target", "a5", "--format", "json").out
    )
    (target,) = data["targets"]
    assert target["findings"]
    stages = {f"in stage {stage['name']}" for stage in target["stages"]}
    assert all(stages & {*found["notes"]} for found in target["findings"])


@pytest.mark.slow
def test_a_chain_is_a_page_too(cli, tmp_path):
    code, page = page_of(cli, tmp_path, "run", "--chain", "@model/mlp")
    assert code == 0
    assert "Time of each stage" in headings(page)


def test_a_page_is_not_written_to_a_screen(cli, monkeypatch):
    from ptosim.shell.terminal import Terminal

    monkeypatch.setattr(Terminal, "is_screen", lambda self: True)
    outcome = cli("report", "@basics/vadd")
    assert (outcome.code, outcome.out) == (2, "")
    assert "-o report.html" in outcome.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["-o", "{folder}/x.html"], "-o"),
        (["-o", "{folder}/x.json", "--format", "json"], "-o"),
        (["--trace", "{folder}/x.trace"], "--trace"),
        (["--out", "dst={folder}/x.npy"], "--out"),
        (["--format", "html"], "--format html"),
    ],
)
def test_a_run_on_two_targets_replaces_no_file_of_the_first(cli, tmp_path, words, named):
    """What one target gives would be overwritten by the next: the page of both is `report`'s."""
    words = [word.format(folder=tmp_path) for word in words]
    outcome = cli("run", "@basics/vadd", "--target", "a2a3,a5", *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {named} of `run` is for one target")
    assert "`ptosim report @basics/vadd -o FILE.html`" in outcome.err
    assert list(tmp_path.iterdir()) == []
