"""Every rule of the virtual vector level in `rules/*.toml` names the tests that check it; every
operation is in an accepted program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ptosim.ground.isa.rows import isa
from ptosim.ground.source import Source
from ptosim.language.syntax.parser import parse
from ptosim.language.syntax.printer import print_module
from tests.support.paths import TESTS
from tests.support.rules import check_rules, read_rules

FOLDER = Path(__file__).parent
PROGRAMS = TESTS / "filecheck"
RULES = read_rules(sorted((FOLDER / "rules").glob("*.toml")), with_file=True)


def test_every_rule_has_tests():
    check_rules(RULES)


def test_every_refusing_program_belongs_to_a_rule():
    named = {place for _, _, places, *_ in RULES.values() for place in places.split()}
    assert {f"filecheck/reject/{p.name}" for p in (PROGRAMS / "reject").glob("vmi_*.pto")} <= named


def texts(folder: str) -> str:
    paths = sorted((PROGRAMS / folder).glob("vmi_*.pto"))
    return "\n".join(path.read_text("utf-8") for path in paths)


def test_every_operation_is_in_an_accepted_program():
    names = [n.removeprefix("pto.") for n in isa("2026-08").names() if n.startswith("pto.vmi.")]
    assert len(names) > 140
    accepted = set(re.findall(r"\bpto\.(vmi\.\w+)", texts("accept")))
    assert [n for n in names if n not in accepted] == []


@pytest.mark.parametrize(
    "path", sorted((PROGRAMS / "accept").glob("vmi_*.pto")), ids=lambda p: p.stem
)
def test_every_program_is_printed_as_it_is(path):
    """Nothing but spaces and line ends changes."""
    from ptosim.ground.diagnostics.model import Sink

    text = path.read_text("utf-8")
    printed = print_module(parse(Source(path.name, text), Sink()))
    assert re.sub(r"\s+", "", printed) == re.sub(r"\s+", "", text)
    assert print_module(parse(Source(path.name, printed), Sink())) == printed
