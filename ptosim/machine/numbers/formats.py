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

from collections.abc import Iterable

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
