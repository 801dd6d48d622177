"""Types of quantised values: integers of 2 to 32 bits, narrow floats, block scales."""

from __future__ import annotations

from functools import lru_cache

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.data import read_toml
from ptosim.ground.records import dataclass


@dataclass(frozen=True, slots=True)
class Storage:
    """One type of stored (or, `kind` wide, of expressed) values.

    `array` holds one element an entry. `kind` is `int`, `float` (8 bits and less), `scale` (e8m0)
    or `wide` (f16 to f64). `low` and `high` are the limits of an integer type, or the finite limits
    of a float.
    """

    name: str
    kind: str
    bits: int
    signed: bool
    array: np.dtype
    onnx: str = ""
    mlir: str = ""

    @property
    def is_integer(self) -> bool:
        """True for integers."""
        return self.kind == "int"

    @property
    def low(self) -> float | int:
        """The smallest value, infinities left out."""
        if self.is_integer:
            return -(1 << (self.bits - 1)) if self.signed else 0
        return float(ml_dtypes.finfo(self.array).min)

    @property
    def high(self) -> float | int:
        """The largest value, infinities left out."""
        if self.is_integer:
            return (1 << (self.bits - (1 if self.signed else 0))) - 1
        return float(ml_dtypes.finfo(self.array).max)

    def __str__(self) -> str:
        return self.name


ElementType = Storage | DTypeLike
"""What names a type: its PTO name, a NumPy or ml_dtypes type, or the type itself."""


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


@lru_cache(maxsize=1)
def storages() -> dict[str, Storage]:
    """Return every type by its PTO name."""
    return {
        name: Storage(
            name,
            row["kind"],
            row["bits"],
            row.get("signed", True),
            _dtype(row["array"]),
            row.get("onnx", ""),
            row.get("mlir", ""),
        )
        for name, row in read_toml("quant/storage.toml")["storage"].items()
    }


@lru_cache(maxsize=1)
def _words() -> dict[str, str]:
    words: dict[str, str] = {}
    for name, row in read_toml("quant/storage.toml")["storage"].items():
        for word in (name, row.get("onnx", ""), row["array"], *row.get("words", ())):
            words.setdefault(word.lower(), name)
    words.pop("", None)
    return words


@lru_cache(maxsize=1)
def _arrays() -> dict[np.dtype, Storage]:
    return {storage.array: storage for storage in storages().values()}


def narrow_integers(values: np.ndarray, kind: Storage) -> np.ndarray:
    """Return one-byte integers as elements of a type of 2 or 4 bits, in ml_dtypes' own bit pattern
    (whether it extends the sign into the byte depends on its version)."""
    pattern = np.array([-1], np.int8).astype(kind.array).view(np.uint8)[0]
    codes = values.view(np.uint8)
    return np.bitwise_and(codes, pattern, out=codes).view(kind.array)


def storage(what: ElementType) -> Storage:
    """Return the type that a word, a NumPy or ml_dtypes type or a Storage names.

    Raises UsageError for anything else.
    """
    if isinstance(what, Storage):
        return what
    if isinstance(what, str):
        name = _words().get(what.strip().lower())
        if name is not None:
            return storages()[name]
        raise _unknown(what)
    try:
        found = _arrays().get(np.dtype(what))
    except TypeError as problem:
        raise _unknown(what) from problem
    if found is None:
        raise _unknown(what)
    return found


def of_array(array: np.ndarray) -> Storage | None:
    """Return the type of an array's elements, or None."""
    return _arrays().get(array.dtype)


def as_bytes(array: np.ndarray) -> np.ndarray:
    """Return integers of 2 and 4 bits, which ml_dtypes keeps in a byte and NumPy cannot compute
    with, as integers of 8 bits; anything else as it is."""
    known = of_array(array)
    if known is None or not known.is_integer or array.dtype.kind in "iu":
        return array
    return array.astype(np.int8 if known.signed else np.uint8)


def integer_storage(bits: int, *, signed: bool) -> Storage:
    """Return the integer type of any width from 1 to 32; widths without a name are held in the next
    NumPy type."""
    for known in storages().values():
        if known.is_integer and (known.bits, known.signed) == (bits, signed):
            return known
    holder = next(size for size in (8, 16, 32) if bits <= size)
    sign = "" if signed else "u"
    return Storage(f"{sign}i{bits}", "int", bits, signed, np.dtype(f"{sign}int{holder}"))


def _unknown(what: ElementType) -> UsageError:
    return UsageError(f"unknown element type `{what}`", help=f"known: {', '.join(storages())}")
