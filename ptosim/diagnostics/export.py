"""Findings as data: JSON, JSON lines, SARIF 2.1.0."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from ptosim import __version__
from ptosim.diagnostics.model import Diagnostic, Label, Severity
from ptosim.source import Span

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def export(diagnostics: Sequence[Diagnostic], form: str) -> str:
    """Return findings in a form: json (one document), jsonl (one object a line) or sarif."""
    if form == "jsonl":
        return "".join(
            json.dumps(d.to_dict(), ensure_ascii=False, default=str) + "\n" for d in diagnostics
        )
    document: Any = (
        sarif(diagnostics)
        if form == "sarif"
        else {"version": __version__, "findings": [d.to_dict() for d in diagnostics]}
    )
    return json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n"


def sarif(diagnostics: Sequence[Diagnostic]) -> dict[str, Any]:
    """Return findings as a SARIF log."""
    from ptosim.diagnostics.catalog import catalog

    known = catalog()
    codes = sorted({d.code for d in diagnostics})
    rules = []
    for code in codes:
        rule: dict[str, Any] = {"id": code}
        if code in known:
            rule["shortDescription"] = {"text": known[code].title}
            rule["fullDescription"] = {"text": " ".join(known[code].explanation.split())}
        rules.append(rule)
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "ptosim", "version": __version__, "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "results": [_result(d, codes) for d in diagnostics],
            }
        ],
    }


def _result(diagnostic: Diagnostic, codes: list[str]) -> dict[str, Any]:
    text = diagnostic.message
    for extra in (*diagnostic.notes, *([f"help: {diagnostic.help}"] if diagnostic.help else ())):
        text += f"\n{extra}"
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": codes.index(diagnostic.code),
        "level": _LEVELS[diagnostic.severity],
        "message": {"text": text},
    }
    if diagnostic.span is not None:
        result["locations"] = [{"physicalLocation": _location(diagnostic.span)}]
        result["partialFingerprints"] = {"ptosim/v1": _fingerprint(diagnostic)}
    related = [_related(i, label) for i, label in enumerate(diagnostic.labels[1:])]
    if related:
        result["relatedLocations"] = related
    return result


def _related(number: int, label: Label) -> dict[str, Any]:
    place: dict[str, Any] = {"id": number, "physicalLocation": _location(label.span)}
    if label.text:
        place["message"] = {"text": label.text}
    return place


def _location(span: Span) -> dict[str, Any]:
    line, column = span.source.line_column(span.start)
    end_line, end_column = span.source.line_column(span.end)
    return {
        "artifactLocation": {"uri": span.source.name.replace("\\", "/")},
        "region": {
            "startLine": line,
            "startColumn": column,
            "endLine": end_line,
            "endColumn": max(end_column, column + 1) if end_line == line else end_column,
        },
    }


def _fingerprint(diagnostic: Diagnostic) -> str:
    """Stable when lines move: the code and the text of the line, not its number."""
    span = diagnostic.span
    text = span.source.line_text(span.line).strip() if span is not None else ""
    return hashlib.sha256(f"{diagnostic.code}|{text}".encode()).hexdigest()[:32]
