"""Fix-its: edits that findings carry, applied to the text of a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Fix
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Source

MAX_ROUNDS = 200
_SYNC = "PTO5"

Check = Callable[[Source], Sequence[Diagnostic]]
Key = tuple[str, str, tuple[int, ...]]
"""Code, message and places: two executions of one operation may race with one message."""


@dataclass(slots=True)
class Repaired:
    """A text after its fix-its: what was mended, and what could not be and why."""

    source: Source
    fixed: list[Diagnostic] = field(default_factory=list)
    stuck: list[tuple[Diagnostic, str]] = field(default_factory=list)


def applied(text: str, fixes: Sequence[Fix]) -> str | None:
    """Return the text with every fix in it, None if two of them change the same characters.

    Insertions at one place come in the order of the list; equal ones are made once. What is
    inserted has the line ends of the text."""
    edits = _edits(text, fixes)
    order = sorted(range(len(edits)), key=lambda i: (edits[i][0], edits[i][1], i))
    parts: list[str] = []
    at = 0
    for index in order:
        start, end, replacement = edits[index]
        if start < at:
            return None
        parts += [text[at:start], replacement]
        at = end
    return "".join((*parts, text[at:]))


def _edits(text: str, fixes: Sequence[Fix]) -> list[tuple[int, int, str]]:
    """Return start, end and replacement of each edit once."""
    ends = "\r\n" if "\r\n" in text else "\n"
    edits = ((f.span.start, f.span.end, f.replacement.replace("\n", ends)) for f in fixes)
    return list(dict.fromkeys(edits))


def repair(source: Source, check: Check) -> Repaired:
    """Apply the fix-its of a program's findings, a step at a time, and check again after each.

    A step that makes the program worse, or that its finding survives, is taken back: its fix-it no
    longer applies. Flags are inserted one pair at a time, since each pair needs an event id of its
    own and may order more than the two operations it was inserted for."""
    result = Repaired(source)
    left_out: set[Key] = set()
    findings = list(check(source))
    for _ in range(MAX_ROUNDS):
        batch = _batch([d for d in findings if d.fixes and _key(d) not in left_out])
        if not batch:
            return result
        step = _step(result.source, findings, batch, check)
        if step is None and len(batch) > 1:
            batch = batch[:1]
            step = _step(result.source, findings, batch, check)
        if step is None:
            left_out.add(_key(batch[0]))
            result.stuck.append((batch[0], _reason(batch[0])))
            continue
        edits = _edits(result.source.text, [fix for d in batch for fix in d.fixes])
        left_out = {_moved(key, edits) for key in left_out}
        result.source, findings = step
        result.fixed += batch
    return result


def _batch(fixable: list[Diagnostic]) -> list[Diagnostic]:
    """The findings to mend in one step: one of synchronisation, or all others that do not meet."""
    chosen: list[Diagnostic] = []
    edits: list[Fix] = []
    for finding in fixable:
        if finding.code.startswith(_SYNC):
            continue
        if applied(finding.fixes[0].span.source.text, [*edits, *finding.fixes]) is not None:
            chosen.append(finding)
            edits += finding.fixes
    return chosen or fixable[:1]


def _step(
    source: Source, before: Sequence[Diagnostic], batch: list[Diagnostic], check: Check
) -> tuple[Source, list[Diagnostic]] | None:
    """The text with a batch applied and its findings; None if that mends nothing."""
    fixes = [fix for finding in batch for fix in finding.fixes]
    text, edits = applied(source.text, fixes), _edits(source.text, fixes)
    if text is None or text == source.text:
        return None
    changed = source.changed(text)
    after = list(check(changed))
    counts = Counter(_moved(_key(d), edits) for d in before)
    counts.subtract(Counter(map(_key, after)))
    if any(counts[_moved(_key(d), edits)] <= 0 for d in batch):
        return None
    return (changed, after) if _rejections(after) <= _rejections(before) else None


def _rejections(findings: Sequence[Diagnostic]) -> int:
    """Errors other than races, which a step may bring out where it lets the run go on."""
    return sum(d.is_error and not d.code.startswith("PTO52") for d in findings)


def _reason(finding: Diagnostic) -> str:
    if applied(finding.fixes[0].span.source.text, finding.fixes) is None:
        return "its edits overlap"
    return "with its edits in place the finding is still there, or the program is worse"


def _key(finding: Diagnostic) -> Key:
    spans = (finding.span, *(label.span for label in finding.labels))
    return finding.code, finding.message, tuple(span.start for span in spans if span is not None)


def _moved(key: Key, edits: Sequence[tuple[int, int, str]]) -> Key:
    """Return the key of a finding after edits that it survives: its places are further down."""
    code, message, places = key
    grown = [(end, len(new) - (end - start)) for start, end, new in edits]
    return code, message, tuple(at + sum(n for end, n in grown if end <= at) for at in places)
