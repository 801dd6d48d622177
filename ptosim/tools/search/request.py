"""What is asked of a program, and why it is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.errors import LimitError, ProgramError, PtosimError
from ptosim.ground.limits import Limits
from ptosim.ground.records import dataclass, field
from ptosim.launch.tolerance import Tolerance

FOLLOWED = 20_000
"""Instructions that a point is followed for without values, as `check` does."""


@dataclass(frozen=True, slots=True)
class Request:
    """How a program is read and launched, and what is asked of it. `args` and `expect` are SPECs
    as on the command line (files relative to `folder`), numbers or arrays; an expectation may also
    be `file.py:function` or a function, which gets the arguments by name and gives the output, or
    outputs by name."""

    entry: str | None = None
    level: int | None = None
    sync: str | None = None
    compat: str | None = None
    profile: str = "hw"
    block_num: int = 1
    args: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    expect: Mapping[str, Any] = field(default_factory=dict)
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    seed: int = 0
    limits: Limits = field(default_factory=Limits)
    followed: int = FOLLOWED

    @property
    def base(self) -> Path | None:
        """The folder of the files that it names."""
        return Path(self.folder) if self.folder else None


class Refused(Exception):
    """A program was refused at a stage, for a reason of one line."""

    def __init__(self, stage: str, reason: str, findings: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage = stage
        self.reason = " ".join(reason.split())
        self.findings = findings


def refused_by(stage: str, problem: Exception) -> Refused:
    """Return what an exception says as a refusal at a stage."""
    if isinstance(problem, Refused):
        return problem
    if isinstance(problem, ProgramError):
        error = next((d for d in problem.diagnostics if d.is_error), None)
        reason = line_of(error) if error is not None else str(problem)
        return Refused(stage, reason, problem.diagnostics)
    if isinstance(problem, RecursionError):
        return Refused(stage, "the program is nested too deeply")
    if isinstance(problem, MemoryError):
        return Refused(stage, f"out of memory: {problem}")
    if isinstance(problem, LimitError):
        return Refused(stage, _of_limit(str(problem)))
    if isinstance(problem, PtosimError):
        return Refused(stage, str(problem))
    return Refused(stage, f"PTO9001: internal error: {type(problem).__name__}: {problem}")


_GROWN = re.compile(r"PTO0016: the process has grown by .*? of (?P<most>[^;]+).*", re.DOTALL)


def _of_limit(text: str) -> str:
    """What is said of a limit, without what differs from run to run: where a clock found it."""
    text = _GROWN.sub(r"PTO0016: it needs more than \g<most> of memory", text)
    return text.partition("; it stopped at")[0]


def line_of(error: Diagnostic) -> str:
    """Return a finding as one line: code, line of the program, message."""
    place = f" line {error.span.line}" if error.span is not None else ""
    return f"{error.code}{place}: {error.message}"
