"""Slow, independent model of the level of logical vectors: one lane at a time, exact arithmetic, no
arrays.

A vector is a list of bit patterns, a mask a list of booleans; in an expected result None represents any
NaN. Element types are named as in the text: an integer without a sign is unsigned. Nothing is imported
from ptosim.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

from tests.oracle import lanes
from tests.oracle.lanes import MODES, Pattern, is_nan, is_negative
from tests.oracle.numerics import (
    FORMATS,
    Value,
    decode,
    encode_exact,
    exponent_of,
    highest_of,
    power_of_two,
    round_to_int,
)

Vector = list[int]
Mask = Sequence[bool]
CODES = ("f8E4M3FN", "f8E5M2", "hif8")
PAIRS = {"f4E2M1x2": "f4E2M1FN", "f4E1M2x2": "f4E1M2FN"}
DEFAULTS = {
    "mask": "assembler",
    "sum": "lowered",
    "fp8_round": "table",
    "nosat_nan": "sign",
    "hif8_nan": "zero",
    "fp4_nan": "zero",
    "block_gate": "lane",
}


def bits_of(name: str) -> int:
    if name in CODES or name in PAIRS:
        return 8
    return {"bf16x2": 32}.get(name) or lanes.bits_of(name)


def is_float(name: str) -> bool:
    return name in FORMATS or name == "hif8"


def read_as(name: str) -> str:
    """The type as the model of registers names it, where `i32` is signed."""
    if is_float(name) or name.startswith("ui"):
        return name
    return name[1:] if name.startswith("si") else f"u{name}"


def is_signed(name: str) -> bool:
    return name.startswith("si")


# -- arithmetic ---------------------------------------------------------------------------------------


def pairs(op: str, a: Vector, b: Vector, name: str) -> list[Pattern]:
    """add sub mul div max min and or xor shl shr."""
    return [lanes.binary(op, x, y, read_as(name)) for x, y in zip(a, b, strict=True)]


def singles(op: str, a: Vector, name: str) -> list[Pattern]:
    """abs neg relu exp ln sqrt not."""
    return [lanes.unary(op, x, read_as(name)) for x in a]


def leaky(a: Vector, slopes: Vector, name: str) -> list[Pattern]:
    """max(x, 0) + slope * min(x, 0), each step rounded."""
    found = []
    for x, slope in zip(a, slopes, strict=True):
        high = lanes.binary("max", x, 0, name)
        low = lanes.binary("min", x, 0, name)
        product = None if low is None else lanes.binary("mul", slope, low, name)
        is_number = high is not None and product is not None
        found.append(lanes.binary("add", high, product, name) if is_number else None)  # type: ignore[arg-type]
    return found


def multiply_add(a: Vector, b: Vector, c: Vector, name: str) -> list[Pattern]:
    return [lanes.multiply_add(x, y, z, read_as(name)) for x, y, z in zip(a, b, c, strict=True)]


def expdif(a: Vector, b: Vector, name: str) -> list[Pattern]:
    """e^(a - b) in f32; both are widened first, which is exact."""
    return [lanes.expdif(x, y, name) for x, y in zip(a, b, strict=True)]


def carry(a: Vector, b: Vector, into: Mask | None) -> tuple[Vector, list[bool]]:
    totals = [
        x + y + (bool(into[i]) if into else 0) for i, (x, y) in enumerate(zip(a, b, strict=True))
    ]
    return [t & 0xFFFFFFFF for t in totals], [t >> 32 == 1 for t in totals]


def wide_product(a: Vector, b: Vector, name: str) -> tuple[Vector, Vector]:
    seen = "ui32" if name == "ui32" else "i32"  # the one place where no sign means signed
    products = [lanes.number(x, seen) * lanes.number(y, seen) for x, y in zip(a, b, strict=True)]
    return [p & 0xFFFFFFFF for p in products], [p >> 32 & 0xFFFFFFFF for p in products]


def compare(word: str, a: Vector, b: Vector, name: str) -> list[bool]:
    plain = word[1:] if word not in ("eq", "ne", "lt", "le", "gt", "ge") else word
    seen = read_as(name)
    if not is_float(name) and word[0] in "su" and plain != word:
        seen = f"{'' if word[0] == 's' else 'u'}i{bits_of(name)}"
    return [bool(lanes.compare(plain, x, y, seen)) for x, y in zip(a, b, strict=True)]


# -- masks --------------------------------------------------------------------------------------------


def zeroed(result: Sequence[Pattern], mask: Mask) -> list[Pattern]:
    return [r if on else 0 for r, on in zip(result, mask, strict=True)]


def first(count: int, active: int) -> list[bool]:
    return [i < active for i in range(count)]


def group_mask(groups: int, size: int, active: int) -> list[bool]:
    return [i % size < active for i in range(groups * size)]


def less_than(count: int, left: int) -> tuple[list[bool], int]:
    """plt: the mask, and the rest."""
    k = min(left, count)
    return first(count, k), left - k


# -- rearrangement ------------------------------------------------------------------------------------


def interleave(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    stream = [v for pair in zip(a, b, strict=True) for v in pair]
    return stream[: len(a)], stream[len(a) :]


def deinterleave(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    stream = a + b
    return stream[::2], stream[1::2]


def interpret(a: Vector, src: str, dst: str) -> Vector:
    data = b"".join(v.to_bytes(bits_of(src) // 8, "little") for v in a)
    return lanes.split(data, bits_of(dst) // 8)


def by_index(a: Vector, idx: Vector, name: str) -> Vector:
    """vselr: outside of the vector one register is looked up, which has 0 behind the lanes."""
    found, count = [], len(a)
    register = 2048 // bits_of(name)
    for i in idx:
        j = i if i < count else i % (register if count <= register else count)
        found.append(a[j] if j < count else 0)
    return found


def count_up(base: int | Value, name: str, count: int, groups: int, step: int) -> list[Pattern]:
    size = count // groups
    if not is_float(name):
        return [(base + step * (i % size)) & ((1 << bits_of(name)) - 1) for i in range(count)]  # type: ignore[operator]
    return [
        lanes.pack(lanes.rounded(lanes.plus(base, Fraction(step * (i % size))), "f32"), name)  # type: ignore[arg-type]
        for i in range(count)
    ]


def histogram(acc: Vector, src: Vector, mask: Mask, *, cumulative: bool) -> Vector:
    chosen = [s for s, on in zip(src, mask, strict=True) if on]
    test: Callable[[int, int], bool] = (
        (lambda s, b: s <= b) if cumulative else (lambda s, b: s == b)
    )
    return [(a + sum(test(s, b) for s in chosen)) & 0xFFFF for b, a in enumerate(acc)]


# -- reductions ---------------------------------------------------------------------------------------


def plus(a: Pattern, b: Pattern, name: str) -> Pattern:
    if a is None or b is None:
        return None
    return lanes.binary("add", a, b, read_as(name))


def tree(values: Sequence[Pattern], name: str) -> Pattern:
    """Neighbours are added until one is left, after zeros up to a power of two."""
    level = list(values)
    while len(level) & (len(level) - 1):
        level.append(0)
    while len(level) > 1:
        level = [plus(level[i], level[i + 1], name) for i in range(0, len(level), 2)]
    return level[0]


def in_turn(values: Sequence[Pattern], name: str) -> Pattern:
    total = values[0]
    for value in values[1:]:
        total = plus(total, value, name)
    return total


def by_registers(values: Sequence[Pattern], name: str) -> Pattern:
    width = 2048 // bits_of(name)
    total: Pattern = None
    for start in range(0, len(values), width):
        part = tree(values[start : start + width], name)
        total = part if start == 0 else plus(part, total, name)
    return total


def registers_first(values: Sequence[Pattern], name: str) -> Pattern:
    width = 2048 // bits_of(name)
    return tree([in_turn(values[i::width], name) for i in range(width)], name)


def exact_sum(values: Sequence[int], name: str) -> Pattern:
    total: Value = decode(values[0], name)
    for value in values[1:]:
        total = lanes.plus(total, decode(value, name))
    return lanes.pack(total, name)


def sums(
    a: Vector,
    mask: Mask,
    name: str,
    groups: int | None,
    order: str = "lowered",
    *,
    full: bool = False,
) -> list[Pattern]:
    """vcadd; `full`: the text shows that the mask is all true."""
    if not is_float(name):
        parts = _groups([v if on else 0 for v, on in zip(a, mask, strict=True)], groups)
        return [sum(p) & ((1 << bits_of(name)) - 1) for p in parts]
    width = 2048 // bits_of(name)
    found = []
    for part in _groups([v if on else 0 for v, on in zip(a, mask, strict=True)], groups):
        if order == "sequential":
            found.append(in_turn(part, name))
        elif order == "exact":
            found.append(exact_sum(part, name))
        elif len(part) <= width or (groups and len(part) % width):
            found.append(tree(part, name))
        elif not groups and full and len(part) % width == 0:
            found.append(registers_first(part, name))
        else:
            found.append(by_registers(part, name))
    return found


def _groups(values: Vector, groups: int | None) -> list[Vector]:
    size = len(values) // (groups or 1)
    return [values[i : i + size] for i in range(0, len(values), size)]


def extrema(a: Vector, mask: Mask, name: str, groups: int | None, *, larger: bool) -> list[Pattern]:
    """vcmax, vcmin: inactive lanes take part with what changes nothing."""
    bits = bits_of(name)
    if is_float(name):
        neutral = encode_exact("-inf" if larger else "inf", name)
    elif is_signed(name):
        neutral = 1 << (bits - 1) if larger else (1 << (bits - 1)) - 1
    else:
        neutral = 0 if larger else (1 << bits) - 1
    found: list[Pattern] = []
    for part in _groups([v if on else neutral for v, on in zip(a, mask, strict=True)], groups):
        best: Pattern = part[0]
        for value in part[1:]:
            op = "max" if larger else "min"
            best = None if best is None else lanes.binary(op, best, value, read_as(name))
        if is_float(name) and best is not None and is_nan(decode(best, name)):
            best = None
        found.append(best)
    return found


# -- conversions --------------------------------------------------------------------------------------


@cache
def _endless(value: Fraction, name: str, mode: str) -> Fraction:
    """A value rounded to the precision of a format whose exponent has no upper end."""
    form = FORMATS[name]
    place = max(exponent_of(abs(value)), 1 - form.bias) - form.mantissa_bits
    return round_to_int(value / power_of_two(place), mode) * power_of_two(place)


_FINITE = ((decode(code, "hif8"), code) for code in range(0x80))
_HIF8 = [*sorted((v, c) for v, c in _FINITE if isinstance(v, Fraction)), (Fraction(49152), 0x6F)]


_HIF8_VALUES = [v for v, _ in _HIF8]


def _ladder_place(size: Fraction, letter: str) -> int:
    """The place of a magnitude in the list of hif8; its last entry is overflow."""
    at = bisect_right(_HIF8_VALUES, size) - 1
    if at == len(_HIF8) - 1 or _HIF8[at][0] == size or letter == "Z":
        return at
    twice = 2 * size - _HIF8[at][0] - _HIF8[at + 1][0]
    if letter == "R" and twice == 0:
        return at + (_HIF8[at + 1][1] % 2 == 0)
    return at + (twice >= 0)


_TABLE = {
    ("f8E4M3FN", "A"): 0x78,
    ("f8E5M2", "A"): 0x7D,
    ("f8E5M2", "H"): 0x7C,
    ("f8E5M2", "Z"): 0x7C,
}
_LARGEST = {"f8E4M3FN": 0x7E, "f8E5M2": 0x7B, "hif8": 0x6E, "f16": 0x7BFF, "bf16": 0x7F7F}
_BEYOND = {"f8E4M3FN": 0x7F, "f8E5M2": 0x7C, "hif8": 0x6F, "f16": 0x7C00, "bf16": 0x7F80}
_NAN = {"f8E4M3FN": 0x7F, "f8E5M2": 0x7E, "f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000}


def narrow(value: Value, dst: str, letter: str | None, sat: str, choices: dict[str, str]) -> int:
    """A float as a narrower one."""
    letter = letter or ("A" if dst == "hif8" else "R")
    sign = 1 << (bits_of(dst) - 1) if is_negative(value) else 0
    if is_nan(value):
        return _nan(dst, sat, sign, choices)
    exact = lanes.finite(value)
    if exact is None:
        return (_LARGEST if sat == "SAT" else _BEYOND)[dst] | sign
    if dst == "hif8":
        at = _ladder_place(abs(exact), "A" if letter == "H" else letter)
        if at == len(_HIF8) - 1:
            return (_LARGEST if sat == "SAT" else _BEYOND)[dst] | sign
        return _HIF8[at][1] | sign if _HIF8[at][1] else 0
    used = {"H": "Z" if dst in CODES else "R"}.get(letter, letter)
    size = _endless(abs(exact), dst, MODES[used]) if exact else Fraction(0)
    if size > highest_of(dst):
        if sat == "NOSAT":
            return _BEYOND[dst] | sign
        in_table = choices["fp8_round"] == "table" and (dst, letter) in _TABLE
        return (_TABLE[dst, letter] if in_table else _LARGEST[dst]) | sign
    return encode_exact(size, dst) | sign


def _nan(dst: str, sat: str, sign: int, choices: dict[str, str]) -> int:
    if dst == "hif8":
        return 0 if sat == "SAT" and choices["hif8_nan"] == "zero" else 0x80
    if sat == "SAT":
        return 0
    return _NAN[dst] | (sign if choices["nosat_nan"] == "sign" else 0)


def nibble(pattern: int, form: str, letter: str, choices: dict[str, str]) -> int:
    """A bf16 as 4 bits."""
    value = decode(pattern, "bf16")
    sign = 8 if is_negative(value) else 0
    if is_nan(value):
        return 0 if choices["fp4_nan"] == "zero" else 7 | sign
    exact = lanes.finite(value)
    if exact is None:
        return 7 | sign
    size = abs(exact)
    table = [lanes.finite(decode(c, form)) or Fraction(0) for c in range(8)]
    if size >= table[7]:
        return 7 | sign
    at = max(c for c in range(8) if table[c] <= size)
    if table[at] == size:
        return at | sign
    twice = 2 * size - table[at] - table[at + 1]
    up = {
        "R": twice > 0 or (twice == 0 and at % 2 == 1),
        "A": twice >= 0,
        "Z": False,
        "F": bool(sign),
        "C": not sign,
    }[letter]
    return at + up | sign


def convert(
    a: Vector,
    src: str,
    dst: str,
    letter: str | None = None,
    sat: str | None = None,
    **switches: str,
) -> list[Pattern]:
    """vcvt."""
    choices = {**DEFAULTS, **switches}
    if src in PAIRS:
        return [_unpack(v, PAIRS[src]) for v in a]
    if dst in PAIRS:
        half = lambda v: nibble(v, PAIRS[dst], letter or "R", choices)  # noqa: E731
        return [half(v & 0xFFFF) | half(v >> 16) << 4 for v in a]
    return [_one(v, src, dst, letter, sat, choices) for v in a]


def _unpack(code: int, form: str) -> int:
    low, high = (encode_exact(decode(c, form), "bf16") for c in (code & 15, code >> 4))
    return low | high << 16


def _one(
    v: int, src: str, dst: str, letter: str | None, sat: str | None, choices: dict[str, str]
) -> Pattern:
    if not is_float(src):
        number = lanes.number(v, read_as(src))
        if is_float(dst):
            return lanes.pack(Fraction(number), dst)
        return _into(number, dst, sat)
    value = decode(v, src)
    if is_float(dst):
        if bits_of(dst) > bits_of(src):
            quiet = _NAN.get(dst, 0)
            top = 1 << (bits_of(dst) - 1)
            if is_nan(value):
                return quiet | (top if src != "hif8" and v >> (bits_of(src) - 1) else 0)
            return encode_exact(value, dst)
        return narrow(value, dst, letter, sat or "SAT", choices)
    if is_nan(value):
        return 0
    low, high = _range(dst)
    full = (1 << bits_of(dst)) - 1
    exact = lanes.finite(value)
    if exact is None:
        return 0 if sat == "NOSAT" else (high if value == "inf" else low) & full
    return _into(round_to_int(exact, MODES[letter or "R"]), dst, sat or "SAT")


def _range(name: str) -> tuple[int, int]:
    bits = bits_of(name)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed(name) else (0, (1 << bits) - 1)


def _into(number: int, dst: str, sat: str | None) -> int:
    low, high = _range(dst)
    if sat == "SAT":
        number = min(max(number, low), high)
    return number & ((1 << bits_of(dst)) - 1)


# -- memory -------------------------------------------------------------------------------------------


def row_places(count: int, groups: int, offset: int, stride: int) -> list[int]:
    """The elements of a group form."""
    size = count // groups
    return [offset + i // size * stride + i % size for i in range(count)]


def block_places(count: int, width: int, offset: int, bs: int, rs: int) -> list[int]:
    """The elements of a block form; both strides count blocks and are unsigned."""
    per = 32 // width
    return [
        offset + ((rs & 0xFFFF) + i // per * (bs & 0xFFFF)) * per + i % per for i in range(count)
    ]


def block_gate(mask: Mask, width: int, choice: str) -> list[bool]:
    """The lanes that the mask of a block form lets through."""
    if choice == "lane":
        return [bool(m) for m in mask]
    per, step = 32 // width, 4 // width
    bit = lambda k: k * step < len(mask) and bool(mask[k * step])  # noqa: E731
    return [bit(i // per) for i in range(len(mask))]
