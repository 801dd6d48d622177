"""What is done with a case, and what counts as a finding: an exception that is not the input's
fault, an exit code that is not documented, a form that is not read back, a case without an end."""

from __future__ import annotations

import contextlib
import io
import os
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

import ptosim
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.ir.core import Module
from ptosim.ground.source import Source
from ptosim.language import frontend
from ptosim.language.syntax.parser import parse
from ptosim.language.syntax.printer import print_module
from ptosim.shell.main import main
from tests.fuzz import differential, editor
from tests.fuzz.case import DOCUMENTED, Case, Different, Endless, Finding
from tests.fuzz.files import RUNNERS
from tests.fuzz.limits import time_limit

_WITH_ARGUMENTS = ("run", "cost", "map", "stats", "diff", "port", "debug", "report", "quant audit")
_WITH_ENTRY = ("run", "cost", "map", "stats", "diff", "port", "debug")
_LIMIT = ("--max-instructions", "2000", "--max-memory", "500M")
ROOT = str(Path(ptosim.__file__).parent)
Runner = Callable[[Case, Path], int]


def check(case: Case, folder: Path) -> int:
    """Check a text; returns the exit code that the command would have."""
    found = ptosim.check(f"{case.text}\n", target=case.target, compat=case.compat)
    return 3 if any(d.is_rejection for d in found) else int(any(d.is_error for d in found))


def operations(case: Case, folder: Path) -> tuple[int | Finding, set[str] | None]:
    """Check a text; returns its exit code, or what is wrong, and the names of its operations, None
    if it cannot be read. What the check reads is what is looked at: to read a text a second time
    would take a third of the time of an input."""
    read: list[tuple[Module, bool]] = []

    def noted(source: Source, sink: Sink) -> Module:
        module = parse(source, sink)
        read.append((module, sink.has_errors))
        return module

    given = frontend.run_frontend.__defaults__
    frontend.run_frontend.__defaults__ = (noted,)
    try:
        code = outcome("check", case, folder)
    finally:
        frontend.run_frontend.__defaults__ = given
    if not read or read[0][1]:
        return code, None
    return code, {op.name for op in read[0][0].walk()}


def fmt(case: Case, folder: Path) -> int:
    """Print what can be parsed, and read it back."""
    module = parsed(case.text)
    if module is None:
        return 3
    text = print_module(module)
    sink = Sink()
    again = parse(Source("printed.pto", text), sink)
    if sink.has_errors:
        raise Different(f"{next(d for d in sink if d.is_error).message}\n{text}")
    if print_module(again) != text:
        raise Different(f"another text after the second time\n{text}")
    return 0


def parsed(text: str) -> Module | None:
    """Return the module of a text, None if it has errors."""
    sink = Sink()
    module = parse(Source("fuzz.pto", text), sink)
    return None if sink.has_errors else module


def entries(text: str) -> list[str]:
    """Return the names of the functions of a text, found without reading it."""
    return re.findall(r"func\.func @(\w+)", text)


def documented(words: list[str]) -> int:
    """Return the exit code of a command line. Raises Different for one without a page, and where a
    character is shown that a terminal obeys."""
    streams = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        code = main(words)
    if code not in DOCUMENTED:
        raise Different(f"exit code {code}: {streams[1].getvalue()}")
    shown = "".join(stream.getvalue() for stream in streams)
    if (found := OBEYED.search(shown)) and not any("always" in word for word in words):
        raise Different(f"shows {found[0]!r}\n{shown[max(found.start() - 200, 0) : found.end()]!r}")
    return code


