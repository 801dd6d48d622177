"""Findings as data: JSON, JSON lines, SARIF 2.1.0, JUnit XML, lines, GitHub annotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.records import NamedTuple
from ptosim.ground.version import __version__
from ptosim.views.json_text import document, line


def is_error(finding: Diagnostic) -> bool:
    """True for an error."""
    return finding.is_error


class Findings(NamedTuple):
    """Findings to be written. `omitted` more are only counted; `about` are further fields of the
    JSON document, `suites` what JUnit shows by name, `fails` what it counts as failed."""

    shown: Sequence[Diagnostic]
    omitted: int = 0
    about: Mapping[str, object] = {}
    suites: Sequence[tuple[str, Sequence[Diagnostic]]] = ()
    fails: Callable[[Diagnostic], bool] = is_error


def _json(found: Findings) -> str:
    fields = {"version": __version__, **found.about}
    return document({**fields, "findings": found.shown, "omitted": found.omitted})


def _json_lines(found: Findings) -> str:
    lines: list[object] = [*found.shown, *([{"omitted": found.omitted}] if found.omitted else ())]
    return "".join(f"{line(each)}\n" for each in lines)


def _sarif(found: Findings) -> str:
    from ptosim.views.diagnostics.sarif import sarif

    return document(sarif(found.shown, found.omitted))


def _junit(found: Findings) -> str:
    from ptosim.views.diagnostics.junit import junit

    return junit(found.suites or [("ptosim", found.shown)], found.fails)


def _concise(found: Findings) -> str:
    from ptosim.views.diagnostics.lines import concise

    return concise(found.shown)


def _github(found: Findings) -> str:
    from ptosim.views.diagnostics.lines import github

    return github(found.shown)


WRITERS: dict[str, Callable[[Findings], str]] = {
    "json": _json,
    "jsonl": _json_lines,
    "sarif": _sarif,
    "junit": _junit,
    "concise": _concise,
    "github": _github,
}
"""The forms that findings can take, text aside."""
