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
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.files import refuse_device
from ptosim.ground.ir.types import DType
from ptosim.ground.isa.schema import dtypes, plain_dtypes
from ptosim.ground.limits import current, size_text
from ptosim.ground.records import NamedTuple
from ptosim.ground.words import nearest, number_in
from ptosim.launch.arguments import parse_alias
from ptosim.launch.generated import LazyArray, Make, by_chunks, is_lazy
from ptosim.machine.pages import argument_dtype, from_bytes, native, to_bytes

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


# Values on the command line: `--arg NAME=SPEC`, `--out NAME=FILE`, `--expect NAME=FILE`.
#
# SPEC is `file.npy`, `file.npz:key`, `file.npz:key:dtype:RxC` and `file.bin:dtype:RxC` of bytes,
# `zeros:dtype:RxC`, `ones:dtype:RxC`, `arange:dtype:RxC`, `randn:dtype:RxC[:seed]`,
# `randint:dtype:RxC[:seed]`, a literal for a scalar, or `@name` and `@R:name`, another argument's
# memory (of rank R).

_IN_FILE = re.compile(r"(?P<name>.+?\.(?:npy|npz|bin|py))(?::(?P<rest>.*))?", re.DOTALL)
"""`file.npz:key`; `C:\\data\\file.npz:key` too."""


def in_file(spec: str) -> tuple[str, str]:
    """Return the file that a SPEC or `file.py:function` names, and what follows it after a colon;
    two empty texts where it names none. The colon of a drive is part of the name."""
    match = _IN_FILE.fullmatch(spec)
    return (match["name"], match["rest"] or "") if match else ("", "")


def beside(folder: Path, name: str) -> Path:
    """Return the file that a description in a folder names; one from Windows may have `\\\\`."""
    path = folder / name
    if "\\" in name and not path.exists():
        return folder / name.replace("\\", "/")
    return path


def split(pair: str, option: str) -> tuple[str, str]:
    """Return the halves of NAME=VALUE; a `%` or `@` in front of the name is dropped."""
    name, equals, value = pair.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"{option} takes NAME=VALUE, not `{pair}`")
    return name.strip().lstrip("%"), value.strip()


def check_writable(path: str) -> None:
    """Raise UsageError for an output file that cannot be made: before the run, so that nothing is
    half done."""
    if not path.endswith((".npy", ".bin")):
        raise UsageError(f"`{path}`: output files end in .npy or .bin")
    if not Path(path).absolute().parent.is_dir():
        raise UsageError(f"cannot write {path}: the folder does not exist")


def dtype_like(array: np.ndarray) -> DType:
    """Return the first element type whose arrays look like this one. Raises UsageError for an array
    of something else."""
    found = next((d for d in dtypes().values() if argument_dtype(d) == array.dtype), None)
    if found is None:
        raise UsageError(f"there is no element type for an array of {array.dtype}")
    return found


def parse_argument(spec: str, base: Path | None = None) -> Any:
    """Return what `parse_spec` does, except for large random data: a `LazyArray`, which a launch
    makes where it is read."""
    kind, _, rest = spec.partition(":")
    if kind in _RANDOM and rest:
        dtype, shape, seed = _dtype_shape_seed(spec, rest)
        if is_lazy(dtype, shape):
            return LazyArray(dtype, shape, seed, _RANDOM[kind](dtype))
    return parse_spec(spec, base)


def parse_spec(spec: str, base: Path | None = None) -> Any:
    """Return the array or number of a SPEC; file names are relative to `base`."""
    if spec.startswith("@"):
        return parse_alias(spec)
    head, colon, rest = spec.partition(":")
    maker = _MAKERS.get(head)
    if maker is not None and colon:
        dtype, shape, seed = _dtype_shape_seed(spec, rest)
        current().reserve(dtype.bytes_for(math.prod(shape)), f"`{spec}`")
        return maker(dtype, shape, seed)
    number = _literal(spec)
    if number is not None:
        return number
    return _file(spec, base)


def parse_expectation(spec: str, base: Path | None = None) -> np.ndarray:
    """Return the array or number of a SPEC that an output is compared with. Raises UsageError for
    what names the memory of an argument, which has no values of its own."""
    if spec.startswith("@"):
        raise UsageError(
            f"`{spec}` is no value to compare with", help="a file, zeros:dtype:RxC or a number"
        )
    return np.asarray(parse_spec(spec, base))


def _literal(text: str) -> int | float | bool | None:
    if text in ("true", "false"):
        return text == "true"
    return number_in(text)


def _dtype_shape_seed(spec: str, rest: str) -> tuple[DType, tuple[int, ...], int]:
    parts = rest.split(":")
    if len(parts) not in (2, 3):
        raise UsageError(f"`{spec}` is not KIND:dtype:RxC[:seed]")
    seed = _number(parts[2], "seed") if len(parts) == 3 else 0
    if seed < 0:
        raise UsageError(f"`{spec}`: a seed is a number from 0 on")
    return _values_dtype(parts[0]), _values_shape(parts[1]), seed


