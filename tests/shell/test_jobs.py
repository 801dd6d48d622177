"""`run -j N`: the same report for any number of processes, and why blocks were in order."""

from __future__ import annotations

import json

import pytest

from ptosim.launch import parallel
from tests.launch.programs.test_blocks_apart import COPY, HEAD, TAIL, TO_ONE


@pytest.fixture(autouse=True)
def any_size(monkeypatch):
    monkeypatch.setattr(parallel, "LEAST_SECONDS", 1e-9)


def launch(cli, tmp_path, body, *words):
    path = tmp_path / "k.pto"
    path.write_text(HEAD + body + TAIL)
    return cli("run", path, "--block-num", "6", "--sync", "auto", *words)


def test_the_report_is_the_same(cli, tmp_path):
    reports = [launch(cli, tmp_path, COPY, *j).out for j in ((), ("-j", 1), ("--jobs", 2))]
    assert reports[0] == reports[1] == reports[2]
    assert "one after the other" not in reports[0]


@pytest.mark.slow
def test_the_reason_is_told_where_processes_were_asked_for(cli, tmp_path):
    asked = launch(cli, tmp_path, TO_ONE, "-j", 2)
    reason = "block 0 writes byte 0 of `y`, which block 1 uses"
    assert f"blocks one after the other: {reason}" in asked.out
    told = json.loads(launch(cli, tmp_path, TO_ONE, "-j", 2, "--format", "json").out)
    assert told["in_order"] == reason
    assert "in_order" not in json.loads(launch(cli, tmp_path, TO_ONE, "--format", "json").out)


@pytest.mark.parametrize("word", ["0", "-1", "x"])
def test_a_number_of_processes_is_one_or_more(cli, tmp_path, word):
    done = launch(cli, tmp_path, COPY, f"--jobs={word}")
    assert done.code == 2
    assert "takes a number from 1 on" in done.err
