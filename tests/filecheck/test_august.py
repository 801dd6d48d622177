"""What the language of 2026-08 says of programs written in that of 2026-04: the programs beside this
file and the shipped ones. `tests/data/august.json` holds, for each program and target, the errors that
only one of the two dates has: `-2 CODE`: April
has two more of them, `+2 CODE`: August has. After a change that is meant,
`python -m tests.filecheck.test_august` writes it anew."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptosim.ground.isa.cache import programs_directory
from ptosim.ground.isa.dates import DATES
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from tests.filecheck.conftest import sections

HERE = Path(__file__).parent
KEPT = HERE.parent / "data" / "august.json"
TARGETS = ("a2a3", "a5")
Program = tuple[str, str, FrontOptions]


def differences() -> dict[str, str]:
    """Return the errors that only one date has, by program and target."""
    return _told(list(_programs()))


def _told(programs: list[Program]) -> dict[str, str]:
    return {name: found for name, text, choice in programs if (found := _of(text, choice))}


def _programs() -> Iterator[Program]:
    for path in sorted(HERE.rglob("*.pto")):
        for number, (text, options) in enumerate(sections(path.read_text(encoding="utf-8")), 1):
            level = int(options["level"]) if "level" in options else None
            for target in options["target"].split() or TARGETS:
                name = f"{path.relative_to(HERE).as_posix()}:{number}-{target}"
                yield name, text, FrontOptions(target, level, options.get("sync"))
    root = programs_directory()
    for path in sorted(root.rglob("*.pto")):
        for target in TARGETS:
            name = f"@{path.relative_to(root).as_posix()}-{target}"
            yield name, path.read_text(encoding="utf-8"), FrontOptions(target)


def _of(text: str, choice: FrontOptions) -> str:
    april, august = (_errors(text, choice, date) for date in DATES[:2])
    gone = [f"-{n} {code}" for code, n in sorted((april - august).items())]
    return ", ".join(gone + [f"+{n} {code}" for code, n in sorted((august - april).items())])


def _errors(text: str, choice: FrontOptions, date: str) -> Counter[str]:
    options = FrontOptions(choice.target, choice.level, choice.sync, date)
    return Counter(d.code for d in run_frontend(Source("k", text), options).sink if d.is_error)


@pytest.mark.slow
@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.deep)])
def test_august_says_what_is_kept(turn: int) -> None:
    """Each text on one of its targets, the next on the other; in the deep tier the others."""
    numbers: dict[str, int] = {}
    programs = []
    for program in _programs():
        text, _, target = program[0].rpartition("-")
        number = numbers.setdefault(text, len(numbers))
        if (number + TARGETS.index(target)) % 2 == turn:
            programs.append(program)
    assert len(programs) > 300
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    names = [name for name, _, _ in programs]
    assert _told(programs) == {name: kept[name] for name in names if name in kept}


def test_what_is_kept_is_of_texts_that_there_are() -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    assert kept.keys() <= {name for name, _, _ in _programs()}


if __name__ == "__main__":
    KEPT.write_text(json.dumps(differences(), indent=1) + "\n", encoding="utf-8")
