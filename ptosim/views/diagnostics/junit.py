"""Findings as JUnit XML, for continuous integration that shows test reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from xml.etree import ElementTree

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.views.diagnostics.render import render

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot carry."""


def junit(
    suites: Sequence[tuple[str, Sequence[Diagnostic]]], is_failure: Callable[[Diagnostic], bool]
) -> str:
    """Return a report with a suite for each (name, findings) and a test case for each finding; a
    suite without findings has one case that passed."""
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


def _case(suite: ElementTree.Element, name: str, finding: Diagnostic, failed: bool) -> None:
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
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
