"""Jobs of a judge: one JSON object a line, and what is wrong with a line that is none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.ground.errors import PtosimError, UsageError
from ptosim.ground.files import is_file
from ptosim.ground.limits import Limits
from ptosim.ground.records import dataclass, field
from ptosim.ground.words import nearest
from ptosim.launch.description import Tolerance
from ptosim.launch.prepared import HARD, NORMAL
from ptosim.launch.sources import read_source, shipped
from ptosim.tools.search.request import Request

MOST_LINE = 32 << 20
"""Bytes of a job."""
KEYS = (
    "id", "program", "text", "entry", "target", "args", "seeds", "expect", "limits",
    "level", "sync", "compat", "profile", "block_num", "inputs",
)  # fmt: skip
_EXPECT = ("file", "python", "rtol", "atol", "ulp")
_LIMITS = ("instructions", "seconds", "memory")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program to judge, and by what. `request` has the arguments and the expectations as they
    are written; `seeds` are those of the inputs that the job asks for, `inputs` the kind of those
    of a round more (`normal`: none). `problem` says why a line is no job."""

    id: Any
    text: str = ""
    name: str = "<text>"
    targets: tuple[str | None, ...] = (None,)
    seeds: tuple[int, ...] = ()
    request: Request = field(default_factory=Request)
    problem: str = ""
    inputs: str = NORMAL


def read_jobs(lines: Iterable[str | Mapping[str, Any]], folder: Path | None) -> Iterator[Any]:
    """Yield the jobs of lines, or of mappings, that are not empty: a Candidate each, also of what
    is no job. Files are looked for in `folder` first, then where the process is."""
    for number, line in enumerate(lines, 1):
        if isinstance(line, str) and not line.strip():
            continue
        yield candidate(line, number, folder)


def candidate(line: str | Mapping[str, Any], number: int, folder: Path | None) -> Candidate:
    """Return the job of a line; its id is the number of the line if it has none."""
    given: Any = line
    try:
        if isinstance(line, str):
            given = _object(line)
        return _candidate(given, number, folder)
    except (PtosimError, TypeError, ValueError) as problem:
        reason = " ".join(str(problem).split())
        if not reason.startswith("PTO"):
            reason = f"PTO7609: {reason}"
        found = given.get("id", number) if isinstance(given, Mapping) else number
        return Candidate(found, problem=reason)


def _object(line: str) -> Any:
    if len(line) > MOST_LINE:
        raise UsageError(f"PTO7609: the line has more than {MOST_LINE:,} characters")
    try:
        return json.loads(line)
    except RecursionError:
        raise UsageError("PTO7609: the line is nested too deeply") from None
    except ValueError as problem:
        raise UsageError(f"PTO7609: the line is no JSON: {problem}") from problem


def _candidate(given: Any, number: int, folder: Path | None) -> Candidate:
    if not isinstance(given, Mapping):
        raise UsageError("PTO7609: the line is no JSON object")
    unknown = next((key for key in given if key not in KEYS), None)
    if unknown is not None:
        near = nearest(str(unknown), KEYS, "")
        raise UsageError(f"PTO7609: a job has no key `{unknown}`{f' ({near})' if near else ''}")
    if ("program" in given) == ("text" in given):
        raise UsageError("PTO7609: a job has either `program` or `text`")
    text, name = _program(given, folder)
    expect, tolerance = _expectations(_table(given, "expect"))
    options = {
        n: _of_kind(given, n, kind)
        for n, kind in (("entry", str), ("level", int), ("sync", str), ("compat", str))
        if given.get(n) is not None
    }
    request = Request(
        args={n: _argument(n, v) for n, v in _table(given, "args").items()},
        expect=expect,
        tolerance=tolerance,
        folder=str(folder) if folder is not None else "",
        profile=_of_kind(given, "profile", str) if "profile" in given else "hw",
        block_num=_of_kind(given, "block_num", int) if "block_num" in given else 1,
        limits=_limits(_table(given, "limits")),
        **options,
    )
    inputs = _of_kind(given, "inputs", str) if "inputs" in given else NORMAL
    if inputs not in (NORMAL, *HARD):
        raise UsageError(f"PTO7609: `inputs` is `{inputs:.60}`; it is one of {', '.join(HARD)}")
    seeds = _seeds(given.get("seeds", ()))
    found = given.get("id", number)
    return Candidate(found, text, name, _targets(given), seeds, request, inputs=inputs)


