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


def differences() -> dict[str, str]:
    """Return the errors that only one date has, by program and target."""
    return {name: found for name, text, choice in _programs() if (found := _of(text, choice))}


def _programs() -> Iterator[tuple[str, str, FrontOptions]]:
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
def test_august_says_what_is_kept() -> None:
    assert differences() == json.loads(KEPT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    KEPT.write_text(json.dumps(differences(), indent=1) + "\n", encoding="utf-8")
