"""Inputs that `python -m tests.fuzz` found a fault with, each as short as the fault allowed.

Whatever a text says, `check` returns findings and raises nothing, what can be parsed is printed and
read back, and a command ends with an exit code that the manual names (never 70, the internal error).
A file's name says what failed, its ending of which kind it is (`SUFFIXES` of `tests/fuzz/kinds.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fuzz.case import Case
from tests.fuzz.commands import COMMANDS, outcome
from tests.fuzz.files import RUNNERS
from tests.fuzz.kinds import SUFFIXES, read_case

HERE = Path(__file__).parent
PROGRAMS = sorted(HERE.glob("*.pto"))
OTHERS = sorted(p for p in HERE.iterdir() if p.suffix in SUFFIXES.values() and p.suffix != ".pto")


TARGETS = ("a2a3", "a5")
LONG = {
    "accumulator_read_undefined_in_nested_loops",
    "arguments_too_large_between_others",
    "flag_that_each_round_sets",
    "region_without_an_end",
}
"""Those that are followed for seconds."""


def _marks(path: Path, other: int) -> list[pytest.MarkDecorator]:
    return [pytest.mark.deep] * (other % 2) + [pytest.mark.slow] * (path.stem in LONG)


TEXTS = [
    pytest.param(path, target, number, id=f"{path.stem}-{target}", marks=_marks(path, other))
    for number, path in enumerate(PROGRAMS)
    for other, target in enumerate(TARGETS, number)
]
"""By default each on one target, by turns."""
ALWAYS = ("check", "fmt")
TURNS = tuple(command for command in COMMANDS if command not in ALWAYS)
EACH = 6
"""Of these commands every text has so many by default, by turns: about eighty texts a command."""


def _survives(commands: Sequence[str], case: Case, folder: Path) -> None:
    for command in commands:
        told = outcome(command, case, folder)
        assert isinstance(told, int), told.told


@pytest.mark.sampled(8, 130)
@pytest.mark.parametrize(("path", "target", "number"), TEXTS)
def test_a_text_that_was_found(
    path: Path, target: str, number: int, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("PTOSIM_TRACEBACK", "1")
    first = number // 2 * EACH  # so that both targets have every command
    turns = (TURNS[(first + each) % len(TURNS)] for each in range(EACH))
    _survives([*ALWAYS, *turns], Case(path.read_bytes(), target=target), tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_text_that_was_found_with_every_command(path: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PTOSIM_TRACEBACK", "1")
    for target in TARGETS:
        _survives(TURNS, Case(path.read_bytes(), target=target), tmp_path)


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.name)
def test_a_file_that_was_found(path: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PTOSIM_TRACEBACK", "1")
    case = read_case(path)
    _survives([*RUNNERS[case.kind]], case, tmp_path)
