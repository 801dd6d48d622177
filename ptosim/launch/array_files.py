"""Arrays in files of NumPy (`.npy`, `.npz`), read without trust: the header is checked before a
byte of the content is, nothing in it is executed, and what it promises has to be there.

The format is that of NumPy's `numpy.lib.format` (versions 1 to 3): a magic string, the version, the
length of the header, and the header as the text of a Python dictionary with `descr` (the type),
`fortran_order` and `shape`."""

from __future__ import annotations

import ast
import lzma
import math
import os
import re
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.files import refuse_device
from ptosim.ground.limits import current, size_text
from ptosim.ground.records import NamedTuple
from ptosim.machine.storage import native

MOST_HEADER = 10_000
"""Bytes of a header; NumPy's own limit."""
MOST_UNPACKED = 1 << 29
"""Bytes that a compressed array may unpack to: a small file could fill any memory."""

_MAGIC = b"\x93NUMPY"
_LENGTHS = {1: "<H", 2: "<I", 3: "<I"}
_KEYS = {"descr", "fortran_order", "shape"}
_CODES_OF_A_BYTE = "<f1"  # what `np.save` calls a float of one byte, and nobody can read
BROKEN = (
    ValueError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    NotImplementedError,  # a kind of compression that Python has not
    RuntimeError,  # a password
    struct.error,
)
"""What is raised in the middle of a file that is damaged, or is none."""


class Header(NamedTuple):
    """What the header of an array says."""

    dtype: np.dtype
    shape: tuple[int, ...]
    in_columns: bool

    @property
    def nbytes(self) -> int:
        """Bytes of the content."""
        return math.prod(self.shape) * self.dtype.itemsize


def load_npy(path: Path) -> np.ndarray:
    """Return the array of a `.npy` file; elements of a float of one byte as bytes without a type.
    Raises UsageError if it cannot be read or is not one, LimitError if it does not fit."""
    try:
        refuse_device(path)
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return _array(file, size, str(path))
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror or problem}") from problem
    except BROKEN as problem:
        raise _not_numbers(str(path), problem) from problem


