"""Element by element: two tiles, a tile and a scalar, one tile.

The domain is the valid region of the destination; nothing outside it is written. The destination
may be one of the sources. Which function an element type takes is decided when operands are bound.

Arithmetic with a second step: multiply-add, activation, conversion.

Multiply-add rounds once, as a fused instruction does; no public document says whether the
hardware's multiply-accumulate rounds its product, so the switch `muladd.rounding` has the other
answer too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ptosim.ground.isa.conversions import conversion_name
from ptosim.machine.numbers import lanes, transcendental
from ptosim.machine.numbers import transcendental as numerics
from ptosim.machine.numbers.formats import lookup
from ptosim.machine.numbers.integers import clamp_int, float_to_int
from ptosim.machine.numbers.rounding import narrow
from ptosim.machine.pages import POISON
from ptosim.ops.base.binding import Binding, typed_scalar
from ptosim.ops.base.functions import Commit, Kernel, kernel

# What an arithmetic word (`add`, `max`, ...) computes for an element type, target and profile.
#
# Every operation that is built from a word (tile-tile, tile-scalar, partial, broadcast and reducing
# forms) asks here, so that a rule is written once. A function takes arrays or scalars of one
# element type and `out`, which may be one of its operands.
#
# Floats round the exact result once, to nearest with ties to even, subnormals kept. NumPy computes
# f16, and ml_dtypes bf16, in f32 and rounds the f32 result; f32 has enough bits that for a single
# +, -, *, / this is the one rounding of the exact result.
#
# Integers beyond their type wrap around, or stop at its limit (switch `int.overflow`); an overflow
# of signed elements is reported as a note.

Function = Callable[..., Any]
"""Called as f(operand, ..., out=array)."""

Choice = Callable[[Binding, np.dtype], Function]


def stored(function: Callable[..., np.ndarray]) -> Function:
    """Return a function with `out` for one that returns a new array."""

    def store(*operands: Any, out: np.ndarray) -> None:
        out[...] = function(*operands)

    return store


def always(function: Function) -> Choice:
    """Return the choice that does not depend on anything."""
    return lambda op, dtype: function


def lane_function(name: str, dtype: np.dtype, rule: str = "") -> Function:
    """Return what a word of `numbers.lanes` computes, with `out`."""
    function = lanes.of(name, dtype, rule)
    return function if isinstance(function, np.ufunc) else stored(function)


def divide(op: Binding, dtype: np.dtype) -> Function:
    """Quotients; integers truncate toward zero."""
    return lane_function("div", dtype, "zero")


def _by_nan_rule(name: str) -> Choice:
    """The word by the NaN rule of the profile; of relu a float -0 stays under the rule `cpu`."""
    return lambda op, dtype: lane_function(name, dtype, op.switch("maxmin.nan"))


maximum, minimum, relu = _by_nan_rule("max"), _by_nan_rule("min"), _by_nan_rule("relu")


def _exponential_difference(op: Binding, dtype: np.dtype) -> Function:
    """exp(a - b). A2/A3 subtract and round first; A5 has one instruction, rounded at its end."""
    if op.switch("expdif.rounding") == "twice":
        return stored(lambda first, second: transcendental.exp(np.subtract(first, second)))
    return stored(_exact_exponential_difference)


def _exact_exponential_difference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    # The f64 difference of f32 values can be inexact, but only so far below the last bit of the
    # larger operand that the power is infinite or 0, or that its error is far below half an ulp.
    return np.exp(first.astype(np.float64) - second.astype(np.float64))


# -- integers beyond their type --------------------------------------------------------------------

Overflow = Callable[[Any, Any, np.ndarray], np.ndarray]

# Where a wrapped result has another sign than the exact one (products: another value).
_OVERFLOWS: dict[np.ufunc, Overflow] = {
    np.add: lambda a, b, wrapped: (a ^ wrapped) & (b ^ wrapped) < 0,
    np.subtract: lambda a, b, wrapped: (a ^ b) & (a ^ wrapped) < 0,
    np.multiply: lambda a, b, wrapped: np.multiply(a, b, dtype=np.int64) != wrapped,
}


def ring(ufunc: np.ufunc) -> Choice:
    """Return the choice for a sum, difference or product: floats as they are, integers by the
    switch `int.overflow`."""

    def choose(op: Binding, dtype: np.dtype) -> Function:
        if dtype.kind not in "iu":
            return ufunc
        if op.switch("int.overflow") == "saturate":
            return stored(partial(_saturated, ufunc, dtype))
        if dtype.kind == "u" or dtype.itemsize == 8:
            return ufunc
        return _wrapping(op, ufunc)

    return choose


def _saturated(ufunc: np.ufunc, dtype: np.dtype, first: Any, second: Any) -> np.ndarray:
    """The exact result, limited to the type. Operands have at most 32 bits."""
    wide = np.uint64 if dtype.kind == "u" and ufunc is np.multiply else np.int64
    limits = np.iinfo(dtype)
    exact = ufunc(np.asarray(first).astype(wide), np.asarray(second).astype(wide))
    return np.clip(exact, wide(limits.min), wide(limits.max))


def _wrapping(op: Binding, ufunc: np.ufunc) -> Function:
    beyond = _OVERFLOWS[ufunc]

    def compute(first: Any, second: Any, out: np.ndarray) -> None:
        wrapped = ufunc(first, second)
        if beyond(first, second, wrapped).any():
            op.report(
                "PTO6424",
                "wraps integers around that leave their type",
                notes=("switch `int.overflow`: `wrap` or `saturate`; the hardware's is unknown",),
            )
        out[...] = wrapped

    return compute


WORDS: dict[str, Choice] = {
    "add": ring(np.add),
    "sub": ring(np.subtract),
    "mul": ring(np.multiply),
    "div": divide,
    "max": maximum,
    "min": minimum,
    "expdif": _exponential_difference,
}


def word(op: Binding, name: str, dtype: np.dtype) -> Function:
    """Return the function of an arithmetic word for an element type."""
    return WORDS[name](op, dtype)


def with_sign_of(out: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return values that are taken for elements of dst: integers of as many bits may differ in
    sign, and the library works in the type of dst."""
    kinds = out.dtype.kind, values.dtype.kind
    differ = kinds in (("i", "u"), ("u", "i")) and out.dtype.itemsize == values.dtype.itemsize
    return values.view(out.dtype) if differ else values