OBEYED = re.compile(
    "\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Controls but tab and ends of lines (LF, and CR LF as a text that is kept has them), and marks of
bidirectional text (ECMA-48, Unicode Annex 9)."""


def _command(*words: str, twice: bool = False) -> Runner:
    def run(case: Case, folder: Path) -> int:
        path = folder / "current.pto"
        path.write_bytes(case.content)
        entry = ("--entry", case.entry) if case.entry and words[0] in _WITH_ENTRY else ()
        given = _arguments(case) if words[0] in _WITH_ARGUMENTS else []
        files = [str(path)] * (1 + twice)
        how = case.words if "--from" not in words else []  # which names the targets itself
        return documented([*words[0].split(), *files, *how, *entry, *given, *words[1:]])

    return run


def _arguments(case: Case) -> list[str]:
    """Arrays for the pointers of the function that is run, most of which no view gives a size; for
    every other text numbers for its scalars, small ones and those that end a type."""
    name = case.entry or "[A-Za-z_]"
    head = re.search(rf"func\.func @{name}[^{{]*", case.text)
    if head is None:
        return []
    given = [f"{name}=randn:{type_}:4096" for name, type_ in _POINTER.findall(head.group())]
    rng = Random(case.content)
    if rng.random() < 0.5:
        given += [f"{name}={rng.choice(_NUMBERS)}" for name in _SCALAR.findall(head.group())]
    return [word for each in given for word in ("--arg", each)]


_NUMBERS = (
    0,
    0,
    1,
    2,
    3,
    7,
    16,
    64,
    128,
    1000,
    -1,
    65536,
    (1 << 31) - 1,
    -(1 << 31),
    (1 << 63) - 1,
)
_SCALAR = re.compile(r"%(\w+)\s*:\s*(?:index|i(?:8|16|32|64))\b")
_POINTER = re.compile(r"%(\w+)\s*:\s*(?:!pto\.ptr)?<(f32|f16|bf16|u?i(?:8|16|32|64))\b")


def _to(form: str) -> Runner:
    return _command("fmt", "--to", form)


EXECUTING: dict[str, Runner] = {
    "run": _command("run", *_LIMIT),
    "run --no-timing": _command("run", "--no-timing", *_LIMIT),
    "run --commit retire": _command(
        "run", "--commit", "retire", "--uninit", "random", "--no-timing", *_LIMIT
    ),
    "run --format json": _command("run", "--format", "json", "--sync", "manual", *_LIMIT),
    "run --block-num": _command(
        "run", "--block-num", "3", "--sanitize", "none", "--no-timing", *_LIMIT
    ),
}
"""One of these is tried with programs that can be read."""
OTHER: dict[str, Runner] = {
    "cost": _command("cost", *_LIMIT),
    "cost --format json": _command("cost", "--format", "json", *_LIMIT),
    "expand": _command("expand"),
    "editor": editor.edited,
    "editor of Python": editor.embedded,
    "editor at rest": editor.measured,
    "fmt --plan": _command("fmt", "--plan", "--insert-sync"),
    "fmt --insert-sync": _command("fmt", "--insert-sync"),
    "fmt --to": _to("ssa"),
    "fmt --to dps": _to("dps"),
    "fmt --lower-quant": _command("fmt", "--lower-quant"),
    "fmt --strip-quant": _command("fmt", "--strip-quant", "--normalize-quant"),
    "fmt --compat-to": _command("fmt", "--compat-to", "2026-08"),
    "report": _command("report", "-o", "/dev/null", *_LIMIT),
    "cost --block-num": _command("cost", "--block-num", "50", *_LIMIT),
    "map": _command("map"),
    "map --format html": _command("map", "--format", "html"),
    "check --format sarif": _command("check", "--format", "sarif"),
    "check --diff": _command("check", "--diff"),
    "check --fix": _command("check", "--fix"),
    "check --redundant": _command("check", "--redundant", "--format", "json"),
    "check text": _command("check", "-v"),
    "diff": _command("diff", *_LIMIT, twice=True),
    "port": _command("port", "--from", "a2a3", "--to", "a5", *_LIMIT),
    "quant audit": _command("quant audit", *_LIMIT),
    "tune": _command("tune", "--trials", "2", "--seconds", "2", "--seeds", "1", *_LIMIT),
    "stats": _command("stats", "--no-timing", *_LIMIT),
    "why": _command("why", *_LIMIT),
    "debug": _command(
        "debug", "-nx", "--batch", "-ex", "next 3", "-ex", "info tiles", "-ex", "continue",
        "-ex", "reverse-continue", "-ex", "info program", *_LIMIT,
    ),
}  # fmt: skip
READING = (
    "check text",
    "check --format sarif",
    "check --diff",
    "editor",
    "fmt --insert-sync",
    "expand",
)
"""What is tried with texts that are refused too."""
COMMANDS: dict[str, Runner] = {"check": check, "fmt": fmt, **EXECUTING, **OTHER}
"""What is done with programs; `files.RUNNERS` has what is done with other files."""


PROGRAMS = {**COMMANDS, **differential.RUNNERS}


def outcome(command: str, case: Case, folder: Path) -> int | Finding:
    """Return the exit code of a command, or what is wrong with it."""
    run = (PROGRAMS if case.kind == "program" else RUNNERS[case.kind])[command]
    try:
        with time_limit():
            return run(case, folder)
    except KeyboardInterrupt:
        raise
    except (Exception, Endless) as problem:
        return _finding(command, problem)


def _finding(command: str, problem: BaseException) -> Finding:
    frames = traceback.extract_tb(problem.__traceback__)
    own = [f for f in frames if f.filename.startswith(ROOT)]
    kind = type(problem).__name__
    told = "".join(traceback.format_exception(problem))
    told = told if len(told) < 8000 else f"{told[:3000]}\n…\n{told[-5000:]}"
    if not own or isinstance(problem, Different):
        return Finding(command, kind, str(problem).partition("\n")[0][:80], told)
    # Where a case without an end is interrupted is by chance; what was called first is not.
    frame = own[min(5, len(own) - 1)] if isinstance(problem, (Endless, RecursionError)) else own[-1]
    place = os.path.relpath(frame.filename, ROOT).removesuffix(".py").replace(os.sep, ".")
    return Finding(command, kind, f"{place}.{frame.name}:{frame.lineno}", told)
