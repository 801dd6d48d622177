"""Scale and zero point in the forms that the steps of a scheme need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

from ptosim.ground.errors import IsaDataError, UsageError
from ptosim.ground.isa.cache import read_toml
from ptosim.ground.records import dataclass
from ptosim.ground.words import nearest

# Types of quantised values: integers of 2 to 32 bits, narrow floats, block scales.


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


# The schemes of `isa/quant/schemes.toml`: how a system turns a value into a stored one.

_FILE = "quant/schemes.toml"
_CHOICES = {
    "scale": ("divide", "multiply", "fused"),
    "precision": ("f32", "f64", "exact", "scale", "expressed"),
    "multiplier": ("f32", "fp19"),
    "zero": ("before", "after"),
    "field": ("", "s", "u"),
    "rounding": ("rne", "away", "trunc"),
    "overflow": ("clamp", "wrap", "int32"),
    "nan": ("low", "high", "zero", "edge"),
    "floats": ("none", "ignore", "add"),
    "inverse": ("f32", "scale", "expressed"),
    "form": ("real", "accumulator"),
}


@dataclass(frozen=True, slots=True)
class Scheme:
    """One scheme; the fields are the keys of its table in the data file, explained there."""

    name: str
    title: str
    used_by: str
    source: str
    scale: str
    precision: str
    multiplier: str
    zero: str
    field: str
    rounding: str
    through: tuple[str, ...]
    overflow: str
    nan: str
    range: tuple[int, ...]
    outputs: tuple[str, ...]
    floats: str
    inverse: str
    form: str
    quirks: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the scheme as JSON data."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@lru_cache(maxsize=1)
def schemes() -> dict[str, Scheme]:
    """Return every scheme by name, in the order of the file."""
    table = read_toml(_FILE)
    return {n: _make(n, {**table["defaults"], **row}) for n, row in table["scheme"].items()}


def scheme(name: str | Scheme) -> Scheme:
    """Return the scheme of a name; raises UsageError with the known names."""
    if isinstance(name, Scheme):
        return name
    found = schemes().get(name)
    if found is not None:
        return found
    hint = nearest(str(name), schemes(), f"known: {', '.join(schemes())}")
    raise UsageError(f"unknown quantisation scheme `{name}`", help=hint)


def _make(name: str, row: dict[str, Any]) -> Scheme:
    for key, choices in _CHOICES.items():
        if row.get(key) not in choices:
            raise IsaDataError(
                f"isa/{_FILE}: {name}: {key} is {row.get(key)!r}, not one of {choices}"
            )
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
    try:
        return Scheme(name, **values)
    except TypeError as problem:
        raise IsaDataError(f"isa/{_FILE}: {name}: {problem}") from problem


FLOATS = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
EXTENDED = np.dtype(np.longdouble)
"""80 bits on most machines; MLIR's f80 or f128 where it has as many (`isa/quant/mlir.toml`)."""
TF32 = "tf32"
Narrow = np.dtype | str
"""A float type that values are rounded to: of NumPy or ml_dtypes, or `tf32`, held in f32."""
_NAMES = {dtype: name for name, dtype in FLOATS.items()}
_SCALES = {dtype: name for dtype, name in _NAMES.items() if name != "f64"}
_FP19_MASK = np.uint32(0xFFFFE000)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Scales, multipliers and zero points of a tensor, all of the scale's shape.

    `work` is the type that the values are computed in, `narrow` the type that every result of the
    scaling is rounded to (None: the work type), `entry` the type that x is rounded to first (None:
    it fits the work type). `zero` is in the work type.
    """

    work: np.dtype
    narrow: Narrow | None
    entry: Narrow | None
    scale: np.ndarray
    multiplier: np.ndarray
    zero: np.ndarray

    def map(self, view: Callable[[np.ndarray], np.ndarray]) -> Parameters:
        """Return the parameters with each array cut or reshaped."""
        return Parameters(
            self.work,
            self.narrow,
            self.entry,
            view(self.scale),
            view(self.multiplier),
            view(self.zero),
        )

    def entered(self, x: np.ndarray) -> np.ndarray:
        """Return a new array of elements of x in the work type."""
        return (x if self.entry is None else narrowed(x, self.entry)).astype(self.work)

    @property
    def has_zero(self) -> bool:
        """True if some zero point is not 0."""
        return bool(np.any(self.zero != 0))


def float_name(dtype: np.dtype) -> str | None:
    """Return f16, bf16, f32 or f64, or None for any other type."""
    return _NAMES.get(dtype)


def narrowed(values: np.ndarray, kind: Narrow) -> np.ndarray:
    """Return values rounded to a float type, to nearest even."""
    if not isinstance(kind, str):
        return values.astype(kind)
    wide = values.astype(np.float64)
    with np.errstate(all="ignore"):
        # tf32 has the exponents of f32 and 10 bits of mantissa; one rounding, from f64.
        bits = wide.view(np.int64)
        step = np.int64(1) << np.int64(52 - 10)
        small = np.abs(wide) < 2.0**-126
        even = (bits + (step // 2 - 1) + ((bits >> np.int64(42)) & 1)) & ~(step - 1)
        found = np.where(np.isfinite(wide), even, bits).view(np.float64)
        found = np.where(small, np.rint(wide * 2.0**136) * 2.0**-136, found)
        return np.where(np.abs(found) >= 2.0**128, np.copysign(np.inf, found), found).astype(
            np.float32
        )


def fp19(multiplier: np.ndarray | float) -> np.ndarray:
    """Return f32 multipliers as the fixpipe holds them: sign, 8 exponent and 10 mantissa bits."""
    bits = np.asarray(multiplier, np.float32).view(np.uint32) & _FP19_MASK
    return bits.view(np.float32)


def reciprocal(scale: np.ndarray) -> np.ndarray:
    """Return f32(1/scale)."""
    with np.errstate(all="ignore"):
        return np.float32(1) / scale.astype(np.float32)


def prepare(
    scheme: Scheme,
    out: Storage,
    x_dtype: np.dtype,
    scale: np.ndarray,
    zero: np.ndarray,
    multiplier: np.ndarray | None,
    precision: str | None,
    expressed: str | None = None,
) -> Parameters:
    """Return the parameters of a quantisation. Raises UsageError for a zero point that the scheme
    cannot hold."""
    work, narrow = _work_types(scheme, out, x_dtype, scale.dtype, precision)
    if expressed == TF32 and scheme.precision == "expressed":
        work, narrow = FLOATS["f64"], TF32
    entry = narrow
    if narrow is None and x_dtype == FLOATS["f64"] and scheme.precision not in _WIDE:
        entry = FLOATS["f32"]
    factor = reciprocal(scale) if multiplier is None else multiplier.astype(np.float32)
    if scheme.multiplier == "fp19":
        factor = fp19(factor)
    divisor = narrowed(scale, work if narrow is None else narrow).astype(work)
    return Parameters(
        work, narrow, entry, divisor, factor.astype(work), _zero(scheme, out, zero).astype(work)
    )


_WIDE = ("f64", "expressed")


def _work_types(
    scheme: Scheme, out: Storage, x: np.dtype, scale: np.dtype, precision: str | None
) -> tuple[np.dtype, np.dtype | None]:
    chosen = scheme.precision
    if chosen == "scale":
        chosen = precision or _SCALES.get(scale, "f32")
    elif chosen == "expressed":
        if x == EXTENDED and x != FLOATS["f64"]:
            return EXTENDED, None
        chosen = _NAMES.get(x, "f32")
    elif chosen == "exact":
        chosen = "f64"
    if "promotes" in scheme.quirks and precision is None:
        chosen = _promoted(x, scale)
    work = FLOATS["f64"] if chosen == "f64" else FLOATS["f32"]
    if out.bits > 16 and out.is_integer:
        work = FLOATS["f64"]  # an f32 cannot hold every integer of the output
    narrow = FLOATS[chosen]
    return work, None if narrow == work else narrow


def _promoted(x: np.dtype, scale: np.dtype) -> str:
    """The type of x / scale by NumPy's promotion rules: integers with f32 give f64."""
    if x.kind in "iu":
        return "f64"
    return _NAMES.get(x, "f32") if x == scale else "f32"


