"""Findings as a SARIF 2.1.0 log (OASIS Static Analysis Results Interchange Format)."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from ptosim.ground.diagnostics.model import Diagnostic, Fix, Label, Severity
from ptosim.ground.source import Span
from ptosim.ground.version import __version__

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"
"""The base that relative paths are relative to: the directory of the run."""


def sarif(diagnostics: Sequence[Diagnostic], omitted: int = 0) -> dict[str, object]:
    """Return findings as a SARIF log; `omitted` of them are not in it."""
    codes = sorted({d.code for d in diagnostics})
    counts: Counter[str] = Counter()
    run: dict[str, object] = {
        "tool": {"driver": _driver(codes)},
        "columnKind": "unicodeCodePoints",
        "results": [_result(d, codes, counts) for d in diagnostics],
    }
    if omitted:
        run["properties"] = {"omittedFindings": omitted}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _driver(codes: Sequence[str]) -> dict[str, object]:
    from ptosim.ground.diagnostics.catalog import catalog

    known = catalog()
    rules = []
    for code in codes:
        rule: dict[str, object] = {"id": code}
        if code in known:
            entry = known[code]
            rule["shortDescription"] = {"text": entry.title}
            rule["fullDescription"] = {"text": " ".join(entry.explanation.split())}
            rule["helpUri"] = f"urn:ptosim:diagnostic:{code}"  # `ptosim explain` has the text
            level = _LEVELS[Severity[entry.severity.upper()]]
            rule["defaultConfiguration"] = {"level": level}
            if entry.cure:
                rule["help"] = {"text": " ".join(entry.cure.split())}
        rules.append(rule)
    return {
        "name": "ptosim",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": rules,
    }


def _result(diagnostic: Diagnostic, codes: list[str], counts: Counter[str]) -> dict[str, object]:
    extra = [*diagnostic.all_notes, *([f"help: {diagnostic.help}"] if diagnostic.help else ())]
    result: dict[str, object] = {
        "ruleId": diagnostic.code,
        "ruleIndex": codes.index(diagnostic.code),
        "level": _LEVELS[diagnostic.severity],
        "message": {"text": "\n".join((diagnostic.message, *extra))},
        "properties": {"origin": diagnostic.origin.value},
    }
    if diagnostic.span is not None:
        result["locations"] = [{"physicalLocation": _location(diagnostic.span)}]
    # Stable when lines move: code, file and text of the line; equal ones are counted.
    base = fingerprint(diagnostic)
    counts[base] += 1
    result["partialFingerprints"] = {"ptosim/v1": f"{base}:{counts[base]}"}
    related = [_related(i, label) for i, label in enumerate(diagnostic.labels[1:], 1)]
    if related:
        result["relatedLocations"] = related
    if diagnostic.fixes:
        result["fixes"] = [_fix(diagnostic)]
    return result


def _related(number: int, label: Label) -> dict[str, object]:
    place: dict[str, object] = {"id": number, "physicalLocation": _location(label.span)}
    if label.text:
        place["message"] = {"text": label.text}
    return place


def _fix(diagnostic: Diagnostic) -> dict[str, object]:
    files: dict[str, list[Fix]] = {}
    for fix in diagnostic.fixes:
        files.setdefault(fix.span.source.name, []).append(fix)
    changes = [
        {
            "artifactLocation": artifact(name),
            "replacements": [
                {
                    "deletedRegion": _exact_region(fix.span),
                    "insertedContent": {"text": fix.replacement},
                }
                for fix in fixes
            ],
        }
        for name, fixes in files.items()
    ]
    record: dict[str, object] = {"artifactChanges": changes}
    if diagnostic.help:
        record["description"] = {"text": diagnostic.help}
    return record


def _location(span: Span) -> dict[str, object]:
    region = _exact_region(span)
    if (region["endLine"], region["endColumn"]) == (region["startLine"], region["startColumn"]):
        region["endColumn"] += 1
    return {"artifactLocation": artifact(span.source.name), "region": region}


def _exact_region(span: Span) -> dict[str, int]:
    line, column = span.source.line_column(span.start)
    end_line, end_column = span.source.line_column(span.end)
    return {
        "startLine": line,
        "startColumn": column,
        "endLine": end_line,
        "endColumn": end_column,
    }


def artifact(name: str) -> dict[str, object]:
    """Return where a file is: relative to the directory of the run if it is below it."""
    if name.startswith("<"):
        return {"uri": quote(name.strip("<>"))}
    path = Path(os.path.abspath(name))
    try:
        relative = path.relative_to(Path.cwd())
    except ValueError:
        return {"uri": path.as_uri()}
    return {"uri": quote(relative.as_posix()), "uriBaseId": ROOT}


def fingerprint(diagnostic: Diagnostic) -> str:
    """Return what identifies a finding when lines move: code, file and text of the line."""
    span = diagnostic.span
    if span is None:
        return hashlib.sha256(f"{diagnostic.code}|{diagnostic.message}".encode()).hexdigest()[:32]
    text = span.source.line_text(span.line).strip()
    name = artifact(span.source.name)["uri"]
    return hashlib.sha256(f"{diagnostic.code}|{name}|{text}".encode()).hexdigest()[:32]