def elementwise(operands: tuple[str, ...], choose: Choice) -> Kernel:
    """Return the kernel dst = function(operands)."""

    def bind(op: Binding) -> Commit:
        out, *values = op.array_operands(("dst", *operands))
        values = [with_sign_of(out, v) if isinstance(v, np.ndarray) else v for v in values]
        return partial(choose(op, out.dtype), *values, out=out)

    return bind


def register(operands: str, table: dict[str, Choice]) -> None:
    """Register operations dst = function(operands), by name."""
    for name, choose in table.items():
        made = elementwise(tuple(operands.split()), choose)
        kernel(f"pto.{name}", over=f"dst {operands}")(made)


def _leaky(op: Binding, dtype: np.dtype) -> Function:
    """The value where it is positive, else value * slope (NaN is not positive)."""
    return lane_function("lrelu", dtype, "above_zero")


def _add_relu(op: Binding, dtype: np.dtype) -> Function:
    """The sum, rounded or wrapped, and of that and 0 the larger."""
    add, clip = WORDS["add"](op, dtype), relu(op, dtype)

    def both(first: np.ndarray, second: np.ndarray, out: np.ndarray) -> None:
        total = np.empty_like(out)
        add(first, second, out=total)
        clip(total, out=out)

    return both


def _reciprocal_root(op: Binding, dtype: np.dtype) -> Function:
    """A5, and A2/A3 with a scratch tile: square root, then reciprocal, each rounded. A2/A3 without
    one use the approximating instruction; here the correctly rounded value."""
    if dtype.kind in "iu" or (op.target == "a2a3" and not op.is_written("tmp")):
        return transcendental.rsqrt
    return stored(lambda values: transcendental.recip(transcendental.sqrt(values)))


def _power(op: Binding, dtype: np.dtype) -> Function:
    """August's A2/A3 has rules of its own: 32-bit integers are signed, a zero base has no sign."""
    by_a3 = op.target == "a2a3" and "precisionType" in op.attributes
    if dtype.kind in "iu":
        signed = by_a3 and dtype.itemsize == 4
        return stored(_integer_power_signed if signed else _integer_power)
    if by_a3:
        return stored(_power_of_a3)
    if dtype not in (np.float32, np.float16):
        return stored(_power_by_f32)
    return lambda bases, exponents, out: transcendental.power(bases, _like(exponents, bases), out)


