"""`ptosim why FILE [ELEMENT]`: from a wrong value to the operation that made it wrong."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ptosim.ground.diagnostics.model import Trap
from ptosim.ground.errors import UsageError
from ptosim.ground.records import replace
from ptosim.launch.compare import Comparison
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.options import EXPECT, LAUNCH, group, option, program
from ptosim.shell.terminal import Terminal
from ptosim.views import run_report
from ptosim.views.report import Ending, Line, Part, Report, Section
from ptosim.views.table import Text

if TYPE_CHECKING:
    from ptosim.debug.cause import Cause, Step, Story
    from ptosim.debug.session import Debugger
    from ptosim.launch.compare import Choices
    from ptosim.launch.description import Tolerance

SHOWN = 24
"""Elements of the chain that text shows."""
_EPILOG = """ELEMENT is `y[3, 0]`, of an output; left out, the first one that differs from what is
expected. Exit code 1 if a value differs."""


@command(
    "why",
    program(),
    option("element", nargs="*", metavar="ELEMENT", help="an element of an output: y[3, 0]"),
    group("run", LAUNCH, EXPECT),
    forms=("text", "json", "html"),
    epilog=_EPILOG,
)
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Run to the end, compare, and follow the element back."""
    from ptosim.debug.cause import why
    from ptosim.debug.session import session_of
    from ptosim.shell.run_command import compared_with, expectations

    choices = launching.each_target(options)[0]
    session = session_of(choices)
    with terminal.busy(f"running {session.launch.function.name}"):
        stop = session.continue_()
    if session.walker.trap is not None:
        raise session.walker.trap
    if stop.reason == "deadlock":
        raise Trap(session.findings)
    outputs = session.outputs()
    expected = expectations(options, choices)
    compared = [compared_with(outputs, name, *each) for name, each in expected.items()]
    element = " ".join(options.element) or _first(compared)
    if not element:
        return _nothing(session, options, compared)
    wanted, differs = _judged(element, outputs, expected)
    with terminal.busy(f"following {element}"):
        story = why(session, element, wanted if differs else None)
        if story.cause is not None and story.cause.kind == "text":
            story.cause = _repaired(session, choices, story, expected) or story.cause
    return _report(session, options, story, compared, wanted)


def _repaired(
    session: Debugger,
    choices: Choices,
    story: Story,
    expected: Mapping[str, tuple[Any, Tolerance]],
) -> Cause | None:
    """The operation that would give every expected value if it were another one."""
    from ptosim.debug.cause import mended
    from ptosim.debug.motion import repaired
    from ptosim.shell.run_command import compared_with

    def is_right(outputs: Mapping[str, Any]) -> bool:
        return all(compared_with(outputs, n, *each).passed for n, each in expected.items())

    found = repaired(choices, session.names.source, story.ops, is_right)
    return mended(session, *found) if found is not None else None


def _first(compared: Sequence[Comparison]) -> str:
    wrong = next((c for c in compared if not c.passed), None)
    return f"{wrong.name}[{', '.join(map(str, wrong.first or ()))}]" if wrong is not None else ""


def _judged(
    element: str, outputs: Mapping[str, Any], values: Mapping[str, tuple[Any, Tolerance]]
) -> tuple[Any, bool]:
    """What an element should be (None where nobody says), and whether it differs from that."""
    import numpy as np

    from ptosim.launch.compare import compare

    name, _, rest = element.partition("[")
    name = name.strip().lstrip("%")
    if name not in values or name not in outputs:
        return None, False
    output, (array, tolerance) = outputs[name], values[name]
    try:
        index = [int(word) for word in rest.rstrip("] ").split(",")]
        at = int(np.ravel_multi_index(index, output.shape)) if len(index) > 1 else index[0]
        expected = np.asarray(array).reshape(-1)[at : at + 1]
        found = compare(name, output.reshape(-1)[at : at + 1], expected, tolerance)
    except (ValueError, IndexError):
        return None, False  # `why` says what is wrong with the element
    return (expected[0] if expected.size else None), not found.passed


