"""Every finite half and bfloat16 value to every integer format, against exact fractions.

The scale is a power of two, so that the quotient is exact and only rounding, zero point and
saturation are left: QuantizeLinear rounds halves to even and adds the zero point after (ONNX), the
folding of `quant.qcast` constants rounds halves away from zero, its lowering truncates and leaves
open what a value out of range gives (MLIR).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache

import ml_dtypes
import numpy as np
import pytest

from ptosim.machine.quant.quantize import quantize

pytestmark = pytest.mark.slow

FORMATS = {f"{sign}{bits}": bits for sign in ("i", "ui") for bits in (2, 4, 8, 16)}
SCALE = Fraction(1, 4)


def away(value: Fraction) -> int:
    return int(abs(value) + Fraction(1, 2)) * (1 if value > 0 else -1)


ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "onnx": round,
    "mlir-const": away,
    "mlir-lower": int,
}


@cache
def values(source: str) -> np.ndarray:
    dtype = np.float16 if source == "f16" else ml_dtypes.bfloat16
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
    return every[np.isfinite(every)]


@cache
def rounded(source: str, scheme: str) -> list[int]:
    rounding = ROUNDINGS[scheme]
    return [rounding(Fraction(*float(v).as_integer_ratio()) / SCALE) for v in values(source)]


@pytest.mark.parametrize("source", ["f16", "bf16"])
@pytest.mark.parametrize("scheme", ROUNDINGS)
def test_every_value_to_every_format(source, scheme):
    for name, bits in FORMATS.items():
        low, high = (
            (0, (1 << bits) - 1) if name[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
        )
        for zero in (0, 1) if scheme == "onnx" else (0,):
            got = quantize(
                values(source), scheme=scheme, scale=float(SCALE), zero_point=zero, dtype=name
            )
            expected = [min(max(n + zero, low), high) for n in rounded(source, scheme)]
            defined = np.array(rounded(source, scheme), object) == np.array(expected, object) - zero
            differs = got.astype(np.int64) != np.array(expected)
            wrong = np.flatnonzero(differs & (defined | (scheme != "mlir-lower")))
            shown = [(values(source)[i], int(got[i]), expected[i]) for i in wrong[:5]]
            assert not wrong.size, (name, zero, wrong.size, shown)
