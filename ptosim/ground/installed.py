"""The files of this installation, as a key of what is derived from them and kept."""

from __future__ import annotations

import contextlib
import os
from functools import lru_cache
from pathlib import Path

from ptosim.ground.isa.data import isa_directory

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
