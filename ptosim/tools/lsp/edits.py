"""Changes of the text: the fixes of findings, the canonical form, another name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from lsprotocol import types
from pygls.workspace import TextDocument

from ptosim.ground.diagnostics.model import Diagnostic, Fix, Sink
from ptosim.ground.errors import UsageError
from ptosim.ground.source import Source
from ptosim.language.syntax.parser import parse
from ptosim.language.syntax.printer import print_module
from ptosim.tools.lsp.colours import MODIFIERS, TYPES, Token
from ptosim.tools.lsp.document import Document
from ptosim.tools.lsp.names import Kind, Word

Edit = tuple[int, int, str]
"""From, to, and the new text."""
_NAME = re.compile(r"[A-Za-z_][\w$.-]*")


def fixes(document: Document, begin: int, end: int) -> list[tuple[Diagnostic, list[Edit]]]:
    """Return the findings between two offsets whose cure is a change of the text, with it."""
    found = []
    for finding in document.mendable:
        span = finding.span
        if finding.fixes and span is not None and span.start <= end and span.end >= begin:
            found.append((finding, [_edit(fix) for fix in finding.fixes]))
    return found


def _edit(fix: Fix) -> Edit:
    return fix.span.start, fix.span.end, fix.replacement


def formatted(document: Document) -> str | None:
    """Return the canonical text; None for a text with syntax errors."""
    if document.source.is_cpp:
        return None
    sink = Sink(date=document.resolved.date, reads_old=True)
    module = parse(document.source, sink)
    return None if sink.has_errors else print_module(module)


def renamable(document: Document, offset: int) -> Word | None:
    """Return the name at an offset if it is one of the text's own."""
    word = document.names.at(offset)
    kinds = (Kind.BLOCK, Kind.CPP)
    if word is None or word.kind in kinds or document.names.definition(word) is None:
        return None
    return word


def renamed(document: Document, offset: int, name: str) -> list[Edit]:
    """Return the edits that give a name to what is at an offset. Raises UsageError for a name that
    cannot be, or that something else has where it would be seen."""
    word = renamable(document, offset)
    if word is None:
        raise UsageError("there is no name of this text here")
    made = document.names.definition(word)
    assert made is not None
    plain = name.removeprefix(word.text[0])
    if not _NAME.fullmatch(plain):
        raise UsageError(f"`{name}` is no name: letters, digits, `_`, `$`, `.`, `-`")
    new = word.text[0] + plain
    others = document.names.made.get((word.kind, new), ())
    if new != word.text and any(o.begin < made.end and made.begin < o.end for o in others):
        raise UsageError(f"`{new}` is the name of something else here")
    return [(w.start, w.end, new) for w in document.names.uses(made)]


# -- positions of the protocol ---------------------------------------------------------------------


class Places:
    """Positions count lines from 0 and columns in the units that the client chose (UTF-16 as a
    rule); offsets count characters of the text."""

    def __init__(self, source: Source, text: TextDocument) -> None:
        self._source = source
        self._text = text

    def position(self, offset: int) -> types.Position:
        """Return the position of an offset."""
        line, column = self._source.line_column(min(offset, len(self._source.text)))
        place = types.Position(line - 1, column - 1)
        if self._source.line_text(line).isascii():
            return place
        return self._text.position_codec.position_to_client_units(self._text.lines, place)

    def range(self, begin: int, end: int) -> types.Range:
        """Return the range between two offsets."""
        return types.Range(self.position(begin), self.position(end))

    def offset(self, position: types.Position) -> int:
        """Return the offset of a position."""
        return self._text.offset_at_position(position)

    def edits(self, made: Iterable[Edit]) -> list[types.TextEdit]:
        """Return changes of the text as the protocol has them."""
        return [types.TextEdit(self.range(begin, end), text) for begin, end, text in made]

    def tokens(self, lines: Iterable[Sequence[Token]], first: int = 0) -> list[int]:
        """Return the words of lines from the first one on, with their kinds, five numbers a word,
        each relative to the one before."""
        data: list[int] = []
        last = 0
        texts = self._source.text.split("\n")
        for number, words in enumerate(lines, first):
            column = 0
            units = None if texts[number].isascii() else self._units(texts[number])
            for at, size, kind, modifiers in words:
                place, end = (at, at + size) if units is None else (units(at), units(at + size))
                bits = sum(1 << MODIFIERS.index(m) for m in modifiers)
                data += (number - last, place - column, end - place, TYPES.index(kind), bits)
                last, column = number, place
        return data

    def _units(self, line: str) -> Callable[[int], int]:
        count = self._text.position_codec.client_num_units
        return lambda column: count(line[:column])
