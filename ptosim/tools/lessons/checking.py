"""Is an answer to a lesson right, and if not, what is wrong in the learner's own text?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import Diagnostic, Severity
from ptosim.ground.errors import PtosimError
from ptosim.ground.records import NamedTuple
from ptosim.ground.source import Source
from ptosim.launch.values import parse_argument
from ptosim.tools.api import check_source, load
from ptosim.tools.lessons.course import Lesson

_LIMIT = 1_000_000
"""Instructions that an answer may take."""


class Verdict(NamedTuple):
    """What is said of an answer: lines, and findings that have a place in its text."""

    is_right: bool
    said: tuple[str, ...]
    findings: tuple[Diagnostic, ...] = ()


def verdict(lesson: Lesson, text: str, name: str | None = None) -> Verdict:
    """Check an answer: on every target of the lesson what can be said of its text, what a run
    finds, its values, and its cycles."""
    source = Source(name or lesson.file, text)
    said: list[str] = []
    for target in lesson.check["targets"]:
        found = _on_target(lesson, source, target)
        if not found.is_right:
            return found
        said += found.said
    return Verdict(True, tuple(said))


def _on_target(lesson: Lesson, source: Source, target: str) -> Verdict:
    checked = check_source(source, target=target)
    wrong = [d for d in checked.findings if _is_wrong(d, lesson)]
    if wrong:
        return Verdict(False, (f"On {target} there are mistakes:",), tuple(wrong[:3]))
    missing = _missing(lesson, {op.name for op in checked.front.module.walk()})
    if missing:
        return Verdict(False, (f"The program does not have `{missing}` yet.",))
    try:
        return _ran(lesson, source, target)
    except PtosimError as problem:
        findings = tuple(getattr(problem, "diagnostics", ()))[:3]
        return Verdict(False, (f"On {target} it does not run: {problem}",), findings)


def _is_wrong(found: Diagnostic, lesson: Lesson) -> bool:
    return found.severity is Severity.ERROR or found.code in lesson.check.get("clean", ())


def _missing(lesson: Lesson, names: set[str]) -> str | None:
    return next((n for n in lesson.check.get("needs", ()) if n not in names), None)


def _ran(lesson: Lesson, source: Source, target: str) -> Verdict:
    program = load(source, target=target)
    args = {name: _argument(spec) for name, spec in lesson.check.get("args", {}).items()}
    given = {a.name: args[a.name] for a in program.signature() if a.name in args}
    blocks = lesson.check.get("block_num", 1)
    result = program.run(given, block_num=blocks, max_instructions=_LIMIT)
    wrong = [d for d in result.findings if _is_wrong(d, lesson)]
    if wrong:
        return Verdict(False, (f"On {target} a run finds mistakes:",), tuple(wrong[:3]))
    for line in _unequal(lesson, args, result.outputs):
        return Verdict(False, (f"On {target}: {line}",))
    most = lesson.check.get("max_cycles")
    is_first = target == lesson.check["targets"][0]
    if most is not None and is_first and result.cycles is not None and result.cycles > most:
        return Verdict(
            False, (f"The values are right; {result.cycles:,} cycles, the goal is {most:,}.",)
        )
    cycles = f", {result.cycles:,} cycles" if result.cycles is not None else ""
    return Verdict(True, (f"{target}: right{cycles}.",))


def _argument(spec: str) -> Any:
    """An array from a SPEC, or from a NumPy expression of the lesson after `=`."""
    if spec.startswith("="):
        return eval(spec[1:].strip(), {"np": np})
    return parse_argument(spec, Path())


def _unequal(
    lesson: Lesson, args: Mapping[str, Any], outputs: Mapping[str, np.ndarray]
) -> Iterator[str]:
    """A line for each output with other values; the expressions are those of the lesson."""
    for name, expression in lesson.check.get("expect", {}).items():
        expected = np.asarray(eval(expression, {"np": np, **args}))
        got = outputs.get(name)
        if got is None:
            yield f"the program has no argument `{name}`"
            continue
        near = lesson.check.get("tolerance", {}).get(name, {})
        got = np.asarray(got).reshape(expected.shape)
        differs = ~np.isclose(
            got.astype(np.float64), expected.astype(np.float64), equal_nan=True,
            rtol=near.get("rtol", 0), atol=near.get("atol", 0),
        )  # fmt: skip
        if differs.any():
            at = tuple(int(i) for i in np.argwhere(differs)[0])
            yield (
                f"{int(differs.sum()):,} of {expected.size:,} values of `{name}` differ, first at "
                f"{list(at)}: {got[at]:.6g}, expected {expected[at]:.6g}"
            )
