"""The texts that are changed: what is shipped, and what the assembler accepts, of all levels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ptosim.ground.isa.cache import programs_directory
from tests.support.paths import TESTS

_FILECHECK = TESTS / "filecheck"
_EXECUTED = Path(__file__).parent / "executed"
"""For nearly every operation the shortest text that executes it, of the tests' own programs: most
texts that the assembler accepts have arguments that no launch can give."""
_HEADER = re.compile(r"^// (target|compat): (.*)$", re.MULTILINE)
_PART = re.compile(r"^// -----\n", re.MULTILINE)
_TARGETS = (None, "a2a3", "a2a3", "a2a3", "a5", "a5", "a5")
"""Of a text that names none; without a target it is checked on both, which takes twice as long."""


@dataclass(frozen=True)
class Seed:
    """A text, the targets that it is for, and its date."""

    name: str
    text: str
    targets: tuple[str | None, ...]
    compat: str | None
    executes: bool = False  # it was chosen because it can be executed


def seeds() -> list[Seed]:
    """Return all texts, in an order that does not change."""
    folders = _EXECUTED, programs_directory(), _FILECHECK / "accept", _FILECHECK / "micro"
    paths = (path for folder in folders for path in sorted(folder.rglob("*.pto")))
    return [seed for path in paths for seed in _seeds(path)]


def _seeds(path: Path) -> Iterator[Seed]:
    """The parts of a file that are programs of their own: short texts are tried faster."""
    for number, text in enumerate(_PART.split(path.read_text(encoding="utf-8"))):
        said = dict(_HEADER.findall(text))
        targets = tuple(w for w in said.get("target", "").split() if w in ("a2a3", "a5"))
        known = said.get("compat", "").strip()
        compat = known if known in ("2026-04", "2026-08") else None
        name = f"{path.parent.name}/{path.stem}" + (f".{number}" if number else "")
        yield Seed(name, text, targets or _TARGETS, compat, path.parent == _EXECUTED)
