"""Shipped programs are synchronised, by hand or automatically: when pipes retire at their own pace,
they compute what they compute in program order."""

from __future__ import annotations

import json

import pytest

from ptosim.shell.main import main
from tests.launch.programs.test_programs import RUNS

pytestmark = pytest.mark.slow

RIGHT = [run for run in RUNS if not run.values[0].startswith("broken/")]


@pytest.mark.sampled(0, 20)
@pytest.mark.parametrize(("name", "target"), RIGHT)
def test_values_do_not_depend_on_when_effects_happen(name, target, capsys):
    reports = []
    for commit in ("program", "retire"):
        options = ["--target", target, "--commit", commit, "--format", "json"]
        assert main(["run", f"@{name}", *options]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    assert reports[1]["outputs"] == reports[0]["outputs"]
    assert all(compared["passed"] for compared in reports[1].get("expected", ()))
