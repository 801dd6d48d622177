"""Findings as a line each: for editors and grep, and for the annotations of GitHub Actions."""

from __future__ import annotations

from collections.abc import Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Severity
from ptosim.views.diagnostics.render import count_line

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def concise(diagnostics: Sequence[Diagnostic]) -> str:
    """Return `file:line:column: severity[code]: message` for each finding, and their count."""
    lines = [_concise(diagnostic) for diagnostic in diagnostics]
    return "".join(f"{line}\n" for line in [*lines, count_line(diagnostics)])


def _concise(diagnostic: Diagnostic) -> str:
    said = f"{diagnostic.severity.word}[{diagnostic.code}]: {_one_line(diagnostic.message)}"
    return f"{diagnostic.span}: {said}" if diagnostic.span is not None else said


def github(diagnostics: Sequence[Diagnostic]) -> str:
    """Return a workflow command of GitHub Actions for each finding, which shows it at its lines."""
    return "".join(f"{_command(diagnostic)}\n" for diagnostic in diagnostics)


def _command(diagnostic: Diagnostic) -> str:
    fields = {"title": f"ptosim {diagnostic.code}"}
    if diagnostic.span is not None:
        span = diagnostic.span
        line, column = span.source.line_column(span.start)
        end_line, end_column = span.source.line_column(span.end)
        fields = {"file": span.source.name, "line": str(line), "endLine": str(end_line), **fields}
        if end_line == line:  # GitHub refuses columns of several lines
            fields |= {"col": str(column), "endColumn": str(end_column)}
    properties = ",".join(f"{key}={_property(value)}" for key, value in fields.items())
    text = diagnostic.message + (f"\nhelp: {diagnostic.help}" if diagnostic.help else "")
    return f"::{_COMMANDS[diagnostic.severity]} {properties}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _one_line(text: str) -> str:
    return " ".join(text.split())
