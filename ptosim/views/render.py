"""Reports in every form: text for a terminal, a page, data, findings for other programs.

A form is a function here and its name in FORMS; a command names the forms that it has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeGuard

from ptosim.ground import __version__
from ptosim.ground.source import visible
from ptosim.views.report import (
    Ending,
    Frames,
    Line,
    Lines,
    Pair,
    Part,
    Report,
    Room,
    Section,
    Verbatim,
)
from ptosim.views.table import FAIL, Table, Text, columns_of
from ptosim.views.table import Part as Plain

FRAME = 96
"""Columns of a frame of code on a page; a narrow page scrolls it."""
_KINDS = {"bold red": "bad", "red": "bad", "green": "good", "yellow": "doubt", "dim": "note"}
"""What a paragraph is by the style of its text."""


def render(report: Report, form: str, room: Room, *, color: bool = False) -> str:
    """Return a report in a form of FORMS, or one that the report has of its own."""
    if form in report.own:
        return report.own[form]()
    if form == "text":
        return _text(report, room, color=color)
    return visible(FORMS[form](report))


# -- a terminal ------------------------------------------------------------------------------------


def _text(report: Report, room: Room, *, color: bool) -> str:
    if report.widest is not None:
        room = room._replace(width=min(room.width, report.widest))
    parts: list[object] = [Text(head, style="bold") for head in report.heads]
    if report.because:
        parts.append(Text(report.because, style="dim"))
    for section in report.sections:
        parts += section.made(room)
    ending = ending_line(report.ending, room, color=color) if report.ending is not None else ""
    return text_of_parts(parts, room, color=color) + ending


def ending_line(ending: Ending, room: Room, *, color: bool = False) -> str:
    """Return the last line of a report."""
    from ptosim.views.frames import ansi

    line = _line(Line(visible(ending.line)), room)
    sign = ansi(ending.word, "help" if ending.passed else "error") if color else ending.word
    return sign + line.removeprefix(ending.word)


def text_of_parts(parts: Iterable[object], room: Room, *, color: bool = False) -> str:
    """Return parts as text; what is not among them may be anything that rich shows."""
    done: list[str] = []
    waiting: list[object] = []

    def flush(width: int = room.width) -> None:
        if waiting:
            done.append(_laid_out(waiting, width, color=color))
            waiting.clear()

    for part in parts:
        if isinstance(part, (Verbatim, Line)):
            flush()
            text = part.text if isinstance(part, Verbatim) else _line(part, room)
            done.append(visible(text))
        elif isinstance(part, Table) and part.pipe is not None and not room.is_screen:
            flush()
            waiting.append(part)
            flush(part.pipe)
        else:
            waiting.append(part)
    flush()
    return "".join(done)


def _laid_out(parts: Sequence[object], width: int, *, color: bool) -> str:
    if not color and is_plain(parts):
        return plain_text(parts, width)
    from ptosim.views.table import text_console, text_of

    console, buffer = text_console(width, color=color)
    for part in parts:
        console.print(part, crop=False)  # code in the manual is whole
    return text_of(buffer, color=color)


def _line(part: Line, room: Room) -> str:
    if not room.is_screen:
        return f"{part.text}\n"
    import textwrap

    text = textwrap.fill(
        part.text, room.width, subsequent_indent=" " * part.indent, break_long_words=False,
        break_on_hyphens=False, drop_whitespace=True,
    )  # fmt: skip
    return f"{text}\n"


# -- without colours: the same characters as rich writes, without loading it ----------------------

_WORD = re.compile(r"\s*\S+\s*")
_TAB = 8


def is_plain(parts: Sequence[object]) -> TypeGuard[Sequence[Plain]]:
    """True of a report that is nothing but tables and lines."""
    return all(isinstance(part, (Table, Text)) for part in parts)


def plain_text(parts: Iterable[Plain], width: int) -> str:
    """Return a report in so many columns; blanks at the ends of lines are dropped."""
    lines = (line for part in parts for line in _plain_lines(part, width))
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _plain_lines(part: Plain, width: int) -> Iterator[str]:
    if isinstance(part, Table):
        yield from _table_lines(part, width)
        return
    yield from _folded(part.plain, width)


# -- tables ----------------------------------------------------------------------------------------


def _table_lines(table: Table, width: int) -> Iterator[str]:
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
        blocks = [_cell(c, w, right=n.right, cut=kept.cut) for c, n, w in columns]
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


# -- pages -----------------------------------------------------------------------------------------


def _page(report: Report) -> str:
    from ptosim.views.charts.lanes import page

    sections = _of_page(report)
    made = [(s.title, html(s.made(Room())), s.folded) for s in sections]
    heads = [report.below] if report.below else list(dict.fromkeys(report.heads))
    heads += [report.because] if report.because else []
    return page(report.title, made, heads=heads)


def _of_page(report: Report) -> list[Section]:
    given = report.page() if report.page is not None else report.sections
    sections = [Section(s.title, list(s.made(Room())), s.folded) for s in given]
    if report.aside and not any(isinstance(p, Frames) for s in sections for p in s.parts):  # type: ignore[union-attr]
        sections.append(Section("Findings", [Frames(report.aside)]))
    if report.ending is not None and not report.ending.passed:
        sections.insert(0, Section("", [Text(f"{FAIL} {report.ending.line}", "red")]))
    return sections


def drawn(report: Report) -> str:
    """Return a report's page for the page of somebody else: a notebook."""
    head = Section("", [Text(line) for line in dict.fromkeys(report.heads)])
    return fragment([head, *_of_page(report)])


