"""Programs that show codes (`ptosim explain`, the site): the command finds the code in the wrong one and
no other error or warning (but those that always come with it), and nothing in the right one."""

from __future__ import annotations

import json
import re
import shlex

import numpy as np
import pytest

from ptosim.engine.simt import flow
from ptosim.ground.diagnostics.catalog import catalog, shown_by_programs, without_program

SHOWN = shown_by_programs()
FEWEST = 499
"""Codes that a program shows; the others say why none does."""
FEWEST_RIGHT = 493
"""Of them those with a right program."""


@pytest.fixture
def found(cli, tmp_path, monkeypatch):
    """Returns the codes of errors and warnings, and those of notes, that a command finds in a text."""

    # The operations of threads after which a loop counts as endless: 50,000,000 take half a minute.
    monkeypatch.setattr(flow, "MAX_EXECUTED", 100_000)

    def look(text: str, command: str) -> tuple[set[str], set[str]]:
        words = shlex.split(command)[1:]
        ending = next(word for word in words if word.startswith("FILE")).removeprefix("FILE")
        file = tmp_path / f"kernel{ending or '.pto'}"
        if ending == ".onnx":
            onnx = pytest.importorskip("onnx")
            pytest.importorskip("onnx.parser")
            onnx.save(onnx.parser.parse_model(text), file)
        else:
            file.write_text(text, encoding="utf-8")
        if "DATA.npz" in words:
            data = tmp_path / "data.npz"
            np.savez(data, x=np.ones((16, 2), np.float32))
            words[words.index("DATA.npz")] = str(data)
        words = [str(file) if word.startswith("FILE") else word for word in words]
        done = cli(*words, *(() if words[0] in ("judge", "fmt") else ("--format", "json")))
        if words[0] == "fmt":  # whose output is the program
            said = re.findall(r"^(error|warning|note)\[(PTO\d{4})", done.err, re.MULTILINE)
            notes = {code for word, code in said if word == "note"}
            return {code for _, code in said} - notes, notes
        told = set(re.findall(r"^error(?:: |\[)(PTO\d{4})", done.err, re.MULTILINE))
        data = json.loads(done.out) if done.out.strip() else {}
        findings = data.get("findings", data.get("diagnostics"))
        if "chain" in data:
            findings = [f for target in data["targets"] for f in target["findings"]]
        if told or findings is None:  # a command that does not get to the program's own
            assert bool(told) == bool(done.code), done.err
            return told, set()
        notes = {f["code"] for f in findings if f["severity"] == "note"}
        return {f["code"] for f in findings} - notes, notes

    return look


@pytest.mark.sampled(40, 180)
@pytest.mark.parametrize("code", SHOWN)
def test_a_program_shows_its_code_alone(found, code: str) -> None:
    shown = SHOWN[code]
    strong, notes = found(shown.wrong, shown.command)
    assert code in strong | notes
    assert strong <= {code, *shown.beside}


@pytest.mark.sampled(40, 180)
@pytest.mark.parametrize("code", [code for code, shown in SHOWN.items() if shown.right])
def test_the_right_program_is_right(found, code: str) -> None:
    shown = SHOWN[code]
    assert (shown.right, shown.right_command) != (shown.wrong, shown.command)
    strong, notes = found(shown.right, shown.right_command)
    assert (strong - {*shown.beside}, code in notes) == (set(), False)


def test_codes_have_programs() -> None:
    reasons = without_program()
    assert (set(SHOWN) | set(reasons), set(SHOWN) & set(reasons)) == (set(catalog()), set())
    assert len(SHOWN) >= FEWEST
    assert sum(shown.right != "" for shown in SHOWN.values()) >= FEWEST_RIGHT


def test_explain_shows_both(cli) -> None:
    code = next(code for code, shown in SHOWN.items() if shown.right)
    text = cli("explain", code).out
    assert "A program with it (`ptosim check FILE`" in text
    assert "Without it:" in text
    data = json.loads(cli("explain", code, "--format", "json").out)
    assert data["programs"]["wrong"] == SHOWN[code].wrong


def test_other_arguments_may_be_what_is_right(cli) -> None:
    code, shown = next((c, s) for c, s in SHOWN.items() if s.right == s.wrong)
    assert f"Without it: `{shown.right_command}`." in cli("explain", code).out
