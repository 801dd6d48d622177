"""The word that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(
    word: str, known: Iterable[str], otherwise: str | None = None, sign: str = ""
) -> str | None:
    """Return the hint `did you mean …?` for a word that is like one of the known ones (written with
    `sign` in front), else `otherwise`."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean `{sign}{close[0]}`?" if close else otherwise
