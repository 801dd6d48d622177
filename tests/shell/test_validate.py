"""`validate SOURCE EMITTED`: what was emitted is equal for all contents, and orders its pipes itself;
whatever is dropped from it or changed in it is told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ptosim.shell.main import main

_FOLDER = Path(__file__).parents[1] / "data" / "cpp"
_NAMES = ["01_add", "02_softmax_rows", "05_events", "06_quant_int8", "08_gemm"]


def _validated(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    code = main(["validate", *map(str, words), "--target", "a2a3", "--format", "json"])
    out = capsys.readouterr().out
    return code, json.loads(out) if out.startswith("{") else {}


@pytest.mark.parametrize("name", _NAMES)
def test_what_was_emitted_is_equal_for_all_contents(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = _validated(capsys, _FOLDER / f"{name}.pto", _FOLDER / f"{name}.cpp")
    assert code == 0
    assert found["proof"]["verdict"] == "equal"


def test_parameters_are_those_of_the_source_by_their_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The assembler names them v1, v2, …"""
    text = (_FOLDER / "01_add.cpp").read_text()
    for old, new in (("z", "v1"), ("x", "v2"), ("y", "v3")):
        text = re.sub(rf"\b{old}\b", new, text)
    emitted = tmp_path / "emitted.cpp"
    emitted.write_text(text)
    code, found = _validated(capsys, _FOLDER / "01_add.pto", emitted)
    assert (code, found["proof"]["verdict"]) == (0, "equal")


def _mutants(text: str) -> list[tuple[str, str]]:
    """Each flag and barrier left out or of another pipe, each address and operand another one."""
    made = []
    for i, line in enumerate(lines := text.splitlines()):
        others = []
        if re.match(r"\s*(set_flag|wait_flag|pipe_barrier)\b", line):
            others += ["", line.replace("EVENT_ID0", "EVENT_ID5"), line.replace("PIPE_V", "PIPE_S")]
        call = re.match(r"(\s*T[A-Z]+(?:<[^>]*>)?\()(\w+), (\w+), (\w+)(.*)", line)
        if call:
            others.append(f"{call[1]}{call[2]}, {call[4]}, {call[3]}{call[5]}")
            others.append(f"{call[1]}{call[2]}, {call[3]}, {call[3]}{call[5]}")
        if re.match(r"\s*TSTORE\(", line):
            others.append("")
        name = f"line {i + 1}: {line.strip()}"
        made += [(f"{name} -> {other.strip()}", "\n".join([*lines[:i], other, *lines[i + 1 :]]))
                 for other in others if other != line]  # fmt: skip
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", ["01_add", "08_gemm"])
def test_what_is_dropped_or_changed_is_told(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mutant is told, or is shown to be equal for all contents without a finding of its own."""
    emitted, told, harmless = tmp_path / "emitted.cpp", 0, []
    for what, text in _mutants((_FOLDER / f"{name}.cpp").read_text()):
        emitted.write_text(text)
        code, found = _validated(capsys, _FOLDER / f"{name}.pto", emitted)
        told += code != 0
        if code == 0:
            assert found["proof"]["verdict"] == "equal", what
            harmless.append(what)
    assert told > 5
    assert all("TADD" in h or "PIPE_S" in h for h in harmless), harmless


def test_what_cannot_be_followed_is_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    emitted = tmp_path / "emitted.cpp"
    text = (_FOLDER / "01_add.cpp").read_text()
    emitted.write_text(text.replace("TADD(", "copy_gm_to_ubuf("))
    assert _validated(capsys, _FOLDER / "01_add.pto", emitted)[0] == 5
