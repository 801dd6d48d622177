"""Text files that are read, and files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ptosim.ground.errors import UsageError
from ptosim.ground.limits import current, size_text

_LONGEST = 200
"""Bytes of a file's name in that of its temporary file; a name has 255."""
_AT_ONCE = 1 << 20
"""Bytes of a read."""


def read_text(path: Path) -> str:
    """Return the text of a file, without a byte order mark. Raises UsageError for a file that
    cannot be read, a name that none can have, and what is not UTF-8."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UsageError(f"{path} is not UTF-8 text (byte {problem.start})") from problem


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file. Raises UsageError for a file that cannot be read, a name that
    none can have, a device (it may never end), and a file of more bytes than the limit."""
    try:
        refuse_device(path)
        with path.open("rb") as stream:
            return _bounded(stream, str(path))
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror}") from problem
    except ValueError as problem:  # a NUL in the name
        raise UsageError(f"cannot read {str(path)!a}: {problem}") from problem


def read_input(stream: BinaryIO) -> bytes:
    """Return the bytes of standard input. Raises UsageError for more than the limit."""
    return _bounded(stream, "standard input")


def lines_of(stream: BinaryIO, name: str) -> Generator[str, None, None]:
    """Return the lines of a stream, as they come; a byte that is no UTF-8 is a fault of its line.
    Raises UsageError for a line of more bytes than the limit of a file."""
    most = current().file_size
    mark = "\ufeff"  # of the byte order, before the first line only
    while line := stream.readline(most + 1):
        if len(line) > most:
            raise UsageError(
                f"a line of {name} is larger than {size_text(most)}",
                help="raise --max-file if it is meant",
            )
        yield line.decode("utf-8", "replace").removeprefix(mark)
        mark = ""


def refuse_device(path: Path) -> None:
    """Raise UsageError for a device, which may never end (a pipe does, and is read); OSError for
    what is not there."""
    mode = path.stat().st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise UsageError(f"cannot read {path}: it is a device, not a file")


def _bounded(stream: BinaryIO, name: str) -> bytes:
    most = current().file_size
    data = bytearray()  # grows with what comes: a read of `most` bytes would ask for all of them
    while len(data) <= most and (piece := stream.read(min(most + 1 - len(data), _AT_ONCE))):
        data += piece
    if len(data) > most:
        raise UsageError(
            f"{name} is larger than {size_text(most)}", help="raise --max-file if it is meant"
        )
    return bytes(data)


def is_file(path: Path) -> bool:
    """Return whether a path is that of a file; a name that none can have, as one that is too long,
    is not."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def write_file(path: Path, data: str | bytes) -> None:
    """Write a file whole or not at all; raises UsageError if that is not possible.

    A link stays a link, an existing file keeps its permissions, and what is no file at all (a pipe,
    a device) is written to, never replaced.
    """
    raw = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    try:
        found = path.stat().st_mode if path.exists() else None
        if found is not None and not stat.S_ISREG(found) and not stat.S_ISDIR(found):
            with path.open("wb", buffering=0) as stream:
                stream.write(raw)
            return
        if found is not None and not os.access(path, os.W_OK):  # a new file would get around that
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        _replace(path.resolve(), raw, found)
    except OSError as problem:
        raise UsageError(f"cannot write {path}: {problem.strerror}") from problem
    except (RuntimeError, ValueError) as problem:  # links in a circle, a NUL in the name
        raise UsageError(f"cannot write {path}: {problem}") from problem


def _replace(path: Path, raw: bytes, mode: int | None) -> None:
    name = os.fsdecode(os.fsencode(path.name)[:_LONGEST])
    import tempfile  # loads five modules, and most commands write no file

    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
        Path(temporary).chmod(stat.S_IMODE(mode) if mode is not None else 0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException:  # an interrupt too
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# TOML that users write.


def read(text: str) -> dict[str, Any]:
    """Return the content of a text.

    A whole number that 64 bits do not hold is an error, as TOML 1.0 ("Integer") asks: Python reads
    it, and a float cannot be made of it. Raises ValueError with what is wrong, and its line and
    column where they are known."""
    content = tomllib.loads(text)
    if not all(-(1 << 63) <= number < 1 << 64 for number in _whole_numbers(content)):
        raise ValueError(f"A whole number of more than 64 bits{_place(text)}")
    return content


def _place(text: str) -> str:
    """The place of the first number with as many digits, in the words of `tomllib`."""
    found = re.search(r"[0-9a-fA-F][0-9a-fA-F_]{15,}|[01_]{64,}", text)
    if found is None:
        return ""
    before = text[: found.start()]
    column = found.start() - before.rfind("\n")
    return f" (at line {before.count(chr(10)) + 1}, column {column})"


def _whole_numbers(part: Any) -> Iterator[int]:
    if isinstance(part, int):
        yield part
    elif isinstance(part, dict):
        for entry in part.values():
            yield from _whole_numbers(entry)
    elif isinstance(part, list):
        for entry in part:
            yield from _whole_numbers(entry)
