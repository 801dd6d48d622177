"""What the words of arithmetic compute, lane by lane: `of("max", lanes, rule)`.

A word has its meaning here for all levels: regions of tiles, registers, logical vectors, threads
and, where it has one (`WORDS`), the numbers of the scalar unit. A level says how its values are
seen as lanes, which rule of a word it has, and what becomes of the result: masks, tiles, wrapping.

Integers wrap, floats are rounded once to nearest even. The rules of a word:

- max, min: `nan`, a NaN in either operand gives NaN, and +0 is larger than -0 (no document decides
  the zeros; this is the order of IEEE 754-2019, and it does not depend on the host as NumPy's
  does); `cpu`, the first operand unless it is less than the second, so that a NaN or a zero in the
  first stays and a NaN in the second is lost; `spec`, one NaN gives the other operand, two give the
  canonical NaN, and +0 is larger than -0. relu has them too.
- div of integers, truncated toward zero: by zero it is -1 (`ones`) or 0 (`zero`). No document says
  what the hardware gives.
- lrelu: x where it is not negative (`from_zero`) or positive (`above_zero`), else x * slope; or
  max(x, 0) + slope * min(x, 0) (`sum`).
- muladd, a * b + c: rounded once (`fused`) or after the product too (`separate`).

exp, log and square root of f16 are computed in f32 and rounded once more."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ptosim.ground.records import NamedTuple
from ptosim.machine.numbers import transcendental
from ptosim.machine.numbers.formats import BF16, require
from ptosim.machine.numbers.integers import unsigned
from ptosim.machine.numbers.rounding import multiply_add

Function = Callable[..., Any]
Make = Callable[[np.dtype, str], Function]
"""From the type of the lanes and a rule of the word to the function of arrays."""

F32 = np.dtype(np.float32)
F16 = np.dtype(np.float16)


def is_float(lanes: np.dtype) -> bool:
    """True for f32, f16 and bf16 lanes."""
    return lanes.kind == "f" or lanes == BF16


# -- larger and smaller ---------------------------------------------------------------------------


def with_zeros(pick: np.ufunc, merge: np.ufunc) -> Function:
    """Return a maximum or minimum that knows the signs of zeros: two of them differ at most in the
    sign bit, which `merge` decides."""

    def choose(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        result = pick(first, second)
        if np.count_nonzero(result) != result.size:
            bits = unsigned(result.dtype)
            zeros = (first == 0) & (second == 0)
            merged = merge(first.view(bits), second.view(bits))
            np.copyto(result.view(bits), merged, where=zeros)
        return result

    return choose


_MAXIMUM = with_zeros(np.maximum, np.bitwise_and)
_MINIMUM = with_zeros(np.minimum, np.bitwise_or)

_CANONICAL_NAN = {
    np.dtype(np.float32): np.uint32(0x7FC00000),
    F16: np.uint16(0x7E00),
    BF16: np.uint16(0x7FC0),
}


def _other_number(pick: Function) -> Function:
    """A NaN loses; two give the canonical one."""

    @np.errstate(all="ignore")
    def choose(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        result = pick(first, second)
        missing = np.isnan(result)
        if missing.any():
            canonical = _CANONICAL_NAN[result.dtype]
            result.view(canonical.dtype)[missing] = canonical
        return result

    return choose


def _if_better(better: np.ufunc) -> Function:
    @np.errstate(all="ignore")
    def choose(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.where(better(second, first), second, first)

    return choose


def _number_wins(function: Function) -> Function:
    """A NaN loses; of two it is the second one."""

    def choose(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        lost, other = np.isnan(a), np.isnan(b)
        if lost.any() or other.any():
            return np.where(lost, b, np.where(other, a, function(a, b)))
        return function(a, b)

    return choose


def _extreme(integers: np.ufunc, **rules: Function) -> Make:
    return lambda lanes, rule: rules[rule or "nan"] if is_float(lanes) else integers


_MAX = _extreme(
    np.maximum,
    nan=_MAXIMUM,
    number=_number_wins(_MAXIMUM),
    cpu=_if_better(np.greater),
    spec=_other_number(with_zeros(np.fmax, np.bitwise_and)),
)
_MIN = _extreme(
    np.minimum,
    nan=_MINIMUM,
    number=_number_wins(_MINIMUM),
    cpu=_if_better(np.less),
    spec=_other_number(with_zeros(np.fmin, np.bitwise_or)),
)


def _maximum_of(lanes: np.dtype, scalar: float) -> Function:
    """Return the larger of a register and of a number that never changes, in every lane: only a
    zero needs care."""
    if is_float(lanes) and scalar == 0:
        if math.copysign(1, scalar) < 0:
            return _MAXIMUM
        zero = lanes.type(0)

        def larger(first: np.ndarray, second: np.ndarray) -> np.ndarray:
            result = np.maximum(first, second)
            return np.add(result, zero, out=result)  # -0 + 0 is +0

        return larger
    return np.maximum


def _minimum_of(lanes: np.dtype, scalar: float) -> Function:
    """Return the smaller of a register and of a number that never changes, in every lane."""
    return _MINIMUM if is_float(lanes) and scalar == 0 else np.minimum


def _relu(lanes: np.dtype, rule: str) -> Function:
    """max(x, 0); by the rule `nan` the zero is +0."""
    zero = lanes.type(0)
    if rule not in ("", "nan"):
        larger = _MAX(lanes, rule)
        return lambda values: larger(values, zero)
    if not is_float(lanes):
        return lambda values: np.maximum(values, zero)
    return lambda values: np.maximum(values, zero) + zero  # -0 + 0 is +0


def _leaky(lanes: np.dtype, rule: str) -> Function:
    if rule == "sum":
        larger, smaller, zero = _MAX(lanes, "nan"), _MIN(lanes, "nan"), np.zeros(1, lanes)

        def leaky(values: np.ndarray, slopes: np.ndarray) -> np.ndarray:
            every = np.broadcast_to(zero, values.shape)
            return larger(values, every) + slopes * smaller(values, every)

        return leaky
    keeps = np.greater if rule == "above_zero" else np.greater_equal
    return lambda values, slopes: np.where(keeps(values, 0), values, values * slopes)


# -- quotients and shifts --------------------------------------------------------------------------


@np.errstate(all="ignore")
def _truncated(dividends: np.ndarray, divisors: np.ndarray) -> np.ndarray:
    """Integer quotients rounded toward zero; by zero 0. The lowest integer over -1 wraps to
    itself."""
    quotients = np.floor_divide(dividends, divisors)
    rest = dividends - quotients * divisors
    towards_zero = (rest != 0) & ((dividends < 0) != (divisors < 0)) & (divisors != 0)
    return quotients + towards_zero.astype(quotients.dtype)


def _truncated_or_ones(dividends: np.ndarray, divisors: np.ndarray) -> np.ndarray:
    quotients = _truncated(dividends, divisors)
    by_zero = divisors == 0
    return np.where(by_zero, ~np.zeros_like(quotients), quotients) if by_zero.any() else quotients


def _quotient(lanes: np.dtype, rule: str) -> Function:
    if lanes.kind not in "iu":
        return np.divide
    return _truncated_or_ones if rule == "ones" else _truncated


def _ceiling(dividends: np.ndarray, divisors: np.ndarray) -> np.ndarray:
    quotients = np.floor_divide(dividends, divisors)
    return quotients + (quotients * divisors != dividends).astype(quotients.dtype)


def _remainder(dividends: np.ndarray, divisors: np.ndarray) -> np.ndarray:
    """The exact remainder with the sign of the dividend."""
    wide = np.fmod(dividends.astype(np.float64), divisors.astype(np.float64))
    return wide.astype(dividends.dtype)


def shift_left(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Bits shifted by an unsigned count in each lane, whatever integers the counts stand in; a
    count of the width or more shifts everything out."""
    return np.left_shift(values, _within(values, counts))


