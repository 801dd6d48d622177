"""Quantisation into floats of 8 bits and less: scale, then one cast.

Casts round to nearest, ties to even. With saturation everything beyond the largest value,
infinities included, becomes that value; without it the format's infinity or NaN. The formats below
8 bits have neither and always saturate.
"""

from __future__ import annotations

import numpy as np

from ptosim.machine.quant import formula
from ptosim.machine.quant.granularity import Cover
from ptosim.machine.quant.parameters import Parameters, Scheme, Storage


def quantize(
    x: np.ndarray,
    parameters: Parameters,
    scheme: Scheme,
    out: Storage,
    covers: list[Cover],
    saturate: bool,
) -> np.ndarray:
    """Return x / scale (plus z where the scheme says so) as elements of `out`."""
    chain = formula.scaling(scheme, parameters)
    if scheme.floats == "add":
        chain += formula.add_before(scheme, parameters)
    elif out.bits < 8:  # also a zero point of 0, which makes -0 a 0
        chain.append(formula.FormulaStep("+ z", lambda v, p: np.add(v, p.zero, out=v)))
    quirk = "ort-fp8" in scheme.quirks and not saturate
    result = np.empty(x.shape, out.array)

    def store(values: np.ndarray, _part: Parameters) -> np.ndarray:
        stored = cast(values, out, saturate)
        if quirk:
            _runtime_overflow(values, stored, out)
        return stored

    formula.run(chain, parameters, covers, x, result, store)
    return result


def cast(values: np.ndarray, out: Storage, saturate: bool = True) -> np.ndarray:
    """Return float values as elements of a narrow float type. The values may be overwritten."""
    if saturate or out.bits < 8:
        np.clip(values, out.low, out.high, out=values)
    return values.astype(out.array)


def _runtime_overflow(values: np.ndarray, target: np.ndarray, out: Storage) -> None:
    """onnxruntime's casts at the overflow edge: 480 becomes 448 in e4m3fn, and what e5m2 would
    round up to infinity becomes NaN."""
    size = np.abs(values)
    codes = target.view(np.uint8)
    if out.name == "f8E4M3FN":
        codes[size == 480] -= 1
    elif out.name == "f8E5M2":
        codes[(size >= 61440) & (size < 65536)] += 2
