"""Arrays of the quantisation cases: narrow types are stored as codes, and get their types back here."""

from __future__ import annotations

import numpy as np

from ptosim.machine.quant.parameters import storage
from tests.ops.conformance.data import COMPARED, arrays


def typed(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return an array of codes, or of 2- and 4-bit integers held as int8 or uint8, in its own type."""
    kind = storage(dtype)
    if array.dtype == kind.array:
        return array
    return array.astype(kind.array) if kind.is_integer else array.view(kind.array)


def assert_same(group: str, got: np.ndarray, expected: np.ndarray) -> None:
    """Compare type, shape and values; zeros of either sign are equal in wide floats, and so are NaN."""
    assert got.dtype == expected.dtype, f"{got.dtype}, expected {expected.dtype}"
    assert got.shape == expected.shape, f"{got.shape}, expected {expected.shape}"
    if got.dtype.itemsize == 1 or got.dtype.kind in "iu":
        left, right = (a.view(f"u{a.dtype.itemsize}") for a in (got, expected))
    else:
        left, right = got.astype(np.float64), expected.astype(np.float64)
    wrong = np.argwhere(~((left == right) | ((left != left) & (right != right))))
    shown = [(tuple(i), got[tuple(i)], expected[tuple(i)]) for i in wrong[:5]]
    assert not len(wrong), f"{len(wrong)} of {got.size} differ: {shown}"
    COMPARED[f"{group} arrays"] += 1
    COMPARED[f"{group} elements"] += got.size


def stored(file: str, key: str, dtype: str) -> np.ndarray | None:
    """Return an array of a file in its own type, or None."""
    found = arrays(file).get(key)
    return None if found is None else typed(found, dtype)
