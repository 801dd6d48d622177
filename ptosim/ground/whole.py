"""Whole numbers as texts write them."""

from __future__ import annotations

_MOST_DIGITS = 18
"""All that 64 bits hold; Python refuses to read thousands."""


def whole(text: str) -> int | None:
    """Return the number that decimal digits write, from 0 on; None for any other text (a sign, `²`,
    nothing) and for a number of more than 18 digits."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None
