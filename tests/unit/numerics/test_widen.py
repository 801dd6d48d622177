"""16-bit floats as f64 by integer operations: every pattern against NumPy's own conversion."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ptosim.numerics.widen import WIDEN

PATTERNS = np.arange(1 << 16, dtype=np.uint16)
KINDS = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


@pytest.mark.parametrize("name", WIDEN)
def test_every_pattern(name):
    """Finite values alone, and all with the infinities and NaN among them."""
    kind = KINDS[name]
    finite = PATTERNS[np.isfinite(PATTERNS.view(kind).astype(np.float32))]
    for patterns in (PATTERNS, finite):
        bits = np.ascontiguousarray(patterns.reshape(16, -1))
        got, scratch = np.empty(bits.shape), np.empty(bits.shape, np.int32)
        with np.errstate(invalid="ignore"):
            WIDEN[name](bits, scratch, got)
            want = bits.view(kind).astype(np.float64)
        both = np.isnan(got) & np.isnan(want)
        assert ((got.view(np.uint64) == want.view(np.uint64)) | both).all()