def _nothing(
    session: Debugger, options: argparse.Namespace, compared: Sequence[Comparison]
) -> Report:
    if not compared:
        raise UsageError(
            "there is no element to follow, and nothing is expected of the outputs",
            help="name an element: `ptosim why FILE y[3, 0]`; or give `--expect y=gold.npy`",
        )
    return Report(
        [], lambda: {"element": None, "expected": [c.to_dict() for c in compared]},
        title="What is expected of the outputs", heads=[_head(session)],
        ending=Ending(True, run_report.equal(compared)),
    )  # fmt: skip


def _head(session: Debugger) -> str:
    from ptosim.views.header import header_fields, header_line

    launch = session.launch
    return header_line(header_fields(launch.front, launch.profile, launch.function.name))


def _report(
    session: Debugger,
    options: argparse.Namespace,
    story: Story,
    compared: Sequence[Comparison],
    wanted: Any,
) -> Report:
    wrong, cause = run_report.differences(compared), story.cause
    is_wrong = cause is not None or bool(wrong)
    told = f"{story.element} is {story.got}"
    told += f", expected {wanted}" if wanted is not None else ""
    next_ = ""
    if cause is not None:
        told = f"{told}: {cause.sentence}"
        debug = launching.again(options, "debug")
        next_ = f"{debug} -ex 'until {cause.line}'" if cause.line is not None else debug
    elif wrong:
        told = f"{told}; {wrong}"
        next_ = launching.again(options, "why", _first(compared))
    ending = Ending(not is_wrong, told, next_)
    return Report(
        [Section("", lambda _: _parts(story, wrong))],
        lambda: _fields(story, compared, is_wrong=is_wrong),
        title=f"Why {story.element} is {story.got}",
        heads=[_head(session)],
        because=session.launch.front.settings.reasons,
        ending=ending,
        exit_code=int(is_wrong),
    )


def _parts(story: Story, wrong: str) -> list[Part]:
    parts: list[Part] = [Line(wrong), Text()] if wrong else []
    chain = replace(story.chain, rows=story.chain.rows[:SHOWN])
    parts += [part for part in chain.renderables() if not isinstance(part, tuple)]
    if len(story.chain.rows) > SHOWN:
        parts.append(Text(f"and {len(story.chain.rows) - SHOWN} more; JSON has all"))
    compared = [s for s in story.steps if s.exact is not None]
    return [*parts, Text(), _in_f64(compared, story.cause)] if compared else parts


def _in_f64(steps: Sequence[Step], cause: Cause | None) -> Part:
    """The last steps of the run, and the one that is the cause; of equal ones in a row the last."""
    line = cause.line if cause is not None else None
    kept = {*range(len(steps))[-SHOWN // 2 :], *[i for i, s in enumerate(steps) if s.line == line]}
    steps = [s for i, s in enumerate(steps) if i in kept]
    from ptosim.debug.sheet import short_number
    from ptosim.views.table import table

    columns = (">line", "operation", "value", ">got", ">f64 of its operands", ">f64 throughout")
    rows = [
        (s.line, s.operation, s.name, short_number(s.got), *map(_number, (s.local, s.exact)))
        for s in steps
    ]
    title = "the same operations in f64, in the order of the run"
    marked = [at for at, step in enumerate(steps) if step.line == line]
    return table(
        title, columns, rows, essential=["line", "got"], drop=["f64 of its operands"], marked=marked
    )


def _number(value: float | None) -> str:
    from ptosim.debug.sheet import short_number

    return "" if value is None else short_number(value)


def _fields(story: Story, compared: Sequence[Comparison], *, is_wrong: bool) -> dict[str, object]:
    cause = story.cause
    return {
        "element": story.element,
        "got": str(story.got),
        "expected_value": None if story.expected is None else str(story.expected),
        "differs": is_wrong,
        "cause": None if cause is None else {**cause._asdict(), "sentence": cause.sentence},
        "chain": story.chain.to_dict()["rows"],
        "steps": [
            {"value": s.name, "line": s.line, "operation": s.operation, "got": str(s.got),
             "local": s.local, "exact": s.exact}
            for s in story.steps
        ],
        "expected": [c.to_dict() for c in compared],
    }  # fmt: skip
