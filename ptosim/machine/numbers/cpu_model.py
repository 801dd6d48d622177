"""TCVT as the public CPU simulator computes it, for comparing with its results.

It is not a model of the hardware. Saturation clamps in double precision and casts back to the
source type, so a limit that type cannot hold wraps afterwards; NaN clamps to the upper limit; an
integer out of range comes out as the x86 conversion instructions leave it; the 8-bit float types
clamp to zero (their limits were never defined), truncate their mantissa and wrap their exponent;
4-bit floats pass through an integral value; 44 hif8 codes decode to a wrong value.

Checked bit for bit against arrays of that simulator for the modes and pairs they cover. Taken
from a description only: `none` as truncation, f32 to f32 as a copy, unsigned 16- and 32-bit
destinations. Conversions between 8-bit floats and integers are not modeled.
"""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from ptosim.machine.numbers.convert import Conversion
from ptosim.machine.numbers.formats import Format, decode_table, lookup, require
from ptosim.machine.numbers.rounding import MODES, to_integral

_FP4 = frozenset({"f4E2M1FN", "f4E1M2FN"})
# Limits as that simulator sees them; the formats' own elsewhere.
_LIMITS = {
    "f8E4M3FN": (0.0, 0.0),
    "f8E5M2": (0.0, 0.0),
    "hif8": (0.0, 0.0),
    "f4E1M2FN": (-4.0, 3.5),
}
# Exponent bits, mantissa bits, bias.
_FIELDS = {
    "f8E4M3FN": (4, 3, 7),
    "f8E5M2": (5, 2, 15),
    "f4E2M1FN": (2, 1, 1),
    "f4E1M2FN": (1, 2, 1),
}
_NEGATIVE_INFINITY_HIF8 = 0xEF


def _ties_to_odd(wide: np.ndarray) -> np.ndarray:
    below = np.floor(wide)
    tie = wide - below == 0.5
    odd = below + (np.mod(below, 2) == 0)
    return np.where(tie, odd, np.rint(wide))


def _round(wide: np.ndarray, mode: str) -> np.ndarray:
    if mode == "odd":
        return _ties_to_odd(wide)
    return to_integral(wide, "trunc" if mode == "none" else mode)


def _x86_int(wide: np.ndarray, form: Format) -> np.ndarray:
    """C++ cast of doubles on x86: out of the register's range gives its lowest value.

    Signed results of 32 bits or fewer come from the 32-bit instruction, the others from the
    64-bit one; narrower types keep the low bits.
    """
    bits = 32 if form.kind == "signed" and form.bits <= 32 else 64
    limit = 2.0 ** (bits - 1)
    whole = np.trunc(wide)
    fits = (whole >= -limit) & (whole < limit)
    return np.where(fits, whole, -limit).astype(np.int64).astype(form.dtype)


def _clamp(values: np.ndarray, src: Format, dst: Format) -> np.ndarray:
    low_src, high_src = _LIMITS.get(src.name, (src.lowest, src.highest))
    low_dst, high_dst = _LIMITS.get(dst.name, (dst.lowest, dst.highest))
    low, high = max(low_src, low_dst), min(high_src, high_dst)
    wide = values.astype(np.float64)
    wide = np.where(wide < float(high), wide, float(high))
    wide = np.where(wide < float(low), float(low), wide)
    if src.kind in ("float", "code"):
        return wide.astype(values.dtype)
    return _x86_int(wide, src)


def _truncated_code(wide: np.ndarray, name: str) -> np.ndarray:
    """Bit fields of a double cut to those of a minifloat, without range checks.

    An exponent field of 0 is taken for a normal number, and the shift that denormalizes smaller
    ones wraps at 64 as the processor's does.
    """
    exponent_bits, mantissa_bits, bias = _FIELDS[name]
    bits = wide.view(np.int64)
    exponent64 = (bits >> 52) & 0x7FF
    exponent = exponent64 - 1023 + bias
    fraction = (bits & ((1 << 52) - 1)) >> (52 - mantissa_bits)
    wrapped = ((exponent & ((1 << exponent_bits) - 1)) << mantissa_bits) | fraction
    denormal = (fraction | (1 << mantissa_bits)) >> ((1 - exponent) & 63)
    sign = (bits < 0).astype(np.int64) << (exponent_bits + mantissa_bits)
    codes = np.where(exponent >= 0, wrapped, denormal) | sign
    codes[exponent64 == 0] = 0
    return codes.astype(np.uint8)


