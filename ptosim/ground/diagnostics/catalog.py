"""The long texts of diagnostic codes, from `isa/diagnostics.toml`."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from functools import lru_cache

from ptosim.ground.isa.data import derived, read_toml

_FILE = "diagnostics.toml"


@dataclass(frozen=True, slots=True)
class Entry:
    """What `ptosim explain` says about a code."""

    title: str
    severity: str
    explanation: str
    example: str
    cure: str

    def to_dict(self) -> dict[str, str]:
        """Return the entry as JSON data."""
        return {
            "title": self.title,
            "severity": self.severity,
            "explanation": self.explanation,
            "example": self.example,
            "cure": self.cure,
        }

    def text(self, code: str) -> str:
        """Return the entry as plain text."""
        parts = [f"{code} ({self.severity}): {self.title}", "", _wrap(self.explanation)]
        if self.example:
            parts += ["", "Example:", "", textwrap.indent(self.example.strip("\n"), "    ")]
        if self.cure:
            parts += ["", "Cure:", "", _wrap(self.cure)]
        return "\n".join(parts) + "\n"


@lru_cache(maxsize=1)
def severities() -> dict[str, str]:
    """Return the severity of every code: one each. A finding needs no more than this."""
    return derived(
        _FILE, "severities", lambda content: {c: r["severity"] for c, r in content["code"].items()}
    )


@lru_cache(maxsize=1)
def catalog() -> dict[str, Entry]:
    """Return every code with its texts."""
    return {
        code: Entry(
            row["title"],
            row["severity"],
            row["explanation"],
            row.get("example", ""),
            row.get("cure", ""),
        )
        for code, row in read_toml(_FILE)["code"].items()
    }


def _wrap(text: str) -> str:
    paragraphs = [" ".join(p.split()) for p in text.strip().split("\n\n")]
    return "\n\n".join(textwrap.fill(p, 96) for p in paragraphs)
