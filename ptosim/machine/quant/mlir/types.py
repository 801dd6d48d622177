"""Types of the MLIR `quant` dialect and the types that contain them, printable as MLIR prints
them."""

from __future__ import annotations

import re
import struct
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ptosim.ground.isa.cache import read_toml
from ptosim.ground.records import dataclass

if TYPE_CHECKING:
    import numpy as np

# Reading MLIR type text: a position in it, tokens, and errors in MLIR's words.

# -- floats in hexadecimal -------------------------------------------------------------------------

_DIGITS = 17  # what a 64-bit float needs
_PADDING = 3  # zeros that a number without exponent may have before or after it


def float_text(value: float) -> str:
    """Return an f64 as MLIR prints it: six decimals if they are enough, all digits if a point is
    among them, else the bits in hex."""
    short = f"{value:.6e}"
    if float(short) == value:
        return short
    full = _all_digits(value)
    return full if "." in full else f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"


def _all_digits(value: float) -> str:
    sign = "-" if value < 0 else ""
    number = Decimal(f"{abs(value):.{_DIGITS - 1}e}")
    _, parts, low = number.as_tuple()
    digits = "".join(map(str, parts)).rstrip("0") or "0"
    exponent = int(low) + len(parts) - len(digits)  # of the last digit that is not 0
    top = exponent + len(digits) - 1
    if exponent >= 0:
        scientific = exponent > _PADDING or len(digits) + exponent > _DIGITS
    else:
        scientific = top < -_PADDING
    if scientific:
        mantissa = f"{digits[0]}.{digits[1:] or '0'}"
        return f"{sign}{mantissa}E{'+' if top >= 0 else ''}{top}"
    if exponent >= 0:
        return sign + digits + "0" * exponent
    if top >= 0:
        return f"{sign}{digits[: top + 1]}.{digits[top + 1 :]}"
    return f"{sign}0.{'0' * (-top - 1)}{digits}"


def float_of_bits(text: str) -> float:
    """Return the f64 whose bits a hex literal gives."""
    return struct.unpack(">d", struct.pack(">Q", int(text, 16)))[0]


# -- cursor ----------------------------------------------------------------------------------------


