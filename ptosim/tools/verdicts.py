"""What a check said of a text, kept between commands: an unchanged program is not checked again.

Kept are findings, choices and the outcome of the dry run, as plain data in the user's cache folder
(`ground.isa.cache`: marshal with a digest, which runs no code), under a digest of everything that
they depend on: the text and its name, the options, and the files of this installation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptosim.ground.diagnostics.model import Diagnostic, Fix, Label, Severity
from ptosim.ground.files import is_file
from ptosim.ground.isa.cache import installed, keep, recalled
from ptosim.ground.records import NamedTuple
from ptosim.ground.source import Source, Span

if TYPE_CHECKING:
    from ptosim.tools.api import Checked

ENABLED = True
"""False in a process whose code is changed while it runs: the tests'."""

Plain = tuple[Any, ...]
"""A verdict as numbers, texts, lists and tuples."""

_KIND = "verdict"
_PLAIN = (int, float, str, bool, type(None))


class Choices(NamedTuple):
    """What was chosen for a program, or inferred from it."""

    label: str
    target: str
    chip: str
    compat: str
    level: int
    sync: str
    entries: tuple[str, ...]
    because: str = ""
    """Why they are that, where the text decides: a line."""


class Verdict(NamedTuple):
    """What a check says of a program for a target: see `api.Checked`. `in_text` are the findings
    that needed no dry run."""

    findings: list[Diagnostic]
    in_text: list[Diagnostic]
    dry_run: str
    is_open: bool
    choices: Choices
    coverage: list[dict[str, Any]]
    requirements: list[dict[str, Any]]
    contracts: list[dict[str, Any]]

    @property
    def is_rejected(self) -> bool:
        """True if the assembler refuses the program, or it cannot be placed."""
        return any(d.is_rejection for d in self.findings)


def verdict_of(checked: Checked) -> Verdict:
    """Return what a check says, without the program."""
    front = checked.front
    choices = Choices(
        front.label, front.target, front.chip, front.compat, front.level, front.sync,
        tuple(front.resolved.entries), front.settings.reasons,
    )  # fmt: skip
    in_text = checked.findings[: len(front.sink.diagnostics)]  # with the edits that mend them
    coverage = [c.to_dict() for c in checked.coverage]
    requirements = [r.to_dict() for r in checked.requirements]
    return Verdict(
        checked.findings, in_text, checked.dry_run, checked.is_open, choices, coverage,
        requirements, checked.contracts,
    )  # fmt: skip


def kept_verdict(
    source: Source, options: Mapping[str, object], check: Callable[[], Checked]
) -> Verdict:
    """Return what `check` says of a source with some options, or what it said before. Of options
    that read files, and of limits, the caller asks `check` itself. Raises what `check` does."""
    installation = installed() if ENABLED else None
    if installation is None or _reads_others(source):
        return verdict_of(check())
    given = (source.name, source.part, source.text, source.around, sorted(options.items()))
    inputs = f"{given!r}{installation}".encode("utf-8", "surrogatepass")
    known = recalled(_KIND, inputs)
    if known is not None:
        return restored(known, source)
    verdict = verdict_of(check())
    plain = to_plain(verdict, source)
    if plain is not None:
        keep(_KIND, inputs, plain, one_of_many=True)
    return verdict


_QUOTED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


def _reads_others(source: Source) -> bool:
    """Does a file in C++ include one that is beside it? What that says may change."""
    if not source.is_cpp:
        return False
    folder = Path(source.name).parent
    return any(is_file(folder / name) for name in _quoted(source.text))


@lru_cache(maxsize=1)
def _quoted(text: str) -> list[str]:
    """The files that a text includes by their place."""
    return _QUOTED.findall(text)


# -- findings as plain data ------------------------------------------------------------------------


def to_plain(verdict: Verdict, source: Source) -> Plain | None:
    """Return a verdict as plain data; None if something in it is not, such as a place in another
    text."""
    findings = [_finding_to_plain(d, source) for d in verdict.findings]
    count = len(verdict.in_text)
    if None in findings:
        return None
    return (
        findings, count, verdict.dry_run, verdict.is_open, tuple(verdict.choices),
        verdict.coverage, verdict.requirements, verdict.contracts,
    )  # fmt: skip


def _finding_to_plain(d: Diagnostic, source: Source) -> tuple[object, ...] | None:
    spans = [*(label.span for label in d.labels), *(fix.span for fix in d.fixes)]
    context = dict(d.context)
    if any(span.source is not source for span in spans) or not _is_plain(context):
        return None
    labels = [(label.span.start, label.span.end, label.text) for label in d.labels]
    fixes = [(fix.span.start, fix.span.end, fix.replacement) for fix in d.fixes]
    return (
        d.code, int(d.severity), d.message, labels, list(d.notes), d.help, fixes, context, d.rule,
    )  # fmt: skip


def _is_plain(value: object) -> bool:
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))  # type: ignore[arg-type]  # one of the two
    if type(value) is dict:
        return all(_is_plain(key) and _is_plain(each) for key, each in value.items())
    return type(value) in _PLAIN


def restored(plain: Plain, source: Source) -> Verdict:
    """Return the verdict on a source that `to_plain` made plain."""
    kept, count, dry_run, is_open, choices, *told = plain
    findings = [_finding(f, source) for f in kept]
    made = Choices(*choices)
    return Verdict(findings, findings[:count], dry_run, is_open, made, *told)


def _finding(plain: Any, source: Source) -> Diagnostic:
    code, severity, message, labels, notes, help, fixes, context, rule = plain
    return Diagnostic(
        code, Severity(severity), message,
        tuple(Label(Span(source, start, end), text) for start, end, text in labels),
        tuple(notes), help,
        tuple(Fix(Span(source, start, end), text) for start, end, text in fixes),
        context, rule,
    )  # fmt: skip
