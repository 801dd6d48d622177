"""The shape of a program: symbols, folding, and what can be done with each entry."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptosim.ground.ir.core import Operation
from ptosim.ground.records import dataclass, field
from ptosim.tools.lsp.document import Document
from ptosim.tools.lsp.names import Kind


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
        if function.implicit:
            continue
        op = function.op
        at = max(document.text.find(f"@{function.symbol}", op.start), op.start)
        detail = (
            "entry" if function.name in document.resolved.entries else function.kernel_kind or ""
        )
        name_end = min(at + len(function.symbol) + 1, op.end)
        symbol = Symbol(f"@{function.symbol}", detail, "function", op.start, op.end, at, name_end)
        symbol.children = list(_made(document, function.ops[1:]))
        found.append(symbol)
    return found


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


def lenses(document: Document) -> list[Lens]:
    """Return "run", "debug" and "cost" for each entry."""
    found = []
    for name in document.resolved.entries:
        op = document.resolved.functions[name].op
        found += [
            Lens(op.start, op.name_end, title, f"ptosim.{title}", name)
            for title in ("run", "debug", "cost")
        ]
    return found


# -- colours ---------------------------------------------------------------------------------------

TYPES = ("function", "parameter", "variable", "type", "macro", "comment", "string", "number",
         "keyword", "property", "label")  # fmt: skip
MODIFIERS = ("definition", "readonly", "deprecated")

Token = tuple[int, int, str, tuple[str, ...]]
"""Offset, length, type and modifiers."""

_SIMPLE = re.compile(
    r"(?P<comment>//[^\n]*|#(?=[ \t#!\r\n]|$)[^\n]*)|(?P<string>\"(?:\\.|[^\"\\\n])*\")"
    r"|(?P<number>(?<![\w%@#.])-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.]))",
    re.MULTILINE,
)


def tokens(document: Document) -> list[Token]:
    """Return the words that are known, in the order of the text."""
    found = [*_names(document), *_operations(document), *_plain(document)]
    taken = -1
    kept = []
    for token in sorted(found, key=lambda t: (t[0], -t[1])):
        if token[0] >= taken:
            kept.append(token)
            taken = token[0] + token[1]
    return kept


def _names(document: Document) -> Iterator[Token]:
    names = document.names
    for word in names.words:
        made = names.definition(word)
        here = ("definition",) if made is not None and made.word.start == word.start else ()
        if word.kind is Kind.VALUE:
            value = made.value if made is not None else None
            fixed = ("readonly",) if value is not None and value.const is not None else ()
            kind = "parameter" if value is not None and value.is_argument else "variable"
            yield word.start, len(word.text), kind, (*here, *fixed)
        else:
            kind = {Kind.FUNCTION: "function", Kind.ALIAS: "type", Kind.BLOCK: "label"}[word.kind]
            yield word.start, len(word.text), kind, here


def _operations(document: Document) -> Iterator[Token]:
    text = document.text
    for op in document.resolved.ops:
        at = text.rfind(op.name, op.start, op.name_end)
        if at >= 0:
            old = ("deprecated",) if op.definition is not None and op.definition.modern else ()
            yield at, len(op.name), "macro" if op.name.startswith("pto.") else "keyword", old


def _plain(document: Document) -> Iterator[Token]:
    for found in _SIMPLE.finditer(document.text):
        yield found.start(), len(found[0]), found.lastgroup or "", ()
