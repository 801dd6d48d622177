"""One program on one target, judged as far as it is worth: parse, rules, placement, hazards, cost,
and, if they are asked for, values. The cheapest check comes first, and the first that refuses the
program ends it, with one line that says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ptosim.ground.diagnostics.model import Diagnostic, Severity, Trap
from ptosim.ground.errors import LimitError, UsageError
from ptosim.ground.isa.cache import of_the_caller
from ptosim.ground.isa.targets import machine
from ptosim.ground.limits import Limits, current, in_force
from ptosim.ground.records import dataclass, field
from ptosim.language.frontend import Front, FrontOptions, run_frontend
from ptosim.launch.array_files import beside, parse_argument, parse_expectation
from ptosim.launch.compare import Comparison, compare
from ptosim.launch.description import Tolerance
from ptosim.launch.dry_run import follow, races_of_blocks
from ptosim.launch.program import LoadedProgram
from ptosim.launch.results import Result
from ptosim.launch.sources import read_source
from ptosim.tools.search.request import Refused, Request, line_of, refused_by
from ptosim.tools.search.source import function_of

if TYPE_CHECKING:
    from ptosim.launch.results import Result
    from ptosim.time.report.totals import CostReport


# -- values of a point -----------------------------------------------------------------------------

Reference = Callable[..., Any]


def scalars(program: LoadedProgram, request: Request) -> dict[str, Any]:
    """Return the arguments that decide paths and trip counts: the numbers among them. Raises
    UsageError for a SPEC that means nothing."""
    kinds = {arg.name: arg.kind for arg in program.signature(request.entry)}
    wanted = {n: v for n, v in request.args.items() if kinds.get(n, "scalar") == "scalar"}
    return {name: argument(value, request.base) for name, value in wanted.items()}


def arguments(request: Request) -> dict[str, Any]:
    """Return every argument as a number or an array. Raises UsageError."""
    return {name: argument(value, request.base) for name, value in request.args.items()}


def argument(value: Any, base: Path | None) -> Any:
    """Return one argument: a SPEC read, anything else as it is."""
    return parse_argument(value, base) if isinstance(value, str) else value


def check_values(program: LoadedProgram, request: Request) -> Result:
    """Run a point on its arguments and compare its outputs. Raises Refused at `run`, at `hazards`
    for what the values brought out, at `values` for outputs that differ."""
    try:
        args = arguments(request)
    except Exception as problem:
        raise refused_by("run", problem) from problem
    result = executed(program, args, request)
    found = compared(result, expected(request, args), request.tolerance)
    wrong = next((c for c in found if not c.passed), None)
    if wrong is not None:
        raise Refused("values", difference(wrong))
    return result


def executed(
    program: LoadedProgram, args: Mapping[str, Any], request: Request, **options: Any
) -> Result:
    """Run a program on arrays. Raises Refused at `run` where it stops, at `hazards` where the run
    has found an error."""
    try:
        result = program.run(
            dict(args),
            entry=request.entry,
            block_num=request.block_num,
            seed=request.seed,
            timing=False,
            max_instructions=request.limits.instructions,
            **options,
        )
    except Trap as trap:
        codes = [d.code for d in trap.diagnostics if d.is_error]
        stage = "hazards" if codes and codes[-1].startswith("PTO5") else "run"
        raise refused_by(stage, trap) from trap
    except Exception as problem:
        raise refused_by("run", problem) from problem
    error = next((d for d in result.findings if d.severity >= Severity.ERROR), None)
    if error is not None:
        raise Refused("hazards", line_of(error), tuple(result.findings))
    return result


def expected(request: Request, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs that are expected, as arrays by name. Raises Refused at `values` for a
    reference that cannot be read or computed."""
    try:
        return {n: _expected(n, e, request.base, args) for n, e in request.expect.items()}
    except Exception as problem:
        raise refused_by("values", problem) from problem


def _expected(name: str, given: Any, base: Path | None, args: Mapping[str, Any]) -> Any:
    if isinstance(given, str) and (function := reference_named(given, base)) is not None:
        given = function
    if callable(given):
        given = _computed(name, given, args)
    if isinstance(given, str):
        return parse_expectation(given, base)
    try:
        return np.asarray(given)
    except ValueError as problem:  # lists of different lengths
        raise UsageError(f"PTO7613: expected values of `{name}`: {problem}") from problem


def reference_named(text: str, base: Path | None) -> Reference | None:
    """Return the function that `file.py:function` names; None for a text of another kind."""
    path, _, name = text.rpartition(":")
    if not path.endswith(".py"):
        return None
    return function_of(Path(path) if base is None else beside(base, path), name)


