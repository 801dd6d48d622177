"""Which proposals are offered: those after which the text has one finding fewer and no new one."""

from __future__ import annotations

import difflib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from ptosim.ground.diagnostics.catalog import CURED_BY_FOLLOWING
from ptosim.ground.diagnostics.fix import applied
from ptosim.ground.diagnostics.model import Diagnostic, Fix
from ptosim.ground.records import replace
from ptosim.ground.source import Source, Span
from ptosim.language.cures.proposals import ALWAYS, BY_CODE, WORD, nearest
from ptosim.language.cures.statements import Edits, edit_of

MOST_FINDINGS = 8
"""Findings of a text that cures are looked for; a text with more has another problem first."""
MOST_TRIED = 12
"""Proposals of a finding that are tried; each is one check of the text."""
MOST_CHECKED = 600_000
"""Characters that are checked for the cures of a text, all proposals together: a second's work."""

_MISSPELLED = "PTO2003"
"""A note that has a cure: an attribute that nobody knows, but for its likeness to another one."""

_QUOTED = re.compile(r"`([^`]+)`")
Check = Callable[[Source], Sequence[Diagnostic]]


def with_cures(source: Source, findings: Sequence[Diagnostic], check: Check) -> list[Diagnostic]:
    """Return findings, errors without an edit with the first proposal that mends them: those
    with which the assembler refuses the text, and misspelled attributes. `check` gives the
    findings of a text, as `findings` are those of `source`."""
    open_ = [d for d in findings if _is_open(d, source)]
    if not open_ or len(open_) > MOST_FINDINGS:
        return list(findings)
    left = iter(range(MOST_CHECKED // max(len(source.text), 1)))  # checks that may be made
    cured = {id(d): _cured(source, d, findings, check, left) for d in open_}
    return [cured.get(id(d), d) for d in findings]


def with_cures_of_followed(
    source: Source, findings: Sequence[Diagnostic], check: Check
) -> list[Diagnostic]:
    """Return findings, deadlocks by a mistaken event id and tiles over each other with the edit
    that ends them. `check` follows a text; it is asked only where the text shows which event is
    meant, or where the tiles are."""

    def cured(found: Diagnostic) -> Diagnostic:
        for edits in (
            _proposals(found) if found.code in CURED_BY_FOLLOWING and not found.fixes else ()
        ):
            text = applied(source.text, edits)
            if text and _has_less(found, findings, check(source.changed(text))):
                return replace(found, fixes=tuple(edits))
        return found

    return [cured(d) for d in findings]


def _is_open(found: Diagnostic, source: Source) -> bool:
    """Is it an error without an edit, in this text (not in one that it was made from)?"""
    span = found.span
    is_here = span is not None and span.source.text == source.text
    return is_here and (found.is_rejection or found.code == _MISSPELLED) and not found.fixes


def _cured(
    source: Source,
    found: Diagnostic,
    findings: Sequence[Diagnostic],
    check: Check,
    left: Iterator[int],
) -> Diagnostic:
    tried: set[str] = set()
    for edits in _proposals(found):
        text = applied(source.text, edits)
        if text is None or text == source.text or text in tried:
            continue
        if len(tried) == MOST_TRIED or next(left, None) is None:
            return found
        tried.add(text)
        if _mends(found, findings, check(source.changed(text))):
            return replace(found, fixes=tuple(edits), help=found.help or _told(edits))
    return found


_SHORT = 60
"""Characters of an edit that a help line quotes."""


def _told(edits: Edits) -> str:
    """What a proposal writes, for findings that say no cure."""
    new = [line.strip() for fix in edits for line in fix.replacement.splitlines() if line.strip()]
    if not new:
        return f"leave `{edits[0].span.text.strip()[:_SHORT]}` out"
    if len(edits) == len(new) == 1 and len(new[0]) <= _SHORT:
        return f"write `{new[0]}`"
    first = new[0] if len(new[0]) <= _SHORT else f"{new[0][: _SHORT - 1]}…"
    return f"`check --fix` writes `{first}`{' and what goes with it' if len(new) > 1 else ''}"


def _mends(found: Diagnostic, before: Sequence[Diagnostic], after: Sequence[Diagnostic]) -> bool:
    """One finding fewer, and no new one: counted by code, since places move. Of a text that is
    refused nothing is followed, so what following finds says nothing of the edit."""
    was, now = (
        Counter(d.code for d in each if d.is_rejection or d.code == found.code)
        for each in (before, after)
    )
    return now[found.code] < was[found.code] and not now - was


def _has_less(found: Diagnostic, before: Sequence[Diagnostic], after: Sequence[Diagnostic]) -> bool:
    """One error fewer; of warnings one fewer, and no new one."""
    if found.is_error:
        return sum(d.is_error for d in after) < sum(d.is_error for d in before)
    was, now = (
        Counter(d.code for d in each if d.severity.word != "note") for each in (before, after)
    )
    return now[found.code] < was[found.code] and not now - was


def _proposals(found: Diagnostic) -> Iterator[Edits]:
    """Yield proposals for a finding, the likeliest first."""
    span = found.span
    if span is None:
        return
    yield from _suggested(found, span)
    for proposer in (*BY_CODE.get(found.code, ()), *ALWAYS):
        yield from proposer(found, span)


def _suggested(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """What the help line suggests, in the place of the word that is most like it."""
    told = found.help or ""
    meant = _QUOTED.findall(told)
    if told.startswith("write `") and meant:
        yield from _written(span, meant[0])
    wrong = next((w for w in _QUOTED.findall(found.message) if w in span.text), "")
    for word in meant[-1:] + meant[:-1]:
        if " " not in word:
            yield from _in_place(span, word, wrong)
    for word in nearest(wrong or span.text, told) if not meant else ():
        yield from _in_place(span, word, wrong)


def _written(span: Span, text: str) -> Iterator[Edits]:
    """A word in the place of the finding, or after what is before it."""
    source = span.source
    if len(text) > 2:
        yield [Fix(span, text)]
    before = re.search(r"\s*\w*$", source.text[: span.start])
    word = before.start() if before is not None else span.start
    forms = (f" {text}", text) if text == "{" else (text, f" {text}")
    for at, form in itertools.product((span.end, word, span.start), forms):
        yield [edit_of(source, at, at, form)]


def _in_place(span: Span, word: str, wrong: str = "") -> Iterator[Edits]:
    """A word in the place of the one that the message names, else of the one most like it."""
    if wrong:
        start = span.start + span.text.rindex(wrong)
        yield [edit_of(span.source, start, start + len(wrong), word)]
    words = list(WORD.finditer(span.text))
    likeness = {w: difflib.SequenceMatcher(None, w.group(), word).ratio() for w in words}
    best = max(words, key=lambda w: likeness[w], default=None)
    if best is not None and best.group() != word:
        start = span.start + best.start()
        yield [edit_of(span.source, start, start + len(best.group()), word)]
    if span.text != word:
        yield [Fix(span, word)]
