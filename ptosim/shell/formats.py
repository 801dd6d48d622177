"""The forms that a report can take: a name and its writer; a command knows no others.

FORMATS = {"text": tables(_renderables), "json": data(_to_json)}

`add_output(parser, FORMATS)` declares them, and `terminal.report(report)` writes the one that was
asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ptosim.shell.terminal import Terminal
from ptosim.views.diagnostics.export import WRITERS, Findings
from ptosim.views.json_text import document

R = TypeVar("R")
Formats = Mapping[str, Callable[[R, Terminal], str]]


def text(write: Callable[[R], str]) -> Callable[[R, Terminal], str]:
    """Return the writer of a form whose text does not depend on the terminal."""
    return lambda report, terminal: write(report)


def tables(parts: Callable[[R], Iterable[object]]) -> Callable[[R, Terminal], str]:
    """Return the writer of a report that consists of tables and lines."""
    return lambda report, terminal: terminal.render(parts(report))


def data(fields: Callable[[R], object]) -> Callable[[R, Terminal], str]:
    """Return the writer of a report as one JSON document."""
    return lambda report, terminal: document(fields(report))


def findings(form: str, found: Callable[[R], Findings]) -> Callable[[R, Terminal], str]:
    """Return the writer of a form in which a report is nothing but its findings."""
    return lambda report, terminal: WRITERS[form](found(report))
