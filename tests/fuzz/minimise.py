"""A text with a fault, made as short as the fault allows: lines first, then tokens."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tests.fuzz.mutations import tokens


def minimised(text: str, is_same: Callable[[str], bool], seconds: float) -> str:
    """Return a shorter text for which `is_same` still holds; stops after `seconds`."""
    end = time.monotonic() + seconds
    for split, glue in (_LINES, _TOKENS, _LINES, _TOKENS):
        parts = _shorter(split(text), lambda parts, g=glue: is_same(g.join(parts)), end)
        text = glue.join(parts)
    return text


_LINES: tuple[Callable[[str], list[str]], str] = (lambda text: text.split("\n"), "\n")
_TOKENS: tuple[Callable[[str], list[str]], str] = (tokens, "")


def _shorter(
    parts: Sequence[str], holds: Callable[[Sequence[str]], bool], end: float
) -> Sequence[str]:
    """Drop runs of parts, long ones first."""
    size = max(len(parts) // 2, 1)
    while True:
        at = 0
        while at < len(parts):
            if time.monotonic() > end:
                return parts
            fewer = [*parts[:at], *parts[at + size :]]
            if fewer and holds(fewer):
                parts = fewer
            else:
                at += size
        if size == 1:
            return parts
        size //= 2
