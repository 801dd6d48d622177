"""Words of users: the one that was probably meant, the first of many, and whole numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from ptosim.ground.errors import UsageError

_LONGER = 8
"""Letters by which a word may be longer or shorter than the one that was meant."""
_ALIKE = 0.6
"""Share of letters in the same order from which on a word may be meant (that of difflib)."""
_SEVERAL = 8
"""Words that are looked at or listed."""
_DIGITS = re.compile(r"\d+")


def nearest(
    word: str, known: Iterable[str], otherwise: str | None = None, sign: str = ""
) -> str | None:
    """Return the hint `did you mean …?` for a word that is like one of the known ones (written with
    `sign` in front), else `otherwise`."""
    best = _best(word, tuple(known))
    return otherwise if best is None else f"did you mean `{sign}{best}`?"


@lru_cache(maxsize=1024)
def _best(word: str, known: tuple[str, ...]) -> str | None:
    """Each word is looked up once, however often it is in a text."""
    close = _close(word, known)
    if not close:
        return None
    return max(close, key=lambda w: w.startswith(word))  # of equals the first: the nearest


def _close(word: str, known: tuple[str, ...]) -> list[str]:
    """Return what `difflib.get_close_matches` does, of the words that may be meant: at most eight,
    the nearest first. Words with the most letters in common are compared first, so that most are
    never compared letter by letter."""
    from difflib import SequenceMatcher  # only where a word is wrong

    letters, size = _letters(word), len(word)
    bounds = [
        (2 * (letters & theirs).bit_count() / (size + len(other)), other)
        for other, theirs in _table(known)
        if abs(len(other) - size) <= _LONGER and size
    ]
    matcher = SequenceMatcher()
    matcher.set_seq2(word)
    found: list[tuple[float, str]] = []
    for bound, other in sorted((b for b in bounds if b[0] >= _ALIKE), reverse=True):
        if len(found) == _SEVERAL and found[-1][0] > bound:
            break
        if not _may_mean(word, other):
            continue
        matcher.set_seq1(other)
        ratio = matcher.ratio()
        if ratio >= _ALIKE:
            found = sorted([*found, (ratio, other)], reverse=True)[:_SEVERAL]
    return [name for _, name in found]


@lru_cache(maxsize=64)
def _table(known: tuple[str, ...]) -> list[tuple[str, int]]:
    return [(word, _letters(word)) for word in known]


def _letters(word: str) -> int:
    """Return the letters of a word in any order, as bits: 16 places for each of 64 kinds, of which
    as many are set as it has letters. What two words have in common is what both have set."""
    found = 0
    counts: dict[int, int] = {}
    for letter in word:
        place = ord(letter) & 63
        count = counts[place] = counts.get(place, 0) + 1
        if count <= 16:
            found |= 1 << (place * 16 + count - 1)
    return found


def _may_mean(word: str, other: str) -> bool:
    """A number is never a slip of the pen for another one."""
    both = _DIGITS.search(word) and _DIGITS.search(other)
    return not both or _DIGITS.sub("#", word) != _DIGITS.sub("#", other)


def few(names: Sequence[str], most: int = _SEVERAL) -> str:
    """Return the first of some names, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


# Numbers as texts write them.

MOST_BITS = 256
"""Of a whole number that somebody gives: more than any type holds, and few enough to be printed,
which Python refuses for numbers of thousands of digits."""

_MOST_DIGITS = 18
"""All that 64 bits hold; Python refuses to read thousands."""


def whole(text: str) -> int | None:
    """Return the number that decimal digits write, from 0 on; None for any other text (a sign, `²`,
    nothing) and for a number of more than 18 digits."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def number_in(text: str) -> int | float | None:
    """Return the number that a text writes, a whole one in any base of Python's (`0xff`); None for
    any other text. Raises UsageError for a whole number that no type holds."""
    try:
        found = int(text, 0)
    except ValueError:
        return _float(text)
    if found.bit_length() > MOST_BITS:
        raise UsageError(
            f"`{text[:20]}…` is a number of {found.bit_length():,} bits",
            help=f"a whole number has at most {MOST_BITS} bits",
        )
    return found


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
