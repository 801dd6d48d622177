"""Conversions of vector registers, lane by lane.

PTO micro-instruction specification, vector conversions. A float becomes an integer rounded by the
mode and clamped (NaN is 0), or without saturation its low bits. A narrowing float conversion that
saturates gives the largest finite value for infinities and overflow and 0 for NaN; without
saturation it is IEEE. Integers are clamped or keep their low bits; they become floats with one
rounding by the mode. Floats of 8 and 4 bits are codes; those of 4 bits are two a byte, the first in
its low half, always saturate and make 0 of NaN. In April's language NaN stays NaN in 8 bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ptosim.machine.numbers.formats import Format, decode_table, encoder, lookup
from ptosim.machine.numbers.integers import clamp_int, float_to_int, float_to_low_bits, wrap_int
from ptosim.machine.numbers.rounding import narrow, odd_float, to_integral

Conversion = Callable[[np.ndarray], np.ndarray]

MODES = {"R": "rint", "A": "round", "F": "floor", "C": "ceil", "Z": "trunc", "O": "odd"}
"""Rounding modes by their letters: to nearest even, half away from zero, floor, ceiling, toward
zero, to odd."""


PAIRS_OF_CODES = {"f4E1M2x2": "f4E1M2FN", "f4E2M1x2": "f4E2M1FN"}
"""Formats that hold two codes in a byte."""


def vector_conversion(
    src: str, dst: str, letter: str, *, saturate: bool, keeps_nan: bool = False
) -> Conversion:
    """Return the function from arrays of format `src` to arrays of `dst`.

    `letter` is a key of MODES. Formats as in `formats.lookup`, and PAIRS_OF_CODES, which are
    converted from and to bf16, two numbers for a byte; `ValueError` for a pair of codes. With
    `keeps_nan` a saturating conversion to 8 bits keeps NaN.
    """
    mode = MODES[letter]
    if src in PAIRS_OF_CODES:
        return _unpacking(decode_table(PAIRS_OF_CODES[src]).astype(lookup(dst).dtype).take)
    if dst in PAIRS_OF_CODES:
        return _packing(encoder(src, PAIRS_OF_CODES[dst], mode, True, nan="zero"))
    source, target = lookup(src), lookup(dst)
    if "code" in (source.kind, target.kind):
        nan = "zero" if saturate and not keeps_nan else "signed"
        return _codes(source, target, mode, saturate, nan)
    if source.kind == "float" and target.kind == "float":
        return _float_to_float(source.name, target.name, mode, saturate)
    if source.kind == "float":
        name = target.name
        if saturate:
            return lambda values: float_to_int(values, name, mode)
        return lambda values: _low_bits(values, name, mode)
    if target.kind == "float":
        return _int_to_float(source.name, target.name, mode)
    if saturate:
        return lambda values: clamp_int(values, source.name, target.name)
    return lambda values: wrap_int(values, target.name)


def _unpacking(decode: Conversion) -> Conversion:
    def convert(packed: np.ndarray) -> np.ndarray:
        codes = np.stack((packed & 15, packed >> 4), axis=-1)
        return decode(codes.reshape(*packed.shape[:-1], -1))

    return convert


def _packing(encode: Conversion) -> Conversion:
    def convert(values: np.ndarray) -> np.ndarray:
        codes = encode(values)
        return codes[..., ::2] | codes[..., 1::2] << 4

    return convert


def _codes(source: Format, target: Format, mode: str, saturate: bool, nan: str) -> Conversion:
    """8-bit floats from and to wider ones."""
    if (source.kind, target.kind) == ("code", "float"):
        return decode_table(source.name).astype(target.dtype).take
    if source.kind == "code":
        raise ValueError(f"vector registers have no conversion from {source.name} to {target.name}")
    return encoder(source.name, target.name, mode, saturate, nan=nan)


def _low_bits(values: np.ndarray, dst: str, mode: str) -> np.ndarray:
    """Low bits of the exact integer; 0 for infinities and NaN."""
    form = lookup(dst)
    signed = f"i{max(form.bits, 16)}"
    return float_to_low_bits(values, signed, mode).astype(form.dtype)


def _float_to_float(src: str, dst: str, mode: str, saturate: bool) -> Conversion:
    form = lookup(dst)
    if form.bits > lookup(src).bits:
        return lambda values: values.astype(form.dtype)
    if src == dst:
        return np.copy
    if not saturate:
        return lambda values: narrow(values, dst, mode, saturate=False)

    def convert(values: np.ndarray) -> np.ndarray:
        result = narrow(values, dst, mode, saturate=True)
        nan = np.isnan(result)
        if nan.any():
            result[nan] = 0
        return result

    return convert


def _int_to_float(src: str, dst: str, mode: str) -> Conversion:
    if lookup(src).bits < 64:
        return lambda values: narrow(values.astype(np.float64), dst, mode, saturate=False)
    return lambda values: narrow(odd_float(values), dst, mode, saturate=False)


def truncation(letter: str) -> Conversion:
    """Return the function that rounds floats to integral values of the same type."""
    return partial(to_integral, mode=MODES[letter])
