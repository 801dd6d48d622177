"""What each word is, for colours that know more than a pattern can."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptosim.tools.lsp.document import Document
from ptosim.tools.lsp.names import Kind

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
