"""The files of this installation, as a key of what is derived from them and kept."""

from __future__ import annotations

import builtins
import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.cache import isa_directory
from ptosim.ground.limits import current

Files = tuple[tuple[str, int, int], ...]
"""Name, time of the last change and size of each."""


@lru_cache(maxsize=4)
def installed(*rooms: str) -> Files | None:
    """Return the files of some rooms of the package, without a name all of them and the data:
    whoever changes a line, or installs another version, gets others. None where they cannot be
    listed: in an archive, or without the data."""
    package = Path(__file__).parents[1]
    with contextlib.suppress(OSError):
        if rooms:
            return _files([str(package / room) for room in rooms])
        return _files([str(package), str(isa_directory())])
    return None


def _files(folders: list[str]) -> Files:
    found: list[tuple[str, int, int]] = []
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith((".py", ".toml", ".lark")):
                    status = entry.stat()
                    found.append((entry.path, status.st_mtime_ns, status.st_size))
                elif entry.name != "__pycache__" and entry.is_dir():
                    folders.append(entry.path)
    return tuple(sorted(found))


# Python of the caller: functions, files and lines that ptosim executes and did not write.


class Left(Exception):
    """Python of the caller wanted to end the process."""


@contextmanager
def of_the_caller() -> Iterator[None]:
    """Let what happens inside fail, and nothing more: `sys.exit` in a function of the caller is a
    fault of that function, and what it was called for has a word to say on it. Raises Left;
    UsageError where the limits are those for strangers."""
    if not current().trusts:
        raise UsageError(
            "Python of the caller is not executed with --untrusted",
            help="leave the option away if the file is yours",
        )
    kept = {name: getattr(builtins, name) for name in ("exit", "quit") if hasattr(builtins, name)}
    try:
        for name in kept:  # those of the interpreter close standard input, which others read
            setattr(builtins, name, _leave)
        yield
    except SystemExit as stop:
        raise Left(f"it ends the process ({stop.code!r:.40})") from stop
    except GeneratorExit as stop:
        raise Left("it raises GeneratorExit") from stop
    finally:
        for name, function in kept.items():
            setattr(builtins, name, function)


def _leave(code: object = None) -> NoReturn:
    raise SystemExit(code)
