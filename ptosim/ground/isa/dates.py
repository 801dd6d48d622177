"""The dates of the language: what a row, or a part of it, says of one of them.

A row, a variant, a rule, a list of element types, an enum, a type, a spelling has `since` (the
first date that has it) and `until` (the first date that has it no more); in a list of operands or
attributes the words follow the piece: `byte:hist_byte since 2026-08`. Without either it is in every
date. This is the only place that compares dates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ptosim.ground.errors import UsageError

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