_SPACE = re.compile(r"(?:\s|//[^\n]*)*")
_KEYWORD = re.compile(r"[A-Za-z_][\w$.]*")
_FLOAT = re.compile(r"[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_INT = re.compile(r"[0-9]+")
MAX_DIGITS = 100
"""Of a number that may still be meant: 64 bits are 20 digits."""
_OPENING = {"<": ">", "[": "]", "(": ")", "{": "}"}


def width(digits: str) -> int | None:
    """Return the width that the digits of a type's name say; None for no digits and for more than
    any width has."""
    return int(digits) if 0 < len(digits) <= MAX_DIGITS else None


class MlirFault(Exception):
    """A type text that MLIR would reject. `messages` are its words, `offset` the place."""

    def __init__(self, messages: str | list[str], offset: int) -> None:
        self.messages = [messages] if isinstance(messages, str) else messages
        self.offset = offset
        super().__init__(self.messages[0])


@dataclass(slots=True, eq=False)
class Cursor:
    """A position in a text."""

    text: str
    pos: int = 0

    def fail(self, message: str | list[str], at: int | None = None) -> MlirFault:
        """Return the error to raise."""
        return MlirFault(message, self.pos if at is None else at)

    def skip(self) -> None:
        """Move over white space and comments."""
        match = _SPACE.match(self.text, self.pos)
        assert match is not None
        self.pos = match.end()

    def here(self) -> int:
        """Move over white space and comments, and return the position."""
        self.skip()
        return self.pos

    def peek(self, text: str) -> bool:
        """Return True if the text comes next."""
        self.skip()
        return self.text.startswith(text, self.pos)

    def take(self, text: str) -> bool:
        """Move over a text if it comes next."""
        if self.peek(text):
            self.pos += len(text)
            return True
        return False

    def expect(self, text: str) -> None:
        """Move over a text that must come next."""
        if not self.take(text):
            raise self.fail(f"expected '{text}'")

    def at_end(self) -> bool:
        """Return True if nothing but white space is left."""
        self.skip()
        return self.pos == len(self.text)

    def match(self, pattern: re.Pattern[str]) -> str | None:
        """Move over a pattern if it comes next."""
        self.skip()
        found = pattern.match(self.text, self.pos)
        if found is None:
            return None
        self.pos = found.end()
        return found.group()

    def keyword(self) -> str:
        """Return the identifier that must come next."""
        word = self.match(_KEYWORD)
        if word is None:
            raise self.fail("expected valid keyword")
        return word

    def integer(self) -> int:
        """Return the integer that must come next."""
        start = self.here()
        minus = self.take("-")
        found = None if self._is_float() else self.match(_HEX) or self.match(_INT)
        if found is None:
            self.pos = start
            raise self.fail("expected integer value")
        if len(found) > MAX_DIGITS:
            raise self.fail("integer value too large", start)
        value = int(found, 0) if found.startswith("0x") else int(found)
        if value >= 1 << 63:
            raise self.fail("integer value too large", start)
        return -value if minus else value

    def _is_float(self) -> bool:
        self.skip()
        return _FLOAT.match(self.text, self.pos) is not None

    def floating(self) -> float:
        """Return the float literal that must come next; MLIR wants a point in it."""
        start = self.here()
        minus = self.take("-")
        found = self.match(_FLOAT)
        if found is not None:
            value = float(found)
            if value == float("inf"):
                raise self.fail("floating point value too large for attribute", start)
            return -value if minus else value
        found = self.match(_HEX)
        if found is not None:
            return self._hexadecimal(found, minus, start)
        if self.match(_INT) is not None:
            raise self.fail("unexpected decimal integer literal for a floating point value", start)
        if self.peek("."):
            raise self.fail("expected three consecutive dots for an ellipsis")
        raise self.fail("expected floating point literal", start)

    def _hexadecimal(self, found: str, minus: bool, start: int) -> float:
        if minus:
            raise self.fail("hexadecimal float literal should not have a leading minus", start)
        if len(found) > 18:
            raise self.fail("hexadecimal float constant out of range for type", start)
        return float_of_bits(found)

    def check_balance(self) -> None:
        """Raise an error if the brackets from here to their end are not closed in order."""
        open_: list[str] = []
        at = self.pos
        while at < len(self.text):
            char = self.text[at]
            if char == '"':
                at = self._string_end(at)
            elif self.text.startswith("->", at):
                at += 1
            elif char in _OPENING:
                open_.append(char)
            elif char in _OPENING.values():
                if _OPENING[open_[-1]] != char:
                    break
                open_.pop()
                if not open_:
                    return
            at += 1
        raise self.fail(f"unbalanced '{open_[-1]}' character in pretty dialect name")

    def _string_end(self, at: int) -> int:
        end = self.text.find('"', at + 1)
        return len(self.text) if end < 0 else end


Dim = int | None


@lru_cache(maxsize=1)
def data() -> dict[str, Any]:
    """Return the tables of `isa/quant/mlir.toml`."""
    return read_toml("quant/mlir.toml")


def float_array(name: str) -> np.dtype | None:
    """Return the NumPy type that holds a float type, or None if there is none here: whether it has
    80 or 128 bits depends on the machine."""
    row = data()["float"].get(name, {})
    array = row.get("array")
    if array is None:
        return None
    import ml_dtypes
    import numpy as np

    found = np.dtype(getattr(ml_dtypes, array, array))
    if "mantissa" in row and np.finfo(found).nmant != row["mantissa"]:
        return None
    return found


@dataclass(frozen=True, slots=True)
class StorageSpec:
    """How values are stored in memory.

    `word` is the spelling (`i8`, `u8`, `si8`, `ui8`, `f8E4M3FN`), `bits` the width, `low` and
    `high` the range, `full` what the range is if it is not written.
    """

    word: str
    bits: int
    signed: bool
    is_float: bool
    low: int
    high: int
    full: tuple[int, int]

    @property
    def is_narrowed(self) -> bool:
        """True if the range is smaller than the type's."""
        return (self.low, self.high) != self.full

    @property
    def kind(self) -> str:
        """The signless integer type (or the float type) of the bits."""
        return self.word if self.is_float else f"i{self.bits}"

    def __str__(self) -> str:
        return f"{self.word}<{self.low}:{self.high}>" if self.is_narrowed else self.word


class QuantType:
    """Base of the types of the dialect."""

    __slots__ = ()
    expressed: Any  # a word, or None
    storage: Any  # a StorageSpec, or None


@dataclass(frozen=True, slots=True)
class UniformType(QuantType):
    """`!quant.uniform`: per layer (`axes` None), per axis, or per block (`axes` maps axis to block
    size).

    `scales` and `zeros` have one entry (per layer), are vectors (per axis), or have the rank of the
    tensor (per block). Scales are f64.
    """

    storage: StorageSpec
    expressed: str
    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    axis: int | None = None
    blocks: tuple[tuple[int, int], ...] | None = None
    shape: tuple[int, ...] = ()

    @property
    def granularity(self) -> str:
        """per-layer, per-axis or sub-channel."""
        if self.blocks is not None:
            return "sub-channel"
        return "per-layer" if self.axis is None else "per-axis"

    def scale_array(self) -> np.ndarray:
        """Return the scales in f64, in the shape that `axis` and `blocks` give them."""
        import numpy as np

        return np.array(self.scales, np.float64).reshape(self._shape())

    def zero_array(self) -> np.ndarray:
        """Return the zero points in the same shape."""
        import numpy as np

        return np.array(self.zeros, np.int64).reshape(self._shape())

    def _shape(self) -> tuple[int, ...]:
        if self.blocks is not None:
            return self.shape
        return () if self.axis is None else (len(self.scales),)

    def __str__(self) -> str:
        head = f"!quant.uniform<{self.storage}:{self.expressed}"
        pairs = [_pair(s, z) for s, z in zip(self.scales, self.zeros, strict=True)]
        if self.blocks is not None:
            axes = ", ".join(f"{a}:{b}" for a, b in self.blocks)
            return f"{head}:{{{axes}}}, {_nest(pairs, self.shape)}>"
        if self.axis is not None:
            return f"{head}:{self.axis}, {{{','.join(pairs)}}}>"
        return f"{head}, {pairs[0]}>"


def _pair(scale: float, zero: int) -> str:
    return float_text(scale) + (f":{zero}" if zero else "")


def _nest(pairs: list[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return pairs[0]
    step = len(pairs) // shape[0] if shape[0] else 0
    inner = [_nest(pairs[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]
    return "{" + ", ".join(inner) + "}"


@dataclass(frozen=True, slots=True)
class AnyType(QuantType):
    """`!quant.any`: stored and expressed type, nothing on how they relate."""

    storage: StorageSpec
    expressed: Any  # a word, or None

    def __str__(self) -> str:
        return f"!quant.any<{self.storage}{f':{self.expressed}' if self.expressed else ''}>"


@dataclass(frozen=True, slots=True)
class CalibratedType(QuantType):
    """`!quant.calibrated`: an expressed type with the range that was seen."""

    expressed: str
    low: float
    high: float
    storage: None = None

    def __str__(self) -> str:
        return (
            f"!quant.calibrated<{self.expressed}<{float_text(self.low)}:{float_text(self.high)}>>"
        )


@dataclass(frozen=True, slots=True)
class QuantileType(QuantType):
    """`!quant.quantile`: every stored value has its own place in a table."""

    storage: StorageSpec
    expressed: str
    values: tuple[float, ...]

    def __str__(self) -> str:
        table = ",".join(float_text(v) for v in self.values)
        narrow = f", <{self.storage.low}:{self.storage.high}>" if self.storage.is_narrowed else ""
        return f"!quant.quantile<{self.storage.word}:{self.expressed}, {{{table}}}{narrow}>"


@dataclass(frozen=True, slots=True)
class Builtin:
    """A builtin scalar type by its spelling."""

    name: str

    @property
    def is_float(self) -> bool:
        """True for the float types."""
        return self.name in data()["float"]

    @property
    def is_signless(self) -> bool:
        """True for iN."""
        return self.name.startswith("i") and self.name[1:].isdigit()

    def __str__(self) -> str:
        return self.name


Element = Builtin | QuantType


@dataclass(frozen=True, slots=True)
class Container:
    """A scalar (`kind` empty), or a tensor, vector, memref or PTO tile of elements.

    `dims` is None for an unranked tensor.
    """

    kind: str
    dims: tuple[Dim, ...] | None
    element: Element

    @property
    def is_scalar(self) -> bool:
        """True if there is no container."""
        return not self.kind

    def __str__(self) -> str:
        if self.is_scalar:
            return str(self.element)
        if self.dims is None:
            return f"{self.kind}<*x{self.element}>"
        dims = "".join(f"{'?' if d is None else d}x" for d in self.dims)
        prefix = "!pto." if self.kind == "tile" else ""
        return f"{prefix}{self.kind}<{dims}{self.element}>"
