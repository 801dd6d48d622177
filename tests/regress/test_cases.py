"""Texts that `python -m tests.fuzz` found a fault with, each as short as the fault allowed.

Whatever a text says, `check` returns findings and raises nothing, what can be parsed is printed and
read back, and a command ends with an exit code that the manual names (never 70, the internal error).
A file's name says what failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.commands import COMMANDS, Case, outcome

FILES = sorted(Path(__file__).parent.glob("*.pto"))


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_text_that_was_found(path: Path, target: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PTOSIM_TRACEBACK", "1")
    case = Case(path.read_bytes().decode("utf-8"), target)
    for command in COMMANDS:
        told = outcome(command, case, tmp_path)
        assert isinstance(told, int), told.told
