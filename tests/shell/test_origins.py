"""Whose verdict a finding is, in every form that a report takes."""

from __future__ import annotations

import json

import pytest

import ptosim
from ptosim.ground.diagnostics.catalog import catalog
from tests.engine.sanitize.test_races import LOAD_ADD_STORE, pair
from tests.ops.semantics.test_sync import program
from tests.shell.programs import copy_program

RACE = program(LOAD_ADD_STORE.replace(f"{pair('V', 'MTE3')}\n", ""))
REFUSED = copy_program("    pto.tmow ins(%a : f32)")
CASES = [(RACE, "PTO5201", "hardware"), (REFUSED, "PTO1003", "assembler")]


@pytest.mark.parametrize(("text", "code", "origin"), CASES)
def test_every_form_says_the_origin(cli, tmp_path, text, code, origin):
    path = tmp_path / "k.pto"
    path.write_text(text)
    found = {d.code: d.origin for d in ptosim.check(text)}
    assert found[code] == origin
    document = json.loads(cli("check", path, "--format", "json").out)
    assert {d["code"]: d["origin"] for d in document["findings"]}[code] == origin
    lines = cli("check", path, "--format", "jsonl").out.splitlines()
    assert {json.loads(line)["origin"] for line in lines} == {origin}
    results = json.loads(cli("check", path, "--format", "sarif").out)["runs"][0]["results"]
    assert {r["properties"]["origin"] for r in results} == {origin}


def test_explain_says_the_origin(cli):
    for code in ("PTO1003", "PTO5201", "PTO5301"):
        entry = catalog()[code]
        text = cli("explain", code).out
        assert f"{code} ({entry.severity}, {entry.origin}): {entry.title}" in text
        assert f"Origin {entry.origin}: " in text
        assert json.loads(cli("explain", code, "--format", "json").out)["origin"] == entry.origin
    assert "PTO5201  error   hardware  race" in cli("explain").out
