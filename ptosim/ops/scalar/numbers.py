"""The scalar unit: arith operations on Python integers and floats.

Each operation has a maker that, given the element types, returns the function of the operands'
values. Integers are kept in the range of their type, floats rounded to it.

Integer arithmetic on the values that an operand has in many rounds of a loop, for numbers that
are small enough for all of it to stay in 64 bits."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import DType
from ptosim.machine.affine import Affine, Unknown
from ptosim.machine.core import SLOT_BLOCK, SLOT_BLOCK_NUM, SLOT_SUBBLOCK, SLOT_SUBBLOCK_NUM
from ptosim.machine.numbers.lanes import COMPARISONS, of_numbers
from ptosim.machine.numbers.rounding import multiply_add
from ptosim.ops.base.functions import value
from ptosim.ops.base.orders import Action, ValueContext, computed

Function = Callable[..., Any]
Maker = Callable[[DType, DType], Function]
"""From operand and result element type to the function of the values."""


class ScalarFault(Exception):
    """A scalar operation without a result (division by zero)."""


def wrap(value: int, dtype: DType) -> int:
    """Return an integer modulo the width of its type, in the type's range."""
    if dtype.name == "i1":
        return bool(value & 1)
    bits = dtype.bits
    value &= (1 << bits) - 1
    if dtype.kind == "int" and value >> (bits - 1):
        value -= 1 << bits
    return value


def _most_alike(*types: DType) -> int:
    """Return the largest number from 0 on up to which numbers are the same in all of some integer
    types, with a sign or without; -1 where there are truth values among them."""
    return min(-1 if type_.name == "i1" else (1 << (type_.bits - 1)) - 1 for type_ in types)


def unsigned(value: int, dtype: DType) -> int:
    """Return the bits of an integer as an unsigned number."""
    return integer(value) & ((1 << (1 if dtype.name == "i1" else dtype.bits)) - 1)


def integer(value: Any) -> int:
    """Return a number as an integer; one that moves with the round stays what it is."""
    return value if value.__class__ is Affine else int(value)


def rounder(dtype: DType) -> Callable[[float], float]:
    """Return the function that rounds a double to a float type, to nearest even."""
    if dtype.family == "f32":
        return lambda value: float(np.float32(value))
    if dtype.family == "f16":
        return lambda value: float(np.float16(value))
    if dtype.family == "bf16":
        return lambda value: float(ml_dtypes.bfloat16(float(value)))
    return float


def _wrapping(function: Callable[[int, int], int]) -> Maker:
    def make(operand: DType, result: DType) -> Function:
        low, high = -(1 << (operand.bits - 1)), (1 << (operand.bits - 1)) - 1
        if operand.kind != "int" or operand.name == "i1":
            return lambda a, b: wrap(function(integer(a), integer(b)), operand)

        def signed(a: int, b: int) -> int:
            value = function(a, b)
            return value if low <= value <= high else wrap(value, operand)

        return signed

    return make


def _bitwise(function: Callable[[int, int], int]) -> Maker:
    """Bits of signed numbers in range give one in range."""

    def make(operand: DType, result: DType) -> Function:
        if operand.kind == "int" and operand.name != "i1":
            return function
        return _on_bits(function)(operand, result)

    return make


def _signed(value: int, dtype: DType) -> int:
    value = unsigned(value, dtype)
    bits = 1 if dtype.name == "i1" else dtype.bits
    return value - (1 << bits) if value >> (bits - 1) else value


def _seen(view: Callable[[int, DType], int], function: Callable[[int, int], int]) -> Maker:
    def make(operand: DType, result: DType) -> Function:
        most = _most_alike(operand)
        bits = (1 << (1 if operand.name == "i1" else operand.bits)) - 1

        def seen(a: int, b: int) -> int:
            if a.__class__ is int and 0 <= a <= most and b.__class__ is int and 0 <= b <= most:
                value = function(a, b)
                return value if 0 <= value <= most else wrap(value, operand)
            if view is unsigned:
                return wrap(function(integer(a) & bits, integer(b) & bits), operand)
            return wrap(function(view(a, operand), view(b, operand)), operand)

        return seen

    return make


