"""Attribute enums, from `isa/enums.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ptosim.ground.isa.data import read_toml
from ptosim.ground.isa.dates import comes_later, holds


@dataclass(frozen=True, slots=True)
class EnumDef:
    """An enum: its members in order with their values, and the pipe of a member where it has
    one."""

    name: str
    members: dict[str, int]
    pipes: dict[str, str]
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

    def member(self, text: str) -> str | None:
        """Return the canonical spelling of a member, None if there is none."""
        if text in self.members:
            return text
        folded = text.lower()
        return next((m for m in self.members if m.lower() == folded), None)


@lru_cache(maxsize=1)
def enums() -> dict[str, EnumDef]:
    """Return every enum by name."""
    table = read_toml("enums.toml")["enum"]
    made = {}
    for name, row in table.items():
        full = table[row["same_as"]] if "same_as" in row else row
        made[name] = EnumDef(name, full["members"], full.get("pipes", {}), full.get("dates", {}))
    return made


def pipe_named(text: str) -> str | None:
    """Return the pipe that a word names: `PIPE_V` is V, the op class `TLOAD` is MTE2; None for
    another word."""
    pipe = enums()["pipe"].member(text)
    if pipe is not None:
        return pipe.removeprefix("PIPE_")
    classes = enums()["sync_op_type"]
    return classes.pipes.get(classes.member(text) or "")
