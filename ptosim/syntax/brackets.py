"""Where a bracketed text ends: types and attributes nest to any depth, which no pattern can say."""

from __future__ import annotations

import re

_plain = re.compile(r'<(?!=)[^<>%{}"]*(?<![-=])>(?!\s*=)').match
"""The usual case: nothing inside that needs a closer look."""
_marks = re.compile(r'->|[<>]=(?=\s*[\w(\-])|[<>%{}]|"(?:[^"\\\n]|\\.)*"').finditer
_ANGLES = {"<": 1, ">": -1}
_BRACES = {"{": 1, "}": -1}


def closing(text: str, at: int) -> int:
    """Return the offset after the `>` that closes the `<` at an offset; -1 if a value, a brace that
    closes something further out or the end of the text comes first. Arrows, comparisons of affine
    sets and strings count for nothing."""
    plain = _plain(text, at)
    if plain is not None:
        return plain.end()
    depth = braces = 0
    for found in _marks(text, at):
        mark = found.group()
        depth += _ANGLES.get(mark, 0)
        braces += _BRACES.get(mark, 0)
        if mark == "%" or braces < 0:
            return -1
        if not depth:
            return found.end()
    return -1