_on_bits, _on_signed = partial(_seen, unsigned), partial(_seen, _signed)


def _quotient(function: Callable[[int, int], int], view: Callable[[int, DType], int]) -> Maker:
    """Nothing can be divided by zero, whether it is known or not."""

    def make(operand: DType, result: DType) -> Function:
        seen, most = _seen(view, function)(operand, result), _most_alike(operand)

        def divide(a: int, b: int) -> int:
            if a.__class__ is int and 0 <= a <= most and b.__class__ is int and 0 < b <= most:
                return function(a, b)  # not more than `a`
            if b.__class__ is not Unknown and b == 0:
                raise ScalarFault("division by zero")
            return seen(a, b)

        return divide

    return make


def _shift(function: Callable[[int, int], int], view: Callable[[int, DType], int]) -> Maker:
    signed = view is _signed

    def make(operand: DType, result: DType) -> Function:
        most = _most_alike(operand)

        def shift(a: int, b: int) -> int:
            is_plain = a.__class__ is int and 0 <= a <= most and b.__class__ is int
            if is_plain and 0 <= b < operand.bits and 0 <= (value := function(a, b)) <= most:
                return value
            amount = unsigned(b, operand)
            if amount >= operand.bits:
                return -1 if signed and a < 0 else 0
            return wrap(function(view(a, operand), amount), operand)

        return shift

    return make


def _float(function: Callable[[float, float], float]) -> Maker:
    def make(operand: DType, result: DType) -> Function:
        narrow = rounder(operand)
        return lambda a, b: narrow(function(a, b))

    return make


def compare_integers(predicate: str, operand: DType) -> Function:
    """Return the comparison of an arith.cmpi predicate."""
    signed = predicate[0] == "s"
    function = COMPARISONS[predicate if predicate in COMPARISONS else predicate[1:]]
    if signed and operand.kind == "int" and operand.name != "i1":
        return function
    view, most = _signed if signed else unsigned, _most_alike(operand)

    def compare(a: int, b: int) -> bool:
        if a.__class__ is int and 0 <= a <= most and b.__class__ is int and 0 <= b <= most:
            return function(a, b)
        return function(view(a, operand), view(b, operand))

    return compare


def compare_floats(predicate: str) -> Function:
    """Return the comparison of an arith.cmpf predicate (o…: false with NaN, u…: true with NaN)."""
    if predicate in ("true", "false"):
        return lambda a, b: predicate == "true"
    if predicate in ("ord", "uno"):
        return lambda a, b: (math.isnan(a) or math.isnan(b)) == (predicate == "uno")
    function = COMPARISONS[predicate[1:]]
    with_nan = predicate[0] == "u"

    def compare(a: float, b: float) -> bool:
        if math.isnan(a) or math.isnan(b):
            return with_nan
        return function(a, b)

    return compare


def _cast_bits(view: Callable[[int, DType], int]) -> Maker:
    def make(operand: DType, result: DType) -> Function:
        most = _most_alike(operand, result)

        def cast(a: int) -> int:
            if a.__class__ is int and 0 <= a <= most:
                return a
            return wrap(view(integer(a), operand), result)

        return cast

    return make


def _to_float(view: Callable[[int, DType], int]) -> Maker:
    def make(operand: DType, result: DType) -> Function:
        if result.bits == 64:
            return lambda a: float(view(int(a), operand))
        narrow = {"f32": np.float32, "f16": np.float16}.get(result.family, ml_dtypes.bfloat16)

        @np.errstate(over="ignore")
        def converted(a: int) -> float:
            return float(np.array(view(int(a), operand)).astype(narrow))

        return converted

    return make


def _to_integer(signed: bool) -> Maker:
    def make(operand: DType, result: DType) -> Function:
        bits = result.bits
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)

        def convert(a: float) -> int:
            if math.isnan(a):
                return 0
            return wrap(high if a > high else low if a < low else int(a), result)

        return convert

    return make


_FORMATS = {("float", 64): "<d", ("float", 32): "<f", ("float", 16): "<e"}


def _bitcast(operand: DType, result: DType) -> Function:
    return lambda a: from_bits(to_bits(a, operand), result)