def _integer_power(bases: np.ndarray, exponents: Any) -> np.ndarray:
    return numerics.power_int(bases, _like(exponents, bases))


def _integer_power_signed(bases: np.ndarray, exponents: Any) -> np.ndarray:
    words = (
        np.asarray(_like(v, bases)).astype(bases.dtype).view(np.int32) for v in (bases, exponents)
    )
    return numerics.power_int(*words).view(bases.dtype)


def _power_by_f32(bases: np.ndarray, exponents: Any) -> np.ndarray:
    """The power rounded to f32, then to the type of the elements."""
    wide = np.asarray(_like(exponents, bases)).astype(np.float32)
    return transcendental.power(bases.astype(np.float32), wide).astype(bases.dtype)


def _power_of_a3(bases: np.ndarray, exponents: Any) -> np.ndarray:
    """0 to a positive power is 0, to a negative one infinity, whatever its sign."""
    powers = _like(exponents, bases)
    made = transcendental.power(bases, powers)
    made = np.where((bases == 0) & (powers > 0), bases.dtype.type(0), made)
    return np.where((bases == 0) & (powers < 0), bases.dtype.type(np.inf), made)


def _like(exponents: Any, bases: np.ndarray) -> np.ndarray:
    """Exponents as an array: NumPy takes a root for a scalar 0.5, which differs for -0 and -inf."""
    return np.full(bases.shape, exponents) if np.ndim(exponents) == 0 else exponents


def _shift(ufunc: np.ufunc) -> Choice:
    """A scalar amount outside 0 .. width-1 is undefined on the hardware; here all bits are shifted
    out (a signed element keeps its sign to the right)."""

    def choose(op: Binding, dtype: np.dtype) -> Function:
        amount = op.values.get("scalar")
        if isinstance(amount, int) and not 0 <= amount < dtype.itemsize * 8:
            op.report(
                "PTO7021",
                f"shifts elements of {dtype.itemsize * 8} bits by {amount}",
                notes=("undefined on the hardware; here all bits are shifted out",),
            )
        return ufunc

    return choose


def _trunc_modulo(op: Binding, dtype: np.dtype) -> Function:
    """The remainder with the dividend's sign, of rounded quotients or exact."""
    if dtype.kind in "iu" or op.switch("tfmod.quotient") == "rounded":
        return stored(numerics.trunc_modulo)
    return stored(lambda dividends, divisors: np.fmod(dividends, divisors, dtype=np.float32))


_ALSO_WITH_SCALAR: dict[str, Choice] = {
    "tadd": WORDS["add"],
    "tsub": WORDS["sub"],
    "tmul": WORDS["mul"],
    "tmax": maximum,
    "tmin": minimum,
    "tand": always(np.bitwise_and),
    "tor": always(np.bitwise_or),
    "txor": always(np.bitwise_xor),
    "tshl": _shift(np.left_shift),
    "tshr": _shift(np.right_shift),
    "tfmod": _trunc_modulo,
    "tpow": _power,
}

_TWO_TILES: dict[str, Choice] = _ALSO_WITH_SCALAR | {
    "tdiv": WORDS["div"],
    "tprelu": _leaky,
    "taddrelu": _add_relu,
}

_TILE_SCALAR: dict[str, Choice] = {
    f"{name}s": choose for name, choose in _ALSO_WITH_SCALAR.items()
} | {"tlrelu": _leaky}

_ONE_TILE: dict[str, Choice] = {
    "tabs": always(np.abs),
    "tneg": always(np.negative),
    "texp": always(transcendental.exp),
    "tlog": always(transcendental.log),
    "tsqrt": always(transcendental.sqrt),
    "trsqrt": _reciprocal_root,
    "trecip": always(transcendental.recip),
    "trelu": relu,
    "tnot": always(np.invert),
}

_THREE = {
    "add": always(stored(lambda first, second, third: first + second + third)),
    "sub": always(stored(lambda first, second, third: first - second + third)),
}
"""Each step rounded: the order of the CPU simulator, the only implementation."""