def shift_right(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The same to the right: signed values keep their sign, and are it where everything is shifted
    out."""
    return np.right_shift(values, _within(values, counts))


def _within(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Counts in the type of the values, at most the width: NumPy shifts that far with the meaning
    that is wanted here."""
    most = values.dtype.itemsize * 8
    return np.minimum(counts.view(unsigned(counts.dtype)), most).astype(values.dtype)


# -- one register ----------------------------------------------------------------------------------


def _absolute(lanes: np.dtype, rule: str) -> Function:
    """|x|; the smallest integer stays as it is, a float loses its sign bit."""
    if lanes.kind == "u":
        return np.copy
    if lanes.kind != "V" and lanes != BF16:
        return np.abs
    bits = unsigned(lanes)
    keep = bits.type((1 << (lanes.itemsize * 8 - 1)) - 1)
    return lambda values: (values.view(bits) & keep).view(lanes)


def _negated(lanes: np.dtype, rule: str) -> Function:
    """-x; a float changes its sign bit."""
    if not is_float(lanes):
        return np.negative
    bits = unsigned(lanes)
    sign = bits.type(1 << (lanes.itemsize * 8 - 1))
    return lambda values: (values.view(bits) ^ sign).view(lanes)


@cache
def _half_table(name: str) -> np.ndarray:
    every = np.arange(0x10000, dtype=np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        return getattr(transcendental, name)(every).astype(np.float16)


def _transcendent(name: str) -> Make:
    """exp, log, sqrt, recip or rsqrt of a register."""

    def make(lanes: np.dtype, rule: str) -> Function:
        if lanes == F16:
            return lambda values: _half_table(name).take(values.view(np.uint16))
        return getattr(transcendental, name)

    return make


def exponential_of_difference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """e^(a - b) in f32; the difference is rounded to f32."""
    return transcendental.exp(first.astype(F32, copy=False) - second.astype(F32, copy=False))


def _bit_count(values: np.ndarray) -> np.ndarray:
    """The number of bits that are set."""
    return np.bitwise_count(values.view(unsigned(values.dtype))).astype(values.dtype)


def _sign_run(values: np.ndarray) -> np.ndarray:
    """The number of bits after the sign bit that repeat it."""
    bits = unsigned(values.dtype)
    width = values.dtype.itemsize * 8
    raw = values.view(bits)
    differs = (raw ^ (raw << bits.type(1))) >> bits.type(1)  # bit i: bit i + 1 has another neighbor
    count = np.full(values.shape, width - 1, np.int64)
    for i in range(width - 1):
        count[(differs >> bits.type(i)) & bits.type(1) == 1] = width - 2 - i
    return count.astype(values.dtype)


# -- neutral values --------------------------------------------------------------------------------


def lowest(lanes: np.dtype) -> np.generic:
    """The value that loses every maximum: -inf, or the least integer."""
    return lanes.type(-np.inf) if is_float(lanes) else lanes.type(np.iinfo(lanes).min)


def highest(lanes: np.dtype) -> np.generic:
    """The value that loses every minimum: inf, or the largest integer."""
    return lanes.type(np.inf) if is_float(lanes) else lanes.type(np.iinfo(lanes).max)


# -- sums with a product ---------------------------------------------------------------------------


def _multiply_add(lanes: np.dtype, rule: str) -> Function:
    if is_float(lanes):
        return _multiply_and_add if rule == "separate" else multiply_add
    return lambda a, b, c: a * b + c


def _multiply_and_add(first: Any, second: Any, addend: np.ndarray) -> np.ndarray:
    kind = addend.dtype
    return np.multiply(first.astype(kind, copy=False), second.astype(kind, copy=False)) + addend


def _after(first: np.ufunc) -> Make:
    """relu of a sum or difference."""

    def make(lanes: np.dtype, rule: str) -> Function:
        relu = _relu(lanes, rule)
        return lambda a, b: relu(first(a, b))

    return make


# -- numbers of the scalar unit --------------------------------------------------------------------


def _truncated_number(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _divided_float(a: float, b: float) -> float:
    return float(np.float64(a) / np.float64(b))


def _remainder_float(a: float, b: float) -> float:
    return math.fmod(a, b) if b and math.isfinite(a) else math.nan


def _maximum_float(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return math.nan
    return a if (a > b or (a == b and math.copysign(1, a) > 0)) else b


def _minimum_float(a: float, b: float) -> float:
    return -_maximum_float(-a, -b)


def _number_of_floats(function: Callable[[float, float], float]) -> Function:
    def choose(a: float, b: float) -> float:
        if math.isnan(a):
            return b
        return a if math.isnan(b) else function(a, b)

    return choose


# -- words -----------------------------------------------------------------------------------------


class Word(NamedTuple):
    """What a word means: of arrays of a type under one of its rules (the first one if none is
    named); of integers, exactly, and of floats as f64, which the scalar unit wraps and rounds."""

    arrays: Make
    integers: Function | None = None
    floats: Function | None = None
    rules: tuple[str, ...] = ()
    operands: int = 2


def _plain(function: Function) -> Make:
    return lambda lanes, rule: function


def _modulo_two(function: np.ufunc, of_bits: np.ufunc) -> Make:
    """`of_bits` is what the word is on lanes of one bit, which NumPy takes for truth values."""
    return lambda lanes, rule: of_bits if lanes.kind == "b" else function


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge,
}  # fmt: skip
"""By the word of the assembly, of arrays and numbers; NaN is unequal to everything."""

_OF_NAN = ("nan", "cpu", "spec")
_OF_SLOPE = ("from_zero", "above_zero", "sum")

WORDS: dict[str, Word] = {
    "add": Word(_modulo_two(np.add, np.logical_xor), operator.add, operator.add),
    "sub": Word(_modulo_two(np.subtract, np.logical_xor), operator.sub, operator.sub),
    "mul": Word(_modulo_two(np.multiply, np.logical_and), operator.mul, operator.mul),
    "div": Word(_quotient, _truncated_number, _divided_float, ("zero", "ones")),
    "floordiv": Word(_plain(np.floor_divide), operator.floordiv),
    "ceildiv": Word(_plain(_ceiling), lambda a, b: -(-a // b)),
    "rem": Word(
        lambda lanes, rule: _remainder if is_float(lanes) else np.fmod,
        lambda a, b: a - _truncated_number(a, b) * b,
        _remainder_float,
    ),
    "mod": Word(_plain(np.remainder), operator.mod),
    "max": Word(_MAX, max, _maximum_float, _OF_NAN),
    "min": Word(_MIN, min, _minimum_float, _OF_NAN),
    "maxnum": Word(
        lambda lanes, rule: _MAX(lanes, "number"), max, _number_of_floats(_maximum_float)
    ),
    "minnum": Word(
        lambda lanes, rule: _MIN(lanes, "number"), min, _number_of_floats(_minimum_float)
    ),
    "and": Word(_plain(np.bitwise_and), operator.and_),
    "or": Word(_plain(np.bitwise_or), operator.or_),
    "xor": Word(_plain(np.bitwise_xor), operator.xor),
    "shl": Word(_plain(shift_left), operator.lshift),
    "shr": Word(_plain(shift_right), operator.rshift),
    "lrelu": Word(_leaky, rules=_OF_SLOPE),
    "prelu": Word(_leaky, rules=_OF_SLOPE),
    "addrelu": Word(_after(np.add)),
    "subrelu": Word(_after(np.subtract)),
    "muladd": Word(_multiply_add, rules=("fused", "separate"), operands=3),
    "abs": Word(_absolute, operands=1),
    "neg": Word(_negated, operands=1),
    "relu": Word(_relu, rules=_OF_NAN, operands=1),
    "not": Word(_plain(np.invert), operands=1),
    "exp": Word(_transcendent("exp"), operands=1),
    "ln": Word(_transcendent("log"), operands=1),
    "sqrt": Word(_transcendent("sqrt"), operands=1),
    "rec": Word(_transcendent("recip"), operands=1),
    "rsqrt": Word(_transcendent("rsqrt"), operands=1),
    "bcnt": Word(_plain(_bit_count), operands=1),
    "cls": Word(_plain(_sign_run), operands=1),
    "mov": Word(_plain(np.copy), operands=1),
}


def words(operands: int) -> list[str]:
    """Return the words of so many operands."""
    return [name for name, word in WORDS.items() if word.operands == operands]


def of(word: str, lanes: np.dtype, rule: str = "") -> Function:
    """Return what a word computes of arrays of a type, under one of its rules. The function of a
    sum, product or bitwise word is NumPy's own. Raises ValueError for a rule that it has not."""
    found = WORDS[word]
    if rule:
        require(f"rule of {word}", rule, found.rules)
    return found.arrays(lanes, rule)


def of_numbers(word: str, *, floats: bool) -> Function:
    """Return what a word computes of Python's integers or floats."""
    found = WORDS[word].floats if floats else WORDS[word].integers
    assert found is not None, word
    return found


def of_number(word: str, lanes: np.dtype, scalar: float) -> Function:
    """The same where the second operand is a number of the text: what is simpler then."""
    simpler = {"max": _maximum_of, "min": _minimum_of}.get(word)
    return of(word, lanes) if simpler is None else simpler(lanes, scalar)
