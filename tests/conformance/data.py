"""Where the conformance data lies, and a count of what was compared with it.

The data comes from test generators, the public CPU simulator and a model of recommended results. It
is not part of the tree: `PTOSIM_CONFORMANCE` names its folder, else a folder beside the checkout is
tried, and without it the tests are skipped.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

_DEFAULT = Path(__file__).parents[2].parent / "shared" / "conformance"
ROOT = Path(os.environ.get("PTOSIM_CONFORMANCE", _DEFAULT))

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


def required(name: str) -> pytest.MarkDecorator:
    """Return the mark that skips a module whose data is not there."""
    return pytest.mark.skipif(
        not (ROOT / name).exists(),
        reason=f"no conformance data in {ROOT}; set PTOSIM_CONFORMANCE",
    )


@cache
def numerics_manifest() -> list[dict[str, Any]]:
    """Return the entries of the numerics arrays, one for each file and origin."""
    path = ROOT / "numerics_manifest.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def files(op: str, origin: str | None = None) -> list[dict[str, Any]]:
    """Return the entries of an operation, of one origin or of all."""
    return [e for e in numerics_manifest() if e["op"] == op and origin in (None, e["origin"])]


def stem(entry: dict[str, Any]) -> str:
    """Return the name of an entry's file."""
    return Path(entry["file"]).stem


@cache
def arrays(file: str) -> dict[str, np.ndarray]:
    """Return all arrays of a file."""
    with np.load(ROOT / file) as data:
        return dict(data)


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
