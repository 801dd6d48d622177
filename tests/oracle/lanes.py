"""Slow, independent model of the vector unit: one lane at a time, exact arithmetic, no arrays.

A register is 256 bytes, a predicate a list of 256 bits, one for each byte. A lane is its bit pattern; in
an expected result None represents any NaN. Written from the PTO micro-instruction specification alone;
nothing is imported from ptosim.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from fractions import Fraction

from tests.oracle.numerics import (
    FORMATS,
    Value,
    decode,
    encode_exact,
    highest_of,
    power_of_two,
    round_to_format,
    round_to_int,
)

Pattern = int | None
Bits = list[int]

_CONTEXT = decimal.Context(prec=60, Emax=10**9, Emin=-(10**9))


def bits_of(name: str) -> int:
    """Width of an element type."""
    return FORMATS[name].bits if name in FORMATS else int(name.lstrip("uis"))


def is_float(name: str) -> bool:
    return name in FORMATS


def is_unsigned(name: str) -> bool:
    return name.startswith("ui")


def split(data: bytes, width: int) -> list[int]:
    """Patterns of `width` bytes each, little-endian."""
    return [int.from_bytes(data[i : i + width], "little") for i in range(0, len(data), width)]


def join(patterns: Sequence[int], width: int) -> bytes:
    return b"".join((p & ((1 << 8 * width) - 1)).to_bytes(width, "little") for p in patterns)


def lanes_of(data: bytes, name: str) -> list[int]:
    return split(data, bits_of(name) // 8)


# -- predicates ---------------------------------------------------------------------------------------


def mask_bits(data: bytes) -> Bits:
    """The 256 bits of an image in memory, bit k of byte j is bit 8j + k."""
    return [data[i // 8] >> i % 8 & 1 for i in range(8 * len(data))]


def mask_bytes(bits: Sequence[int]) -> bytes:
    return bytes(sum(bits[8 * j + k] << k for k in range(8)) for j in range(len(bits) // 8))


def active(bits: Bits, width: int) -> list[int]:
    """The lanes of `width` bytes: the lowest bit of each; 64-bit lanes are the first 32 of b32."""
    if width == 8:
        return active(bits, 4)[:32]
    return [bits[i] for i in range(0, 256, width)]


def image(lanes: Sequence[int], width: int) -> Bits:
    """An image with the lanes' lowest bits set; 64-bit lanes as the first 32 of b32."""
    step = min(width, 4)
    bits = [0] * 256
    for i, lane in enumerate(lanes):
        bits[i * step] = lane
    return bits


# -- one value -----------------------------------------------------------------------------------------


def number(pattern: int, name: str) -> int:
    """An integer pattern as its type reads it; signless types are signed."""
    bits = bits_of(name)
    pattern &= (1 << bits) - 1
    return pattern if is_unsigned(name) or pattern < 1 << (bits - 1) else pattern - (1 << bits)


def read(pattern: int, name: str) -> Value:
    return decode(pattern, name) if is_float(name) else Fraction(number(pattern, name))


def is_nan(value: Value) -> bool:
    return isinstance(value, str) and value.endswith("nan")


def is_negative(value: Value) -> bool:
    return value.startswith("-") if isinstance(value, str) else value < 0


def pack(value: Value, name: str, mode: str = "rint") -> Pattern:
    """The pattern of a value after one rounding to a float type; None for NaN."""
    if is_nan(value):
        return None
    return encode_exact(
        value if isinstance(value, str) else round_to_format(value, name, mode), name
    )


def finite(value: Value) -> Fraction | None:
    """A finite value without the sign of its zero; None for infinities and NaN."""
    if isinstance(value, str):
        return Fraction(0) if value == "-0" else None
    return value


def negate(value: Value) -> Value:
    if value == "-0":
        return Fraction(0)
    if isinstance(value, str):
        return value[1:] if value.startswith("-") else "-" + value
    return "-0" if value == 0 else -value


def plus(a: Value, b: Value) -> Value:
    """The exact sum; +0 unless both are -0."""
    if is_nan(a) or is_nan(b):
        return "nan"
    x, y = finite(a), finite(b)
    if x is None or y is None:
        infinite = [v for v, f in ((a, x), (b, y)) if f is None]
        return infinite[0] if len(set(infinite)) == 1 else "nan"
    total = x + y
    if not total:
        return "-0" if a == "-0" and b == "-0" else Fraction(0)
    return total


