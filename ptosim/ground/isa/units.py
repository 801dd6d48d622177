"""What the language of a date says of modules and functions: `isa/units.toml`."""

from __future__ import annotations

from functools import lru_cache

from ptosim.ground.isa.data import TomlTable, read_toml
from ptosim.ground.isa.dates import holds
from ptosim.ground.records import dataclass


@dataclass(frozen=True, slots=True)
class WordRule:
    """An attribute whose text is one of a few words, on operations with a trait."""

    attribute: str
    where: str
    words: tuple[str, ...]
    text: str
    folded: bool = False
    enum: str = ""  # the words are members of this enum, not texts

    def holds(self, word: str) -> bool:
        """True if the word is one of them."""
        return (word.lower() if self.folded else word) in self.words


@dataclass(frozen=True, slots=True)
class UnitRules:
    """The rules of one date; texts have the words of the assembler."""

    marks: tuple[str, ...]  # attributes that make a function an entry
    words: tuple[WordRule, ...]
    reserved: dict[str, str]  # attributes that a program must not have, with what to say
    rules: dict[str, str]  # the others by name, with their text
    families: dict[str, frozenset[str]]  # of operations that a rule is about, by its name
    stand_ins: dict[str, tuple[str, ...]]  # by the kind of a type: kinds that it is accepted for


@lru_cache(maxsize=4)
def unit_rules(date: str) -> UnitRules:
    """Return the rules of a date."""
    table = read_toml("units.toml")

    def rows(key: str) -> list[TomlTable]:
        return [row for row in table[key] if holds(row, date)]

    return UnitRules(
        tuple(row["attribute"] for row in rows("mark")),
        tuple(
            WordRule(
                row["attribute"],
                row["where"],
                tuple(row["words"]),
                row["text"],
                row.get("folded", False),
                row.get("enum", ""),
            )
            for row in rows("words")
        ),
        {row["attribute"]: row["text"] for row in rows("reserved")},
        {row["name"]: row.get("text", "") for row in rows("rule")},
        {row["name"]: frozenset(row.get("families", "").split()) for row in rows("rule")},
        {row["type"]: tuple(row["kinds"]) for row in rows("stand_in")},
    )