def _computed(name: str, function: Reference, args: Mapping[str, Any]) -> Any:
    given = {n: v.array() if hasattr(v, "array") else v for n, v in args.items()}
    copies = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in given.items()}
    try:
        with of_the_caller():
            found = function(**copies)
    except Exception as problem:  # a function of the caller
        text = f"the reference of `{name}` raises {type(problem).__name__}: {problem}"
        raise UsageError(f"PTO7613: {text}") from problem
    if isinstance(found, Mapping):
        if name not in found:
            raise UsageError(f"PTO7613: the reference gives no `{name}`")
        found = found[name]
    return found


def compared(
    result: Result, wanted: Mapping[str, Any], tolerance: Mapping[str, Tolerance]
) -> list[Comparison]:
    """Return how outputs differ from arrays. Raises Refused at `values` for an output that is not
    there and for a shape that does not fit."""
    found = []
    for name, array in wanted.items():
        if name not in result.outputs:
            listed = ", ".join(result.outputs) or "none"
            raise Refused("values", f"PTO7612: there is no output `{name}`; outputs: {listed}")
        got = result.outputs[name]
        try:
            near = tolerance.get(name, Tolerance())
            found.append(compare(name, got, _rounded(np.asarray(array), got), near))
        except UsageError as problem:
            raise Refused("values", f"PTO7613: {problem}") from problem
    return found


def _rounded(wanted: np.ndarray, got: np.ndarray) -> np.ndarray:
    """Expected values as the output's type has them, where they were computed in more digits."""
    is_float = got.dtype.kind in "fV" and got.dtype.names is None
    if not is_float or wanted.dtype.kind != "f" or wanted.dtype.itemsize <= got.dtype.itemsize:
        return wanted
    with np.errstate(all="ignore"):
        return wanted.astype(got.dtype)


def difference(found: Comparison) -> str:
    """Return in a line how an output differs."""
    place = ", ".join(map(str, found.first or ()))
    return (
        f"output `{found.name}`: {found.mismatches:,} of {found.count:,} elements differ "
        f"({found.tolerance}), the first at [{place}]: got {found.got}, expected {found.expected}"
    )


# --------------------------------------------------------------------------------------------------

Row = dict[str, Any]
"""What a table of points has of one point on one target."""
STAGES = ("space", "template", "parse", "rules", "placement", "hazards", "run", "values", "cost")
"""Where a point can be refused, in order; `done` is the stage of one that was not."""
DONE = "done"
ENDS = 4
"""Blocks of either end of a launch that are followed together: all of a launch of twice as many."""


@dataclass(slots=True)
class Examined:
    """What is known of a program on a target: up to where it came (`done`, or the stage that
    refused it, with the reason), and what there was by then."""

    target: str
    stage: str = DONE
    reason: str | None = None
    program: LoadedProgram | None = None
    findings: list[Diagnostic] = field(default_factory=list)
    report: CostReport | None = None
    result: Result | None = None

    @property
    def ok(self) -> bool:
        """True if nothing refused it."""
        return self.stage == DONE

    def row(self, params: Mapping[str, Any], values: bool | None = None) -> Row:
        """Return it as a row of a sweep. `values`: None where none were asked for."""
        report = self.report
        return {
            "params": dict(params),
            "target": self.target,
            "ok": self.ok,
            "stage": self.stage,
            "reason": self.reason,
            "cycles": report.cycles if report is not None else None,
            "us": round(report.least_microseconds, 3) if report is not None else None,
            "ub_bytes": used_bytes(self.program) if self.program is not None else None,
            "gm_bytes": sum(report.moved().values()) if report is not None else None,
            "memory": memory_of(self.program) if self.program is not None else None,
            "values": values,
        }


def refused_row(params: Mapping[str, Any], target: str, stage: str, reason: str) -> Row:
    """Return the row of a point that was refused before there was a program."""
    return Examined(target, stage, " ".join(reason.split())).row(params)


def evaluate(
    text: str, params: Mapping[str, Any], target: str, request: Request, name: str = "<text>"
) -> Row:
    """Return the row of one point on one target; never raises for what is wrong with it."""
    asked = bool(request.expect)
    found = examine(text, target, request, name=name, with_values=check_values if asked else None)
    differs = found.stage == "values"
    return found.row(params, (not differs) if asked and (differs or found.ok) else None)


def examine(
    text: str,
    target: str,
    request: Request,
    *,
    name: str = "<text>",
    with_values: Any = None,
) -> Examined:
    """Judge a program: parse, rules, placement, hazards, cost, then `with_values(program, request)`
    if that is given. Never raises for what is wrong with the program."""
    found = Examined(target)
    with judging(found, request.limits) as at:
        at("parse")
        found.program = load_text(text, target, request, name)
        at("hazards")
        found.findings = hazards(found.program, request)
        at("cost")
        found.report = cost(found.program, request)
        if with_values is not None:
            at("run")
            found.result = with_values(found.program, request)
    return found


