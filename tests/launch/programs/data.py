"""Arrays of the shipped programs, as their descriptions make and store them."""

from __future__ import annotations

import numpy as np


def randn(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """The data that `randn:f32:shape:seed` of a sidecar represents."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def codes(array: np.ndarray) -> np.ndarray:
    """Bit patterns, which NumPy can store without ml_dtypes."""
    return array.view(f"u{array.dtype.itemsize}")
