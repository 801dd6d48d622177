"""The word that was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_DIGITS = re.compile(r"\d+")


def nearest(
    word: str, known: Iterable[str], otherwise: str | None = None, sign: str = ""
) -> str | None:
    """Return the hint `did you mean …?` for a word that is like one of the known ones (written with
    `sign` in front), else `otherwise`."""
    close = [w for w in difflib.get_close_matches(word, list(known), n=8) if _may_mean(word, w)]
    if not close:
        return otherwise
    best = max(close, key=lambda w: w.startswith(word))  # of equals the first, which is the nearest
    return f"did you mean `{sign}{best}`?"


def _may_mean(word: str, other: str) -> bool:
    """A number is never a slip of the pen for another one."""
    both = _DIGITS.search(word) and _DIGITS.search(other)
    return not both or _DIGITS.sub("#", word) != _DIGITS.sub("#", other)
