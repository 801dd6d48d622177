"""Which bracket is missing in a text that cannot be read: one cause, so one finding.

In every text that people or compilers write, braces that close each other are on one line, or the
first ends its line and the second begins one of the same indentation. So the first pair that does
not look like that is where one is missing."""

from __future__ import annotations

import re
from functools import lru_cache

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.records import dataclass, replace
from ptosim.ground.source import Source, Span

MAX_DEPTH = 100
"""Levels of brackets that a program may have: whatever looks at a program goes from level to level
by calls, up to six for each, of which Python allows a thousand. What is read again from each level,
as after an error, takes time in proportion to its length because nothing is looked for deeper."""
TOO_DEEP = -2

_plain = re.compile(r'<(?!=)[^<>%{}"]*(?<![-=])>(?!\s*=)').match
"""The usual case: nothing inside that needs a closer look."""
_marks = re.compile(r'->|[<>]=(?=\s*[\w(\-])|[<>%{}]|"(?:[^"\\\n]|\\.)*"').finditer
_is_comparison = re.compile(r"<=(?=\s*[\w(\-])").match
_ANGLES = {"<": 1, ">": -1}
_BRACES = {"{": 1, "}": -1}


def closing(text: str, at: int) -> int:
    """Return the offset after the `>` that closes the `<` at an offset; -1 if a value, a brace that
    closes something further out or the end of the text comes first, `TOO_DEEP` for more than
    `MAX_DEPTH` levels. Arrows, comparisons of affine sets and strings count for nothing."""
    plain = _plain(text, at)
    if plain is not None:
        return plain.end()
    if _is_comparison(text, at):
        return -1
    depth, braces = 1, 0
    for found in _marks(text, at + 1):
        mark = found.group()
        depth += _ANGLES.get(mark, 0)
        braces += _BRACES.get(mark, 0)
        if mark == "%" or braces < 0:
            return -1
        if not depth:
            return found.end()
        if depth > MAX_DEPTH:
            return TOO_DEEP
    return -1


def too_deep(source: Source, start: int) -> Diagnostic:
    """Return the finding about the bracket at an offset, which is one too many inside others."""
    return finding(
        "PTO0004",
        f"brackets are nested deeper than {MAX_DEPTH} levels",
        Span(source, start, start + 1),
        notes=(f"a program nests regions, lists and types at most {MAX_DEPTH} levels deep",),
        help="look for an opening bracket that is never closed",
    )


