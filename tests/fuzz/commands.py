"""What is done with a text, and what counts as a finding: an exception that is not the text's
fault, an exit code that is not documented, a form that is not read back, a case without an end."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import ptosim
from ptosim.cli.main import main
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.ir.core import Module
from ptosim.ground.source import Source
from ptosim.syntax.parser import parse
from ptosim.syntax.printer import print_module

DOCUMENTED = frozenset((0, 1, 2, 3, 4, 5, 6, 130))
_WITH_ENTRY = ("run", "cost", "map")
LIMIT = ("--max-instructions", "2000")
SECONDS = 20
"""Processor time after which a case counts as one without an end."""
ROOT = str(Path(ptosim.__file__).parent)


class Endless(BaseException):
    """A case took longer than `SECONDS`."""


class Different(Exception):
    """A printed program is another one than it was printed from."""


@dataclass(frozen=True)
class Case:
    """A text and how it is read."""

    text: str
    target: str | None = None
    compat: str | None = None
    entry: str | None = None

    @property
    def words(self) -> list[str]:
        """The options that say how."""
        given = (("--target", self.target), ("--compat", self.compat))
        return [word for name, value in given if value for word in (name, value)]


@dataclass(frozen=True)
class Finding:
    """What went wrong; two with one `key` are the same fault."""

    command: str
    kind: str  # of the exception, or the exit code
    place: str
    told: str

    @property
    def key(self) -> tuple[str, str]:
        """The exception and its place; which command came upon it doesn't matter."""
        return self.kind, self.place


def check(case: Case, folder: Path) -> int:
    """Check a text; returns the exit code that the command would have."""
    found = ptosim.check(f"{case.text}\n", target=case.target, compat=case.compat)
    return 3 if any(d.is_rejection for d in found) else int(any(d.is_error for d in found))


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


def _command(*words: str) -> Callable[[Case, Path], int]:
    def run(case: Case, folder: Path) -> int:
        path = folder / "current.pto"
        path.write_bytes(case.text.encode("utf-8", "replace"))
        streams = io.StringIO(), io.StringIO()
        entry = ("--entry", case.entry) if case.entry and words[0] in _WITH_ENTRY else ()
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            code = main([words[0], str(path), *case.words, *entry, *words[1:]])
        if code not in DOCUMENTED:
            raise Different(f"exit code {code}: {streams[1].getvalue()}")
        return code

    return run


COMMANDS: dict[str, Callable[[Case, Path], int]] = {
    "check": check,
    "fmt": fmt,
    "run": _command("run", *LIMIT),
    "run --no-timing": _command("run", "--no-timing", *LIMIT),
    "cost": _command("cost", *LIMIT),
    "expand": _command("expand"),
    "fmt --plan": _command("fmt", "--plan", "--insert-sync"),
    "fmt --to": _command("fmt", "--to", "ssa"),
    "map": _command("map"),
}


def outcome(command: str, case: Case, folder: Path) -> int | Finding:
    """Return the exit code of a command, or what is wrong with it."""
    try:
        with _time_limit():
            return COMMANDS[command](case, folder)
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


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise Endless

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
