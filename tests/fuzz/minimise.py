"""An input with a fault, made as short as the fault allows: lines first, then tokens; bytes of what
is no text."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.fuzz.mutations import tokens


def minimised(content: bytes, is_same: Callable[[bytes], bool], seconds: float) -> bytes:
    """Return shorter content for which `is_same` still holds; stops after `seconds`."""
    end = time.monotonic() + seconds
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if not text or text.encode() != content:
        parts = _shorter(content, lambda parts: is_same(bytes(parts)), end)
        return bytes(parts)
    for split, glue in (_LINES, _TOKENS, _LINES, _TOKENS):
        parts = _shorter(split(text), lambda parts, g=glue: is_same(g.join(parts).encode()), end)
        text = glue.join(parts)
    return text.encode()


_LINES: tuple[Callable[[str], list[str]], str] = (lambda text: text.split("\n"), "\n")
_TOKENS: tuple[Callable[[str], list[str]], str] = (tokens, "")


def _shorter(parts: Sequence[Any], holds: Callable[[Sequence[Any]], bool], end: float) -> Any:
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
