"""Findings as text, in the manner of rustc: place, source line with carets, notes, help."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Label, Severity
from ptosim.ground.records import dataclass, replace
from ptosim.ground.source import Source, visible, visible_line

# A line of a program with marks under it, cut to a width around what is marked.
#
#     11 | …   pto.tadd ins(%t, %u : !pto.tile_buf<vec, … outs(%t : !pto.tile_buf<…
#        |     ^^^^^^^^     --  --                           -- dst: vec 64x64xf32
#        |                  |   |
#        |                  |   src1: vec 32x64xf32
#        |                  src0: vec 64x64xf32
#
# The layout is rustc's. No row is wider than asked for, and no word of the program is cut unless
# it is wider than the whole row.

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
    line, marks = _near(line, marks)
    line, at = visible_line(line.replace("\t", " "))
    marks = [replace(mark, start=_at(at, mark.start), end=_at(at, mark.end)) for mark in marks]
    marks = sorted(marks, key=lambda mark: (mark.start, mark.end))
    kept = _kept(line, marks, width)
    lead = len(_lead(line, kept))
    return _cut_line(line, kept), _rows([_moved(mark, kept, lead) for mark in marks], width)


_FAR = 1 << 11
"""Characters on both sides of a mark beyond which nothing of a line is looked at."""


def _near(line: str, marks: Sequence[Mark]) -> tuple[str, Sequence[Mark]]:
    """Of a line that may be a whole file what is near its first mark, and the marks in there."""
    if len(line) <= 4 * _FAR:
        return line, marks
    first = min(mark.start for mark in marks)
    begin = max(first - _FAR, 0)
    near = line[begin : first + _FAR]
    inside = [mark for mark in marks if mark.start <= first + _FAR]
    ends = (min(mark.end - begin, len(near)) for mark in inside)
    return near, [
        replace(mark, start=mark.start - begin, end=end)
        for mark, end in zip(inside, ends, strict=True)
    ]


def _at(columns: Sequence[int], place: int) -> int:
    """The column where a place of the line is shown; places after its end stay as far after it."""
    last = len(columns) - 1
    return columns[place] if place <= last else columns[last] + place - last


# -- what is kept of a line -----------------------------------------------------------------------

_Pieces = list[tuple[int, int]]


def _kept(line: str, marks: Sequence[Mark], width: int) -> _Pieces:
    """Return the pieces of the line that are shown: as much around the marks as has room."""
    if len(line) <= width:
        return [(0, len(line))]
    low, high = 0, min(len(line), width)
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
    return [(start, _word_end(line, end, start + 1))]


def _columns(line: str, pieces: _Pieces) -> int:
    return len(_cut_line(line, pieces))


def _cut_line(line: str, pieces: _Pieces) -> str:
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


# Findings in the order of reading: errors first, and many of one kind as one.

_VARYING = re.compile(r"`[^`]*`|'[^']*'|%[\w.$-]+|\d+")
FEWEST = 3
"""So many findings of one kind are shown as one."""
_LISTED = 12


def folded(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return errors, then warnings, then notes; of three or more of one kind (a code, a file, a
    message up to its names and numbers) the first one, with a note on where the others are; of
    those with one cause the first one, which names the others."""
    kinds: dict[tuple[object, ...], list[Diagnostic]] = {}
    for diagnostic in sorted(_by_cause(diagnostics), key=lambda d: -d.severity):
        kinds.setdefault(_kind(diagnostic), []).append(diagnostic)
    shown: list[Diagnostic] = []
    for alike in kinds.values():
        shown.extend(alike if len(alike) < FEWEST else [_first(alike)])
    return sorted(shown, key=lambda d: -d.severity)


