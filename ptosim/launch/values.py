"""Values on the command line: `--arg NAME=SPEC`, `--out NAME=FILE`, `--expect NAME=FILE`.

SPEC is `file.npy`, `file.npz:key`, `file.bin:dtype:RxC`, `zeros:dtype:RxC`, `ones:dtype:RxC`,
`randn:dtype:RxC[:seed]`, `randint:dtype:RxC[:seed]`, `arange:dtype:RxC`, a literal for a scalar, or
`@name` and `@R:name`, another argument's memory (of rank R).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.ir.types import DType
from ptosim.ground.isa.dtypes import dtypes, plain_dtypes
from ptosim.ground.limits import current
from ptosim.ground.whole_numbers import number_in
from ptosim.launch.arguments import parse_alias
from ptosim.launch.generated import LazyArray, Make, by_chunks, is_lazy
from ptosim.machine.storage import argument_dtype, from_bytes, to_bytes

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
    return _dtype(parts[0]), _shape(parts[1]), seed


def _dtype(name: str) -> DType:
    found = plain_dtypes().get(name)
    if found is None:
        known = ", ".join(plain_dtypes())
        raise UsageError(f"unknown element type `{name}`", help=f"known: {known}")
    return found


def _shape(text: str) -> tuple[int, ...]:
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
    if name.endswith((".npy", ".npz")):
        from ptosim.launch.array_files import load_npy, load_npz  # most runs read no file

        return load_npy(path) if name.endswith(".npy") else load_npz(path, rest)
    if name.endswith(".bin"):
        return _raw(path, spec, rest)
    raise UsageError(
        f"`{spec}` is no value",
        help="a number, file.npy, file.npz:key, file.bin:dtype:RxC, zeros:, ones:, randn:, "
        "randint: or arange:dtype:RxC",
    )


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
