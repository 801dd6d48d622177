"""A line of a program with marks under it, cut to a width around what is marked.

    11 | …   pto.tadd ins(%t, %u : !pto.tile_buf<vec, … outs(%t : !pto.tile_buf<…
       |     ^^^^^^^^     --  --                           -- dst: vec 64x64xf32
       |                  |   |
       |                  |   src1: vec 32x64xf32
       |                  src0: vec 64x64xf32

The layout is rustc's. No row is wider than asked for, and no word of the program is cut unless it
is wider than the whole row."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from ptosim.ground.records import dataclass

GAP = "…"
_WORD = re.compile(r"[\w.$!#%@-]+")
_LEAST = 24
"""Columns of a label's text below which it is moved to the left instead of being broken."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The columns [start, end) of a line, from 0, the sign under them and what is said there."""

    start: int
    end: int
    sign: str
    text: str = ""


def excerpt(line: str, marks: Sequence[Mark], width: int) -> tuple[str, list[str]]:
    """Return what is shown of a line in `width` columns, and the rows under it."""
    line = line.replace("\t", " ")
    marks = sorted(marks, key=lambda mark: (mark.start, mark.end))
    kept = _kept(line, marks, width)
    lead = len(_lead(line, kept))
    return _shown(line, kept), _rows([_moved(mark, kept, lead) for mark in marks], width)


# -- what is kept of a line -----------------------------------------------------------------------

_Pieces = list[tuple[int, int]]


def _kept(line: str, marks: Sequence[Mark], width: int) -> _Pieces:
    """Return the pieces of the line that are shown: as much around the marks as has room."""
    if len(line) <= width:
        return [(0, len(line))]
    low, high = 0, len(line)
    best = _pieces(line, marks, 0)
    while low <= high:
        around = (low + high) // 2
        pieces = _pieces(line, marks, around)
        if _columns(line, pieces) <= width:
            best, low = pieces, around + 1
        else:
            high = around - 1
    return best if _columns(line, best) <= width else _narrow(line, marks, width)


def _pieces(line: str, marks: Sequence[Mark], around: int) -> _Pieces:
    """The marked columns and `around` more on both sides, as far as words are whole."""
    pieces: _Pieces = []
    for mark in marks:
        start = _word_start(line, max(mark.start - around, 0), mark.start)
        end = _word_end(line, min(max(mark.end, mark.start + 1) + around, len(line)), mark.end)
        if pieces and start <= pieces[-1][1] + len(GAP):
            pieces[-1] = (pieces[-1][0], max(end, pieces[-1][1]))
        else:
            pieces.append((start, end))
    return pieces


def _word_start(line: str, at: int, most: int) -> int:
    """The first place from `at` on where no word is cut, `most` at the latest."""
    for word in _WORD.finditer(line):
        if word.start() < at < word.end():
            return min(word.end(), most)
    return at


def _word_end(line: str, at: int, least: int) -> int:
    for word in _WORD.finditer(line):
        if word.start() < at < word.end():
            return max(word.start(), least)
    return at


def _narrow(line: str, marks: Sequence[Mark], width: int) -> _Pieces:
    """Of marks that are wider than the row, or too many: the first one's beginning."""
    start = marks[0].start
    room = width - 2 * len(GAP)
    end = min(max(marks[0].end, start + 1), start + room)
    return [(start, end)]


def _columns(line: str, pieces: _Pieces) -> int:
    return len(_shown(line, pieces))


def _shown(line: str, pieces: _Pieces) -> str:
    text = GAP.join(line[start:end] for start, end in pieces)
    after = GAP if line[pieces[-1][1] :].strip() else ""
    return f"{_lead(line, pieces)}{text}{after}".rstrip()


def _lead(line: str, pieces: _Pieces) -> str:
    """What says that the line has text before the first piece."""
    return GAP if line[: pieces[0][0]].strip() else ""


def _moved(mark: Mark, pieces: _Pieces, lead: int) -> Mark:
    """The mark where its columns are shown; those that are not shown are at the next gap."""
    start = lead + _place(mark.start, pieces)
    last = lead + _place(max(mark.end - 1, mark.start), pieces)
    return Mark(start, max(last, start) + 1, mark.sign, mark.text)


def _place(column: int, pieces: _Pieces) -> int:
    shown = 0
    for start, end in pieces:
        if column < end:
            return shown + max(column - start, 0)
        shown += end - start + len(GAP)
    return shown - len(GAP)


# -- rows under a line ----------------------------------------------------------------------------


def _rows(marks: Sequence[Mark], width: int) -> list[str]:
    """The row of signs, with the last text if it has room there, and the texts of the others."""
    row = ""
    for mark in marks:
        if mark.start >= len(row) or not row[mark.start :].strip():
            row = row.ljust(mark.start) + mark.sign * (mark.end - mark.start)
    texts = [mark for mark in marks if mark.text]
    if not texts:
        return [row]
    last = texts[-1]
    if last is marks[-1] and len(row) + 1 + len(last.text) <= width:
        row = f"{row} {last.text}"
        texts.pop()
    return [row, *_hanging(texts, width)]


def _hanging(texts: Sequence[Mark], width: int) -> list[str]:
    """The texts under their marks, the rightmost first, each tied to its mark by a bar."""
    if not texts:
        return []
    columns = sorted({mark.start for mark in texts})
    rows = [_bars(columns, "")]
    for mark in reversed(texts):
        left = [column for column in columns if column < mark.start]
        rows.extend(_bars(left, text, at) for text, at in _broken(mark, width))
    return rows


def _broken(mark: Mark, width: int) -> list[tuple[str, int]]:
    """The text in lines that end before `width`, and the column where they begin."""
    at = mark.start
    if width - at < min(len(mark.text), _LEAST):
        at = max(width - min(len(mark.text), width), 0)
    lines = textwrap.wrap(mark.text, max(width - at, 1), break_on_hyphens=False)
    return [(line, at) for line in lines]


def _bars(columns: Sequence[int], text: str, at: int = 0) -> str:
    row = ""
    for column in columns:
        if not text or column < at:
            row = row.ljust(column) + "|"
    return row.ljust(at) + text if text else row
