"""`run --dump VALUE@OP[=FILE]`: read the requests, write the files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ptosim.engine.core.dump import Dump
from ptosim.ground.errors import UsageError
from ptosim.launch import values
from ptosim.shell.terminal import write_file


def requests(texts: Iterable[str]) -> list[Dump]:
    """Return the dumps that the command line asks for; raises UsageError for one that is none."""
    return [_request(text) for text in texts]


def _request(text: str) -> Dump:
    request, equals, file = text.partition("=")
    name, at, place = request.partition("@")
    if not at or not name.strip("% ") or not place.strip() or (equals and not file):
        raise UsageError(f"--dump takes VALUE@OP[=FILE], not `{text}`")
    if equals:
        values.check_writable(file)
    return Dump(name.strip().lstrip("%"), place.strip().removeprefix("pto."), file or None)


def write(dumps: Iterable[Dump]) -> None:
    """Write the dumps that name a file: .npy as an array, .bin as bytes, row-major."""
    for dump in dumps:
        if dump.array is None:
            raise UsageError(f"--dump {dump.title}: the run never reached that operation")
        if dump.file is not None:
            raw = values.file_bytes(dump.file, dump.array, values.dtype_like(dump.array))
            write_file(Path(dump.file), raw)
