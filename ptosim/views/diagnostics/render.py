"""Findings as text, in the manner of rustc: place, source line with carets, notes, help."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Label, Severity
from ptosim.ground.source import Source
from ptosim.views.diagnostics.excerpt import Mark, excerpt
from ptosim.views.diagnostics.fold import folded

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
    diagnostic: Diagnostic, paint: Paint = plain, width: int = WIDTH, *, verbose: bool = False
) -> str:
    """Return one finding as text without a final line end, in frames of `width` columns; `verbose`
    says where its rule comes from too.

    error[PTO2011]: 'pto.tadd' op expects src0 and src1 to have the same valid_shape
      --> kernel.pto:12:5
       |
    12 |     pto.tadd ins(%a, %b : …) outs(%c : …)
       |     ^^^^^^^^     -- src0: vec 16x64xf32
       |
       = note: …
       = help: …
    """
    word = diagnostic.severity.word
    head = paint(f"{word}[{diagnostic.code}]", word)
    lines = [f"{head}: {paint(diagnostic.message, 'bold')}"]
    gutter = _gutter(diagnostic.labels)
    lines.extend(_places(diagnostic.labels, gutter, width - gutter - 3, paint))
    margin = " " * gutter
    notes = diagnostic.all_notes if verbose else diagnostic.notes
    if diagnostic.labels and (notes or diagnostic.help):
        lines.append(f"{margin} {paint('|', 'place')}")
    for note in notes:
        lines.extend(_tail(margin, "note", note, width, paint))
    if diagnostic.help:
        lines.extend(_tail(margin, "help", diagnostic.help, width, paint))
    return "\n".join(lines)


def render_all(
    diagnostics: Sequence[Diagnostic],
    paint: Paint = plain,
    width: int = WIDTH,
    *,
    verbose: bool = False,
) -> str:
    """Return several findings, an empty line between two; without `verbose` in the order of
    reading, many of one kind as one."""
    shown = diagnostics if verbose else folded(diagnostics)
    return "\n\n".join(render(d, paint, width, verbose=verbose) for d in shown)


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
    for part in text.split("\n"):
        room = max(width - len(indent), 20)
        lines.extend(_wrapped(part, room))
    return [f"{first}{lines[0]}", *(f"{indent}{line}" for line in lines[1:])]


def _wrapped(text: str, room: int) -> list[str]:
    """Text to paste (in backquotes) is never broken; everything else at blanks."""
    whole = _QUOTED.sub(lambda found: found.group().replace(" ", _HARD), text)
    lines = textwrap.wrap(whole, room, break_long_words=False, break_on_hyphens=False)
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
    out = [f"{margin}{paint('-->', 'place')} {labels[0].span}", f"{margin} {bar}"]
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
        f"{margin} {paint('=', 'place')} {label.span}: {label.text}"
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
    return Mark(at, max(last, at + 1), sign, label.text)
