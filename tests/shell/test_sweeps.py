"""Commands over every shipped program: what they print can be read again, what they say of a program
does not depend on the side it is on, and none ends with an internal error."""

from __future__ import annotations

import json
import shutil

import pytest

from ptosim.ground.diagnostics.model import Severity, Sink
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.language.syntax.parser import parse
from ptosim.launch.description import sidecar_of
from ptosim.launch.sources import source_path
from ptosim.shell import diff_command
from tests.support.shipped import on_one_device

pytestmark = pytest.mark.slow

NAMES = on_one_device()
BROKEN = [n for n in NAMES if n.startswith("broken/")]
ENDINGS = {0, 1, 2, 3, 4, 5}
"""Exit codes that say something of a program; 2 would blame the command line, 70 is ptosim's own."""


def parses(text: str) -> bool:
    sink = Sink()
    parse(Source("k", text), sink)
    return not sink.has_errors


@pytest.mark.sampled(0, 38)
@pytest.mark.parametrize("name", NAMES)
def test_every_program_has_a_map(cli, name):
    """Drawn wherever the program fits its target, or is only over its budget."""
    outcome = cli("map", f"@{name}")
    assert outcome.code in ENDINGS
    drawn = "high-water mark" in outcome.out or "no tiles on chip" in outcome.out
    over = any(code in outcome.err for code in ("PTO4001", "PTO4352", "PTO4353"))
    assert drawn == (outcome.code == 0 or over)


@pytest.mark.sampled(0, 19)
@pytest.mark.parametrize("name", NAMES)
def test_both_ways_between_targets_and_beside_itself(cli, monkeypatch, name):
    """`port` there and back sees the same two sides; `diff` of a program with itself sees nothing."""
    sides = {}

    def once(options, file, target, *given):
        if target not in sides:
            sides[target] = side(options, file, target, *given)
        return sides[target]

    side = diff_command._side
    monkeypatch.setattr(diff_command, "_side", once)
    reports = {}
    for one, two in (("a2a3", "a5"), ("a5", "a2a3")):
        outcome = cli("port", f"@{name}", "--from", one, "--to", two, "--format", "json")
        assert outcome.code in ENDINGS
        reports[one] = json.loads(outcome.out)
        assert cli("port", f"@{name}", "--from", one, "--to", two).code == outcome.code
    there, back = reports["a2a3"], reports["a5"]
    assert there["sides"] == back["sides"][::-1]
    assert there["new_findings"] == back["gone_findings"]
    assert there["gone_findings"] == back["new_findings"]
    for target in ("a2a3", "a5"):
        outcome = cli("diff", f"@{name}", f"@{name}", "--target", target, "--format", "json")
        assert outcome.code in (0, 2, 3, 4, 5)  # 2, 4: it gives no values to compare
        assert json.loads(outcome.out)["worse"] == []


@pytest.mark.sampled(0, 14)
@pytest.mark.parametrize("name", NAMES)
def test_every_form_can_be_read_again(cli, name):
    """The canonical form is canonical; the other forms are accepted where the program is."""
    text = source_path(f"@{name}").read_text(encoding="utf-8")
    outcome = cli("fmt", f"@{name}")
    assert outcome.code == (0 if parses(text) else 3)
    if outcome.code:
        return
    assert parses(outcome.out)
    target = sidecar_of(source_path(f"@{name}")).targets[0]  # type: ignore[union-attr]
    expected = errors(text, target)
    assert errors(outcome.out, target) == expected
    for form in ("ssa", "dps"):
        converted = cli("fmt", f"@{name}", "--to", form, "--target", target)
        assert converted.code in (0, 3)
        if converted.code == 0:
            assert parses(converted.out)
            # Rules of the assembler do not hold for ptosim's own SSA form.
            allowed = (expected,) if form == "dps" else (expected, [])
            assert errors(converted.out, target) in allowed


def errors(text: str, target: str) -> list[str]:
    found = run_frontend(Source("k", text), FrontOptions(target)).sink
    return sorted(d.code for d in found if d.severity is Severity.ERROR)


@pytest.mark.parametrize("name", BROKEN)
def test_fixes_are_made_once(cli, tmp_path, name):
    """A second `check --fix` finds nothing left to fix, and the first leaves a program that can be
    read."""
    path = tmp_path / "k.pto"
    shutil.copy(source_path(f"@{name}"), path)
    assert cli("check", path, "--fix").code in ENDINGS
    fixed = path.read_text(encoding="utf-8")
    assert parses(fixed) or not parses(source_path(f"@{name}").read_text(encoding="utf-8"))
    again = cli("check", path, "--fix")
    assert "no fix-its to apply" in again.err
    assert path.read_text(encoding="utf-8") == fixed
