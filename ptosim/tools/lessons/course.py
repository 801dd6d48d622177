"""The lessons of `ptosim learn`: each is a folder of `ptosim/lessons` with a text, a program to
complete (`start.pto`, or `.cpp`), a solution, and a file that says how an answer is checked.

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

import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import Diagnostic, Severity
from ptosim.ground.errors import PtosimError, UsageError
from ptosim.ground.files import is_file, read_text, write_file
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.ground.source import Source
from ptosim.launch.array_files import parse_argument
from ptosim.tools.api import check_source, load

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
    suffix: str = ".pto"

    @property
    def file(self) -> str:
        """The name of the learner's program."""
        return f"{self.name}{self.suffix}"


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
    suffix = next(p.suffix for p in folder.iterdir() if p.stem == "start")
    names = ("text.md", f"start{suffix}", f"solution{suffix}")
    text, start, solution = (_read(folder, n) for n in names)
    return Lesson(number, folder.name, title, text, start, solution, hints, check, suffix)


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8")


# What a learner has: a folder with the programs and a file of what is done and told.

PROGRESS = "progress.json"


@dataclass(slots=True)
class Learner:
    """The folder, the lessons that are done, and how many hints of each were told."""

    folder: Path
    done: set[int] = field(default_factory=set)
    hints: dict[int, int] = field(default_factory=dict)

    @classmethod
    def at(cls, folder: Path) -> Learner:
        """Read a folder, which need not exist yet. Raises UsageError for a broken file."""
        path = folder / PROGRESS
        if not is_file(path):
            return cls(folder)
        try:
            kept = json.loads(read_text(path))
            return cls(folder, set(kept["done"]), {int(n): h for n, h in kept["hints"].items()})
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise UsageError(
                f"{path} is no file of progress", help="remove it to begin anew"
            ) from problem

    def save(self) -> None:
        """Write the file."""
        kept = {"done": sorted(self.done), "hints": {str(n): h for n, h in self.hints.items()}}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_file(self.folder / PROGRESS, json.dumps(kept, indent=1) + "\n")

    def path(self, lesson: Lesson) -> Path:
        """Return where the program of a lesson is."""
        return self.folder / lesson.file

    def begin(self, lesson: Lesson, *, anew: bool = False) -> bool:
        """Put the program to complete into the folder; False if it is there already."""
        if is_file(self.path(lesson)) and not anew:
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        write_file(self.path(lesson), lesson.start)
        return True

    def finish(self, lesson: Lesson) -> None:
        """Note that a lesson is done."""
        self.done.add(lesson.number)
        self.save()

    def next_hint(self, lesson: Lesson) -> str:
        """Return the next hint, the last one again where all were told."""
        told = min(self.hints.get(lesson.number, 0) + 1, len(lesson.hints))
        self.hints[lesson.number] = told
        self.save()
        return f"Hint {told} of {len(lesson.hints)}: {lesson.hints[told - 1]}"

    @property
    def next_lesson(self) -> Lesson | None:
        """The first lesson that is not done."""
        return next((each for each in lessons() if each.number not in self.done), None)


# Lessons as notebooks: the text, the program in a cell that writes its file, and the commands.


