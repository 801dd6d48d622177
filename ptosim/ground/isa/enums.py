"""Attribute enums, from `isa/enums.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ptosim.ground.isa.data import read_toml
<<<<<<< HEAD
from ptosim.ground.isa.dates import comes_later, holds
=======
from ptosim.ground.isa.dates import holds
>>>>>>> main


@dataclass(frozen=True, slots=True)
class EnumDef:
    """An enum: its members in order with their values, the pipe of a member where it has one, other
    words for members, and the rows that say which dates have a member or the whole."""

    name: str
    members: dict[str, int]
    pipes: dict[str, str]
<<<<<<< HEAD
    dates: dict[str, dict[str, str]]
    """`since` and `until` of the members that not every date of the language has."""

    def absent(self, member: str, date: str) -> str:
        """Return in words why a date does not have a member, '' if it does."""
        row = self.dates.get(member, {})
        if holds(row, date):
            return ""
        if comes_later(row, date):
            return f"`{member}` needs PTOAS {row['since']}"
        return f"PTOAS {row['until']} has `{member}` no more"
=======
    words: dict[str, str] = field(default_factory=dict)
    dates: Mapping[str, Any] = field(default_factory=dict)
    dated: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
>>>>>>> main

    def member(self, text: str) -> str | None:
        """Return the canonical spelling of a member, None if there is none."""
        if text in self.members:
            return text
        folded = text.lower()
        found = next((m for m in self.members if m.lower() == folded), None)
        return found if found is not None else self.words.get(folded)

    def dates_of(self, member: str) -> Mapping[str, Any]:
        """Return the row that says which dates have a member."""
        return self.dated.get(member, self.dates)

    def members_at(self, date: str) -> list[str]:
        """Return the members that a date has."""
        return [m for m in self.members if holds(self.dates_of(m), date)]


@lru_cache(maxsize=1)
def enums() -> dict[str, EnumDef]:
    """Return every enum by name."""
    table = read_toml("enums.toml")["enum"]
    made = {}
    for name, row in table.items():
        full = table[row["same_as"]] if "same_as" in row else row
<<<<<<< HEAD
        made[name] = EnumDef(name, full["members"], full.get("pipes", {}), full.get("dates", {}))
=======
        made[name] = EnumDef(
            name,
            full["members"],
            full.get("pipes", {}),
            full.get("words", {}),
            {key: row[key] for key in ("since", "until") if key in row},
            full.get("dated", {}),
        )
>>>>>>> main
    return made


def pipe_named(text: str) -> str | None:
    """Return the pipe that a word names: `PIPE_V` is V, the op class `TLOAD` is MTE2; None for
    another word."""
    pipe = enums()["pipe"].member(text)
    if pipe is not None:
        return pipe.removeprefix("PIPE_")
    classes = enums()["sync_op_type"]
    return classes.pipes.get(classes.member(text) or "")
