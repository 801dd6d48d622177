"""Conversions of vector registers, lane by lane.

PTO micro-instruction specification, vector conversions. A float becomes an integer rounded by the
mode and clamped (NaN is 0), or without saturation its low bits. A narrowing float conversion that
saturates gives the largest finite value for infinities and overflow and 0 for NaN; without
saturation it is IEEE. Integers are clamped or keep their low bits; they become floats with one
rounding by the mode. 8-bit floats come from f32 and go there; their type fixes the rounding, and
NaN stays NaN."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ptosim.numerics.codes import decode_table, encoder
from ptosim.numerics.formats import Format, lookup
from ptosim.numerics.fused import odd_float
from ptosim.numerics.integers import clamp_int, float_to_int, float_to_low_bits, wrap_int
from ptosim.numerics.rounding import narrow, to_integral

Conversion = Callable[[np.ndarray], np.ndarray]

MODES = {"R": "rint", "A": "round", "F": "floor", "C": "ceil", "Z": "trunc", "O": "odd"}
"""Rounding modes by their letters: to nearest even, half away from zero, floor, ceiling, toward
zero, to odd."""


def vector_conversion(src: str, dst: str, letter: str, *, saturate: bool) -> Conversion:
    """Return the function from arrays of format `src` to arrays of `dst`.

    `letter` is a key of MODES. Formats as in `formats.lookup`; `ValueError` for a pair of codes.
    """
    mode = MODES[letter]
    source, target = lookup(src), lookup(dst)
    if "code" in (source.kind, target.kind):
        return _codes(source, target, saturate)
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


def _codes(source: Format, target: Format, saturate: bool) -> Conversion:
    """8-bit floats from and to f32; the type fixes the rounding."""
    if (source.kind, target.kind) == ("code", "float"):
        return decode_table(source.name).astype(target.dtype).take
    if source.kind == "code":
        raise ValueError(f"vector registers have no conversion from {source.name} to {target.name}")
    rounding = "round" if target.name == "hif8" else "rint"
    return encoder(source.name, target.name, rounding, saturate)


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