def _zero(scheme: Scheme, out: Storage, zero: np.ndarray) -> np.ndarray:
    values = zero.astype(np.float64)
    if scheme.name not in _FRACTIONAL and np.any(values != np.rint(values)):
        raise UsageError(f"scheme {scheme.name}: a zero point is an integer")
    if out.is_integer and scheme.name in _TYPED:
        _check_range(scheme, values, out.low, out.high, f"the output type {out}")
    if scheme.field == "s":
        half = 1 << out.bits
        _check_range(scheme, values, -half, half - 1, f"the signed {out.bits + 1}-bit offset field")
    elif scheme.field == "u":
        values = values.astype(np.int64) & ((1 << (out.bits + 1)) - 1)
    elif scheme.overflow == "wrap" and scheme.scale == "divide" and out.is_integer:
        values = wrap(values.astype(np.int64), out)
    return values


_TYPED = ("onnx", "onnx-ref", "ort")
_FRACTIONAL = ("pto-hw", "naive-f16", "onednn", "page")


def _check_range(scheme: Scheme, values: np.ndarray, low: float, high: float, what: str) -> None:
    wrong = values[(values < low) | (values > high) | np.isnan(values)]
    if wrong.size:
        raise UsageError(
            f"scheme {scheme.name}: zero point {wrong.flat[0]:g} is outside {what} [{low}, {high}]"
        )


def wrap(values: np.ndarray, out: Storage) -> np.ndarray:
    """Return the low bits of int64 values as values of an integer type, still int64."""
    half = 1 << (out.bits - 1) if out.signed else 0
    low = values + half
    low &= (1 << out.bits) - 1
    low -= half
    return low
