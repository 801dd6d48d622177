"""The conformance data of the tree, and a count of what was compared with it.

The data comes from test generators, the public CPU simulator and a model of recommended results:
`tests/data/conformance/README.md` says what is there. A document is a `.json.xz`; the arrays of a
group are one archive, which is read when the first of them is asked for.
"""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from collections import Counter
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from tests.support.paths import DATA

ROOT = DATA / "conformance"
ARRAYS = "arrays.tar.xz"

NAMES = {
    "s8": "i8",
    "s16": "i16",
    "s32": "i32",
    "s64": "i64",
    "e4m3": "f8E4M3FN",
    "e5m2": "f8E5M2",
    "e2m1": "f4E2M1FN",
    "e1m2": "f4E1M2FN",
}
"""Element types in the names of files that are called otherwise here."""

COMPARED: Counter[str] = Counter()
"""What was compared, by group: arrays, elements, and elements left out by a rule."""


@cache
def document(name: str) -> Any:
    """Return a JSON document of the data, `cost/kernels.json` for example."""
    return json.loads(lzma.decompress((ROOT / f"{name}.xz").read_bytes()))


def files(op: str, origin: str | None = None) -> list[dict[str, Any]]:
    """Return the entries of an operation, of one origin or of all."""
    return [
        e
        for e in document("numerics_manifest.json")
        if e["op"] == op and origin in (None, e["origin"])
    ]


def stem(entry: dict[str, Any]) -> str:
    """Return the name of an entry's file."""
    return Path(entry["file"]).stem


@cache
def _archive(group: str) -> dict[str, dict[str, bytes]]:
    """Return what the files of a group hold: the bytes of `.npy` files by file and array."""
    found: dict[str, dict[str, bytes]] = {}
    with tarfile.open(ROOT / group / ARRAYS) as tar:
        for member in tar:
            file, _, name = member.name.partition("/")
            content = tar.extractfile(member)
            assert content is not None, member.name
            found.setdefault(file, {})[name.removesuffix(".npy")] = content.read()
    return found


@cache
def arrays(file: str) -> dict[str, np.ndarray]:
    """Return all arrays of a file, `tcvt/f16_to_s8.npz` for example. Nobody may write into them."""
    path = PurePosixPath(file)
    held = _archive(str(path.parent))[path.stem]
    found = {name: np.load(io.BytesIO(content)) for name, content in held.items()}
    for array in found.values():
        array.flags.writeable = False
    return found


def bits(array: np.ndarray) -> np.ndarray:
    """Return the bit patterns of an array."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def assert_bits(
    group: str, got: np.ndarray, expected: np.ndarray, keep: np.ndarray | None = None
) -> None:
    """Compare bit patterns where `keep` holds, and count them."""
    left, right = bits(got).reshape(-1), bits(expected).reshape(-1)
    assert left.dtype == right.dtype, f"{got.dtype} against {expected.dtype}"
    assert left.size == right.size, f"{got.shape} against {expected.shape}"
    chosen = np.ones(left.size, bool) if keep is None else np.asarray(keep).reshape(-1)
    wrong = np.flatnonzero((left != right) & chosen)
    width = got.dtype.itemsize * 2
    shown = [f"[{i}] {left[i]:0{width}X}, expected {right[i]:0{width}X}" for i in wrong[:8]]
    assert not wrong.size, f"{wrong.size} of {left.size} differ: {'; '.join(shown)}"
    COMPARED[f"{group} arrays"] += 1
    COMPARED[f"{group} elements"] += int(chosen.sum())
    COMPARED[f"{group} left out"] += int(left.size - chosen.sum())
