"""Which measurement narrows a bar most: independent errors add up as the root of their squares."""

from __future__ import annotations

import json
import shutil
from math import hypot

import pytest

import ptosim
from ptosim.time.report.error_bar import MEASURED, carriers
from tests.support.paths import PROGRAMS


@pytest.fixture(scope="module", params=["a2a3", "a5"])
def report(request):
    program = ptosim.load("@basics/softmax", target=request.param)
    return program.cost(args={"cols": 4096})


def test_the_laws_are_those_of_the_bar(report) -> None:
    """Every class of the critical path is there once, with its cycles; shares add up to all."""
    found = carriers([(report, report.error_bar)])
    parts = {p.name: p.cycles for p in report.error_bar.parts}
    assert {c.name: c.cycles for c in found} == parts
    assert sum(c.share for c in found) == pytest.approx(1)


def test_what_a_measurement_leaves(report) -> None:
    """Computed here by hand: the bar with one class at the error of profiled operations."""
    parts = {p.name: p for p in report.error_bar.parts}
    total = sum(p.cycles for p in parts.values())
    for carrier in carriers([(report, report.error_bar)]):
        spread = {n: p.spread for n, p in parts.items()}
        spread[carrier.name] = min(spread[carrier.name], MEASURED)
        after = hypot(*(parts[n].cycles * s for n, s in spread.items())) / total
        assert carrier.after == pytest.approx(after)
        assert carrier.after <= carrier.width


def test_the_first_one_narrows_most(report) -> None:
    gains = [c.gain for c in carriers([(report, report.error_bar)])]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0


def test_several_reports_are_one(report) -> None:
    """Twice the same program has the same laws with twice the cycles, and the same order."""
    once, twice = carriers([(report, report.error_bar)]), carriers([(report, report.error_bar)] * 2)
    assert [(c.name, 2 * c.cycles) for c in once] == [(c.name, c.cycles) for c in twice]
    assert [c.spread for c in once] == pytest.approx([c.spread for c in twice])


def test_the_view_and_the_data(cli) -> None:
    words = ("cost", "@basics/softmax", "--target", "a5", "--arg", "cols=4096")
    told = cli(*words, "--view", "trust").out
    assert "laws on the critical path" in told
    assert "measured on a board" in told
    data = ptosim.load("@basics/softmax", target="a5").cost(args={"cols": 4096}).to_dict()
    assert data["trust"][0]["name"] in told


def test_no_time_that_is_compared_is_below_the_bound() -> None:
    """A time is bounded by the bytes that have to come from memory: here it is the bound itself if
    the pipes take less."""
    report = ptosim.load("@basics/vadd", target="a2a3").cost()
    assert report.least_microseconds >= report.times.bound_us
    assert report.least_microseconds >= report.microseconds


def test_a_folder_of_programs(tmp_path, cli):
    """The laws of all programs in a folder by target, those first whose measurement narrows the bars
    most; a program that cannot be timed is named, and does not stop the others."""
    for name in ("vadd", "softmax"):
        for suffix in (".pto", ".toml"):
            shutil.copy(PROGRAMS / "basics" / f"{name}{suffix}", tmp_path / f"{name}{suffix}")
    (tmp_path / "wrong.pto").write_text("func.func @k() {\n  pto.nothing\n}\n")
    told = cli("cost", tmp_path, "--view", "trust", "--format", "json")
    found = json.loads(told.out)
    assert (told.code, found["timed"]) == (0, 2)
    assert list(found["not_timed"]) == [str(tmp_path / "wrong.pto")]
    for target in ("a2a3", "a5"):
        apart = [cli("cost", tmp_path / f"{n}.pto", "--target", target, "--format", "json").out
                 for n in ("vadd", "softmax")]  # fmt: skip
        cycles = {law["name"]: law["cycles"] for law in found["trust"][target]}
        each = [{law["name"]: law["cycles"] for law in json.loads(a)["trust"]} for a in apart]
        assert cycles == {n: sum(e.get(n, 0) for e in each) for n in {*each[0], *each[1]}}
    text = " ".join(cli("cost", tmp_path, "--view", "trust").out.split())
    assert "2 programs, each as its sidecar launches it" in text
    assert "PTO1003" in text


def test_a_folder_has_no_other_table(tmp_path, cli):
    assert cli("cost", tmp_path, "--view", "trust").code == 2  # no program in it
    told = cli("cost", tmp_path)
    assert told.code == 2
    assert "--view trust" in told.err
