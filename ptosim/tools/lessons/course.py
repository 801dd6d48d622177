"""The lessons of `ptosim learn`: each is a folder of `ptosim/lessons` with a text, a program to
complete, a solution, and a file that says how an answer is checked.

    title = "…"              targets = ["a5"]        block_num = 4
    hints = ["…", "…"]       needs = ["pto.tadd"]    clean = ["PTO6101"]
    max_cycles = 6000        # on the first target
    [args]                   # as in a sidecar, or `= ` and a NumPy expression
    [expect]                 # NumPy expressions of the arguments
    [tolerance]
    y = { rtol = 1e-5 }

`needs` are operations that the answer has, `clean` warnings that it must not give.
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass

_FOLDER = Path(__file__).resolve().parents[2] / "lessons"


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson; `name` is that of its folder (`04_flags`)."""

    number: int
    name: str
    title: str
    text: str
    start: str
    solution: str
    hints: tuple[str, ...]
    check: dict[str, Any]

    @property
    def file(self) -> str:
        """The name of the learner's program."""
        return f"{self.name}.pto"


@lru_cache(maxsize=1)
def lessons() -> tuple[Lesson, ...]:
    """Return all lessons in order."""
    folders = sorted(p for p in _FOLDER.iterdir() if p.is_dir())
    return tuple(_lesson(number, folder) for number, folder in enumerate(folders, 1))


def lesson(number: int) -> Lesson:
    """Return one lesson, counted from 1; raises UsageError for a number that there is not."""
    every = lessons()
    if not 1 <= number <= len(every):
        raise UsageError(f"there is no lesson {number}", help=f"lessons are 1 to {len(every)}")
    return every[number - 1]


def _lesson(number: int, folder: Path) -> Lesson:
    check = tomllib.loads(_read(folder, "lesson.toml"))
    title, hints = check.pop("title"), tuple(check.pop("hints"))
    text, start, solution = (_read(folder, n) for n in ("text.md", "start.pto", "solution.pto"))
    return Lesson(number, folder.name, title, text, start, solution, hints, check)


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8")
