"""Element formats of the PTO tile ISA and the arrays that hold them.

Array form, one rule for every format:

* `f64 f32 f16` and the integers of 8 to 64 bits: the NumPy type of that size; `index` is 64-bit;
* `bf16`: `ml_dtypes.bfloat16`;
* every float of 8 bits or fewer (`f8E4M3FN f8E5M2 f8E8M0FNU f4E2M1FN f4E1M2FN hif8`): `uint8`
  codes, one element per entry, a 4-bit code in the low nibble;
* 4-bit integers: `int8`, one element per entry; `i1`: `bool`.

Two 4-bit elements share a byte only in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

import ml_dtypes
import numpy as np

from ptosim.ground.records import NamedTuple

# -- choices ---------------------------------------------------------------------------------------


def require(what: str, value: object, known: Iterable[object]) -> None:
    """Raise `ValueError` naming `what` unless `value` is one of `known`."""
    if value not in known:
        listed = " ".join(str(choice) for choice in known)
        raise ValueError(f"unknown {what} {value!r}; known: {listed}")


# -- formats ---------------------------------------------------------------------------------------


BF16 = np.dtype(ml_dtypes.bfloat16)
CODE = np.dtype(np.uint8)


class Format(NamedTuple):
    """One element format; `lowest` and `highest` are its largest finite negative and positive."""

    name: str
    kind: str
    bits: int
    dtype: np.dtype
    lowest: float
    highest: float


def _integer(name: str, kind: str, bits: int, dtype: type) -> Format:
    low = -(1 << (bits - 1)) if kind == "signed" else 0
    return Format(name, kind, bits, np.dtype(dtype), low, low + (1 << bits) - 1)


def _symmetric(name: str, kind: str, bits: int, dtype: np.dtype, highest: float) -> Format:
    return Format(name, kind, bits, dtype, -highest, highest)


FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        _symmetric("f64", "float", 64, np.dtype(np.float64), (2 - 2.0**-52) * 2.0**1023),
        _symmetric("f32", "float", 32, np.dtype(np.float32), (2 - 2.0**-23) * 2.0**127),
        _symmetric("f16", "float", 16, np.dtype(np.float16), 65504.0),
        _symmetric("bf16", "float", 16, BF16, (2 - 2.0**-7) * 2.0**127),
        _symmetric("f8E4M3FN", "code", 8, CODE, 448.0),
        _symmetric("f8E5M2", "code", 8, CODE, 57344.0),
        _symmetric("hif8", "code", 8, CODE, 32768.0),
        _symmetric("f4E2M1FN", "code", 4, CODE, 6.0),
        _symmetric("f4E1M2FN", "code", 4, CODE, 1.75),
        Format("f8E8M0FNU", "code", 8, CODE, 2.0**-127, 2.0**127),
        _integer("i64", "signed", 64, np.int64),
        _integer("i32", "signed", 32, np.int32),
        _integer("i16", "signed", 16, np.int16),
        _integer("i8", "signed", 8, np.int8),
        _integer("i4", "signed", 4, np.int8),
        _integer("index", "signed", 64, np.int64),
        _integer("ui64", "unsigned", 64, np.uint64),
        _integer("ui32", "unsigned", 32, np.uint32),
        _integer("ui16", "unsigned", 16, np.uint16),
        _integer("ui8", "unsigned", 8, np.uint8),
        _integer("i1", "unsigned", 1, np.bool_),
    )
}

ALIASES: dict[str, str] = {
    "f8E4M3": "f8E4M3FN",
    "f4E2M1": "f4E2M1FN",
    "f4E1M2": "f4E1M2FN",
    "!pto.hif8": "hif8",
    "!pto.f8E8M0": "f8E8M0FNU",
    "si64": "i64",
    "si32": "i32",
    "si16": "i16",
    "si8": "i8",
    "si4": "i4",
}


def lookup(name: str) -> Format:
    """Return the format called `name`, alias or not; `ValueError` for an unknown name.

    Signless and `si` integers are the same signed format: what an operation does with them is
    decided by the operation.
    """
    try:
        return FORMATS[ALIASES.get(name, name)]
    except KeyError:
        known = " ".join(FORMATS)
        raise ValueError(f"unknown element format {name!r}; known: {known}") from None


# Decode and encode the floats that are held as codes: the 8- and 4-bit formats.
#
# Decoding looks a code up in a table of 256 values. Encoding looks a 16-bit pattern up in a table
# of 65,536 codes: bf16 and f16 values index one directly, and an f32 is first cut to its upper half
# with the lost bits ORed into the last one kept (rounding to odd), which leaves every later
# rounding to at most six significant bits exact. Tables are built on first use.


class _Minifloat(NamedTuple):
    """Bit fields of a sign-magnitude float; magnitudes from `specials` on are not finite."""

    mantissa: int
    bias: int
    specials: int
    infinity: int | None
    nan: int


_MINIFLOATS = {
    "f8E4M3FN": _Minifloat(mantissa=3, bias=7, specials=0x7F, infinity=None, nan=0x7F),
    "f8E5M2": _Minifloat(mantissa=2, bias=15, specials=0x7C, infinity=0x7C, nan=0x7E),
    "f4E2M1FN": _Minifloat(mantissa=1, bias=1, specials=0x8, infinity=None, nan=0x7),
    "f4E1M2FN": _Minifloat(mantissa=2, bias=1, specials=0x8, infinity=None, nan=0x7),
}
_HIF8_INFINITY = 0x6F
_HIF8_NAN = 0x80


def _minifloat_value(magnitude: int, fields: _Minifloat) -> float:
    if magnitude >= fields.specials:
        return float("inf") if magnitude == fields.infinity else float("nan")
    exponent, fraction = divmod(magnitude, 1 << fields.mantissa)
    significand = fraction + ((1 << fields.mantissa) if exponent else 0)
    return significand * 2.0 ** (max(exponent, 1) - fields.bias - fields.mantissa)


# A prefix code tells the number of exponent bits: (prefix, prefix bits, exponent bits).
_HIF8_PREFIXES = ((0b11, 2, 4), (0b10, 2, 3), (0b01, 2, 2), (0b001, 3, 1), (0b0001, 4, 0))


def _hif8_value(magnitude: int) -> float:
    """Value of the seven bits below the sign.

    Whatever the prefix and the exponent leave free is mantissa: 1, 2 or 3 bits after a two-bit
    prefix, always 3 bits for one or no exponent bit. Without a prefix the value is subnormal.
    """
    if magnitude == _HIF8_INFINITY:
        return float("inf")
    for prefix, prefix_bits, exponent_bits in _HIF8_PREFIXES:
        if magnitude >> (7 - prefix_bits) == prefix:
            return _hif8_normal(magnitude, exponent_bits, 7 - prefix_bits - exponent_bits)
    return 2.0 ** (magnitude - 23) if magnitude else 0.0


def _hif8_normal(magnitude: int, exponent_bits: int, mantissa_bits: int) -> float:
    """The exponent is sign-magnitude with a hidden leading one; its top bit is the sign."""
    mantissa = magnitude & ((1 << mantissa_bits) - 1)
    exponent = 0
    if exponent_bits:
        half = 1 << (exponent_bits - 1)
        field = (magnitude >> mantissa_bits) & (2 * half - 1)
        exponent = field + half if field < half else -field
    return (1 + mantissa / (1 << mantissa_bits)) * 2.0**exponent


def _code_value(code: int, form: Format) -> float:
    if form.name == "f8E8M0FNU":
        return float("nan") if code == 0xFF else 2.0 ** (code - 127)
    if form.name == "hif8":
        if code == _HIF8_NAN:
            return float("nan")
        value = _hif8_value(code & 0x7F)
        return -value if code & 0x80 else value
    sign_bit = 1 << (form.bits - 1)
    value = _minifloat_value(code & (sign_bit - 1), _MINIFLOATS[form.name])
    return -value if code & sign_bit else value


@cache
def decode_table(name: str) -> np.ndarray:
    """256 f32 values of a code format, by code; 4-bit formats repeat every 16 entries.

    Read-only, built on first use. `ValueError` if `name` is not a format held as codes.
    """
    form = lookup(name)
    if form.kind != "code":
        raise ValueError(f"{name} is not held as codes")
    table = np.array([_code_value(code, form) for code in range(256)], dtype=np.float32)
    table.flags.writeable = False
    return table


def decode(codes: np.ndarray, name: str) -> np.ndarray:
    """Values of `codes` (uint8, any shape) as f32; exact for every code format.

    For 4-bit formats the high nibble is ignored. NaN codes decode to a quiet NaN.
    """
    return decode_table(name).take(codes)


class _Grid(NamedTuple):
    """Non-negative values in rising order with their codes; the last entry represents overflow."""

    values: np.ndarray
    codes: np.ndarray
    nan: int
    nan_is_signed: bool
    sign_bit: int


def _hif8_grid(saturate: bool) -> _Grid:
    finite = (code for code in range(0x80) if code != _HIF8_INFINITY)
    pairs = sorted((_hif8_value(code), code) for code in finite)
    values, codes = zip(*pairs, strict=True)
    overflow = codes[-1] if saturate else _HIF8_INFINITY
    # The step after 2^15 would be 1.5 * 2^15, whose code is that of infinity.
    return _Grid(np.array([*values, 49152.0]), np.array([*codes, overflow]), _HIF8_NAN, False, 0x80)


def _grid(form: Format, saturate: bool) -> _Grid:
    if form.name == "hif8":
        return _hif8_grid(saturate)
    fields = _MINIFLOATS[form.name]
    finite = range(fields.specials)
    values = [_minifloat_value(code, fields) for code in finite]
    beyond = 2 * values[-1] - values[-2]
    has_overflow_code = form.bits == 8 and not saturate
    overflow = fields.specials if has_overflow_code else fields.specials - 1
    return _Grid(
        np.array([*values, beyond]),
        np.array([*finite, overflow]),
        fields.nan,
        form.bits == 8,
        1 << (form.bits - 1),
    )


_DIRECTED = {"floor": (False, True), "ceil": (True, False), "trunc": (False, False)}
"""Whether a positive and a negative number round away from zero."""


def _rounded(magnitudes: np.ndarray, grid: _Grid, rounding: str, *, negative: bool) -> np.ndarray:
    """Codes of `magnitudes` by a rounding mode; as in IEEE arithmetic what is rounded toward zero
    does not overflow, unless it is an infinity."""
    if rounding not in _DIRECTED:
        return _nearest(magnitudes, grid, rounding)
    last = len(grid.values) - 1
    if _DIRECTED[rounding][negative]:
        at = np.searchsorted(grid.values[:last], magnitudes, side="left")
    else:
        below = np.searchsorted(grid.values[:last], magnitudes, side="right") - 1
        at = np.where(np.isinf(magnitudes), last, below)
    return grid.codes[at]


def _nearest(magnitudes: np.ndarray, grid: _Grid, rounding: str) -> np.ndarray:
    """Codes nearest to `magnitudes`; ties to the even code (`rint`) or upwards (`round`)."""
    midpoints = (grid.values[1:] + grid.values[:-1]) / 2
    upper = np.searchsorted(midpoints, magnitudes, side="right")
    if rounding == "round":
        return grid.codes[upper]
    lower = np.searchsorted(midpoints, magnitudes, side="left")
    # Codes of the formats with this rounding rise with the values, so positions are codes.
    return grid.codes[np.where(lower % 2 == 0, lower, upper)]


@cache
@np.errstate(all="ignore")
def _bf16_table(name: str, rounding: str, saturate: bool, nan: str) -> np.ndarray:
    """Code of every bf16 pattern, where the pattern may be the odd-rounded half of an f32."""
    form = lookup(name)
    if form.kind != "code" or form.name == "f8E8M0FNU":
        raise ValueError(f"there is no encoding into {name}")
    require(f"rounding into {name}", rounding, ("rint", "round", *_DIRECTED))
    grid = _grid(form, saturate)
    patterns = np.arange(0x8000, dtype=np.uint32) << 16
    magnitudes = patterns.view(np.float32).astype(np.float64)
    positive = _rounded(magnitudes, grid, rounding, negative=False)
    negative = _rounded(magnitudes, grid, rounding, negative=True) | grid.sign_bit
    if form.name == "hif8":
        negative[negative == grid.sign_bit] = 0
    code = 0 if nan == "zero" else grid.nan
    positive[0x7F81:] = code
    negative[0x7F81:] = code | (grid.sign_bit if grid.nan_is_signed and nan == "signed" else 0)
    return np.concatenate([positive, negative]).astype(np.uint8)


def _odd_half(values: np.ndarray) -> np.ndarray:
    bits = values.view(np.uint32)
    half = bits >> 16
    half |= (bits & 0xFFFF) != 0
    return half


@cache
@np.errstate(all="ignore")
def _f16_table(name: str, rounding: str, saturate: bool, nan: str) -> np.ndarray:
    every = np.arange(0x10000, dtype=np.uint16).view(np.float16)
    table = _bf16_table(name, rounding, saturate, nan)
    return table.take(_odd_half(every.astype(np.float32)))


@cache
def encoder(
    src: str,
    dst: str,
    rounding: str = "rint",
    saturate: bool = True,
    *,
    nan: str = "signed",
) -> Callable[[np.ndarray], np.ndarray]:
    """Function from arrays of `src` (f32, f16 or bf16) to codes of the narrow float `dst`.

    `rounding` is `rint` (ties to even), `round` (ties away from zero), `floor`, `ceil` or `trunc`,
    of which the last three do not overflow toward zero. With `saturate` values
    beyond the largest finite one, infinities included, give it; without, they give the format's
    infinity, or its NaN for `f8E4M3FN`, which has none; the 4-bit formats have neither and always
    saturate. NaN keeps its sign in `f8E4M3FN` (7F, FF) and `f8E5M2` (7E, FE) where `nan` is
    `signed` and loses it where it is `plain`, is code 7 in the 4-bit formats and 80 in `hif8`;
    where `nan` is `zero`, it is code 0. `hif8` has no negative zero.
    `ValueError` if there is no such encoding.
    """
    if src == "f16":
        table = _f16_table(dst, rounding, saturate, nan)
        return lambda values: table.take(values.view(np.uint16))
    table = _bf16_table(dst, rounding, saturate, nan)
    if src == "bf16":
        return lambda values: table.take(values.view(np.uint16))
    if src == "f32":
        return lambda values: table.take(_odd_half(values))
    raise ValueError(f"there is no encoding from {src}")


_SOURCES = {np.dtype(np.float32): "f32", np.dtype(np.float16): "f16", BF16: "bf16"}


def encode(
    values: np.ndarray, name: str, rounding: str = "rint", saturate: bool = True
) -> np.ndarray:
    """Codes (uint8) of an f32, f16 or bf16 array; the rules are those of `encoder`."""
    src = _SOURCES.get(values.dtype)
    if src is None:
        raise ValueError(f"cannot encode {values.dtype}; convert to f32 first")
    return encoder(src, name, rounding, saturate)(values)
