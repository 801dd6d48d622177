"""The shape of a program: symbols, folding, and what can be done with each entry."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import Function
from ptosim.ground.isa.rows import isa
from ptosim.ground.records import dataclass, field
from ptosim.tools.lsp.document import Document
from ptosim.tools.lsp.names import WORD, Kind, Made, operation_of, results_of
from ptosim.tools.lsp.predict import Scope, changed


@dataclass(slots=True)
class Symbol:
    """A module, a function, or a value that is made: the text of all of it, and of its name."""

    name: str
    detail: str
    kind: str  # module, function, variable
    start: int
    end: int
    name_start: int
    name_end: int
    children: list[Symbol] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Lens:
    """A command over an entry."""

    start: int
    end: int
    title: str
    command: str
    entry: str


def symbols(document: Document) -> list[Symbol]:
    """Return the functions of a program with the tiles and views that they make."""
    found = []
    for function in document.resolved.functions.values():
        if not function.implicit:
            symbol = symbol_of(document, function)
            symbol.children = list(_made(document, function.ops[1:]))
            found.append(symbol)
    return found


def symbol_of(document: Document, function: Function) -> Symbol:
    """Return a function without what it makes."""
    op = function.op
    at = max(document.text.find(f"@{function.symbol}", op.start), op.start)
    is_entry = function.name in document.resolved.entries
    detail = "entry" if is_entry else function.kernel_kind or ""
    name_end = min(at + len(function.symbol) + 1, op.end)
    return Symbol(f"@{function.symbol}", detail, "function", op.start, op.end, at, name_end)


def _made(document: Document, ops: list[Operation]) -> Iterator[Symbol]:
    for op in ops:
        for value in op.results if op.definition is not None and op.traits else ():
            end = value.start + len(value.name) + 1
            yield Symbol(
                f"%{value.name}", str(value.type), "variable", op.start, max(op.end, end),
                value.start, end,
            )  # fmt: skip


def folds(document: Document) -> list[tuple[int, int, str]]:
    """Return first and last line (from 0) of each region and each run of comments, and which."""
    source = document.source
    found: dict[tuple[int, int], str] = {}
    for op in document.resolved.ops:
        for region in op.regions:
            first, last = (source.line_column(at)[0] - 1 for at in (op.start, region.end - 1))
            if last - 1 > first:
                found[first, last - 1] = "region"
    for first, last in _comments(document):
        found[first, last] = "comment"
    return [(first, last, kind) for (first, last), kind in sorted(found.items())]


def _comments(document: Document) -> Iterator[tuple[int, int]]:
    lines = document.text.split("\n")
    first = -1
    for number, line in enumerate([*lines, ""]):
        if line.lstrip().startswith("//"):
            first = number if first < 0 else first
        elif first >= 0:
            if number - 1 > first:
                yield first, number - 1
            first = -1


def around(document: Document, offset: int) -> list[tuple[int, int]]:
    """Return what is around a place, the whole text first, then what is ever smaller."""
    found = {(0, len(document.text))}
    for op in document.resolved.ops:
        if op.start <= offset <= op.end:
            found.add((op.start, op.end))
    word = document.names.at(offset)
    if word is not None:
        found.add((word.start, word.end))
    nested: list[tuple[int, int]] = []
    for begin, end in sorted(found, key=lambda one: (one[0] - one[1], one[0])):
        if not nested or (nested[-1][0] <= begin and end <= nested[-1][1]):
            nested.append((begin, end))
    return nested


def lenses(document: Document) -> list[Lens]:
    """Return "run", "debug", "cost" and "report" for each entry."""
    found = []
    for name in document.resolved.entries:
        op = document.resolved.functions[name].op
        found += [
            Lens(op.start, op.name_end, title, f"ptosim.{title}", name)
            for title in ("run", "debug", "cost", "report")
        ]
    return found


# What each word of a text is, for colours: line by line, so that a key costs one line.
#
# What a line consists of is kept by its text. Of its names only what they name is asked anew, of
# the text as it was last checked, whose places before and after the change are known.

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
