"""One request in a process of its own, forked from the server: what it does to the folder, the
environment, streams and memory ends with it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import IO, Any, NoReturn

from ptosim.ground.records import NamedTuple
from ptosim.shell.serve.protocol import line_of

_FAILED = 70


class Commands(NamedTuple):
    """The command line, which is above this room: what runs a line, and what says if one is well
    formed."""

    run: Callable[[Sequence[str]], int]
    understands: Callable[[Sequence[str]], bool]


def child(
    commands: Commands, request: dict[str, Any], files: Sequence[int], answer: IO[bytes]
) -> NoReturn:
    """Run the command of a request and end the process. `files` are the caller's three streams, or
    empty: then what is written goes into the answer. The answer is written to a file, whole."""
    code: int = _FAILED
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        answer.write(line_of(_answer(commands, request, files)))
        answer.flush()
        code = 0
    finally:
        os._exit(code)  # nothing of the server's is unwound or flushed here


def _answer(commands: Commands, request: dict[str, Any], files: Sequence[int]) -> dict[str, Any]:
    found: dict[str, Any] = {"id": request.get("id")}
    problem = _surroundings(request)
    if problem:
        return found | {"exit": 2, "stderr": f"ptosim: error: {problem}\n"}
    if files:
        _take(files, request["streams"])
        return found | {"exit": _run(commands, request["argv"])}
    return found | _captured(commands, request)


def _surroundings(request: dict[str, Any]) -> str:
    """Take the caller's folder and environment; say what is wrong with them."""
    if "env" in request:
        os.environ.clear()
        os.environ.update(request["env"])
    if "cwd" not in request:
        return ""
    try:
        os.chdir(request["cwd"])
    except (OSError, ValueError) as problem:
        return f"no folder {request['cwd']}: {getattr(problem, 'strerror', problem)}"
    return ""


def _take(files: Sequence[int], streams: dict[str, Any]) -> None:
    """Make the caller's three files this process's streams, with the caller's encodings."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    sys.stdin = _stream(0, "r", streams.get("stdin"))
    sys.stdout = _stream(1, "w", streams.get("stdout"))
    sys.stderr = _stream(2, "w", streams.get("stderr"))


def _stream(number: int, mode: str, encoding: object) -> Any:
    known = encoding if isinstance(encoding, str) else "utf-8"
    with contextlib.suppress(LookupError):
        return open(number, mode, encoding=known, closefd=False)
    return open(number, mode, encoding="utf-8", closefd=False)


def _captured(commands: Commands, request: dict[str, Any]) -> dict[str, Any]:
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(request.get("stdin", "").encode("utf-8", "surrogateescape"))
        given.seek(0)
        _take([given.fileno(), out.fileno(), err.fileno()], {})
        found: dict[str, Any] = {"exit": _run(commands, _as_data(commands, request["argv"]))}
        for name, file in (("stdout", out), ("stderr", err)):
            file.seek(0)
            text = file.read().decode("utf-8", "replace")
            if text:
                found[name] = text
    with contextlib.suppress(ValueError, KeyError):
        found["result"] = json.loads(found["stdout"])
        del found["stdout"]
    return found


def _as_data(commands: Commands, argv: list[str]) -> list[str]:
    """Ask for JSON where the command can print it and the caller asks for no format."""
    asked = [*argv, "--format", "json"]
    said = any(a == "--format" or a.startswith("--format=") for a in argv)
    return asked if not said and commands.understands(asked) else argv


def _run(commands: Commands, argv: Sequence[str]) -> int:
    code = commands.run(argv)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return code
