"""Offsets of a text as positions of the protocol, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lsprotocol import types
from pygls.workspace import TextDocument

from ptosim.ground.source import Source
from ptosim.tools.lsp.edits import Edit
from ptosim.tools.lsp.tokens import MODIFIERS, TYPES, Token


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

    def tokens(self, found: Sequence[Token]) -> list[int]:
        """Return words with their kinds, five numbers a word, each relative to the one before."""
        data: list[int] = []
        line = column = 0
        for start, length, kind, modifiers in found:
            place = self.position(start)
            after = self.position(start + length)
            size = after.character - place.character if after.line == place.line else length
            bits = sum(1 << MODIFIERS.index(m) for m in modifiers)
            data += [
                place.line - line,
                place.character - (column if place.line == line else 0),
                size,
                TYPES.index(kind),
                bits,
            ]
            line, column = place.line, place.character
        return data
