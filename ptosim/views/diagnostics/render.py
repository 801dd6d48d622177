"""Findings as text, in the manner of rustc: place, source line with carets, notes, help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Label, Severity
from ptosim.ground.source import Source

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
MAX_WIDTH = 160


def plain(text: str, style: str) -> str:
    """Style nothing."""
    return text


def ansi(text: str, style: str) -> str:
    """Style with terminal colours."""
    return f"\x1b[{_ANSI[style]}m{text}\x1b[0m" if style in _ANSI else text


def render(diagnostic: Diagnostic, paint: Paint = plain) -> str:
    """Return one finding as text without a final line end.

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
    lines.extend(_places(diagnostic.labels, gutter, paint))
    margin = " " * gutter
    if diagnostic.labels and (diagnostic.notes or diagnostic.help):
        lines.append(f"{margin} {paint('|', 'place')}")
    lines.extend(_tail(margin, "note", note, paint) for note in diagnostic.notes)
    if diagnostic.help:
        lines.append(_tail(margin, "help", diagnostic.help, paint))
    return "\n".join(lines)


def render_all(diagnostics: Iterable[Diagnostic], paint: Paint = plain) -> str:
    """Return several findings, an empty line between two."""
    return "\n\n".join(render(d, paint) for d in diagnostics)


def count_line(diagnostics: Sequence[Diagnostic]) -> str:
    """Return `2 errors, 1 warning, 3 notes`, or `no findings`."""
    counts = {s: sum(1 for d in diagnostics if d.severity is s) for s in Severity}
    parts = [
        f"{n} {s.word}{'s' if n != 1 else ''}" for s, n in sorted(counts.items(), reverse=True) if n
    ]
    return ", ".join(parts) or "no findings"


def _tail(margin: str, word: str, text: str, paint: Paint) -> str:
    style = "help" if word == "help" else "note"
    return f"{margin} {paint('=', 'place')} {paint(word, style)}: {text}"


def _gutter(labels: Sequence[Label]) -> int:
    lines = [label.span.line for label in labels]
    return len(str(max(lines))) if lines else 1


def _places(labels: Sequence[Label], gutter: int, paint: Paint) -> list[str]:
    """Group the labels by source and line; the first one names the place of the finding."""
    if not labels:
        return []
    margin = " " * gutter
    bar = paint("|", "place")
    out = [f"{margin}{paint('-->', 'place')} {labels[0].span}", f"{margin} {bar}"]
    source = labels[0].span.source
    by_line: dict[int, list[tuple[Label, str]]] = {}
    for i, label in enumerate(labels):
        if label.span.source is source:
            by_line.setdefault(label.span.line, []).append((label, "^" if i == 0 else "-"))
    previous = 0
    for line in sorted(by_line):
        if previous and line > previous + 1:
            out.append(paint("...", "place"))
        out.extend(_line(source, line, by_line[line], margin, paint))
        previous = line
    out.extend(
        f"{margin} {paint('=', 'place')} {label.span}: {label.text}"
        for label in labels
        if label.span.source is not source
    )
    return out


def _line(
    source: Source, line: int, marks: list[tuple[Label, str]], margin: str, paint: Paint
) -> list[str]:
    raw = source.line_text(line)
    text, shift = _clip(raw, min(label.span.column for label, _ in marks))
    number = str(line).rjust(len(margin))
    out = [f"{paint(number, 'place')} {paint('|', 'place')} {text}"]
    columns = sorted(marks, key=lambda m: m[0].span.column)
    free_texts: list[tuple[int, str]] = []
    row = ""
    for label, mark in columns:
        at = label.span.column - 1 - shift
        width = _width(label, raw, shift)
        if at < len(row) and row.strip():
            free_texts.append((at, label.text))
            continue
        row = row.ljust(at) + mark * width
        if label.text and label is columns[-1][0]:
            row += f" {label.text}"
        elif label.text:
            free_texts.append((at, label.text))
    style = "error" if any(m == "^" for _, m in columns) else "place"
    out.append(f"{margin} {paint('|', 'place')} {paint(row.rstrip(), style)}")
    for at, text_ in reversed([t for t in free_texts if t[1]]):
        out.append(f"{margin} {paint('|', 'place')} {' ' * max(at, 0)}{text_}")
    return out


def _clip(raw: str, first: int) -> tuple[str, int]:
    """Show long lines from a little before the first mark."""
    text = raw.replace("\t", " ")
    if len(text) <= MAX_WIDTH:
        return text, 0
    shift = max(0, min(first - 20, len(text) - MAX_WIDTH))
    clipped = text[shift : shift + MAX_WIDTH]
    return clipped, shift


def _width(label: Label, raw: str, shift: int) -> int:
    span = label.span
    at = span.column - 1
    end_line, end_column = span.source.line_column(span.end)
    length = (end_column - 1 - at) if end_line == span.line else len(raw) - at
    return max(1, min(length, MAX_WIDTH - (at - shift)))
