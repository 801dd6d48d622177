"""The content of files of golden arrays, as `--update` writes it."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.limits import current
from ptosim.launch.array_files import BROKEN

_MOST_NAME = 65_535
"""Bytes of a name in an archive."""


def npy_of(array: np.ndarray) -> bytes:
    """Return the content of a `.npy` file."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def with_array(path: Path, name: str, array: np.ndarray) -> bytes:
    """Return the content of a `.npz` file with an array set. Whatever else is in it stays as it is,
    byte for byte: it may be what NumPy would execute, or has no name for. Raises UsageError if the
    file cannot be read, or the array cannot have that name, LimitError as reading an array does."""
    member = f"{name}.npy"
    if "\0" in member or len(member.encode()) > _MOST_NAME:
        raise UsageError(f"{path}: no array of an archive can have the name {name!a:.60}")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, content in _others(path, member):
            archive.writestr(info, content)
        new = zipfile.ZipInfo(member)  # without a time, so that the same array is the same file
        archive.writestr(new, npy_of(array), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _others(path: Path, member: str) -> list[tuple[zipfile.ZipInfo, bytes]]:
    """What a file holds beside a member; nothing if there is no such file."""
    try:
        if not path.exists():
            return []
        with zipfile.ZipFile(path) as archive:
            infos = {i.filename: i for i in archive.infolist() if i.filename != member}
            current().reserve(sum(i.file_size for i in infos.values()), str(path))
            return [(info, archive.read(info)) for info in infos.values()]
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror or problem}") from problem
    except BROKEN as problem:
        raise UsageError(
            f"{path} is not an .npz file that can be kept: {problem}",
            help="remove it, and `--update` makes a new one",
        ) from problem
