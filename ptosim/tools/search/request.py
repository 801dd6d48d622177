"""What is asked of a program, and why it is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, ProgramError
from ptosim.ground.errors import LimitError, PtosimError, UsageError
from ptosim.ground.limits import Limits
from ptosim.ground.records import dataclass, field, replace
from ptosim.launch.description import (
    LEVEL,
    SYNC,
    TABLE,
    TARGETS,
    TEXT,
    VALUE,
    Check,
    TableReader,
    Tolerance,
    read_description,
)
from ptosim.tools.search.space import SPACE_KEYS, Params, Space, evaluate, space_in

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


# How every point of a space is launched: arguments and counts written with the parameters.
#
# In a SPEC `{M}x{K}` is replaced by the point's values; `block_num = "cdiv(M, TM)"` is computed.

_HOLE = re.compile(r"\{([^{}]+)\}")
_BLOCKS: Check = ("a whole number, or an expression of the parameters", VALUE[1])
_KEYS: dict[str, Check] = {
    **SPACE_KEYS,
    "targets": TARGETS, "entry": TEXT, "level": LEVEL, "sync": SYNC, "compat": TEXT,
    "profile": TEXT, "block_num": _BLOCKS, "args": TABLE, "expect": TABLE, "tolerance": TABLE,
}  # fmt: skip
_PLAIN = ("entry", "level", "sync", "compat", "profile")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is asked of every point. `request` has texts as they are written; `args` of a Python
    caller may be a function of the parameters."""

    request: Request = field(default_factory=Request)
    block_num: int | str | None = None
    make_args: Callable[[Params], Mapping[str, Any]] | None = None
    targets: tuple[str, ...] = ()

    def at(self, params: Params) -> Request:
        """Return what is asked of one point. Raises UsageError (PTO7601) for an expression that
        cannot be computed there."""
        asked = self.request
        args = self.make_args(params) if self.make_args is not None else asked.args
        return replace(
            asked,
            args={n: filled(v, params) for n, v in args.items()},
            expect={n: filled(v, params) for n, v in asked.expect.items()},
            block_num=self._blocks(params),
        )

    def _blocks(self, params: Params) -> int:
        if self.block_num is None:
            return self.request.block_num
        number = self.block_num
        if isinstance(number, str):
            number = evaluate(number, params)
        if type(number) is not int or number < 1:
            raise UsageError(f"PTO7601: block_num is {number!r}; at least one block runs")
        return number


def filled(value: Any, params: Mapping[str, Any]) -> Any:
    """Return a SPEC with `{expression}` computed from parameters; anything else as it is."""
    if not isinstance(value, str):
        return value
    return _HOLE.sub(lambda hole: str(evaluate(hole[1], params)), value)


def read_recipe(path: Path) -> tuple[Space, Recipe]:
    """Return the space of a TOML file and how its points are launched. Raises UsageError for what
    cannot be read or is no space, DescriptionError with every key that means nothing."""
    source, content = read_description(path)
    reader = TableReader(source)
    table = reader.table((), content, _KEYS, "a space", ("parameters",))
    args = {
        n: v if isinstance(v, str) else str(v).lower()
        for n, v in table.get("args", {}).items()
        if reader.fits(("args", n), v, VALUE)
    }
    expect = reader.texts(("expect",), table.get("expect", {}))
    tolerance: dict[str, Tolerance] = {
        name: reader.tolerance(("tolerance", name), each)
        for name, each in table.get("tolerance", {}).items()
        if reader.fits(("tolerance", name), each, TABLE)
    }
    reader.refuse_faults()
    plain = {name: table[name] for name in _PLAIN if name in table}
    request = Request(
        args=args, folder=str(path.parent), expect=expect, tolerance=tolerance, **plain
    )
    recipe = Recipe(request, table.get("block_num"), None, tuple(table.get("targets", ())))
    return space_in(table), recipe
