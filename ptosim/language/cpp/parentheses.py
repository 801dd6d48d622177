"""Parentheses around values that the grammar may take for those of a cast: in `(a) + b * c` it
cannot know that `a` is no type, and takes `+b` for what is cast. Macros write many of them."""

from __future__ import annotations

import re

from ptosim.language.cpp.kinds import SCALARS

_PARTS = re.compile(r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[()]""")
_POSTFIX = re.compile(
    r"\s*([A-Za-z_]\w*)((?:\s*(?:\.|->|::)\s*\w+|\s*\[[^\[\]]*\]|\s*\((?:[^()]|\([^()]*\))*\))*)\s*"
)
_SIGN = re.compile(r"\s*[-+*&]")
_DECLARED = re.compile(
    r"\b(?:using|typename|class|struct|enum(?:\s+class)?)\s+(\w+)|\btypedef\b[^;]*?(\w+)\s*;"
)
_WORD = re.compile(r"\w+")
_BEFORE_VALUES = frozenset(("return", "case", "else", "do", "and", "or", "not"))
"""Words before a parenthesis that is not that of a call or of a condition."""
_OF_TYPES = frozenset(SCALARS) | {"const", "volatile", "__gm__", "__ubuf__"}


def without_casts(text: str) -> str:
    """Return a text of the same length without the parentheses around a name, an element or a call
    in front of a sign, where no cast is meant. They change nothing: nothing binds tighter."""
    types = _OF_TYPES.union(*(found for found in _DECLARED.findall(text)))
    opened: list[int] = []
    blank: list[int] = []
    last = (0, 0)  # the parentheses that were closed last
    for part in _PARTS.finditer(text):
        if part[0] == "(":
            opened.append(part.start())
        elif part[0] == ")" and opened:
            here = opened.pop(), part.start()
            if _SIGN.match(text, part.end()) and _is_value(text, *here, last, types):
                blank += here
            last = here
    chars = list(text) if blank else []
    for at in blank:
        chars[at] = " "
    return "".join(chars) if blank else text


def _is_value(
    text: str, start: int, end: int, last: tuple[int, int], types: frozenset[str]
) -> bool:
    """Is a name, an element or a call in these parentheses, and nothing that they belong to in
    front of them?"""
    found = _POSTFIX.fullmatch(text, start + 1, end)
    if found is None or found[1] in types:
        return False
    if "::" in found[2] and found[2][-1] not in ")]":
        return False  # a member of a class: a type, perhaps
    at = start - 1
    while at >= 0 and text[at].isspace():
        at -= 1
    before = text[at] if at >= 0 else ";"
    if before == ")":  # of a cast, or of a call of what a call returns
        words = _WORD.findall(text, last[0], last[1])
        return last[1] == at and bool(words) and types.issuperset(w for w in words if w != "std")
    if before == ">":  # greater, or the end of template arguments
        return text[at - 1].isspace()
    if before.isalnum() or before == "_":
        return _word_to(text, at) in _BEFORE_VALUES
    return before != "]"


def _word_to(text: str, end: int) -> str:
    """Return the word whose last character is there."""
    start = end
    while start > 0 and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    return text[start : end + 1]