def html_of_sections(sections: Iterable[Section]) -> str:
    """Return sections as HTML; those with nothing in them are left out."""
    from ptosim.views.charts.lanes import section

    made = ((s.title, html(s.made(Room()))) for s in sections)
    return "".join(section(title, text) if title else text for title, text in made)


def html(parts: Iterable[Part]) -> str:
    """Return parts as HTML; empty lines are left out."""
    return "".join(map(_html, parts))


def _html(part: Part) -> str:
    from html import escape

    from ptosim.views.charts.lanes import items, paragraph

    if isinstance(part, Frames):
        return _frames(part)
    if isinstance(part, Verbatim):
        return f"<pre>{escape(part.text)}</pre>"
    if isinstance(part, Pair):
        return f'<div class="pair">{body}</div>' if (body := html(part.parts)) else ""
    if isinstance(part, Lines):
        return items(part.lines)
    if isinstance(part, (Text, Line)):
        text = str(part.plain if isinstance(part, Text) else part.text).strip()
        style = part.parts[0][1] if isinstance(part, Text) else ""
        return paragraph(text, _KINDS.get(style, "")) if text else ""
    return getattr(part, "to_html", lambda: "")()  # what only a terminal shows has none


def _frames(part: Frames) -> str:
    """Findings as frames of code, the worst first."""
    from html import escape

    from ptosim.views.frames import render as framed

    return "".join(
        f'<pre class="{d.severity.word}">{escape(framed(d, width=FRAME, verbose=True))}</pre>'
        for d in sorted(part.findings, key=lambda d: -d.severity)
    )


def fragment(sections: Iterable[Section]) -> str:
    """Return sections for a page of somebody else: a notebook."""
    from ptosim.views.charts.lanes import fragment as within

    return within(html_of_sections(sections))


# -- data ------------------------------------------------------------------------------------------


def _json(report: Report) -> str:
    from ptosim.views.table import document

    return document(report.fields() if report.fields is not None else _of_findings(report))


def _of_findings(report: Report) -> dict[str, object]:
    found = report.findings
    return {"version": __version__, "findings": found.shown, "omitted": found.omitted}


def _json_lines(report: Report) -> str:
    from ptosim.views.table import lines_of

    found = report.findings
    return lines_of([*found.shown, *([{"omitted": found.omitted}] if found.omitted else [])])


def _csv(report: Report) -> str:
    import csv
    import io

    text, (rows, columns) = io.StringIO(), report.records() if report.records else ((), ())
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _markdown(report: Report) -> str:
    parts = [part for section in report.sections for part in section.made(Room())]
    return "".join(part.markdown() for part in parts if isinstance(part, Table))


def _findings(form: str) -> Callable[[Report], str]:
    def write(report: Report) -> str:
        from ptosim.views import finding_forms

        return finding_forms.FORMS[form](report.findings)

    return write


FORMS: dict[str, Callable[[Report], str]] = {
    "text": lambda report: _text(report, Room(), color=False),
    "json": _json,
    "jsonl": _json_lines,
    "csv": _csv,
    "html": _page,
    "markdown": _markdown,
    **{form: _findings(form) for form in ("sarif", "junit", "concise", "github")},
}
"""Every form that a report can take; a document of its own kind (`man`) is the report's."""
FOR_FINDINGS = ("json", "jsonl", "sarif", "junit", "concise", "github")
"""The forms that findings alone can take, text aside."""
