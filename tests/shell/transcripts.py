"""What commands say on screens of 80, 100 and 140 columns, kept whole.

`python -m tests.shell.transcripts` writes the files anew after a change that is meant."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from ptosim.ground.isa.cache import programs_directory
from ptosim.shell.main import main

KEPT = Path(__file__).with_name("transcripts")
WIDTHS = (80, 100, 140)
COMMANDS = {
    "run_wrong": "run overlapping_parameters.pto",
    "why": "why overlapping_parameters.pto",
    "test_wrong": "test vadd.pto subtracted.pto",
    "run_right": "run vadd.pto --target a5",
    "cost": "cost softmax.pto --target a2a3,a5",
    "what_if": "cost softmax.pto --target a5 --what-if clock=2000",
    "check": "check missing_flag.pto left_operand_in_vec.pto",
    "over_budget": "map over_budget.pto",
    "diff": "diff vadd.pto missing_flag.pto --target a2a3",
    "ops": "ops tquant",
    "explain": "explain PTO2018",
    "explore": "quant explore randn:f32:32x64",
    "targets": "targets a5",
    "usage": "cost softmax.pto --view hint",
}


class Screen(io.StringIO):
    """What a terminal has been shown, by the report and beside it."""

    def isatty(self) -> bool:
        return True


def folder(path: Path) -> None:
    """Put the shipped programs of the commands into a folder, with what belongs to them, and one
    that subtracts where its sidecar expects a sum."""
    names = {word.removesuffix(".pto") for c in COMMANDS.values() for word in c.split()}
    for kind in ("basics", "broken"):
        for file in (programs_directory() / kind).iterdir():
            if file.stem in names:
                shutil.copy(file, path)
    text = (path / "vadd.pto").read_text(encoding="utf-8").replace("pto.tadd", "pto.tsub")
    (path / "subtracted.pto").write_text(text, encoding="utf-8")
    shutil.copy(path / "vadd.toml", path / "subtracted.toml")


def shown(words: str, columns: int) -> str:
    """Return what a command line says on a screen, with its exit code."""
    screen = Screen()
    given = {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb"}
    shows = contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen)
    with mock.patch.dict(os.environ, given), shows[0], shows[1]:
        code = main(words.split())
    said = screen.getvalue().lstrip("\n")  # after a bar that is gone
    return f"{said}exit code {code}\n"


def transcript(name: str) -> Iterator[str]:
    """The text of a command at each width."""
    for columns in WIDTHS:
        yield f"---- {columns} columns: ptosim {COMMANDS[name]}\n{shown(COMMANDS[name], columns)}"


if __name__ == "__main__":
    KEPT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made, contextlib.chdir(made):
        folder(Path(made))
        for each in COMMANDS:
            (KEPT / f"{each}.txt").write_text("".join(transcript(each)), encoding="utf-8")