def times(a: Value, b: Value) -> Value:
    """The exact product with its sign."""
    if is_nan(a) or is_nan(b):
        return "nan"
    negative = is_negative(a) != is_negative(b)
    x, y = finite(a), finite(b)
    if x is None or y is None:
        return "nan" if x == 0 or y == 0 else "-inf" if negative else "inf"
    whole = x * y
    if not whole:
        return "-0" if negative else Fraction(0)
    return whole


def over(a: Value, b: Value) -> Value:
    """The exact quotient with its sign."""
    if is_nan(a) or is_nan(b):
        return "nan"
    negative = is_negative(a) != is_negative(b)
    x, y = finite(a), finite(b)
    if (x is None and y is None) or (x == 0 and y == 0):
        return "nan"
    if x is None or y == 0:
        return "-inf" if negative else "inf"
    if y is None or x == 0:
        return "-0" if negative else Fraction(0)
    return x / y


def order(value: Value) -> tuple[Fraction, int]:
    """A key that sorts values, -0 below +0."""
    if not isinstance(value, str):
        return value, 0
    huge = power_of_two(2000)
    return {"inf": (huge, 0), "-inf": (-huge, 0), "-0": (Fraction(0), -1)}[value]


def choose(a: Value, b: Value, *, larger: bool) -> Value:
    if is_nan(a) or is_nan(b):
        return "nan"
    return (max if larger else min)(a, b, key=order)


def rounded(value: Value, name: str, mode: str = "rint") -> Value:
    """A value after one rounding to a float type."""
    pattern = pack(value, name, mode)
    return "nan" if pattern is None else decode(pattern, name)


def _real(value: Value, function: Callable[[decimal.Decimal], decimal.Decimal]) -> Fraction:
    x = finite(value)
    assert x is not None
    with decimal.localcontext(_CONTEXT):
        return Fraction(function(decimal.Decimal(x.numerator) / decimal.Decimal(x.denominator)))


def exp(value: Value) -> Value:
    if is_nan(value):
        return "nan"
    if value in ("inf", "-inf"):
        return "inf" if value == "inf" else Fraction(0)
    x = finite(value)
    assert x is not None
    if abs(x) > 800:
        return "inf" if x > 0 else Fraction(0)
    return _real(value, lambda d: d.exp(_CONTEXT))


def ln(value: Value) -> Value:
    x = finite(value)
    if is_nan(value) or (x is None and value == "-inf") or (x is not None and x < 0):
        return "nan"
    if x is None:
        return "inf"
    return "-inf" if x == 0 else _real(value, lambda d: d.ln(_CONTEXT))


def sqrt(value: Value) -> Value:
    x = finite(value)
    if x == 0:
        return value
    if is_nan(value) or is_negative(value):
        return "nan"
    return "inf" if x is None else _real(value, lambda d: d.sqrt(_CONTEXT))


# -- one lane ------------------------------------------------------------------------------------------

_F32_FIRST = {"exp": exp, "ln": ln, "sqrt": sqrt}


def unary(op: str, a: int, name: str) -> Pattern:
    """abs neg exp ln sqrt rec rsqrt relu not bcnt cls mov of one lane."""
    bits = bits_of(name)
    if op in ("not", "mov"):
        return ~a & ((1 << bits) - 1) if op == "not" else a
    if op == "bcnt":
        return a.bit_count()
    if op == "cls":
        text = f"{a:0{bits}b}"
        return next((i - 1 for i in range(1, bits) if text[i] != text[0]), bits - 1)
    if not is_float(name):
        value = number(a, name)
        return {"abs": abs(value), "neg": -value, "relu": max(value, 0)}[op] & ((1 << bits) - 1)
    sign = 1 << (bits - 1)
    if op in ("abs", "neg"):
        return a & (sign - 1) if op == "abs" else a ^ sign
    value = decode(a, name)
    if op == "relu":
        return pack(choose(value, Fraction(0), larger=True), name)
    if op == "rec":
        return pack(rounded(over(Fraction(1), value), "f32"), name)
    if op == "rsqrt":
        return pack(rounded(_reciprocal_root(value), "f32"), name)
    return pack(rounded(_F32_FIRST[op](value), "f32"), name)


def _reciprocal_root(value: Value) -> Value:
    if finite(value) == 0:
        return "-inf" if value == "-0" else "inf"
    root = sqrt(value)
    return root if is_nan(root) else Fraction(0) if root == "inf" else 1 / Fraction(root)  # type: ignore[arg-type]