def _program(given: Mapping[str, Any], folder: Path | None) -> tuple[str, str]:
    if "text" in given:
        return _of_kind(given, "text", str), "<text>"
    name = str(given["program"]) if isinstance(given["program"], Path) else given["program"]
    if not isinstance(name, str) or not name or "\n" in name:
        raise UsageError("PTO7609: `program` is no path")
    if name.startswith("@"):
        return read_source(shipped(name[1:])).text, name
    path = Path(name)
    if folder is not None and is_file(folder / path):
        path = folder / path
    return read_source(path, name).text, name


def _of_kind(given: Mapping[str, Any], name: str, kind: type) -> Any:
    value = given[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        words = {str: "a text", int: "a whole number"}
        raise UsageError(f"PTO7609: `{name}` is {value!r:.60}; it should be {words[kind]}")
    return value


def _table(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = given.get(name) or {}
    if not isinstance(table, Mapping) or not all(isinstance(key, str) for key in table):
        raise UsageError(f"PTO7609: `{name}` is no object")
    return table


def _targets(given: Mapping[str, Any]) -> tuple[str | None, ...]:
    words = given.get("target")
    if isinstance(words, str):
        words = [word.strip() for word in words.split(",")]
    if words is None:
        return (None,)
    if not isinstance(words, (list, tuple)) or not words:
        raise UsageError(f"PTO7609: `target` is {words!r:.60}; it should be a2a3, a5 or both")
    if not all(isinstance(word, str) for word in words):
        raise UsageError("PTO7609: `target` is no list of texts")
    return tuple(dict.fromkeys(words))


def _seeds(given: Any) -> tuple[int, ...]:
    seeds = [given] if isinstance(given, int) else given
    if not isinstance(seeds, (list, tuple)) or not all(type(s) is int and s >= 0 for s in seeds):
        raise UsageError("PTO7609: `seeds` are whole numbers from 0 on")
    return tuple(seeds)


def _argument(name: str, value: Any) -> Any:
    if isinstance(value, (bool, int, float)):
        return str(value).lower()
    if isinstance(value, (str, np.ndarray, np.generic)):
        return value
    raise UsageError(f"PTO7609: the argument `{name}` is no SPEC and no number")


def _expectations(
    table: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Tolerance]]:
    expect: dict[str, Any] = {}
    tolerance: dict[str, Tolerance] = {}
    for name, given in table.items():
        if not isinstance(given, Mapping):  # a SPEC; from Python an array or a function
            expect[name] = given
            continue
        unknown = next((key for key in given if key not in _EXPECT), None)
        if unknown is not None or ("file" in given) == ("python" in given):
            raise UsageError(
                f"PTO7609: the expectation of `{name}` has either `file` or `python`, and may have "
                "rtol, atol, ulp"
            )
        expect[name] = given["file"] if "file" in given else given["python"]
        if isinstance(expect[name], str) and "python" in given:
            expect[name] = Expression(expect[name])
        near = {n: given[n] for n in ("rtol", "atol", "ulp") if given.get(n) is not None}
        if not all(type(v) in (int, float) and v >= 0 for v in near.values()):
            raise UsageError(f"PTO7609: the tolerance of `{name}` is no number from 0 on")
        tolerance[name] = Tolerance(**near)
    if not all(isinstance(v, (str, np.ndarray)) or callable(v) for v in expect.values()):
        raise UsageError("PTO7609: an expectation is a SPEC, an object, an array or a function")
    return expect, tolerance


class Expression(str):
    """A reference in Python: `file.py:function`, or an expression over the arguments and `np`."""

    __slots__ = ()


def _limits(table: Mapping[str, Any]) -> Limits:
    unknown = next((key for key in table if key not in _LIMITS), None)
    if unknown is not None:
        raise UsageError(f"PTO7609: `limits` has no key `{unknown}`: {', '.join(_LIMITS)}")
    instructions, seconds, memory = (table.get(name) for name in _LIMITS)
    return Limits(instructions, seconds, memory)