def load_npz(path: Path, key: str) -> np.ndarray:
    """Return an array of a `.npz` file: that with the name `key`, with '' the only one. Raises
    UsageError and LimitError as `load_npy`."""
    try:
        with zipfile.ZipFile(path) as archive:
            name = _member(path, archive.namelist(), key)
            info = archive.getinfo(name)
            where = f"{path}:{name.removesuffix('.npy')}"
            packed = info.compress_type != zipfile.ZIP_STORED
            with archive.open(info) as file:
                return _array(file, info.file_size, where, is_packed=packed)
    except zipfile.BadZipFile as problem:
        raise UsageError(f"{path} is not an .npz file: {problem}") from problem
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror or problem}") from problem
    except BROKEN as problem:
        raise _not_numbers(f"{path}:{key}" if key else str(path), problem) from problem


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return all arrays of a `.npz` file by name. Raises what `load_npz` raises."""
    try:
        refuse_device(path)
        with zipfile.ZipFile(path) as archive:
            members = [name for name in archive.namelist() if name.endswith(".npy")]
    except (OSError, *BROKEN) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise UsageError(f"cannot read {path}: {reason}") from problem
    return {n.removesuffix(".npy"): load_npz(path, n.removesuffix(".npy")) for n in members}


def _member(path: Path, members: list[str], key: str) -> str:
    """The name in the archive of an array."""
    names = {name.removesuffix(".npy"): name for name in members if name.endswith(".npy")}
    listed = ", ".join(names) or "none"
    if not key and len(names) == 1:
        return next(iter(names.values()))
    if not key:
        raise UsageError(f"{path} has several arrays", help=f"{path}:NAME, with {listed}")
    if key not in names:
        raise UsageError(f"{path} has no array `{key}`", help=f"arrays: {listed}")
    return names[key]


def _array(file: IO[bytes], size: int, where: str, *, is_packed: bool = False) -> np.ndarray:
    """The array of an open file of `size` bytes."""
    header, length = read_header(file)
    if header.nbytes > size - length:
        raise ValueError(
            f"its header promises {size_text(header.nbytes)}, and {size_text(size - length)} follow"
        )
    if is_packed and header.nbytes > MOST_UNPACKED:
        raise UsageError(
            f"{where} would unpack to {size_text(header.nbytes)}; compressed arrays may have "
            f"{size_text(MOST_UNPACKED)}",
            help="save it with `numpy.save` or `numpy.savez`, which do not compress",
        )
    current().reserve(header.nbytes, where)
    content = np.empty(header.nbytes, np.uint8)
    if _fill(file, content) != header.nbytes:
        raise EOFError("the file ends before its array does")
    array = native(content.view(header.dtype))
    if header.in_columns:
        return array.reshape(header.shape[::-1]).T
    return array.reshape(header.shape)


def _fill(file: IO[bytes], content: np.ndarray) -> int:
    """Read as many bytes as there is room for; return how many came."""
    room, at = content.data, 0
    while at < len(room):
        part = file.read(min(1 << 22, len(room) - at))
        if not part:
            break
        room[at : at + len(part)] = part
        at += len(part)
    return at


def read_header(file: IO[bytes]) -> tuple[Header, int]:
    """Return what the header of an open `.npy` file says, and its bytes. Raises ValueError or
    EOFError for what is none, or is not of numbers."""
    start = _exactly(file, len(_MAGIC) + 2)
    if not start.startswith(_MAGIC):
        raise ValueError("it does not begin as one")
    form = _LENGTHS.get(start[-2])
    if form is None:
        raise ValueError(f"version {start[-2]} of the format is not known")
    (length,) = struct.unpack(form, _exactly(file, struct.calcsize(form)))
    if length > MOST_HEADER:
        raise ValueError(f"its header has {length:,} bytes")
    text = _exactly(file, length).decode("utf-8" if start[-2] == 3 else "latin-1")
    return _header(text), len(start) + struct.calcsize(form) + length


def _exactly(file: IO[bytes], count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise EOFError("the file ends in its header")
    return data


def _header(text: str) -> Header:
    try:
        fields = ast.literal_eval(text.strip())
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise ValueError("its header is no dictionary") from None
    if not isinstance(fields, dict) or fields.keys() != _KEYS:
        raise ValueError("its header has other fields than an array's")
    return Header(_dtype(fields["descr"]), _shape(fields["shape"]), fields["fortran_order"] is True)


def _shape(given: object) -> tuple[int, ...]:
    is_shape = isinstance(given, tuple) and all(type(d) is int and d >= 0 for d in given)
    if not is_shape or len(given) > 64:  # type: ignore[arg-type]
        raise ValueError(f"its shape is {_short(given)}")
    return given  # type: ignore[return-value]


_PLAIN = re.compile(r"[<>|=]?[A-Za-z]\d{0,9}")
"""What NumPy writes of the type of numbers; a text with commas is the type of a record, and is
evaluated by NumPy."""


def _dtype(given: object) -> np.dtype:
    if given == _CODES_OF_A_BYTE:
        return np.dtype("V1")
    try:
        dtype = np.dtype(given) if isinstance(given, str) and _PLAIN.fullmatch(given) else None
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"its type is {_short(given)}") from None
    if dtype is None or dtype.hasobject or dtype.kind not in "biufcV" or not dtype.itemsize:
        raise ValueError(f"its elements are {_short(given)}")
    return dtype


def _short(given: object) -> str:
    text = repr(given)
    return text if len(text) < 60 else f"{text[:57]}…"


def _not_numbers(where: str, problem: Exception) -> UsageError:
    help = None
    if "its type" in str(problem):
        help = "a type that NumPy does not have: save its codes, `array.view(numpy.uint8)`"
    if "'|O" in str(problem):
        help = "it holds Python objects; save numbers"
    return UsageError(f"{where} is not a NumPy file of numbers: {problem}", help=help)