@cache
def _decode_table(name: str) -> np.ndarray:
    """f32 values by code: no special codes, no negative zero, hif8 with its 44 wrong values."""
    form = lookup(name)
    table = decode_table(name).copy()
    table[1 << (form.bits - 1)] = 0
    if name == "hif8":
        # All bits after the prefix are read as mantissa, and the exponent bit as positive.
        table[0x08:0x10] = 1 + np.arange(8) / 32
        table[0x10:0x20] = 2 * (1 + np.arange(16) / 16)
        table[0x88:0xA0] = -table[0x08:0x20]
        table[0x80] = np.nan
        return table
    exponent_bits, mantissa_bits, bias = _FIELDS[name]
    codes = np.arange(1 << (form.bits - 1))
    top = codes >> mantissa_bits == (1 << exponent_bits) - 1
    fraction = 1 + (codes & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    normal = fraction * 2.0 ** ((1 << exponent_bits) - 1 - bias)
    table[: codes.size][top] = normal[top]
    table[codes.size : 2 * codes.size][top] = -normal[top]
    return table


@cache
def _hif8_values() -> tuple[np.ndarray, np.ndarray]:
    table = _decode_table("hif8").astype(np.float64)
    codes = np.flatnonzero(np.isfinite(table))
    order = codes[np.argsort(table[codes], kind="stable")]
    return table[order], order.astype(np.uint8)


def _hif8_code(wide: np.ndarray) -> np.ndarray:
    """Nearest of the values it decodes, ties to the lower one; NaN gives the code of -inf."""
    values, codes = _hif8_values()
    upper = np.clip(np.searchsorted(values, wide), 1, values.size - 1)
    nearer_above = values[upper] - wide < wide - values[upper - 1]
    result = codes[np.where(nearer_above, upper, upper - 1)]
    result[~(wide > -np.inf)] = _NEGATIVE_INFINITY_HIF8
    return result


def _to_code(wide: np.ndarray, dst: str, mode: str) -> np.ndarray:
    if dst == "hif8":
        return _hif8_code(wide)
    return _truncated_code(_round(wide, mode) if dst in _FP4 else wide, dst)


def _from_code(codes: np.ndarray, src: str, dst: Format, mode: str) -> np.ndarray:
    values = _decode_table(src).take(codes)
    return (_round(values, mode) if src in _FP4 else values).astype(dst.dtype)


def _step(src: Format, dst: Format, mode: str) -> Conversion:
    """The conversion proper, after clamping."""
    kinds = {"unsigned": "integer", "signed": "integer"}
    pair = kinds.get(src.kind, src.kind), kinds.get(dst.kind, dst.kind)
    steps: dict[tuple[str, str], Conversion] = {
        ("float", "integer"): lambda values: _x86_int(_round(values.astype(np.float64), mode), dst),
        ("float", "float"): lambda values: values.astype(dst.dtype),
        # The multiplication quiets signaling NaN as the C++ cast does and NumPy's does not.
        ("float", "code"): lambda values: _to_code(values.astype(np.float64) * 1.0, dst.name, mode),
        ("code", "float"): lambda codes: _from_code(codes, src.name, dst, mode),
        ("integer", "integer"): lambda values: values.astype(dst.dtype),
        ("integer", "float"): partial(_float_of_int, dst=dst),
    }
    if src.name == "f8E8M0FNU" or dst.name == "f8E8M0FNU" or pair not in steps:
        raise ValueError(f"the CPU model has no conversion from {src.name} to {dst.name}")
    return steps[pair]


def _float_of_int(values: np.ndarray, dst: Format) -> np.ndarray:
    # NumPy rounds 32-bit integers to f32 on the way to f16.
    wide = values.astype(np.float64) if dst.name == "f16" else values
    return wide.astype(dst.dtype)


def cpu_converter(src: str, dst: str, *, rounding: str, saturate: bool) -> Conversion:
    """Function from arrays of `src` to new arrays of `dst`, in the array forms of `formats`.

    `rounding` is `none rint round floor ceil trunc odd`; only conversions into integers and of
    4-bit floats look at it, and `odd` means ties to odd there. The simulator saturates only if it
    is asked to. `ValueError` for an unknown mode and for pairs that are not modeled.
    """
    require("rounding mode", rounding, ("none", *MODES))
    source, destination = lookup(src), lookup(dst)
    if source is destination and source.name in _FP4:
        return np.copy
    step = _step(source, destination, rounding)
    clamps = saturate and source.name not in _FP4

    @np.errstate(all="ignore")
    def convert(values: np.ndarray) -> np.ndarray:
        return step(_clamp(values, source, destination) if clamps else values)

    return convert
