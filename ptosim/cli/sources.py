"""FILE arguments: a path, `-` for standard input, `@name` for a shipped program."""

from __future__ import annotations

import difflib
import sys
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from ptosim.api import read_source
from ptosim.errors import UsageError
from ptosim.isa.paths import programs_directory
from ptosim.source import Source


def open_source(name: str) -> Source:
    """Return the source that a FILE argument names; raises UsageError if it cannot be read."""
    return _text_of(sys.stdin.buffer) if name == "-" else read_source(source_path(name))


@lru_cache(maxsize=1)
def _text_of(stream: BinaryIO) -> Source:
    """Standard input can be read once, and each of several targets asks for it."""
    try:
        return Source("<stdin>", stream.read().decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        raise UsageError(f"standard input is not UTF-8 text (byte {problem.start})") from problem


def source_path(name: str) -> Path:
    """Return the path of a FILE argument other than `-`."""
    return shipped(name[1:]) if name.startswith("@") else Path(name)


def shipped(name: str) -> Path:
    """Return the path of a shipped program."""
    path = programs_directory() / f"{name.removesuffix('.pto')}.pto"
    if path.is_file():
        return path
    names = shipped_names()
    close = difflib.get_close_matches(name, names, n=1)
    raise UsageError(
        f"there is no shipped program `@{name}`",
        help=f"did you mean `@{close[0]}`?" if close else f"shipped: {', '.join(names)}",
    )


def shipped_names() -> list[str]:
    """Return the names of all shipped programs."""
    root = programs_directory()
    return sorted(p.relative_to(root).as_posix().removesuffix(".pto") for p in root.rglob("*.pto"))