class Judged(Protocol):
    """What `judging` enters a refusal in."""

    stage: str
    reason: str | None
    findings: list[Diagnostic]


@contextmanager
def judging(found: Judged, limits: Limits) -> Iterator[Callable[[str], None]]:
    """Enter a refusal of what happens inside, and a limit that is reached there: at the stage that
    was told last. Limits of whoever asked are theirs, and go on as LimitError: they are no verdict
    on anything."""
    stages: list[str] = []
    try:
        with in_force(limits):
            yield stages.append
    except (Refused, LimitError) as problem:
        refused = refused_by(stages[-1], problem)
        found.stage, found.reason = refused.stage, refused.reason
        found.findings = list(refused.findings) or found.findings
    current().look()


def load_text(
    text: str, target: str | None, request: Request, name: str = "<text>"
) -> LoadedProgram:
    """Return a checked program. Raises Refused at `parse`, `rules` or `placement`."""
    try:
        source = read_source(text + "\n", name)
        entry = request.entry if source.is_cpp else None  # of C++ only this one is read
        options = FrontOptions(target, request.level, request.sync, request.compat, entry)
        front = run_frontend(source, options)
    except Exception as problem:  # a text may be anything
        raise refused_by("parse", problem) from problem
    error = next((d for d in front.sink if d.is_rejection), None)
    if error is not None:
        raise Refused(_stage_of(error), line_of(error), tuple(front.sink))
    try:
        program = LoadedProgram.of(front, request.profile)
        program.entry(request.entry)
    except Exception as problem:
        raise refused_by("rules", problem) from problem
    return program


def hazards(program: LoadedProgram, request: Request) -> list[Diagnostic]:
    """Return what the text says and following one block without values brings out, and which bytes
    of global memory blocks share. Raises Refused at `hazards` for races, deadlocks, flags, bounds:
    every error among it."""
    front: Front = program.front
    try:
        entry = program.entry(request.entry)
        known = scalars(program, request)
        budget = request.followed
        followed = follow(front, program.profile, entry, known, budget=budget)
        if request.block_num > 1 and any(d.is_error for d in followed.findings):
            blocks = request.block_num  # a block alone may do what it does not do among others
            followed = follow(front, program.profile, entry, known, (), budget, blocks)
        is_wrong = any(d.is_error for d in followed.findings)
        shared = [] if is_wrong else _races_of_blocks(program, entry, known, request)
    except Exception as problem:
        raise refused_by("hazards", problem) from problem
    found = [*front.sink, *followed.findings, *shared]
    error = next((d for d in found if d.is_error), None)
    if error is not None:
        stage = _stage_of(error) if error.code.startswith("PTO4") else "hazards"
        raise Refused(stage, line_of(error), tuple(found))
    return found


def _races_of_blocks(
    program: LoadedProgram, entry: str, known: Mapping[str, Any], request: Request
) -> list[Diagnostic]:
    """The races between the first and the last blocks of a launch, as far as no values decide."""
    count = request.block_num
    chosen = None if count <= 2 * ENDS else (*range(ENDS), *range(count - ENDS, count))
    return races_of_blocks(
        program.front, program.profile, entry, known, request.followed, count, chosen
    )


def cost(program: LoadedProgram, request: Request) -> CostReport:
    """Return what the entry costs, without values. Raises Refused at `cost`."""
    try:
        try:
            return _cost(program, request, scalars(program, request))
        except UsageError:
            if not request.args:
                raise
            return _cost(program, request, arguments(request))  # data may decide its path
    except Exception as problem:
        raise refused_by("cost", problem) from problem


def _cost(program: LoadedProgram, request: Request, args: Mapping[str, Any]) -> CostReport:
    return program.cost(
        entry=request.entry,
        args=args,
        block_num=request.block_num,
        max_instructions=request.limits.instructions,
    )


def used_bytes(program: LoadedProgram, space: str = "vec") -> int:
    """Return the bytes of a memory on chip (UB) in use: the most of any entry."""
    plans = program.front.plans.values()
    return max((plan.placement.used(space) for plan in plans), default=0)


def memory_of(program: LoadedProgram) -> dict[str, int]:
    """Return the bytes of each memory on chip in use, by its name; those without use are left
    out."""
    spaces = machine(program.front.chip).spaces.values()
    used = {space.alias: used_bytes(program, space.name) for space in spaces}
    return {name: size for name, size in used.items() if size}


def _stage_of(error: Diagnostic) -> str:
    if error.is_syntax_error:
        return "parse"
    return "placement" if error.code.startswith("PTO4") else "rules"
