"""The word that was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_LONGER = 8
"""Letters by which a word may be longer or shorter than the one that was meant."""
_DIGITS = re.compile(r"\d+")


def nearest(
    word: str, known: Iterable[str], otherwise: str | None = None, sign: str = ""
) -> str | None:
    """Return the hint `did you mean …?` for a word that is like one of the known ones (written with
    `sign` in front), else `otherwise`."""
    candidates = [w for w in known if abs(len(w) - len(word)) <= _LONGER and _may_mean(word, w)]
    close = difflib.get_close_matches(word, candidates, n=8)
    if not close:
        return otherwise
    best = max(close, key=lambda w: w.startswith(word))  # of equals the first, which is the nearest
    return f"did you mean `{sign}{best}`?"


def _may_mean(word: str, other: str) -> bool:
    """A number is never a slip of the pen for another one."""
    both = _DIGITS.search(word) and _DIGITS.search(other)
    return not both or _DIGITS.sub("#", word) != _DIGITS.sub("#", other)
