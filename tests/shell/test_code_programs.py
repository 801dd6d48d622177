"""Programs that show codes (`ptosim explain`, the site): the wrong one has its finding and no other
error or warning, the right one has none."""

from __future__ import annotations

import argparse
import json
import shlex

import pytest

import ptosim
from ptosim.ground.diagnostics.catalog import catalog, shown_by_programs
from ptosim.ground.diagnostics.model import Severity

SHOWN = shown_by_programs()
FEWEST = 120
"""Codes that a program shows; more should."""


def _found(text: str, options: str) -> list[ptosim.Diagnostic]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--target")
    parser.add_argument("--level", type=int)
    given = {k: v for k, v in vars(parser.parse_args(shlex.split(options))).items() if v}
    return list(ptosim.check(text, **given))


@pytest.mark.sampled(40)
@pytest.mark.parametrize("code", SHOWN)
def test_a_program_shows_its_code_alone(code: str) -> None:
    shown = SHOWN[code]
    found = _found(shown.wrong, shown.options)
    assert code in {d.code for d in found}
    assert {d.code for d in found if d.severity > Severity.NOTE} <= {code}


@pytest.mark.sampled(40)
@pytest.mark.parametrize("code", [code for code, shown in SHOWN.items() if shown.right])
def test_the_right_program_is_right(code: str) -> None:
    shown = SHOWN[code]
    assert shown.right != shown.wrong
    found = _found(shown.right, shown.options)
    assert [d for d in found if d.severity > Severity.NOTE or d.code == code] == []


def test_codes_have_programs() -> None:
    assert set(SHOWN) <= set(catalog())
    assert len(SHOWN) >= FEWEST


def test_explain_shows_both(cli) -> None:
    code = next(code for code, shown in SHOWN.items() if shown.right)
    text = cli("explain", code).out
    assert "A program with it (`ptosim check FILE`" in text
    assert "Without it:" in text
    data = json.loads(cli("explain", code, "--format", "json").out)
    assert data["programs"]["wrong"] == SHOWN[code].wrong
