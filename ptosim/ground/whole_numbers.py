"""Numbers as texts write them."""

from __future__ import annotations

from ptosim.ground.errors import UsageError

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
