"""Collects the `.pto` files beside it: programs with the findings that they must have.

A file is one or more sections split by `// -----`. Comments say how a section is checked; those of
the first section hold for the whole file unless another section says otherwise:

    // target: a5            or several (`a2a3 a5`), one test for each; none: the program names it
    // level: 3              // sync: auto              // strict: true (legacy spellings reject)
    // compat: 2026-08       none: 2026-04              // legacy: true (they are read)
    // dump: true            what passes of the assembler add is read

    // expected-error {{words}}        a finding on this line has these words
    // expected-warning@+1 {{words}}   on the next line; `@-2`: two lines above
    // expected-note@* {{words}}       on any line

Errors and warnings that are not expected fail the section, as do expected ones that do not come.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.source import Source
from ptosim.tools.api import check_source

_SPLIT = re.compile(r"^// -----\s*$", re.MULTILINE)
_HEADER = re.compile(r"^// (target|level|sync|strict|compat|legacy|dump): *(.+?)\s*$", re.MULTILINE)
_EXPECTED = re.compile(r"expected-(error|warning|note)(?:@(\*|[+-]\d+))? *\{\{(.*?)\}\}")


@dataclass(frozen=True, slots=True)
class Expectation:
    """A finding that must come; `line` is None where it may be anywhere."""

    severity: str
    line: int | None
    words: str

    def met_by(self, found: Diagnostic, *, strict: bool) -> bool:
        """True if a finding is the expected one."""
        line = found.span.line if found.span is not None else None
        return (
            _severity(found, strict=strict) == self.severity
            and self.words in found.message
            and self.line in (None, line)
        )


def _severity(found: Diagnostic, *, strict: bool) -> str:
    return "error" if strict and found.code == "PTO0010" else found.severity.word


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> PtoFile | None:
    """Take every `.pto` file below this folder."""
    if file_path.suffix != ".pto":
        return None
    return PtoFile.from_parent(parent, path=file_path)


def sections(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the sections of a file, each with its options."""
    shared: dict[str, str] = {"target": "", "compat": "2026-04"}
    for number, section in enumerate(_SPLIT.split(text)):
        own = {**shared, **dict(_HEADER.findall(section))}
        if number == 0:
            shared = own
        yield section, own


class PtoFile(pytest.File):
    """A file of sections."""

    def collect(self) -> Iterator[Section]:
        """Yield one item for each section and target."""
        line = 1
        for number, (text, options) in enumerate(sections(self.path.read_text("utf-8")), 1):
            for target in options["target"].split() or [""]:
                name = f"{number}:{line}" + (f"-{target}" if target else "")
                choice = {**options, "target": target}
                yield Section.from_parent(self, name=name, text=text, options=choice)
            line += text.count("\n") + 1


class Section(pytest.Item):
    """One program for one target."""

    def __init__(self, *, text: str, options: dict[str, str], **rest) -> None:
        super().__init__(**rest)
        self.text = text
        self.options = options
        self.funcargs: dict[str, object] = {}  # pytest-lsp 1.0 expects them of every item

    def runtest(self) -> None:
        """Compare the findings with the expected ones."""
        level = self.options.get("level")
        strict = self.options.get("strict") == "true"
        found = check_source(
            Source(self.path.name, self.text),
            self.options["target"] or None,
            int(level) if level else None,
            self.options.get("sync"),
            compat=self.options["compat"],
            legacy=self.options.get("legacy") == "true",
            dump=self.options.get("dump") == "true",
            dry_run=False,  # these programs are there for what their text says
        ).findings
        missing = list(_expectations(self.text))
        surprising = []
        for diagnostic in found:
            met = next((e for e in missing if e.met_by(diagnostic, strict=strict)), None)
            if met is not None:
                missing.remove(met)
            elif diagnostic.severity.word != "note":
                surprising.append(diagnostic)
        if missing or surprising:
            raise AssertionError(_report(missing, surprising, strict=strict))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style=None) -> str:
        """Show what came and what did not, without a traceback of this file."""
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[Path, int, str]:
        """Name the section by the line it begins on."""
        line = int(self.name.partition(":")[2].partition("-")[0])
        return self.path, line - 1, f"{self.path.name}:{line}"


def _expectations(text: str) -> Iterator[Expectation]:
    for number, line in enumerate(text.split("\n"), 1):
        for severity, place, words in _EXPECTED.findall(line):
            at = None if place == "*" else number + int(place or 0)
            yield Expectation(severity, at, words)


def _report(missing: list[Expectation], surprising: list[Diagnostic], *, strict: bool) -> str:
    lines = [
        f"line {e.line or '*'}: expected {e.severity} did not come: {e.words}" for e in missing
    ]
    for found in surprising:
        line = found.span.line if found.span is not None else "?"
        word = _severity(found, strict=strict)
        lines.append(f"line {line}: unexpected {word} {found.code}: {found.message}")
    return "\n".join(lines)
