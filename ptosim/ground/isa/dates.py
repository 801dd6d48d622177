"""The dates of the language: what a row, or a part of it, says of one of them.

A row, a variant, a rule, a list of element types, an enum, a type, a spelling has `since` (the
first date that has it) and `until` (the first date that has it no more); in a list of operands or
attributes the words follow the piece: `byte:hist_byte since 2026-08`. Without either it is in every
date. This is the only place that compares dates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.cache import read_toml, toml_names
from ptosim.ground.records import dataclass, field
from ptosim.ground.words import nearest

DATES = ("2026-04", "2026-08", "2026-09")
"""In order: PTOAS 0.27, PTOAS of 2026-08-21, and 0.64 as far as its changes are reported."""
DEFAULT_DATE = "2026-08"

_NEVER = "9999"
_PIECE = re.compile(r"\s+(since|until)\s+([\w-]+)")
_LISTS = ("ins", "outs", "named", "attrs")


def check_date(word: str) -> str:
    """Return a date of the language; raises UsageError for another word."""
    if word not in DATES:
        raise UsageError(f"unknown date `{word}` of the language", help=f"known: {_known()}")
    return word


def _known() -> str:
    return ", ".join(f"{d} (default)" if d == DEFAULT_DATE else d for d in DATES)


def holds(part: Mapping[str, Any], date: str) -> bool:
    """True if a date has a part: it does not begin later and has not ended by then."""
    return part.get("since", DATES[0]) <= date and not (part.get("until") or _NEVER) <= date


def comes_later(part: Mapping[str, Any], date: str) -> bool:
    """True if a part begins after a date."""
    return date < part.get("since", DATES[0])


def at_date(row: Mapping[str, Any], date: str) -> dict[str, Any]:
    """Return a row as a date reads it: parts of its lists that the date does not have are out."""
    return {key: _part(key, value, date) for key, value in row.items()}


def _part(key: str, value: Any, date: str) -> Any:
    if key in _LISTS and isinstance(value, str):
        return _pieces(value, date)
    if isinstance(value, list):
        return [_table(e, date) if isinstance(e, dict) else e for e in value if _has(e, date)]
    return value


def _has(entry: Any, date: str) -> bool:
    return not isinstance(entry, dict) or holds(entry, date)


def _table(entry: Mapping[str, Any], date: str) -> dict[str, Any]:
    plain = {k: v for k, v in entry.items() if k not in ("since", "until")}
    return at_date(plain, date)


def _pieces(text: str, date: str) -> str:
    if " since " not in text and " until " not in text:
        return text
    dated = ((_PIECE.sub("", p), dict(_PIECE.findall(p))) for p in pieces(text))
    return ", ".join(piece for piece, words in dated if holds(words, date))


def pieces(text: str) -> list[str]:
    """Split a list of operands or attributes at the commas outside parentheses."""
    found = [""]
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and not depth:
            found.append("")
        else:
            found[-1] += char
    return [p.strip() for p in found if p.strip()]


# Switches of the semantics and the profiles that set them, from `isa/switches.toml` and
# `isa/profiles/`.


@dataclass(frozen=True, slots=True)
class SwitchDef:
    """A switch: the values it takes, its default for each target, and what it decides."""

    name: str
    values: tuple[str, ...]
    default: Mapping[str, str]
    text: str
    library: str | None = None
    """The default for kernels in C++, where the library differs from the assembler."""
    open: bool = False
    """True if no public source says what the hardware does."""
    sets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By its value, what it sets of other switches where it is set itself."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A set of switch values for a target, with the single switches that the caller overrode."""

    name: str
    target: str
    switches: Mapping[str, str]
    overridden: tuple[str, ...]

    def __getitem__(self, switch: str) -> str:
        return self.switches[switch]


@lru_cache(maxsize=1)
def switches() -> dict[str, SwitchDef]:
    """Return every switch by name."""
    made = {}
    for name, row in read_toml("switches.toml")["switch"].items():
        default = row["default"]
        table: dict[str, str] = default if isinstance(default, dict) else {}
        table = table or dict.fromkeys(("a2a3", "a5"), str(default))
        library, is_open = row.get("library"), row.get("open", False)
        values, sets = tuple(row["values"]), row.get("sets", {})
        made[name] = SwitchDef(name, values, table, row["text"], library, is_open, sets)
    return made


@lru_cache(maxsize=1)
def profiles() -> dict[str, dict[str, str]]:
    """Return what every profile sets, by name."""
    return {
        file.removeprefix("profiles/").removesuffix(".toml"): read_toml(file)["set"]
        for file in toml_names("profiles")
    }


def make_profile(
    name: str,
    target: str,
    overrides: Mapping[str, str] | None = None,
    *,
    library: bool = False,
) -> Profile:
    """Return a profile for a target, for a kernel in C++ (`library`) with what the library does
    where it differs from the assembler; raises UsageError for a profile, switch or value that is
    not there."""
    if name not in profiles():
        known_names = f"known: {', '.join(profiles())}"
        raise UsageError(f"unknown profile `{name}`", help=nearest(name, profiles(), known_names))
    known = switches()
    values = {
        s.name: s.library if library and s.library is not None else s.default[target]
        for s in known.values()
    }
    values |= profiles()[name]
    for key, value in (overrides or {}).items():
        if key not in known:
            hint = nearest(key, known, f"known: {', '.join(known)}")
            raise UsageError(f"unknown switch `{key}`", help=hint)
        if value not in known[key].values:
            raise UsageError(
                f"switch `{key}` does not take `{value}`",
                help=f"values: {', '.join(known[key].values)}",
            )
        values |= known[key].sets.get(value, {})
    values |= overrides or {}
    return Profile(name, target, values, tuple(overrides or ()))