def write_notebooks(folder: Path) -> list[Path]:
    """Write a notebook for each lesson; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for each in lessons():
        path = folder / f"{each.name}.ipynb"
        write_file(path, json.dumps(_notebook(each), indent=1) + "\n")
        written.append(path)
    return written


def _notebook(lesson: Lesson) -> dict[str, Any]:
    learn = f"!ptosim learn {lesson.number} --folder ."
    cells = [
        _cell("markdown", lesson.text),
        _cell("code", f"%%writefile {lesson.file}\n{lesson.start}"),
        _cell("code", f"{learn} --check"),
        _cell("markdown", "Stuck? A hint each time, and the solution."),
        _cell("code", f"{learn} --hint"),
        _cell("code", f"# {learn} --solution"),
    ]
    for number, cell in enumerate(cells, 1):
        cell["id"] = f"{lesson.name}-{number}"
    return {
        "cells": cells,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cell(kind: str, text: str) -> dict[str, Any]:
    own = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True), **own}


# Is an answer to a lesson right, and if not, what is wrong in the learner's own text?

_LIMIT = 1_000_000
"""Instructions that an answer may take."""


class Verdict(NamedTuple):
    """What is said of an answer: lines, and findings that have a place in its text."""

    is_right: bool
    said: tuple[str, ...]
    findings: tuple[Diagnostic, ...] = ()


def verdict(lesson: Lesson, text: str, name: str | None = None) -> Verdict:
    """Check an answer: on every target of the lesson what can be said of its text, what a run
    finds, its values, and its cycles."""
    source = Source(name or lesson.file, text)
    said: list[str] = []
    for target in lesson.check["targets"]:
        found = _on_target(lesson, source, target)
        if not found.is_right:
            return found
        said += found.said
    return Verdict(True, tuple(said))


def _on_target(lesson: Lesson, source: Source, target: str) -> Verdict:
    checked = check_source(source, target=target)
    wrong = [d for d in checked.findings if _is_wrong(d, lesson)]
    if wrong:
        return Verdict(False, (f"These are mistakes on {target}.",), tuple(wrong[:3]))
    missing = _missing(lesson, {op.name for op in checked.front.module.walk()})
    if missing:
        return Verdict(False, (f"The program does not have `{missing}` yet.",))
    try:
        return _ran(lesson, source, target)
    except PtosimError as problem:
        findings = tuple(getattr(problem, "diagnostics", ()))[:3]
        return Verdict(False, (f"On {target} it does not run: {problem}",), findings)


def _is_wrong(found: Diagnostic, lesson: Lesson) -> bool:
    return found.severity is Severity.ERROR or found.code in lesson.check.get("clean", ())


def _missing(lesson: Lesson, names: set[str]) -> str | None:
    return next((n for n in lesson.check.get("needs", ()) if n not in names), None)


def _ran(lesson: Lesson, source: Source, target: str) -> Verdict:
    program = load(source, target=target)
    args = {name: _argument(spec) for name, spec in lesson.check.get("args", {}).items()}
    given = {a.name: args[a.name] for a in program.signature() if a.name in args}
    blocks = lesson.check.get("block_num")
    result = program.run(given, block_num=blocks, max_instructions=_LIMIT)
    wrong = [d for d in result.findings if _is_wrong(d, lesson)]
    if wrong:
        return Verdict(False, (f"On {target} a run finds mistakes:",), tuple(wrong[:3]))
    for line in _unequal(lesson, args, result.outputs):
        return Verdict(False, (f"On {target}: {line}",))
    most = lesson.check.get("max_cycles")
    is_first = target == lesson.check["targets"][0]
    if most is not None and is_first and result.cycles is not None and result.cycles > most:
        return Verdict(
            False, (f"The values are right; {result.cycles:,} cycles, the goal is {most:,}.",)
        )
    cycles = f", {result.cycles:,} cycles" if result.cycles is not None else ""
    return Verdict(True, (f"{target}: right{cycles}.",))


def _argument(spec: str) -> Any:
    """An array from a SPEC, or from a NumPy expression of the lesson after `=`."""
    if spec.startswith("="):
        return eval(spec[1:].strip(), {"np": np})
    return parse_argument(spec, Path())


def _unequal(
    lesson: Lesson, args: Mapping[str, Any], outputs: Mapping[str, np.ndarray]
) -> Iterator[str]:
    """A line for each output with other values; the expressions are those of the lesson."""
    for name, expression in lesson.check.get("expect", {}).items():
        expected = np.asarray(eval(expression, {"np": np, **args}))
        got = outputs.get(name)
        if got is None:
            yield f"the program has no argument `{name}`"
            continue
        near = lesson.check.get("tolerance", {}).get(name, {})
        got = np.asarray(got).reshape(expected.shape)
        differs = ~np.isclose(
            got.astype(np.float64), expected.astype(np.float64), equal_nan=True,
            rtol=near.get("rtol", 0), atol=near.get("atol", 0),
        )  # fmt: skip
        if differs.any():
            at = tuple(int(i) for i in np.argwhere(differs)[0])
            yield (
                f"{int(differs.sum()):,} of {expected.size:,} values of `{name}` differ, first at "
                f"{list(at)}: {got[at]:.6g}, expected {expected[at]:.6g}"
            )
