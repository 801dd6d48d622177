"""A program moved to another date of the language: the edits that its findings there carry."""

from __future__ import annotations

from ptosim.ground.diagnostics.fix import repair
from ptosim.ground.diagnostics.model import OLD_SPELLINGS, Diagnostic
from ptosim.ground.records import NamedTuple, replace
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend

_OF_DATES = (*OLD_SPELLINGS, "PTO1003", "PTO8004")
"""Codes of what a date does not read."""


class Moved(NamedTuple):
    """The text at the date, and the findings on what could not be moved."""

    text: str
    left: tuple[Diagnostic, ...]


def to_date(source: Source, options: FrontOptions, date: str) -> Moved:
    """Move a program to a date of the language, as far as findings carry edits."""

    def check(text: Source) -> list[Diagnostic]:
        front = run_frontend(text, replace(options, compat=date, legacy=False))
        return [d for d in front.sink if d.code in _OF_DATES]

    moved = repair(source, check).source
    return Moved(moved.text, tuple(check(moved)))
