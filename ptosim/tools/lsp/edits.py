"""Changes of the text: the fixes of findings, the canonical form, another name."""

from __future__ import annotations

import re

from ptosim.ground.diagnostics.model import Diagnostic, Fix, Sink
from ptosim.ground.errors import UsageError
from ptosim.language.syntax.parser import parse
from ptosim.language.syntax.printer import print_module
from ptosim.tools.lsp.document import Document
from ptosim.tools.lsp.names import Kind, Word

Edit = tuple[int, int, str]
"""From, to, and the new text."""
_NAME = re.compile(r"[A-Za-z_][\w$.-]*")


def fixes(document: Document, begin: int, end: int) -> list[tuple[Diagnostic, list[Edit]]]:
    """Return the findings between two offsets whose cure is a change of the text, with it."""
    found = []
    for finding in document.findings:
        span = finding.span
        if finding.fixes and span is not None and span.start <= end and span.end >= begin:
            found.append((finding, [_edit(fix) for fix in finding.fixes]))
    return found


def _edit(fix: Fix) -> Edit:
    return fix.span.start, fix.span.end, fix.replacement


def formatted(document: Document) -> str | None:
    """Return the canonical text; None for a text with syntax errors."""
    sink = Sink(date=document.resolved.date, reads_old=True)
    module = parse(document.source, sink)
    return None if sink.has_errors else print_module(module)


def renamable(document: Document, offset: int) -> Word | None:
    """Return the name at an offset if it is one of the text's own."""
    word = document.names.at(offset)
    if word is None or word.kind is Kind.BLOCK or document.names.definition(word) is None:
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
