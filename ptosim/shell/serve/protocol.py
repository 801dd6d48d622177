"""What a caller and the server say to each other: one JSON object a line.

A request has `argv` (the words after `ptosim`) and, as wanted, `id`, `cwd` (relative paths start
there), `env` (the whole environment of the command), `stdin` (text). The answer has the same `id`,
`exit` (the exit code) and either `result` (what `--format json` prints, which is asked for where
the command can do it) or `stdout`, and `stderr` where something was written there. A line with
`cancel` and an `id` stops a request as Ctrl-C would. The command line itself sends `streams` beside
its three open files: the command then writes there, and the answer has only `exit`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

VARIABLE = "PTOSIM_SERVER"
"""The environment variable that names the socket."""
LOCAL = frozenset(("serve", "debug", "dap", "lsp"))
"""Commands that talk to somebody, or go on for ever: they run where they were called."""
ENDLESS = ("--debug-on-error", "--watch")
"""Options that make a command such a one."""
MAX_LINE = 64 * 1024 * 1024
"""Bytes of a request."""


def default_socket() -> Path:
    """Return where a server listens if nobody says: the user's folder for sockets or for caches."""
    folder = os.environ.get("XDG_RUNTIME_DIR")
    return Path(folder) / "ptosim.sock" if folder else Path.home() / ".cache/ptosim/server.sock"


def line_of(message: dict[str, Any]) -> bytes:
    """Return a message as it is sent: always UTF-8. Half a character, which also stands for a byte
    of a name that is no UTF-8, is sent as JSON's `\\udcff`, and so comes back as what it was."""
    try:
        return json.dumps(message, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(message).encode() + b"\n"


def request_of(line: bytes) -> dict[str, Any]:
    """Return a request. Raises ValueError with what is wrong with it."""
    try:
        text = line.decode("utf-8", "surrogateescape")
        message = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"not a JSON object: {problem}") from problem
    if not isinstance(message, dict):
        raise ValueError("a request is a JSON object")
    if "cancel" in message:
        return message
    wanted: dict[str, tuple[type, str]] = {
        "cwd": (str, "a folder"), "env": (dict, "an object of strings"), "stdin": (str, "a text"),
        "streams": (dict, "an object"),
    }  # fmt: skip
    argv = message.get("argv")
    if not isinstance(argv, list) or not all(isinstance(a, str) and "\0" not in a for a in argv):
        raise ValueError("`argv` is the list of the words after `ptosim`")
    for key, (kind, what) in wanted.items():
        if key in message and not isinstance(message[key], kind):
            raise ValueError(f"`{key}` is {what}")
    _check_env(message.get("env", {}))
    if not _is_encodable(message.get("stdin", "")):
        raise ValueError("`stdin` is a text, and this one has half a character")
    return message


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if abs(number) == float("inf"):
        raise ValueError(f"{digits:.40} is beyond the numbers that can be sent back")
    return number


def talks(argv: Sequence[str]) -> bool:
    """True of a command that talks to somebody, or goes on for ever."""
    word = next((a for a in argv if not a.startswith("-")), "")
    return word in LOCAL or any(_means(a, name) for a in argv for name in ENDLESS)


def _means(word: str, option: str) -> bool:
    """Can a word be short for an option?"""
    return len(word) > 3 and option.startswith(word)


def _check_env(env: dict[str, Any]) -> None:
    """Raise ValueError for what can be no environment."""
    if not all(isinstance(v, str) for v in env.values()):
        raise ValueError("`env` is an object of strings")
    for name, value in env.items():
        if not name or "=" in name or not _is_for_the_system(name + value):
            raise ValueError(f"`env`: no environment has a variable {name!a:.60} = {value!a:.60}")


def _is_for_the_system(text: str) -> bool:
    """True if the system can be told a text."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
