"""Findings in the forms of other programs: lines for editors, annotations of GitHub Actions, JUnit
XML for continuous integration, SARIF 2.1.0 (OASIS Static Analysis Results Interchange Format)."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ptosim.ground import __version__
from ptosim.ground.diagnostics.model import Diagnostic, Fix, Label, Severity
from ptosim.ground.source import Span, visible
from ptosim.views.frames import count_line, render
from ptosim.views.table import document

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from ptosim.views.report import Findings

# -- lines -----------------------------------------------------------------------------------------

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


def github_of_case(file: str, name: str, text: str) -> str:
    """Return a workflow command for a test that failed."""
    title = _property(f"ptosim test {name}")
    return f"::error file={_property(file)},title={title}::{_data(text)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _one_line(text: str) -> str:
    return " ".join(text.split())


# -- JUnit -----------------------------------------------------------------------------------------

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot carry."""


def junit(
    suites: Sequence[tuple[str, Sequence[Diagnostic]]], is_failure: Callable[[Diagnostic], bool]
) -> str:
    """Return a report with a suite for each (name, findings) and a test case for each finding; a
    suite without findings has one case that passed."""
    from xml.etree import ElementTree

    root = ElementTree.Element("testsuites", name="ptosim")
    for name, findings in suites:
        failures = sum(map(is_failure, findings))
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_clean(name),
            tests=str(len(findings) or 1),
            failures=str(failures),
            errors="0",
        )
        if not findings:
            ElementTree.SubElement(suite, "testcase", classname=_clean(name), name="no findings")
        for finding in findings:
            _case(suite, name, finding, is_failure(finding))
    for key in ("tests", "failures"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def junit_of_cases(cases: Iterable[tuple[str, str, str]]) -> str:
    """Return a report of tests: (suite, name, what is wrong with it; "" if it passed)."""
    from xml.etree import ElementTree

    root = ElementTree.Element("testsuites", name="ptosim test")
    suites: dict[str, Element] = {}
    for suite, name, wrong in cases:
        if suite not in suites:
            suites[suite] = ElementTree.SubElement(
                root, "testsuite", name=_clean(suite), tests="0", failures="0", errors="0"
            )
        case = ElementTree.SubElement(
            suites[suite], "testcase", classname=_clean(suite), name=_clean(name)
        )
        if wrong:
            first, _, _ = wrong.partition("\n")
            ElementTree.SubElement(case, "failure", message=_clean(first)).text = _clean(wrong)
        for each in (root, suites[suite]):
            for key, more in (("tests", 1), ("failures", bool(wrong))):
                each.set(key, str(int(each.get(key, "0")) + more))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def _case(suite: Element, name: str, finding: Diagnostic, failed: bool) -> None:
    from xml.etree import ElementTree

    place = f" line {finding.span.line}" if finding.span is not None else ""
    case = ElementTree.SubElement(
        suite, "testcase", classname=_clean(name), name=f"{finding.code}{place}"
    )
    if finding.span is not None:
        case.set("file", _clean(finding.span.source.name))
        case.set("line", str(finding.span.line))
    text = _clean(render(finding))
    if failed:
        word = finding.severity.word
        fault = ElementTree.SubElement(case, "failure", message=_clean(finding.message), type=word)
        fault.text = text
    else:
        ElementTree.SubElement(case, "system-out").text = text


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", visible(text))


# -- SARIF -----------------------------------------------------------------------------------------

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
    import hashlib

    if span is None:
        return hashlib.sha256(f"{diagnostic.code}|{diagnostic.message}".encode()).hexdigest()[:32]
    text = span.source.line_text(span.line).strip()
    name = artifact(span.source.name)["uri"]
    return hashlib.sha256(f"{diagnostic.code}|{name}|{text}".encode()).hexdigest()[:32]


FORMS: dict[str, Callable[[Findings], str]] = {
    "sarif": lambda found: document(sarif(found.shown, found.omitted)),
    "junit": lambda found: junit(found.suites or [("ptosim", found.shown)], found.fails),
    "concise": lambda found: concise(found.shown),
    "github": lambda found: github(found.shown),
}