def _by_cause(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Join findings of one severity on the same places that the same edit mends: an operation that
    works in place races as a reader and as a writer, and lacks one flag."""
    causes: dict[tuple[object, ...], list[Diagnostic]] = {}
    for d in diagnostics:
        places = tuple((label.span.source.label, label.span.start) for label in d.labels)
        is_told = bool(d.help and "`" in d.help and len(places) > 1)
        causes.setdefault((d.severity, places, d.help) if is_told else (id(d),), []).append(d)
    return [_with_others(first, others) for first, *others in causes.values()]


def _with_others(first: Diagnostic, others: Sequence[Diagnostic]) -> Diagnostic:
    notes = (f"the same edit mends {d.code}: {d.message}" for d in others)
    return replace(first, notes=(*first.notes, *notes)) if others else first


def _kind(diagnostic: Diagnostic) -> tuple[object, ...]:
    span = diagnostic.span
    if span is None:
        return (id(diagnostic),)
    shape = _VARYING.sub("#", diagnostic.message)
    return (diagnostic.code, diagnostic.severity, span.source.label, shape)


def _first(alike: Sequence[Diagnostic]) -> Diagnostic:
    first, *others = alike
    lines = dict.fromkeys(d.span.line for d in others if d.span is not None)
    listed = ", ".join(str(line) for line in list(lines)[:_LISTED])
    word = "lines" if len(lines) > 1 else "line"
    more = ", …" if len(lines) > _LISTED else ""
    note = f"and {len(others)} more: {word} {listed}{more} (-v shows each)"
    return replace(first, notes=(*first.notes, note))


Paint = Callable[[str, str], str]
"""Give a text a style (`error`, `warning`, `note`, `place`, `code`, `help`); plain text ignores
it."""

_ANSI = {
    "error": "1;31",
    "warning": "1;33",
    "note": "1;36",
    "place": "34",
    "bold": "1",
    "help": "32",
}
WIDTH = 100
"""Columns of a text that does not go to a terminal."""
_QUOTED = re.compile(r"`[^`]*`")
_HARD = "\xa0"


def plain(text: str, style: str) -> str:
    """Style nothing."""
    return text


def ansi(text: str, style: str) -> str:
    """Style with terminal colours."""
    return f"\x1b[{_ANSI[style]}m{text}\x1b[0m" if style in _ANSI else text


def render(
    diagnostic: Diagnostic,
    paint: Paint = plain,
    width: int = WIDTH,
    *,
    verbose: bool = False,
    is_screen: bool = False,
) -> str:
    """Return one finding as text without a final line end, in frames of `width` columns; `verbose`
    says where its rule comes from too. Its first line is whole but on a screen, which would break
    it inside a word.

    error[PTO2011]: 'pto.tadd' op expects src0 and src1 to have the same valid_shape
      --> kernel.pto:12:5
       |
    12 |     pto.tadd ins(%a, %b : …) outs(%c : …)
       |     ^^^^^^^^     -- src0: vec 16x64xf32
       |
       = note: …
       = help: …
       = rule: …, where boards taught it
    """
    sign = f"{diagnostic.severity.word}[{diagnostic.code}]"
    lines = [said(sign, diagnostic.message, paint, width if is_screen else None, "bold")]
    gutter = _gutter(diagnostic.labels)
    lines.extend(_places(diagnostic.labels, gutter, width - gutter - 3, paint))
    margin = " " * gutter
    notes = diagnostic.all_notes if verbose else diagnostic.notes
    rule = diagnostic.rule_id
    if diagnostic.labels and (notes or diagnostic.help or rule):
        lines.append(f"{margin} {paint('|', 'place')}")
    for note in notes:
        lines.extend(_tail(margin, "note", note, width, paint))
    if diagnostic.help:
        lines.extend(_tail(margin, "help", diagnostic.help, width, paint))
    if rule is not None:
        lines.extend(_tail(margin, "rule", f"{rule} (`ptosim explain {rule}`)", width, paint))
    return "\n".join(lines)


def render_all(
    diagnostics: Sequence[Diagnostic],
    paint: Paint = plain,
    width: int = WIDTH,
    *,
    verbose: bool = False,
    is_screen: bool = False,
) -> str:
    """Return several findings, an empty line between two; without `verbose` in the order of
    reading, many of one kind as one."""
    shown = diagnostics if verbose else folded(diagnostics)
    made = (render(d, paint, width, verbose=verbose, is_screen=is_screen) for d in shown)
    return "\n\n".join(made)


def said(sign: str, message: str, paint: Paint, width: int | None, style: str = "") -> str:
    """Return `sign: message`, on a screen of `width` columns broken at blanks: its further lines
    begin where the message does."""
    text, indent = visible(message), " " * (len(sign) + 2)
    if width is not None:
        text = "\n".join(
            line
            for part in text.split("\n")
            for line in _wrapped(part, max(width - len(indent), 20))
        ).replace("\n", f"\n{indent}")
    return f"{paint(sign, sign.partition('[')[0])}: {paint(text, style)}"


def first_line(parts: list[str], width: int | None) -> str:
    """Return the parts of a first line, continued below where they do not fit `width` columns."""
    lines = [parts[0]]
    for number, part in enumerate(parts[1:], 2):
        mark = 2 if number < len(parts) else 0  # a line that goes on ends in one more dot
        if width is not None and len(lines[-1]) + 3 + len(part) + mark > width:
            lines[-1] += " ·"
            lines.append(f"  {part}")
        else:
            lines[-1] += f" · {part}"
    return "\n".join(lines)


def count_line(diagnostics: Sequence[Diagnostic]) -> str:
    """Return `2 errors, 1 warning, 3 notes`, or `no findings`."""
    counts = {s: sum(1 for d in diagnostics if d.severity is s) for s in Severity}
    parts = [
        f"{n} {s.word}{'s' if n != 1 else ''}" for s, n in sorted(counts.items(), reverse=True) if n
    ]
    return ", ".join(parts) or "no findings"


def _tail(margin: str, word: str, text: str, width: int, paint: Paint) -> list[str]:
    """A note or help; its further lines begin where its text does."""
    indent = " " * (len(margin) + len(f" = {word}: "))
    first = f"{margin} {paint('=', 'place')} {paint(word, 'help' if word == 'help' else 'note')}: "
    lines: list[str] = []
    for part in visible(text).split("\n"):
        room = max(width - len(indent), 20)
        lines.extend(_wrapped(part, room))
    return [f"{first}{lines[0]}", *(f"{indent}{line}" for line in lines[1:])]


def _wrapped(text: str, room: int) -> list[str]:
    """Text to paste (in backquotes) is never broken; everything else at blanks."""
    whole = _QUOTED.sub(lambda found: found.group().replace(" ", _HARD), text)
    lead = " " * (len(text) - len(text.lstrip()))  # of a part that is laid out already
    lines = textwrap.wrap(
        whole, room, break_long_words=False, break_on_hyphens=False, subsequent_indent=lead
    )
    return [line.replace(_HARD, " ") for line in lines] or [""]


def _gutter(labels: Sequence[Label]) -> int:
    lines = [label.span.line for label in labels]
    return len(str(max(lines))) if lines else 1


def _places(labels: Sequence[Label], gutter: int, width: int, paint: Paint) -> list[str]:
    """Group the labels by source and line; the first one names the place of the finding."""
    if not labels:
        return []
    margin = " " * gutter
    bar = paint("|", "place")
    out = [f"{margin}{paint('-->', 'place')} {visible(str(labels[0].span))}", f"{margin} {bar}"]
    source = labels[0].span.source
    by_line: dict[int, list[Mark]] = {}
    for i, label in enumerate(labels):
        if label.span.source is source:
            mark = _mark(label, "^" if i == 0 else "-")
            by_line.setdefault(label.span.line, []).append(mark)
    previous = 0
    for line in sorted(by_line):
        if previous and line > previous + 1:
            out.append(paint("...", "place"))
        out.extend(_line(source, line, by_line[line], margin, width, paint))
        previous = line
    out.extend(
        f"{margin} {paint('=', 'place')} {visible(f'{label.span}: {label.text}')}"
        for label in labels
        if label.span.source is not source
    )
    return out


def _line(
    source: Source, line: int, marks: list[Mark], margin: str, width: int, paint: Paint
) -> list[str]:
    text, rows = excerpt(source.line_text(line), marks, width)
    number = str(line).rjust(len(margin))
    style = "error" if any(mark.sign == "^" for mark in marks) else "place"
    bar = f"{margin} {paint('|', 'place')} "
    signs = f"{bar}{paint(rows[0], style)}"
    shown = f"{paint(number, 'place')} {paint('|', 'place')} {text}"
    return [shown, signs, *(f"{bar}{row}" for row in rows[1:])]


def _mark(label: Label, sign: str) -> Mark:
    """The columns of a label in its first line."""
    span = label.span
    at = span.column - 1
    end_line, end_column = span.source.line_column(span.end)
    last = end_column - 1 if end_line == span.line else len(span.source.line_text(span.line))
    return Mark(at, max(last, at + 1), sign, visible(label.text))
