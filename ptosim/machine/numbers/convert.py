"""TCVT: element conversions of A2/A3 and A5.

`converter` resolves everything once, when a program is decoded; the function it returns does
only the arithmetic.

Rounding. `none` represents truncation when a float becomes an integer and for ties-to-even
otherwise; `odd` exists only for f32 to f16 and means `none` for every other pair. Integers become
the nearest float, ties to even, whatever the mode. f8E4M3FN and f8E5M2 are always rounded to
nearest, ties to even, and hif8 with ties away from zero; the 4-bit floats obey the mode. f32 to f32
rounds to an integral value.

Saturation. On, a result is clamped to the finite range of the destination, infinities included;
a NaN becomes 0 in an integer (the hardware's answer is not documented, `nan_to_int` chooses) and
stays NaN in a float. Off, the six pairs that default to it (f16 to i16, i8 and ui8, f32 to i16,
i64 to i32, i32 to i16) convert to a saturated 32-bit integer first and keep its low bits, so +inf
gives all ones and -inf gives 0. Every other pair ignores "off" on A2/A3. On A5 a float then
overflows to infinity (or to NaN where there is none), an integer keeps the low bits of its
source, and a float whose integer is as wide as 32 or 64 bits follows `off_wide`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ptosim.ground.records import NamedTuple
from ptosim.machine.numbers.formats import decode_table, encoder, lookup, require
from ptosim.machine.numbers.integers import (
    clamp_int,
    float_to_int,
    float_to_low_bits,
    int_to_float,
    wrap_int,
)
from ptosim.machine.numbers.rounding import MODES, narrow, to_integral

Conversion = Callable[[np.ndarray], np.ndarray]

_PAIRS = {
    "a2a3": {
        "f32": "f32 f16 bf16 i16 i32 i64",
        "f16": "f32 i32 i16 i8 ui8 i4",
        "bf16": "f32 i32",
        "i64": "f32 i32",
        "i32": "f32 f16 i16 i64",
        "i16": "f16 f32",
        "i8": "f16",
        "i4": "f16",
        "ui8": "f16",
    },
    "a5": {
        "f32": "f32 f16 bf16 i16 i32 i64 f8E4M3FN f8E5M2 hif8",
        "f16": "f32 i32 i16 i8 ui8 hif8",
        "bf16": "f32 f16 i32 f4E2M1FN f4E1M2FN",
        "i64": "f32 i32",
        "i32": "f32 i16 i64 ui16 ui8",
        "i16": "f16 f32 i32 ui32 ui8",
        "i8": "f16 i16 i32",
        "ui32": "i16 ui16 ui8",
        "ui8": "f16 ui16",
        "f8E4M3FN": "f32",
        "f8E5M2": "f32",
        "hif8": "f32",
        "f4E2M1FN": "bf16",
        "f4E1M2FN": "bf16",
    },
}
TARGETS = tuple(_PAIRS)

# Off is a real mode of these on both targets.
_WRAPPING = frozenset(
    {
        ("f16", "i16"),
        ("f16", "i8"),
        ("f16", "ui8"),
        ("f32", "i16"),
        ("i64", "i32"),
        ("i32", "i16"),
    }
)


class _Request(NamedTuple):
    src: str
    dst: str
    rounding: str
    saturate: bool
    target: str
    off_wide: str
    nan_to_int: str

    def mode(self, default: str) -> str:
        honored = self.rounding != "none" and (
            self.rounding != "odd" or (self.src, self.dst) == ("f32", "f16")
        )
        return self.rounding if honored else default


def _float_to_float(request: _Request) -> Conversion:
    src, dst = lookup(request.src), lookup(request.dst)
    mode = request.mode("rint")
    if src is dst:
        return partial(to_integral, mode=mode)
    if dst.bits > src.bits:
        return np.errstate(all="ignore")(lambda values: values.astype(dst.dtype))
    return partial(narrow, dst=dst.name, mode=mode, saturate=request.saturate)


def _float_to_int(request: _Request) -> Conversion:
    mode = request.mode("trunc")
    saturating = partial(float_to_int, mode=mode, nan_to_int=request.nan_to_int)
    if request.saturate:
        return partial(saturating, dst=request.dst)
    if (request.src, request.dst) in _WRAPPING:
        return lambda values: wrap_int(saturating(values, "i32"), request.dst)
    if request.off_wide == "saturate":
        return partial(saturating, dst=request.dst)
    return partial(float_to_low_bits, dst=request.dst, mode=mode)


def _int_to_int(request: _Request) -> Conversion:
    if request.saturate:
        return partial(clamp_int, src=request.src, dst=request.dst)
    return partial(wrap_int, dst=request.dst)


def _int_to_float(request: _Request) -> Conversion:
    return partial(int_to_float, dst=request.dst, saturate=request.saturate)


def _float_to_code(request: _Request) -> Conversion:
    rounding = request.mode("rint") if lookup(request.dst).bits == 4 else "rint"
    if request.dst == "hif8":
        rounding = "round"
    return encoder(request.src, request.dst, rounding, request.saturate)


def _code_to_float(request: _Request) -> Conversion:
    return decode_table(request.src).astype(lookup(request.dst).dtype).take


_BUILDERS: dict[tuple[str, str], Callable[[_Request], Conversion]] = {
    ("float", "float"): _float_to_float,
    ("float", "signed"): _float_to_int,
    ("float", "unsigned"): _float_to_int,
    ("float", "code"): _float_to_code,
    ("code", "float"): _code_to_float,
    ("signed", "signed"): _int_to_int,
    ("signed", "unsigned"): _int_to_int,
    ("unsigned", "signed"): _int_to_int,
    ("unsigned", "unsigned"): _int_to_int,
    ("signed", "float"): _int_to_float,
    ("unsigned", "float"): _int_to_float,
}


def pairs(target: str) -> frozenset[tuple[str, str]]:
    """Every (source, destination) that `target` converts, by canonical format names."""
    return frozenset(
        (src, dst) for src, destinations in _PAIRS[target].items() for dst in destinations.split()
    )


def converter(
    src: str,
    dst: str,
    *,
    rounding: str,
    saturate: bool,
    target: str,
    off_wide: str = "lowbits",
    nan_to_int: str = "zero",
    obeyed: bool = False,
) -> Conversion:
    """Function from arrays of `src` to new arrays of `dst`, in the array forms of `formats`.

    `rounding` is `none rint round floor ceil trunc odd`; an operation that names no mode means
    `rint`. `target` is `a2a3` or `a5`. `off_wide` (`lowbits` or `saturate`) decides what A5 does
    without saturation for f32 to i32 and i64, f16 to i32 and bf16 to i32, where no board result
    is known: the low bits of the exact integer with 0 for infinities and NaN, or the same as with
    saturation. `nan_to_int` is `zero` or `max`. Saturation that is off is `obeyed` on A2/A3 for
    every pair, as its conversions with a scratch tile do. `ValueError` if the target has no such
    conversion or a choice is unknown.
    """
    require("rounding mode", rounding, ("none", *MODES))
    require("target", target, TARGETS)
    require("off_wide", off_wide, ("lowbits", "saturate"))
    require("nan_to_int", nan_to_int, ("zero", "max"))
    source, destination = lookup(src), lookup(dst)
    pair = source.name, destination.name
    if pair not in pairs(target):
        raise ValueError(f"{target} has no conversion from {src} to {dst}")
    saturates = saturate or (target == "a2a3" and pair not in _WRAPPING and not obeyed)
    request = _Request(*pair, rounding, saturates, target, off_wide, nan_to_int)
    return _BUILDERS[source.kind, destination.kind](request)