def _values_dtype(name: str) -> DType:
    found = plain_dtypes().get(name)
    if found is None:
        known = f"known: {', '.join(plain_dtypes())}"
        meant = nearest(name, plain_dtypes())
        help_ = known if meant is None else f"{meant} {known}"
        raise UsageError(f"unknown element type `{name}`", help=help_)
    return found


def _values_shape(text: str) -> tuple[int, ...]:
    shape = tuple(_number(d, "dimension") for d in text.lower().split("x"))
    if any(d < 0 for d in shape) or math.prod(shape) > 2**31:
        raise UsageError(f"shape `{text}` is negative or too large")
    return shape


def _number(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"`{text}` is not a {what}") from None


def _cast(values: np.ndarray, dtype: DType) -> np.ndarray:
    with np.errstate(all="ignore"):
        if dtype.array == "codes":
            return values.astype(np.int64).astype(np.uint8)
        return values.astype(argument_dtype(dtype))


def _randn(dtype: DType) -> Make:
    def some(rng: np.random.Generator, count: int) -> np.ndarray:
        values = rng.standard_normal(count).astype(np.float32)
        return _cast(values * 4 if dtype.is_integer else values, dtype)

    return some


def _randint(dtype: DType) -> Make:
    low, high = (0, 16) if dtype.kind == "uint" else (-8, 8)
    return lambda rng, count: _cast(rng.integers(low, high, count), dtype)


_RANDOM = {"randn": _randn, "randint": _randint}


def _random(kind: str) -> Callable[[DType, tuple[int, ...], int], np.ndarray]:
    def made(dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray:
        return by_chunks(_RANDOM[kind](dtype), np.random.default_rng(seed), shape)

    return made


_MAKERS = {
    "zeros": lambda dtype, shape, seed: np.zeros(shape, argument_dtype(dtype)),
    "ones": lambda dtype, shape, seed: _cast(np.ones(shape, np.float32), dtype),
    **{kind: _random(kind) for kind in _RANDOM},
    "arange": lambda dtype, shape, seed: _cast(np.arange(math.prod(shape)).reshape(shape), dtype),
}


def _file(spec: str, base: Path | None) -> np.ndarray:
    name, rest = in_file(spec)
    path = Path(name) if base is None else beside(base, name)
    if name.endswith(".npy"):
        return load_npy(path)
    if name.endswith(".npz"):
        typed = _TYPED.fullmatch(rest)
        return load_npz(path, rest) if typed is None else _bytes_in(path, spec, *typed.groups())
    if name.endswith(".bin"):
        return _raw(path, spec, rest)
    head, colon, _ = spec.partition(":")
    meant = nearest(head, _MAKERS) if colon else None
    forms = (
        "a number, file.npy, file.npz:key[:dtype:RxC], file.bin:dtype:RxC, zeros:, randn:, "
        "ones:, randint: or arange:dtype:RxC"
    )
    raise UsageError(f"`{spec}` is no value", help=forms if meant is None else f"{meant} {forms}")


_TYPED = re.compile(r"([^:]+):([^:]+:[0-9xX]+)")
"""The key of an array of bytes, and the type and shape of what they are."""


def _bytes_in(path: Path, spec: str, key: str, rest: str) -> np.ndarray:
    dtype, shape, _ = _dtype_shape_seed(spec, rest)
    data = load_npz(path, key)
    count = math.prod(shape)
    if data.dtype != np.uint8 or data.size != dtype.bytes_for(count):
        found = f"holds {data.size} elements of {data.dtype}"
        size = f"{count} elements of {dtype} are {dtype.bytes_for(count)} bytes (uint8)"
        raise UsageError(f"{path}:{key} {found}; {size}")
    return from_bytes(data.reshape(-1), dtype, shape)


def _raw(path: Path, spec: str, rest: str) -> np.ndarray:
    if not rest:
        raise UsageError(f"`{spec}`: raw bytes need a type and shape: file.bin:dtype:RxC")
    dtype, shape, _ = _dtype_shape_seed(spec, rest)
    count = math.prod(shape)
    size = dtype.bytes_for(count)
    try:
        found, data = path.stat().st_size, b""
        if found == size:
            current().reserve(size, str(path))
            data = path.read_bytes()
            found = len(data)
    except (OSError, ValueError) as problem:  # ValueError: a name with a NUL
        reason = getattr(problem, "strerror", None) or problem
        raise UsageError(f"cannot read {path}: {reason}") from problem
    if found != size:
        raise UsageError(f"{path} has {found} bytes; {count} elements of {dtype} take {size}")
    return from_bytes(np.frombuffer(data, np.uint8), dtype, shape)


def file_bytes(path: str, array: np.ndarray, dtype: DType) -> bytes:
    """Return the content of an output file: `.npy` (NumPy's own types; narrow floats as codes of
    their bytes' width) or `.bin` (the bytes in memory)."""
    if path.endswith(".bin"):
        return to_bytes(array, dtype).tobytes()
    if not path.endswith(".npy"):
        raise UsageError(f"`{path}`: output files end in .npy or .bin")
    import io

    buffer = io.BytesIO()
    portable = array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array
    np.save(buffer, portable, allow_pickle=False)
    return buffer.getvalue()