register("src0 src1", _TWO_TILES)
register("src scalar", _TILE_SCALAR)
register("src", _ONE_TILE)
register("src0 src1 src2", {f"t{name}c": choose for name, choose in _THREE.items()})
register("src0 scalar src1", {f"t{name}sc": choose for name, choose in _THREE.items()})


# -- with a second step ----------------------------------------------------------------------------


def _multiply_add(op: Binding, dtype: np.dtype) -> Function:
    return lane_function("muladd", dtype, op.switch("muladd.rounding"))


def _multiply_add_relu(op: Binding, dtype: np.dtype) -> Function:
    """Negative results are 0."""
    combine, activate = _multiply_add(op, dtype), relu(op, dtype)

    def compute(*factors: Any, out: np.ndarray) -> None:
        total = np.empty_like(out)
        combine(*factors, out=total)
        activate(total, out=out)

    return compute


def _subtracting_relu(op: Binding, dtype: np.dtype) -> Function:
    """max(0, a - b): zero is the first operand of the comparison."""
    larger, zero = maximum(op, dtype), dtype.type(0)
    return lambda first, second, out: larger(zero, np.subtract(first, second), out=out)


register("src0 src1 dst", {"tmuladddst": _multiply_add})
register("src0 dst src1", {"tfusedmuladd": _multiply_add, "tfusedmuladdrelu": _multiply_add_relu})
register("src0 src1", {"tsubrelu": _subtracting_relu})


@kernel("pto.taxpy", over="dst src")
def taxpy(op: Binding) -> Commit:
    """dst = scalar * src + dst. An f16 source can be added to an f32 destination; its scalar is
    f16."""
    out, values = op.array_operands(("dst", "src"))
    factor = typed_scalar(op.scalar("scalar"), values.dtype)
    return partial(_multiply_add(op, out.dtype), values, factor, out, out=out)


def _activated(name: str, op: Binding) -> Commit:
    """dst = convert(max(src0 +- src1, 0)), rounding half to even and saturating."""
    out, first, second = op.array_operands(("dst", "src0", "src1"))
    combine, activate = word(op, name, first.dtype), relu(op, first.dtype)
    source, destination = (conversion_name(op.tile(n).type.dtype) for n in ("src0", "dst"))
    convert = _saturating(source, destination)

    def compute() -> None:
        wide = np.empty_like(first)
        combine(first, second, out=wide)
        activate(wide, out=wide)
        out[...] = convert(wide)

    return compute


def _saturating(source: str, destination: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return a conversion that rounds half to even and clamps to the destination's finite range."""
    kinds = lookup(source).kind, lookup(destination).kind
    if kinds == ("float", "float"):
        return partial(narrow, dst=destination, mode="rint", saturate=True)
    if kinds[0] == "float":
        return partial(float_to_int, dst=destination, mode="rint")
    return partial(clamp_int, src=source, dst=destination)


for _name in ("add", "sub"):
    kernel(f"pto.t{_name}reluconv", over="dst src0 src1")(partial(_activated, _name))


@kernel("pto.tadddeqrelu", over="dst src0 src1")
def tadddeqrelu(op: Binding) -> Commit:
    """dst = f16(max((src0 + src1) * scalar, 0)): the wrapped i32 sum goes to f32, is scaled by
    2^-17, by the scalar and by 2^17 with one rounding each, and is narrowed half to even,
    saturating."""
    out, first, second = op.array_operands(("dst", "src0", "src1"))
    scale = np.float32(op.scalar("scalar"))
    add = word(op, "add", np.dtype(np.int32))
    terms = first.view(np.int32), second.view(np.int32)
    spoiled = first.view(np.uint8) if op.switch("tadddeqrelu.src0") == "spoiled" else None

    def compute() -> None:
        total = np.empty(first.shape, np.int32)
        add(*terms, out=total)
        scaled = total.astype(np.float32) * np.float32(2.0**-17) * scale * np.float32(2.0**17)
        result = narrow(np.maximum(scaled, np.float32(0)), "f16", "rint", saturate=True)
        if spoiled is not None:
            spoiled[...] = POISON  # the library works in src0; what it leaves is not documented
        out[...] = result

    return compute
