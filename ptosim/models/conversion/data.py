"""Calibration data: an archive with an array for each input, one or more samples."""

from __future__ import annotations

import hashlib
import struct
import zipfile
from pathlib import Path

import numpy as np

from ptosim.ground.diagnostics.model import finding
from ptosim.ground.errors import DescriptionError, UsageError
from ptosim.ground.records import dataclass
from ptosim.launch.array_files import load_npz
from ptosim.models.onnx_model import Graph

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Data:
    """Samples for a model: `feeds` of each run, where they come from, and their SHA-256."""

    feeds: list[Feeds]
    name: str
    digest: str


_NO_ARCHIVE = (OSError, ValueError, NotImplementedError, struct.error, zipfile.BadZipFile)
"""What comes of a file that is no archive or has a directory of another version."""


def read(path: str) -> tuple[Feeds, str]:
    """Return the arrays of an .npz file, and the SHA-256 of its bytes. Raises UsageError for a file
    that cannot be read or holds something else than numbers, LimitError for one that does not
    fit."""
    file = Path(path)
    try:
        raw = file.read_bytes()
        with zipfile.ZipFile(file) as archive:
            members = archive.namelist()
    except _NO_ARCHIVE as problem:
        why = getattr(problem, "strerror", None) or "it is no .npz archive of arrays"
        raise UsageError(f"cannot read {path}: {why}") from problem
    names = [name.removesuffix(".npy") for name in members if name.endswith(".npy")]
    return {name: load_npz(file, name) for name in names}, hashlib.sha256(raw).hexdigest()


def samples(arrays: Feeds, graph: Graph) -> list[Feeds]:
    """Return the feeds of each run: arrays by input name, of the input's shape, or with a first
    axis more, or with a multiple of its first dimension. Raises DescriptionError (PTO7642) for
    arrays that do not fit."""
    missing = [n for n in graph.inputs if n not in arrays]
    if missing:
        have = ", ".join(arrays) or "nothing"
        raise _wrong(f"there are no values for input `{missing[0]}`: the file has {have}")
    parts = {n: _split(n, arrays[n], *graph.inputs[n]) for n in graph.inputs}
    counts = {n: len(p) for n, p in parts.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{n}: {c}" for n, c in counts.items())
        raise _wrong(f"inputs have different numbers of samples ({told})")
    return [{n: p[i] for n, p in parts.items()} for i in range(min(counts.values(), default=1))]


def _split(
    name: str, array: np.ndarray, dtype: np.dtype, dims: tuple[int | None, ...]
) -> list[np.ndarray]:
    shape = tuple(int(d or 0) for d in dims)
    wanted = f"{dtype} {_shape(shape)}"
    if dtype.kind == "f" and array.dtype.kind == "f":
        array = array.astype(dtype)
    if array.dtype != dtype:
        raise _wrong(f"input `{name}` takes {wanted}, the data is {array.dtype}")
    if dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise _wrong(f"the data for input `{name}` holds NaN or infinity")
    if array.shape == shape:
        return [array]
    if array.ndim == len(shape) + 1 and array.shape[1:] == shape and len(array):
        return list(array)
    fits = array.ndim == len(shape) > 0 and array.shape[1:] == shape[1:] and shape[0] > 0
    if fits and len(array) and not len(array) % shape[0]:
        return list(array.reshape(-1, *shape))
    raise _wrong(f"input `{name}` takes {wanted}, the data is {_shape(array.shape)}")


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _wrong(text: str) -> DescriptionError:
    return DescriptionError([finding("PTO7642", text)])
