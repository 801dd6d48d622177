"""The texts that are changed: what is shipped, and what the assembler accepts, of all levels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ptosim.ground.isa.paths import programs_directory

_FILECHECK = Path(__file__).parents[1] / "filecheck"
_HEADER = re.compile(r"^// (target|compat): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Seed:
    """A text, the targets that it is for, and its date."""

    name: str
    text: str
    targets: tuple[str | None, ...]
    compat: str | None


def seeds() -> list[Seed]:
    """Return all texts, in an order that does not change."""
    folders = programs_directory(), _FILECHECK / "accept", _FILECHECK / "micro"
    return [_seed(path) for folder in folders for path in sorted(folder.rglob("*.pto"))]


def _seed(path: Path) -> Seed:
    text = path.read_text(encoding="utf-8")
    said = dict(_HEADER.findall(text))
    targets = tuple(w for w in said.get("target", "").split() if w in ("a2a3", "a5"))
    known = said.get("compat", "").strip()
    compat = known if known in ("2026-04", "2026-08") else None
    return Seed(f"{path.parent.name}/{path.stem}", text, targets or (None, "a2a3", "a5"), compat)
