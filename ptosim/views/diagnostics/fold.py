"""Findings in the order of reading: errors first, and many of one kind as one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.records import replace

_VARYING = re.compile(r"`[^`]*`|'[^']*'|%[\w.$-]+|\d+")
FEWEST = 3
"""So many findings of one kind are shown as one."""
_LISTED = 12


def folded(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return errors, then warnings, then notes; of three or more of one kind (a code, a file, a
    message up to its names and numbers) the first one, with a note on where the others are."""
    kinds: dict[tuple[object, ...], list[Diagnostic]] = {}
    for diagnostic in sorted(diagnostics, key=lambda d: -d.severity):
        kinds.setdefault(_kind(diagnostic), []).append(diagnostic)
    shown: list[Diagnostic] = []
    for alike in kinds.values():
        shown.extend(alike if len(alike) < FEWEST else [_first(alike)])
    return sorted(shown, key=lambda d: -d.severity)


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
