"""Tables and lines as text without colours: the same characters as rich writes, without loading it
(`tests/views/test_plain_text.py` compares them)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeGuard

from ptosim.views.table import Part, Table
from ptosim.views.text import Text, columns_of

_WORD = re.compile(r"\s*\S+\s*")
_TAB = 8


def is_plain(parts: Sequence[object]) -> TypeGuard[Sequence[Part]]:
    """True of a report that is nothing but tables and lines."""
    return all(isinstance(part, (Table, Text)) for part in parts)


def plain_text(parts: Iterable[Part], width: int) -> str:
    """Return a report in so many columns; blanks at the ends of lines are dropped."""
    lines = (line for part in parts for line in _lines(part, width))
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _lines(part: Part, width: int) -> Iterator[str]:
    if isinstance(part, Table):
        yield from _table(part, width)
        return
    yield from _folded(part.plain, width)


# -- tables ----------------------------------------------------------------------------------------


def _table(table: Table, width: int) -> Iterator[str]:
    """A title, a line of names, a rule, and the rows; an empty line above and below."""
    kept, widths = table.laid_out(width)
    if not widths:
        yield ""
        return
    between = " " if kept.tight else "   "
    edge = " " if kept.edge else ""
    total = sum(widths) + len(between) * (len(widths) - 1) + 2 * len(edge)
    if kept.title:
        yield from _folded(Text(kept.title).plain, total)
    if kept.edge:
        yield ""

    def row(cells: Sequence[str], *, low: bool = False) -> Iterator[str]:
        columns = zip(cells, kept.columns, widths, strict=True)
        blocks = [_cell(c, w, right=n.startswith(">"), cut=kept.cut) for c, n, w in columns]
        high = max(map(len, blocks))
        for block, width in zip(blocks, widths, strict=True):
            blank = [" " * width] * (high - len(block))
            block[:] = blank + block if low else block + blank
        yield from (edge + between.join(line) for line in zip(*blocks, strict=True))

    if kept.head:
        yield from row(kept.names, low=True)
        yield edge + "─" * (total - 2 * len(edge))
    for cells in kept.rows:
        yield from row([cell.plain for cell in cells])
    if kept.omitted:
        yield from row([f"… and {kept.omitted} more", *[""] * (len(widths) - 1)])
    if kept.edge:
        yield ""


def _cell(text: str, width: int, *, right: bool, cut: bool) -> list[str]:
    lines = [_untabbed(line) for line in text.split("\n")] if cut else _folded(text, width)
    return [_filled(line, width, right=right, cut=cut) for line in lines]


def _filled(line: str, width: int, *, right: bool, cut: bool) -> str:
    line = line.rstrip() if right else line
    if columns_of(line) > width:
        line = _cropped(line, width - 1) + "…" if cut else _cropped(line, width)
    room = " " * (width - columns_of(line))
    return room + line if right else line + room


def _cropped(line: str, width: int) -> str:
    while columns_of(line) > width:
        line = line[:-1]
    return line + " " * (width - columns_of(line))  # half of a wide character


# -- lines -----------------------------------------------------------------------------------------


def _folded(text: str, width: int) -> list[str]:
    """The lines of a text, continued below at blanks; longer words are broken."""
    found: list[str] = []
    for line in text.split("\n"):
        line = _untabbed(line)
        places = _breaks(line, width) if columns_of(line) > width else ()
        found += [line[a:b] for a, b in pairwise((0, *places, len(line)))]
    return found


def _untabbed(line: str) -> str:
    if "\t" not in line:
        return line
    *tabbed, last = line.split("\t")
    return "".join(part + " " * (_TAB - columns_of(part) % _TAB) for part in tabbed) + last


def _breaks(line: str, width: int) -> Iterator[int]:
    used = 0
    for word in _WORD.finditer(line):
        start, text = word.start(), word.group()
        needed = columns_of(text.rstrip())
        if needed <= width - used:
            used += columns_of(text)
        elif needed > width:
            for piece in _chopped(text, width):
                if start:
                    yield start
                start += len(piece)
                used = columns_of(piece)
        elif used and start:
            yield start
            used = columns_of(text)


def _chopped(text: str, width: int) -> Iterator[str]:
    piece = ""
    for character in text:
        if columns_of(piece + character) > width and piece:
            yield piece
            piece = ""
        piece += character
    yield piece
