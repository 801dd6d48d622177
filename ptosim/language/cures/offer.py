"""Which proposals are offered: those after which the text has one finding fewer and no new one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from ptosim.ground.diagnostics.fix import applied
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.records import replace
from ptosim.ground.source import Source
from ptosim.language.cures.proposals import proposals

MOST_FINDINGS = 8
"""Findings of a text that cures are looked for; a text with more has another problem first."""
MOST_TRIED = 12
"""Proposals of a finding that are tried; each is one check of the text."""
MOST_CHECKED = 600_000
"""Characters that are checked for the cures of a text, all proposals together: a second's work."""

Check = Callable[[Source], Sequence[Diagnostic]]


def with_cures(source: Source, findings: Sequence[Diagnostic], check: Check) -> list[Diagnostic]:
    """Return findings, errors without an edit with the first proposal that mends them: those
    with which the assembler refuses the text. `check` gives the findings of a text, as `findings`
    are those of `source`."""
    open_ = [d for d in findings if _is_open(d, source)]
    if not open_ or len(open_) > MOST_FINDINGS:
        return list(findings)
    left = iter(range(MOST_CHECKED // max(len(source.text), 1)))  # checks that may be made
    cured = {id(d): _cured(source, d, findings, check, left) for d in open_}
    return [cured.get(id(d), d) for d in findings]


def _is_open(found: Diagnostic, source: Source) -> bool:
    """Is it an error without an edit, in this text (not in one that it was made from)?"""
    span = found.span
    is_here = span is not None and span.source.text == source.text
    return is_here and found.is_rejection and not found.fixes


def _cured(
    source: Source,
    found: Diagnostic,
    findings: Sequence[Diagnostic],
    check: Check,
    left: Iterator[int],
) -> Diagnostic:
    tried: set[str] = set()
    for edits in proposals(found):
        text = applied(source.text, edits)
        if text is None or text == source.text or text in tried:
            continue
        if len(tried) == MOST_TRIED or next(left, None) is None:
            return found
        tried.add(text)
        if _mends(found, findings, check(source.changed(text))):
            return replace(found, fixes=tuple(edits))
    return found


def _mends(found: Diagnostic, before: Sequence[Diagnostic], after: Sequence[Diagnostic]) -> bool:
    """One finding fewer, and no new one: counted by code, since places move. Of a text that is
    refused nothing is followed, so what following finds says nothing of the edit."""
    was, now = (Counter(d.code for d in each if d.is_rejection) for each in (before, after))
    return now[found.code] < was[found.code] and not now - was