_TOKENS = re.compile(
    r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|(?P<type>[!#][A-Za-z_][\w.]*<|\b(?:memref|tensor|vector|dense|'
    r"array|affine_map|affine_set)<)|(?P<comment>#(?=[ \t#!\r\n]|$)[^\n]*)|(?P<mark>[()\[\]{}])"
)
_PAIRS = {")": "(", "]": "[", "}": "{"}
_CLOSING = {opening: close for close, opening in _PAIRS.items()}
_BEFORE = {"(": ")", "[": "]"}
"""Brackets after which a statement goes on."""


@dataclass(frozen=True, slots=True)
class _Open:
    mark: str
    at: int


def missing_bracket(source: Source, stop: Span | None = None) -> Diagnostic | None:
    """Return the finding about the first bracket that is not closed, or that nothing opens; None if
    all brackets have their counterpart. `stop` is where the parser could not go on: on the line of
    the bracket it is the place where that should have been closed."""
    found = _first_fault(source)
    if found is None or stop is None or len(found.labels) < 2:
        return found
    _, opening = found.labels
    if opening.span.line != stop.line or stop.start <= opening.span.start:
        return found
    mark = opening.span.source.text[opening.span.start]
    if mark not in _BEFORE:
        return found
    text = f"expected `{_BEFORE[mark]}` before this"
    return replace(found, labels=(Label(stop, text), opening))


def _first_fault(source: Source) -> Diagnostic | None:
    text = source.text
    stack: list[_Open] = []
    at = 0
    while (found := _TOKENS.search(text, at)) is not None:
        at = found.end()
        if found["type"]:
            end = closing(text, at - 1)
            if end == TOO_DEEP:
                return too_deep(source, at - 1)
            if end < 0:
                return _unclosed(source, _Open("<", at - 1), _line_end(text, at - 1))
            at = end
        elif found["mark"]:
            mark = found["mark"]
            if mark in _CLOSING:
                stack.append(_Open(mark, found.start()))
                continue
            fault = _close(source, stack, mark, found.start())
            if fault is not None:
                return fault
    return _left_open(source, stack)


def _close(source: Source, stack: list[_Open], mark: str, at: int) -> Diagnostic | None:
    if not stack:
        return _unopened(source, mark, at)
    top = stack[-1]
    if top.mark != _PAIRS[mark]:
        if mark == "}":
            return _unclosed(source, top, _line_end(source.text, top.at))
        return _unclosed(source, top, at) if top.mark != "{" else _unopened(source, mark, at)
    if mark == "}" and (fault := _badly_paired(source, top, at)) is not None:
        return fault
    stack.pop()
    return None


def _badly_paired(source: Source, opened: _Open, at: int) -> Diagnostic | None:
    """Say what is wrong with a `{` and a `}` that close each other and do not look like it: one
    ends its line and the other does not begin one, or both do and are not of one indentation. It
    is no fault where the braces of the whole text are in balance."""
    text = source.text
    begins = not text[_line_start(text, at) : at].strip()
    ends = _line_end(text, opened.at) == opened.at + 1
    if "\n" not in text[opened.at : at] or not (begins or ends) or _is_balanced(text):
        return None
    if begins != ends:
        if ends:
            return _unopened(source, "}", at)
        return _unclosed(source, opened, _line_end(text, opened.at))
    inner, outer = _indentation(text, opened.at), _indentation(text, at)
    if inner == outer:
        return None
    if inner > outer:
        return _unclosed(source, opened, _last_text_before(text, _line_start(text, at)))
    return _unopened(source, "}", at)


def _left_open(source: Source, stack: list[_Open]) -> Diagnostic | None:
    if not stack:
        return None
    opened = stack[-1]
    end = len(source.text.rstrip()) if opened.mark == "{" else _line_end(source.text, opened.at)
    return _unclosed(source, opened, end)


def _unclosed(source: Source, opened: _Open, end: int) -> Diagnostic:
    """The place is where the text should have closed the bracket."""
    close = _CLOSING.get(opened.mark, ">")
    end = max(end, opened.at + 1)
    here = Span(source, end - 1, end)
    opening = Label(Span(source, opened.at, opened.at + 1), f"this `{opened.mark}` is not closed")
    return finding(
        "PTO0003",
        f"this `{opened.mark}` is not closed",
        here,
        label=f"expected `{close}` after this",
        more=(opening,),
        help=f"write `{close}`",
    )


def _unopened(source: Source, mark: str, at: int) -> Diagnostic:
    opened = _PAIRS[mark]
    begins = not source.text[_line_start(source.text, at) : at].strip()
    line = _line_without_brace(source, at) if mark == "}" and begins else None
    if line is None:
        return finding(
            "PTO0002",
            f"unexpected `{mark}`",
            Span(source, at, at + 1),
            label=f"no `{opened}` is open here",
            help=f"remove it, or write the `{opened}` that it closes",
        )
    end = _line_end(source.text, line)
    return finding(
        "PTO0002",
        "expected `{` at the end of the line",
        Span(source, end - 1, end),
        label="expected `{` after this",
        more=(Label(Span(source, at, at + 1), "this `}` closes nothing"),),
        help="write `{`",
    )


def _line_without_brace(source: Source, at: int) -> int | None:
    """Where the last line of the same indentation above a `}` begins, if it opens no region."""
    text = source.text
    depth = _indentation(text, at)
    start = _line_start(text, at)
    while start > 0:
        start = _line_start(text, start - 1)
        line = text[start : _line_end(text, start)]  # a comment is no text
        if not line.strip() or _indentation(text, start) > depth:
            continue  # blank, a comment, or inside
        heads = _indentation(text, start) == depth and not line.endswith("{")
        closes = line.lstrip().startswith("}") and not line.endswith("else")
        return start if heads and not closes else None
    return None


@lru_cache(maxsize=1)
def _is_balanced(text: str) -> bool:
    """True if a text has as many `{` as `}`; kept, as every pair of braces asks."""
    marks = [found["mark"] for found in _TOKENS.finditer(text)]
    return marks.count("{") == marks.count("}")


def _indentation(text: str, at: int) -> int:
    start = _line_start(text, at)
    line = text[start : start + 1000]
    return len(line) - len(line.lstrip())


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    """The offset after the last character of a line that is neither blank nor of a comment."""
    end = text.find("\n", at)
    line = text[_line_start(text, at) : end if end >= 0 else len(text)]
    return _line_start(text, at) + len(line.split("//")[0].rstrip())


def _last_text_before(text: str, at: int) -> int:
    return len(text[:at].rstrip())
