"""What each word of a text is, for colours: line by line, so that a key costs one line.

What a line consists of is kept by its text. Of its names only what they name is asked anew, of the
text as it was last checked, whose places before and after the change are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ptosim.ground.isa.rows import isa
from ptosim.tools.lsp.names import WORD, Kind, Made, operation_of, results_of
from ptosim.tools.lsp.predict import Scope, changed

TYPES = ("function", "parameter", "variable", "type", "macro", "comment", "string", "number",
         "keyword", "property", "label", "enumMember")  # fmt: skip
MODIFIERS = ("definition", "readonly", "deprecated")

Token = tuple[int, int, str, tuple[str, ...]]
"""Offset (in its line or its text), length, type and modifiers."""
_OF_KIND = {
    "comment": "comment", "string": "string", "function": "function", "type": "type",
    "number": "number", "attribute": "enumMember", "value": "variable",
}  # fmt: skip
_COMMENT = re.compile(r"\s*#(?=[ \t#!]|$)")
_ALIAS = re.compile(r"\s*(![A-Za-z_]\w*)\s*=")
_KNOWN = frozenset(("variable", "function", "type"))


def tokens(scope: Scope) -> list[Token]:
    """Return the words that are known, in the order of the text, with offsets in it."""
    found, start = [], 0
    for line, words in zip(scope.text.split("\n"), by_line(scope), strict=True):
        found += [(start + at, *rest) for at, *rest in words]
        start += len(line) + 1
    return found


def by_line(scope: Scope, first: int = 0, last: int | None = None) -> Iterator[Sequence[Token]]:
    """Yield the words of each line from the first to the last one, with offsets in the line."""
    lines = scope.text.split("\n")
    start = sum(len(line) + 1 for line in lines[:first])
    for line in lines[first : None if last is None else last + 1]:
        yield [_named(scope, start, line, word) for word in _words(line)]
        start += len(line) + 1


@lru_cache(maxsize=20_000)
def _words(line: str) -> tuple[Token, ...]:
    """What a line consists of, as far as it says itself."""
    comment = _COMMENT.match(line)
    if comment is not None:
        at = comment.end() - 1
        return ((at, len(line) - at, "comment", ()),)
    operation = operation_of(line)
    made = len(results_of(line))
    alias = _ALIAS.match(line)
    made = max(made, alias.end() if alias is not None else 0)
    found = (_word(match, line, operation, made) for match in WORD.finditer(line))
    return tuple(word for word in found if word is not None)


def _word(found: re.Match[str], line: str, operation: str, made: int) -> Token | None:
    text, at = found[0], found.start()
    kind = found.lastgroup or ""
    here = ("definition",) if at < made and kind in ("value", "type") else ()
    if kind in _OF_KIND:
        length = len(text.partition("#")[0]) if kind == "value" else len(text)
        return at, length, _OF_KIND[kind], here
    if kind != "word":
        return None
    if text.startswith("^"):
        return at, len(text), "label", ()
    if text == operation:
        row = isa().get(text)
        old = ("deprecated",) if row is not None and row.modern else ()
        return at, len(text), "macro" if text.startswith("pto.") else "keyword", old
    if re.match(r"\s*=(?!=)", line[found.end() : found.end() + 4]):
        return at, len(text), "property", ()
    return at, len(text), "keyword", ()


def _named(scope: Scope, start: int, line: str, word: Token) -> Token:
    """The same with what its name names."""
    at, length, kind, modifiers = word
    if kind not in _KNOWN:
        return word
    text = line[at : at + length]
    made = _definition(scope, start + at, kind, text)
    if made is None:
        return word
    value = made.value
    if kind == "variable" and value is not None:
        kind = "parameter" if value.is_argument else kind
        modifiers = (*modifiers, "readonly") if value.const is not None else modifiers
    is_here = "definition" not in modifiers and made.word.start == scope.checked_place(start + at)
    return at, length, kind, ("definition", *modifiers) if is_here else modifiers


_KIND = {"variable": Kind.VALUE, "function": Kind.FUNCTION, "type": Kind.ALIAS}


def _definition(scope: Scope, offset: int, kind: str, text: str) -> Made | None:
    places = scope.document.names.made.get((_KIND[kind], text), ())
    if len(places) == 1:
        return places[0]
    here = scope.checked_place(offset) if places else 0
    around = [m for m in places if m.begin <= here < m.end]
    return max(around, key=lambda m: m.word.start, default=None)


def changes(before: Sequence[int], after: Sequence[int]) -> tuple[int, int, list[int]]:
    """Return where numbers begin to differ, how many of the old ones go, and what comes."""
    begin, last, end = changed(before, after)
    return begin, last - begin, list(after[begin:end])
