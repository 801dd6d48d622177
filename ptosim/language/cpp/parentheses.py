"""Parentheses around values that the grammar may take for those of a cast: in `(a) + b * c` it
cannot know that `a` is no type, and takes `+b` for what is cast. Macros write many of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from ptosim.language.cpp.kinds import SCALARS

_PARTS = re.compile(r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[()\[\]]""")
_FIRST = re.compile(r"\s*([A-Za-z_]\w*)\s*")
_MEMBER = re.compile(r"(\.|->|::)\s*(\w+)\s*")
_ARGUMENTS = re.compile(r"<(?:[\w\s,:*]|<[\w\s,:*]*>)*>\s*(?=\()")
"""Of a template that is called."""
_TEMPLATE = re.compile(r"\btemplate\s*<[^<>;{}()]*>[\w\s:*&<>]{1,100}?(\w+)\s*\(")
_OF_LIBRARY = frozenset(("min", "max", "static_cast", "reinterpret_cast"))
_BLANK = re.compile(r"\s*")
_SIGN = re.compile(r"\s*[-+*&]")
_DECLARED = re.compile(
    r"\b(?:using|typename|class|struct|enum(?:\s+class)?)\s+(\w+)|\btypedef\b[^;]*?(\w+)\s*;"
)
_WORD = re.compile(r"\w+")
_BEFORE_VALUES = frozenset(("return", "case", "else", "do", "and", "or", "not"))
"""Words before a parenthesis that is not that of a call or of a condition."""
_OF_TYPES = frozenset(SCALARS) | {"const", "volatile", "__gm__", "__ubuf__"}


class _Names:
    """What a text declares."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.types = _OF_TYPES.union(*(found for found in _DECLARED.findall(text)))

    @cached_property
    def templates(self) -> frozenset[str]:
        """Those of functions: what is in `<…>` after one is no comparison."""
        return _OF_LIBRARY.union(_TEMPLATE.findall(self._text))


def without_casts(text: str) -> str:
    """Return a text of the same length without the parentheses around a name, an element or a call
    in front of a sign, where no cast is meant. They change nothing: nothing binds tighter."""
    names = _Names(text)
    opened: list[int] = []
    closes: dict[int, int] = {}  # where what was opened is closed
    blank: list[int] = []
    last = (0, 0)  # the parentheses that were closed last
    for part in _PARTS.finditer(text):
        if part[0] in "([":
            opened.append(part.start())
        elif part[0] in ")]" and opened:
            here = opened.pop(), part.start()
            closes[here[0]] = here[1]
            if part[0] == "]":
                continue
            if _SIGN.match(text, part.end()) and _is_value(text, here, last, names, closes):
                blank += here
            last = here
    chars = list(text) if blank else []
    for at in blank:
        chars[at] = " "
    return "".join(chars) if blank else text


def _is_value(
    text: str,
    here: tuple[int, int],
    last: tuple[int, int],
    names: _Names,
    closes: Mapping[int, int],
) -> bool:
    """Is a name, an element or a call in these parentheses, and nothing that they belong to in
    front of them?"""
    start, end = here
    if not _is_postfix(text, start + 1, end, names, closes):
        return False
    at = start - 1
    while at >= 0 and text[at].isspace():
        at -= 1
    before = text[at] if at >= 0 else ";"
    if before == ")":  # of a cast, or of a call of what a call returns
        words = _WORD.findall(text, last[0], last[1])
        return (
            last[1] == at and bool(words) and names.types.issuperset(w for w in words if w != "std")
        )
    if before == ">":  # greater, or the end of template arguments
        return text[at - 1].isspace()
    if before.isalnum() or before == "_":
        return _word_to(text, at) in _BEFORE_VALUES
    return before != "]"


def _is_postfix(text: str, at: int, end: int, names: _Names, closes: Mapping[int, int]) -> bool:
    """Is it a name that is no type, with members, indices and arguments after it? `A::b` alone may
    be a type."""
    first = _FIRST.match(text, at, end)
    if first is None or first[1] in names.types:
        return False
    at, word, is_called, is_qualified = first.end(), first[1], False, False
    while at < end:
        if text[at] in "([" and at in closes:
            is_called = True
            at = closes[at] + 1
        elif (found := _MEMBER.match(text, at, end)) is not None:
            is_called, is_qualified = False, is_qualified or found[1] == "::"
            word = found[2]
            at = found.end()
        elif word in names.templates and (found := _ARGUMENTS.match(text, at, end)) is not None:
            at = found.end()
        else:
            return False
        space = _BLANK.match(text, at, end)
        at = space.end() if space is not None else at
    return is_called or not is_qualified


def _word_to(text: str, end: int) -> str:
    """Return the word whose last character is there."""
    start = end
    while start > 0 and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    return text[start : end + 1]