def binary(op: str, a: int, b: int, name: str) -> Pattern:
    """add sub mul div max min and or xor shl shr prelu addrelu subrelu of one lane."""
    bits = bits_of(name)
    full = (1 << bits) - 1
    if op in ("and", "or", "xor"):
        return {"and": a & b, "or": a | b, "xor": a ^ b}[op]
    if op in ("shl", "shr"):
        return _shift(op, a, b, name) & full
    if not is_float(name):
        x, y = number(a, name), number(b, name)
        whole = {
            "add": x + y, "sub": x - y, "mul": x * y, "max": max(x, y), "min": min(x, y),
            "addrelu": max(number(x + y, name), 0), "subrelu": max(number(x - y, name), 0),
        }[op]  # fmt: skip
        return whole & full
    return pack(_float_binary(op, decode(a, name), decode(b, name), name), name)


def _shift(op: str, a: int, b: int, name: str) -> int:
    bits = bits_of(name)
    count = b & ((1 << bits) - 1)
    if op == "shl":
        return a << count if count < bits else 0
    return number(a, name) >> min(count, bits)


def _float_binary(op: str, x: Value, y: Value, name: str) -> Value:
    if op in ("add", "sub"):
        return plus(x, y if op == "add" else negate(y))
    if op in ("max", "min"):
        return choose(x, y, larger=op == "max")
    if op in ("addrelu", "subrelu"):
        total = rounded(plus(x, y if op == "addrelu" else negate(y)), name)
        return choose(total, Fraction(0), larger=True)
    if op == "prelu":
        return x if not is_nan(x) and not _below_zero(x) else times(x, y)
    return {"mul": times, "div": over}[op](x, y)


def _below_zero(value: Value) -> bool:
    return is_negative(value) and value != "-0"


def multiply_add(a: int, b: int, c: int, name: str) -> Pattern:
    """a * b + c, rounded once."""
    if not is_float(name):
        return (number(a, name) * number(b, name) + number(c, name)) & ((1 << bits_of(name)) - 1)
    return pack(plus(times(decode(a, name), decode(b, name)), decode(c, name)), name)


def compare(word: str, a: int, b: int, name: str) -> int:
    x, y = read(a, name), read(b, name)
    if is_nan(x) or is_nan(y):
        return int(word == "ne")
    p, q = order(x)[0], order(y)[0]
    return int(
        {"eq": p == q, "ne": p != q, "lt": p < q, "le": p <= q, "gt": p > q, "ge": p >= q}[word]
    )


def truncate(a: int, name: str, mode: str) -> Pattern:
    """Rounded to an integral value; the sign of a zero stays."""
    value = decode(a, name)
    x = finite(value)
    if x is None or x == 0:
        return pack(value, name)
    whole = round_to_int(x, mode)
    if whole == 0:
        return pack("-0" if x < 0 else Fraction(0), name)
    return pack(Fraction(whole), name)


def expdif(a: int, b: int, name: str) -> Pattern:
    """e^(a - b) in f32, the difference rounded to f32."""
    return pack(exp(rounded(plus(decode(a, name), negate(decode(b, name))), "f32")), "f32")


MODES = {"R": "rint", "A": "round", "F": "floor", "C": "ceil", "Z": "trunc", "O": "odd"}


def convert(a: int, src: str, dst: str, letter: str, *, saturate: bool) -> Pattern:
    """vcvt of one lane."""
    value, mode = read(a, src), MODES[letter]
    if not is_float(dst):
        return _to_integer(value, dst, mode, saturate) & ((1 << bits_of(dst)) - 1)
    if bits_of(dst) > bits_of(src) or not saturate or not is_float(src):
        return pack(value, dst, mode)
    if is_nan(value):
        return 0
    result = value if isinstance(value, str) else round_to_format(value, dst, mode)
    if result in ("inf", "-inf"):
        result = highest_of(dst) if result == "inf" else -highest_of(dst)
    return encode_exact(result, dst)


def _to_integer(value: Value, dst: str, mode: str, saturate: bool) -> int:
    bits = bits_of(dst)
    low, high = (
        (0, (1 << bits) - 1) if is_unsigned(dst) else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    )
    x = finite(value)
    if x is None:
        return 0 if not saturate or is_nan(value) else low if value == "-inf" else high
    whole = round_to_int(x, mode)
    return min(max(whole, low), high) if saturate else whole
