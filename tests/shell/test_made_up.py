"""The report of a run whose large arguments were made where it read them."""

from __future__ import annotations

import json

import pytest

from tests.launch.programs.test_large_arguments import COLS
from tests.launch.programs.test_made_up import FAR, SCALARS


@pytest.mark.slow
def test_the_report_says_of_what_its_extremes_are(cli, tmp_path):
    path = tmp_path / "far.pto"
    path.write_text(FAR)
    given = [a for n, v in SCALARS.items() for a in ("--arg", f"{n}={v}")]
    done = cli("run", path, "--sync", "auto", *given)
    assert "x: the run reached pages of 16,384 of 4,194,304 generated elements" in done.out
    told = json.loads(cli("run", path, "--sync", "auto", *given, "--format", "json").out)
    assert told["outputs"]["x"]["seen"] == 16 * COLS
    whole = ("--arg", "x=zeros:f32:4096x1024", "--format", "json")
    told = json.loads(cli("run", path, "--sync", "auto", *given, *whole).out)
    assert "seen" not in told["outputs"]["x"]