def to_bits(value: Any, dtype: DType) -> int:
    """Return the bit pattern of a scalar value."""
    if not dtype.is_float:
        return unsigned(value, dtype)
    if dtype.family == "bf16":
        return int(np.array(value, ml_dtypes.bfloat16).view(np.uint16))
    kind = {64: np.float64, 32: np.float32, 16: np.float16}[dtype.bits]
    return int(np.array(value, kind).view(f"u{dtype.bits // 8}"))


def from_bits(bits: int, dtype: DType) -> Any:
    """Return the scalar value of a bit pattern."""
    if not dtype.is_float:
        return wrap(bits, dtype)
    if dtype.family == "bf16":
        return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    return struct.unpack(_FORMATS["float", dtype.bits], bits.to_bytes(dtype.bits // 8, "little"))[0]


def _add_with_carry(operand: DType, result: DType) -> Function:
    def add(a: int, b: int) -> tuple[int, bool]:
        total = unsigned(a, operand) + unsigned(b, operand)
        return wrap(total, operand), bool(total >> operand.bits)

    return add


def _wide_product(view: Callable[[int, DType], int]) -> Maker:
    def make(operand: DType, result: DType) -> Function:
        def multiply(a: int, b: int) -> tuple[int, int]:
            product = view(a, operand) * view(b, operand)
            return wrap(product, operand), wrap(product >> operand.bits, operand)

        return multiply

    return make


def _away(a: Any) -> Any:
    return np.copysign(np.floor(np.abs(a) + 0.5), a)


FLOAT_FUNCTIONS: dict[str, Function] = {
    "absf": np.abs, "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a), "exp": np.exp,
    "exp2": np.exp2, "log": np.log, "log2": np.log2, "log10": np.log10, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "tanh": np.tanh, "ceil": np.ceil, "floor": np.floor,
    "trunc": np.trunc, "round": _away, "powf": np.power,
}  # fmt: skip
"""Functions of the math dialect on f64 numbers or arrays of them."""


def _rounded(function: Function) -> Maker:
    """Computed in f64, rounded once to the type."""

    def make(operand: DType, result: DType) -> Function:
        narrow = rounder(operand)

        def compute(*values: float) -> float:
            with np.errstate(all="ignore"):
                return narrow(float(function(*(np.float64(v) for v in values))))

        return compute

    return make


def _fused(operand: DType, result: DType) -> Function:
    kind = {"f64": np.float64, "f32": np.float32, "f16": np.float16}.get(
        operand.family, ml_dtypes.bfloat16
    )

    def compute(a: float, b: float, c: float) -> float:
        with np.errstate(all="ignore"):
            return float(multiply_add(*(np.array([v], kind) for v in (a, b, c)))[0])

    return compute


ARITHMETIC: dict[str, tuple[str, str]] = {
    **{f"arith.{word}i": (word, "i") for word in ("add", "sub", "mul", "and", "or", "xor")},
    **{f"arith.{word}si": (word, "s") for word in ("div", "rem", "ceildiv", "floordiv")},
    **{f"arith.{word}{sign}i": (word, sign) for word in ("max", "min") for sign in "su"},
    "arith.divui": ("floordiv", "u"),
    "arith.remui": ("mod", "u"),
    "arith.ceildivui": ("ceildiv", "u"),
    "arith.shli": ("shl", "u"),
    "arith.shrsi": ("shr", "s"),
    "arith.shrui": ("shr", "u"),
    **{f"arith.{word}f": (word, "f") for word in ("add", "sub", "mul", "div", "rem")},
    **{f"arith.{word}f": (word, "f") for word in ("maxnum", "minnum")},
    "arith.maximumf": ("max", "f"),
    "arith.minimumf": ("min", "f"),
}
"""The word of each operation on two numbers, and how it sees them: as integers of any sign, with
or without one, as floats. Threads compute the same words on lanes."""
DIVIDES = frozenset(("div", "floordiv", "ceildiv", "rem", "mod"))
"""Words that integers of zero have no result of."""


def _arithmetic(word: str, kind: str) -> Maker:
    if kind == "f":
        return _float(of_numbers(word, floats=True))
    function = of_numbers(word, floats=False)
    if kind == "i":
        return _bitwise(function) if word in ("and", "or", "xor") else _wrapping(function)
    view = _signed if kind == "s" else unsigned
    if word in ("shl", "shr"):
        return _shift(function, view)
    return _quotient(function, view) if word in DIVIDES else _seen(view, function)


MAKERS: dict[str, Maker] = {
    **{name: _arithmetic(*meaning) for name, meaning in ARITHMETIC.items()},
    "arith.negf": lambda operand, result: operator.neg,
    "math.roundeven": lambda operand, result: lambda a: float(np.rint(a)),
    "math.fma": _fused,
    **{f"math.{name}": _rounded(function) for name, function in FLOAT_FUNCTIONS.items()},
    "arith.index_cast": _cast_bits(_signed),
    "arith.index_castui": _cast_bits(unsigned),
    "arith.extsi": _cast_bits(_signed),
    "arith.extui": _cast_bits(unsigned),
    "arith.trunci": _cast_bits(unsigned),
    "arith.extf": lambda operand, result: rounder(result),
    "arith.truncf": lambda operand, result: rounder(result),
    "arith.sitofp": _to_float(_signed),
    "arith.uitofp": _to_float(unsigned),
    "arith.fptosi": _to_integer(signed=True),
    "arith.fptoui": _to_integer(signed=False),
    "arith.bitcast": _bitcast,
    "arith.addui_extended": _add_with_carry,
    "arith.mulsi_extended": _wide_product(_signed),
    "arith.mului_extended": _wide_product(unsigned),
}

_CASTS = ("arith.index_cast", "arith.extsi", "arith.index_castui", "arith.extui", "arith.trunci")


def word_of(op: Operation) -> tuple[str, str]:
    """Return the word of an operation on whole numbers, `cast` and the predicate of a comparison
    among them, and how it sees them ('' where it is any of them); ('', '') for any other."""
    predicate = op.bound.get("predicate")
    if op.name in _CASTS:
        return "cast", ""
    if predicate is None:
        word, kind = ARITHMETIC.get(op.name, ("", ""))
        return (word, kind.strip("i")) if kind != "f" else ("", "")
    element = getattr(op.bound["lhs"].type, "dtype", None)
    if element is None or element.is_float:
        return "", ""
    word = str(predicate.const)
    return (word, "") if word in COMPARISONS else (word[1:], word[0])


# -- of many rounds of a loop ----------------------------------------------------------------------


Numbers = Any
"""An int, or an array (int64) of the values of all rounds."""

LARGEST = 1 << 31
"""Numbers up to here add and multiply without leaving 64 bits."""


def is_small(value: Numbers) -> bool:
    """True for integers below LARGEST."""
    if isinstance(value, np.ndarray):
        return value.dtype == np.int64 and int(np.abs(value).max()) < LARGEST
    return type(value) in (int, np.int64) and abs(value) < LARGEST


def _divided(function: np.ufunc) -> Callable[[Numbers, Numbers], Numbers | None]:
    """Of numbers without a sign only; others, and a division by zero, are not computed here."""

    def divide(a: Numbers, b: Numbers) -> Numbers | None:
        return function(a, b) if np.min(a) >= 0 and np.min(b) > 0 else None

    return divide


OF_MANY: dict[str, Callable[..., Numbers | None]] = {
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
    "arith.divui": _divided(np.floor_divide), "arith.remui": _divided(np.remainder),
    "arith.divsi": _divided(np.floor_divide), "arith.remsi": _divided(np.remainder),
    "arith.index_cast": np.positive,
}  # fmt: skip
"""Functions of small numbers by the name of the operation; None where one is not computed here."""


# Operations that ask where the program runs.

_SLOTS = {
    "pto.get_block_idx": SLOT_BLOCK,
    "pto.get_block_num": SLOT_BLOCK_NUM,
    "pto.get_subblock_idx": SLOT_SUBBLOCK,
    "pto.get_subblock_num": SLOT_SUBBLOCK_NUM,
}


@value(*_SLOTS)
def launch_index(ctx: ValueContext) -> Action:
    """Index and number of the core and of its vector sub-block."""
    return computed(lambda number: number, [_SLOTS[ctx.op.name]], ctx.result)
