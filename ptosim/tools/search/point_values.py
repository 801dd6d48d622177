"""The arguments of a point, its run, and what its outputs should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import Severity
from ptosim.ground.errors import Trap, UsageError
from ptosim.ground.user_code import of_the_caller
from ptosim.launch.compare import Comparison, Tolerance, compare
from ptosim.launch.program import LoadedProgram
from ptosim.launch.results import Result
from ptosim.launch.values import beside, parse_argument, parse_expectation
from ptosim.tools.search.request import Refused, Request, line_of, refused_by
from ptosim.tools.search.source import function_of

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
