"""Functions of single f32 elements that the vector unit has no instruction for: whole parts, signs,
circular and hyperbolic functions and their inverses.

Errors are some units in the last place of the largest value. Angles are reduced by multiples of pi
in three parts, exactly up to 100,000; beyond, digits are lost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ptosim.models import chains
from ptosim.models.chains import unsupported
from ptosim.models.kernel_builder import KernelBuilder, TileValue
from ptosim.models.kernels import Frame
from ptosim.models.onnx_floats import ElementBody, real
from ptosim.models.quant.onnx.ops import Arrays, need
from ptosim.models.quant.onnx.rules import Node

_WHOLE = 2.0**23
"""From here on every f32 is a whole number."""
_PI = (3.140625, 9.67502593994140625e-4, 1.50995799097837643e-7)
"""Its bits in parts: products of the first with whole numbers of 16 bits are exact."""
_SINE = (-1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800)
_ARC = (
    -0.3333314528, 0.1999355085, -0.1420889944, 0.1065626393, -0.0752896400, 0.0429096138,
    -0.0161657367, 0.0028662257,
)  # fmt: skip
"""Of atan x / x - 1 in x^2 for |x| <= 1, to 2e-8 (Abramowitz and Stegun 4.4.49)."""


def _new(f: KernelBuilder, x: TileValue, stem: str) -> TileValue:
    return f.tile(stem, "f32", x.rows, x.cols)


def _copied(f: KernelBuilder, x: TileValue, stem: str) -> TileValue:
    return f.step("muls", x, 1.0, out=_new(f, x, stem))


def _where(
    f: KernelBuilder,
    left: TileValue,
    mode: str,
    right: float | TileValue,
    a: TileValue,
    b: TileValue,
) -> TileValue:
    """Put `a` into `b` where a comparison holds, and return that."""
    mask = f.like("mask", "i8", left)
    edge = right if isinstance(right, TileValue) else _filled(f, left, "edge", right)
    f.tile_op("pto.tcmp", [left, edge], [mask], {"cmpMode": f"#pto<cmp {mode}>"})
    f.tile_op("pto.tsel", [mask, a, b], [b])
    return b


def _filled(f: KernelBuilder, x: TileValue, stem: str, value: float) -> TileValue:
    made = _new(f, x, stem)
    f.tile_op("pto.texpands", [f.real(value)], [made])
    return made


def _rounded(f: KernelBuilder, x: TileValue, mode: str) -> TileValue:
    """The integer that a rounding mode gives; what has no fraction, and NaN, as it is."""
    rounding = {"rmode": f"#pto<round_mode {mode}>"} | chains.ON
    made = chains.real(f, chains.converted(f, x, "whole", "i32", rounding))
    size = f.step("abs", x, out=_new(f, x, "size"))
    return _where(f, size, "lt", _WHOLE, made, x)


def _rounding(mode: str) -> ElementBody:
    return lambda f, x, node: _rounded(f, x, mode)


def sign(f: KernelBuilder, x: TileValue) -> TileValue:
    """Return -1, 0 or 1 in place; NaN stays."""
    kept = _copied(f, x, "kept")
    for power in (126, 30):  # subnormals too
        f.step("muls", x, 2.0**power)
    f.step("mins", x, 1.0)
    f.step("maxs", x, -1.0)
    return _where(f, kept, "eq", kept, x, kept)


# -- circles ---------------------------------------------------------------------------------------


def _sine(f: KernelBuilder, x: TileValue, shift: float) -> TileValue:
    """The sine of x + shift * pi, where shift is 0 or a half; `x` is overwritten."""
    nothing = f.step("muls", x, 0.0, out=_new(f, x, "nothing"))  # NaN of infinity
    turns = f.step("muls", x, 1 / math.pi, out=_new(f, x, "turns"))
    f.step("adds", turns, shift)
    turns = chains.real(f, chains.converted(f, turns, "whole", "i32", chains.CLAMPED))
    half = f.step("muls", turns, 0.5, out=_new(f, x, "half"))
    low = _rounded(f, _copied(f, half, "even"), "FLOOR")
    f.step("sub", half, low)  # 0, or a half of an odd number of turns
    f.step("muls", half, -4.0)
    f.step("adds", half, 1.0)
    f.step("adds", turns, -shift)
    part = low
    for piece in _PI:
        f.step("muls", turns, piece, out=part)
        f.step("sub", x, part)
    square = f.step("mul", x, x, out=part)
    total = _polynomial(f, square, _SINE)
    f.step("mul", f.step("mul", total, x), half)
    return f.step("add", f.step("maxs", f.step("mins", total, 1.0), -1.0), nothing)


def _polynomial(f: KernelBuilder, x: TileValue, factors: tuple[float, ...]) -> TileValue:
    """1 + a x + b x^2 + …"""
    total = f.step("muls", x, factors[-1], out=_new(f, x, "total"))
    for factor in reversed(factors[:-1]):
        f.step("adds", total, factor)
        f.step("mul", total, x)
    return f.step("adds", total, 1.0)


def _tangent(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
    below = _sine(f, _copied(f, x, "again"), 0.5)
    return f.step("div", _sine(f, x, 0.0), below, out=_new(f, x, "tangent"))


def _arc_tangent(f: KernelBuilder, x: TileValue) -> TileValue:
    """Of the smaller of |x| and 1 / |x|, then of the sign; `x` is overwritten."""
    size = f.step("abs", x, out=_new(f, x, "size"))
    one = _filled(f, x, "one", 1.0)
    small = f.step("div", one, size, out=_new(f, x, "small"))
    f.step("min", small, size)
    square = f.step("mul", small, small, out=one)
    total = f.step("mul", _polynomial(f, square, _ARC), small)
    rest = f.step("muls", total, -1.0, out=small)
    f.step("adds", rest, math.pi / 2)
    return f.step("mul", _where(f, size, "gt", 1.0, rest, total), sign(f, x))


def _arc_sine(f: KernelBuilder, x: TileValue) -> TileValue:
    """The angle of x and the root of 1 - x^2."""
    below = f.step("muls", x, -1.0, out=_new(f, x, "below"))
    f.step("adds", below, 1.0)
    above = f.step("adds", x, 1.0, out=_new(f, x, "above"))
    f.step("sqrt", f.step("mul", below, above))
    return _arc_tangent(f, f.step("div", x, below, out=above))


def _arc_cosine(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
    return f.step("adds", f.step("muls", _arc_sine(f, x), -1.0), math.pi / 2)


# -- hyperbolas ------------------------------------------------------------------------------------


def _hyperbolic(word: str) -> ElementBody:
    """Half the sum or the difference of e^x and e^-x, as squares: e^x may overflow, half of it
    not."""

    def body(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
        other = f.step("muls", x, -0.5, out=_new(f, x, "other"))
        f.step("muls", x, 0.5)
        for tile in (x, other):
            root = f.step("exp", tile)
            f.step("mul", tile, f.step("muls", root, 0.5, out=_new(f, x, "half")))
        return f.step(word, x, other)

    return body


def _area(shift: float) -> ElementBody:
    """log(|x| + sqrt(x^2 + shift)), with the sign of x where the shift is above 0."""

    def body(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
        root = f.step("mul", x, x, out=_new(f, x, "root"))
        f.step("sqrt", f.step("adds", root, shift))
        size = f.step("abs", x, out=_new(f, x, "size")) if shift > 0 else x
        f.step("log", f.step("add", root, size))
        return f.step("mul", root, sign(f, x)) if shift > 0 else root

    return body


def _area_tangent(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
    above = f.step("adds", x, 1.0, out=_new(f, x, "above"))
    f.step("adds", f.step("muls", x, -1.0), 1.0)
    made = f.step("log", f.step("div", above, x, out=_new(f, x, "ratio")))
    return f.step("muls", made, 0.5)


# --------------------------------------------------------------------------------------------------


def _shrink(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
    """x nearer to 0 by a bias beyond a limit, 0 up to it."""
    limit, bias = (float(node.attrs.get(n, d)) for n, d in (("lambd", 0.5), ("bias", 0.0)))
    if not limit >= 0 or not np.isfinite(bias):
        raise unsupported(f"node {node}: lambd is {limit:g}, bias {bias:g}")
    made, scratch = _filled(f, x, "made", 0.0), _new(f, x, "scratch")
    _where(f, x, "gt", limit, f.step("adds", x, -bias, out=scratch), made)
    return _where(f, x, "lt", -limit, f.step("adds", x, bias, out=scratch), made)


def modulo(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    """The remainder of a division, with the sign of the first operand (`fmod`) or of the second."""
    a, b = (real(node, need(inputs, i)) for i in range(2))
    shape = np.broadcast_shapes(a.shape, b.shape)

    def body(f: KernelBuilder, frame: Frame) -> None:
        x, z = frame.load("x", "f32"), frame.load("z", "f32")
        made = f.step("mul", _remainder(f, x, z), sign(f, x))
        if not node.attrs.get("fmod", 0):
            product = f.step("mul", _copied(f, made, "product"), sign(f, _copied(f, z, "side")))
            made = _where(f, product, "lt", 0.0, f.step("add", z, made), made)
        frame.store(made, "y")

    low.notes.add(f"node {node}: the last bits are those of quotients up to 2^12")
    arrays = {"x": np.broadcast_to(a, shape), "z": np.broadcast_to(b, shape)}
    return [low.runner.elementwise("mod", body, arrays, "f32")]


def _remainder(f: KernelBuilder, x: TileValue, z: TileValue) -> TileValue:
    """|x| less the whole multiple of |z|, whose parts of 12 bits make exact products; the quotient
    that is rounded may be one off."""
    size, part = (f.step("abs", tile, out=_new(f, tile, n)) for tile, n in ((x, "a"), (z, "b")))
    count = f.step("div", size, part, out=_new(f, x, "count"))
    count = _rounded(f, count, "FLOOR")
    high, rest = f.step("muls", part, 4097.0, out=_new(f, x, "high")), _new(f, x, "rest")
    f.step("sub", high, f.step("sub", high, part, out=rest))
    low = f.step("sub", part, high, out=rest)
    made = f.step("sub", size, f.step("mul", high, count), out=high)
    f.step("sub", made, f.step("mul", low, count))
    made = _where(f, made, "lt", 0.0, f.step("add", made, part, out=low), made)
    over = f.step("sub", made, part, out=low)
    made = _where(f, over, "ge", 0.0, over, made)
    return _where(f, size, "lt", part, size, made)


UNARY: dict[str, ElementBody] = {
    "Floor": _rounding("FLOOR"),
    "Ceil": _rounding("CEIL"),
    "Round": _rounding("RINT"),
    "Sign": lambda f, x, node: sign(f, x),
    "Sin": lambda f, x, node: _sine(f, x, 0.0),
    "Cos": lambda f, x, node: _sine(f, x, 0.5),
    "Tan": _tangent,
    "Asin": lambda f, x, node: _arc_sine(f, x),
    "Acos": _arc_cosine,
    "Atan": lambda f, x, node: _arc_tangent(f, x),
    "Sinh": _hyperbolic("sub"),
    "Cosh": _hyperbolic("add"),
    "Asinh": _area(1.0),
    "Acosh": _area(-1.0),
    "Atanh": _area_tangent,
    "Shrink": _shrink,
}
"""Functions of single elements."""
