"""Where a bracketed text ends: types and attributes nest to any depth, which no pattern can say."""

from __future__ import annotations

import re

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.source import Source, Span

MAX_DEPTH = 100
"""Levels of brackets that a program may have: whatever looks at a program goes from level to level
by calls, up to six for each, of which Python allows a thousand. What is read again from each level,
as after an error, takes time in proportion to its length because nothing is looked for deeper."""
TOO_DEEP = -2

_plain = re.compile(r'<(?!=)[^<>%{}"]*(?<![-=])>(?!\s*=)').match
"""The usual case: nothing inside that needs a closer look."""
_marks = re.compile(r'->|[<>]=(?=\s*[\w(\-])|[<>%{}]|"(?:[^"\\\n]|\\.)*"').finditer
_is_comparison = re.compile(r"<=(?=\s*[\w(\-])").match
_ANGLES = {"<": 1, ">": -1}
_BRACES = {"{": 1, "}": -1}


def closing(text: str, at: int) -> int:
    """Return the offset after the `>` that closes the `<` at an offset; -1 if a value, a brace that
    closes something further out or the end of the text comes first, `TOO_DEEP` for more than
    `MAX_DEPTH` levels. Arrows, comparisons of affine sets and strings count for nothing."""
    plain = _plain(text, at)
    if plain is not None:
        return plain.end()
    if _is_comparison(text, at):
        return -1
    depth, braces = 1, 0
    for found in _marks(text, at + 1):
        mark = found.group()
        depth += _ANGLES.get(mark, 0)
        braces += _BRACES.get(mark, 0)
        if mark == "%" or braces < 0:
            return -1
        if not depth:
            return found.end()
        if depth > MAX_DEPTH:
            return TOO_DEEP
    return -1


def too_deep(source: Source, start: int) -> Diagnostic:
    """Return the finding about the bracket at an offset, which is one too many inside others."""
    return finding(
        "PTO0004",
        f"brackets are nested deeper than {MAX_DEPTH} levels",
        Span(source, start, start + 1),
        notes=(f"a program nests regions, lists and types at most {MAX_DEPTH} levels deep",),
        help="look for an opening bracket that is never closed",
    )
