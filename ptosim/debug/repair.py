"""Which operation of a program, were it another one, would give what is expected.

Where no operation computes something else than it says, the text is wrong. Each operation that a
wrong element came from is tried as the others of its form (a sum as a difference, the sum of a row
as its maximum); if all outputs are then as expected, it is the one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ptosim.ground.errors import PtosimError
from ptosim.ground.ir.core import Operation
from ptosim.ground.records import NamedTuple
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.launch.choices import Choices
from ptosim.launch.program import LoadedProgram

SECONDS = 5.0
"""What the search may take."""
_TWO = ("add", "sub", "mul", "div", "max", "min")
FORMS: Sequence[Sequence[str]] = (
    [f"pto.t{word}" for word in _TWO],
    [f"pto.t{word}s" for word in _TWO],
    [f"pto.trowexpand{word}" for word in (*_TWO, "expdif")],
    [f"pto.tcolexpand{word}" for word in (*_TWO, "expdif")],
    [f"pto.trow{word}" for word in ("sum", "max", "min", "prod")],
    [f"pto.tcol{word}" for word in ("sum", "max", "min", "prod")],
    [f"pto.t{word}" for word in ("exp", "log", "sqrt", "rsqrt", "recip", "abs", "neg", "relu")],
)
"""Operations with the same operands."""


class Repair(NamedTuple):
    """An operation, and what would give the expected values in its place."""

    op: Operation
    instead: str


def repaired(
    choices: Choices,
    source: Source,
    ops: Sequence[Operation],
    is_right: Callable[[Mapping[str, Any]], bool],
    args: Mapping[str, Any] | None = None,
) -> Repair | None:
    """Return the first repair with which the outputs are right, on the arguments of the choices or
    on `args`; None if none is found in time."""
    given = choices.arguments() if args is None else args
    begin = time.monotonic()
    for op, instead in _candidates(ops):
        if time.monotonic() - begin > SECONDS:
            return None
        text = source.text
        at = text.find(op.name, op.start, op.end)
        if at < 0:
            continue
        changed = text[:at] + instead + text[at + len(op.name) :]
        if _is_right(choices, Source(source.name, changed, source.part), is_right, given):
            return Repair(op, instead)
    return None


def _candidates(ops: Sequence[Operation]) -> Iterator[tuple[Operation, str]]:
    for op in dict.fromkeys(ops):
        for form in FORMS:
            if op.name in form:
                yield from ((op, other) for other in form if other != op.name)


def _is_right(
    choices: Choices,
    source: Source,
    is_right: Callable[[Mapping[str, Any]], bool],
    args: Mapping[str, Any],
) -> bool:
    asked = FrontOptions(
        choices.target, choices.level, choices.sync, choices.compat, choices.entry,
        legacy=choices.legacy, planner=choices.planner,
    )  # fmt: skip
    options = choices.run_options("block_num", "ranks", "uninit", "seed", "max_instructions")
    try:
        front = run_frontend(source, asked)
        program = LoadedProgram.of(
            front, choices.profile or "hw", choices.switches, choices.sidecar
        )
        result = program.run(
            args, entry=program.entry(choices.entry), sanitize="none",
            timing=False, **options,
        )  # fmt: skip
        return is_right(result.outputs)
    except PtosimError:
        return False
