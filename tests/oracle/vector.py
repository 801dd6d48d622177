"""Models of operations that work element by element. They change the tiles of a call in place."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tests.oracle import arithmetic, ieee, numerics
from tests.oracle.arithmetic import WORDS, Word, relu
from tests.oracle.ieee import ZERO
from tests.oracle.numerics import power_of_two
from tests.oracle.tile import FLOATS, Call, Tile, plain

Model = Callable[[Call], None]


def _bitwise(function: Callable[[int, int], int]) -> Word:
    return lambda a, b, dtype, call: function(a, b)


_TWO: dict[str, Word] = {
    **{name: WORDS[name] for name in ("add", "sub", "mul", "div", "max", "min")},
    "and": _bitwise(int.__and__),
    "or": _bitwise(int.__or__),
    "xor": _bitwise(int.__xor__),
    "shl": arithmetic.shift_left,
    "shr": arithmetic.shift_right,
    "fmod": arithmetic.trunc_modulo,
    "pow": arithmetic.power,
    "prelu": arithmetic.leaky,
}


def _reciprocal_root(a: Any, dtype: str, call: Call) -> Any:
    """Square root, then reciprocal; in one rounding on A2/A3 without a scratch tile."""
    root = ieee.square_root(a)
    if call.is_a5 or "tmp" in call.tiles:
        root = ieee.rounded(root, dtype)
    return ieee.rounded(ieee.divide(Fraction(1), root), dtype)


_ONE: dict[str, Callable[[Any, str, Call], Any]] = {
    "abs": lambda a, dtype, call: ieee.magnitude(a),
    "neg": lambda a, dtype, call: ieee.negated(a) if dtype in FLOATS else -a,
    "exp": lambda a, dtype, call: ieee.rounded(ieee.exponential(a), dtype),
    "log": lambda a, dtype, call: ieee.rounded(ieee.logarithm(a), dtype),
    "sqrt": lambda a, dtype, call: ieee.rounded(ieee.square_root(a), dtype),
    "rsqrt": _reciprocal_root,
    "recip": lambda a, dtype, call: ieee.rounded(ieee.divide(Fraction(1), a), dtype),
    "relu": relu,
    "not": lambda a, dtype, call: ~a,
}


def two_tiles(word: Word) -> Model:
    def model(call: Call) -> None:
        dst = call.tiles["dst"]
        for r, c in dst.places():
            a, b = call.src0.get(r, c), call.src1.get(r, c)
            dst.set(r, c, word(a, b, dst.dtype, call))

    return model


def tile_scalar(word: Word, *, swap: bool = False) -> Model:
    def model(call: Call) -> None:
        dst, scalar = call.tiles["dst"], call.scalars["scalar"]
        for r, c in dst.places():
            pair = call.src.get(r, c), scalar
            a, b = reversed(pair) if swap else pair
            dst.set(r, c, word(a, b, dst.dtype, call))

    return model


def one_tile(function: Callable[[Any, str, Call], Any]) -> Model:
    def model(call: Call) -> None:
        for r, c in call.dst.places():
            call.dst.set(r, c, function(call.src.get(r, c), call.dst.dtype, call))

    return model


# -- division and remainder where A2/A3 go through floats ------------------------------------------

# Unsigned integers are not in the A2/A3 library; there is nothing to be converted to.
_IMAGES = {"i32": "f32", "i16": "f16"}


def _is_converted(call: Call) -> bool:
    return call.switches["division.integers"] == "floats" and plain(call.dst.dtype) in _IMAGES


def _image(value: int, dtype: str) -> Any:
    return ieee.rounded(Fraction(value), _IMAGES[plain(dtype)])


def _through_floats(call: Call, names: tuple[str, str], compute: Callable, *, back: bool) -> None:
    dst = call.tiles["dst"]
    form = _IMAGES[plain(dst.dtype)]
    sources = [call.tiles[n] for n in names if n in call.tiles]
    results = {}
    for place in dst.places():
        pair = [
            _image(call.tiles[n].get(*place) if n in call.tiles else call.scalars[n], dst.dtype)
            for n in names
        ]
        results[place] = arithmetic.to_int(compute(*pair, form), dst.dtype)
    for source in sources:
        for place in dst.places():
            image = _image(source.get(*place), dst.dtype)
            if back:
                source.set(*place, arithmetic.to_int(image, dst.dtype))
            else:
                source.write(source.at(*place), image, form)
    for place, value in results.items():
        dst.set(*place, value)


def _divide_by_scalar(call: Call) -> None:
    names = ("scalar", "src") if call.attrs.get("swap") else ("src", "scalar")
    if not _is_converted(call):
        floats = call.dst.is_float
        in_place = call.dst is call.src and floats and not call.attrs.get("swap")
        in_place = in_place and call.switches["tdivs.in_place"] == "reciprocal"
        word = _reciprocal_product if in_place else WORDS["div"]
        tile_scalar(word, swap=names[0] == "scalar")(call)
        return

    def divide(a: Any, b: Any, form: str) -> Any:
        return ieee.rounded(ieee.divide(a, b), form)

    _through_floats(call, names, divide, back=False)


def _reciprocal_product(a: Any, b: Any, dtype: str, call: Call) -> Any:
    reciprocal = ieee.rounded(ieee.divide(Fraction(1), b), dtype)
    return ieee.rounded(ieee.multiply(a, reciprocal), dtype)


def _remainder(names: tuple[str, str]) -> Model:
    def model(call: Call) -> None:
        fix = names[1] == "src1" or call.switches["trems.sign"] == "divisor"

        def word(a: Any, b: Any, dtype: str, _: Call) -> Any:
            return arithmetic.floor_modulo(a, b, dtype, fix=fix)

        if not _is_converted(call):
            (two_tiles if names[1] == "src1" else tile_scalar)(word)(call)
            return
        _through_floats(
            call,
            names,
            lambda a, b, form: arithmetic.float_floor_modulo(a, b, form, fix=True),
            back=True,
        )

    return model


# -- three operands --------------------------------------------------------------------------------


def _chain(word: str, names: tuple[str, str, str]) -> Model:
    """(a op b) + c, each rounded."""

    def model(call: Call) -> None:
        dst = call.tiles["dst"]
        for place in dst.places():
            a, b, c = (
                call.scalars[n] if n in call.scalars else call.tiles[n].get(*place) for n in names
            )
            first = WORDS[word](a, b, dst.dtype, call)
            dst.set(*place, WORDS["add"](first, c, dst.dtype, call))

    return model


def _accumulate(names: tuple[str, str, str], *, clip: bool = False) -> Model:
    def model(call: Call) -> None:
        dst = call.tiles["dst"]
        for place in dst.places():
            a, b, c = (
                call.scalars[n] if n in call.scalars else call.tiles[n].get(*place) for n in names
            )
            value = arithmetic.multiply_add(a, b, c, dst.dtype, call)
            dst.set(*place, relu(value, dst.dtype, call) if clip else value)

    return model


def _subtract_relu(call: Call) -> None:
    dst = call.tiles["dst"]
    zero = ZERO if dst.is_float else 0
    for place in dst.places():
        pair = call.src0.get(*place), call.src1.get(*place)
        rest = WORDS["sub"](*pair, dst.dtype, call)
        if not dst.is_float:
            rest = arithmetic.wrapped(rest, dst.dtype)
        dst.set(*place, WORDS["max"](zero, rest, dst.dtype, call))


def _add_relu(call: Call) -> None:
    src, dst = call.tiles["src0"], call.tiles["dst"]
    for place in dst.places():
        value = WORDS["add"](src.get(*place), call.src1.get(*place), src.dtype, call)
        if not src.is_float:
            value = arithmetic.wrapped(value, src.dtype)
        dst.set(*place, relu(value, src.dtype, call))


def _relu_conv(word: str) -> Model:
    def model(call: Call) -> None:
        src, dst = call.tiles["src0"], call.tiles["dst"]
        for place in dst.places():
            value = WORDS[word](src.get(*place), call.src1.get(*place), src.dtype, call)
            if not src.is_float:
                value = arithmetic.wrapped(value, src.dtype)
            dst.set(*place, _saturated(relu(value, src.dtype, call), src, dst))

    return model


def _saturated(value: Any, src: Tile, dst: Tile) -> Any:
    if dst.is_float:
        return ieee.rounded(value, dst.dtype, saturate=True)
    if src.is_float:
        value = value if ieee.is_nan(value) or ieee.is_inf(value) else ieee.exact(value)
        return numerics.to_int(value, plain(dst.dtype), "rint")
    low, high = numerics.INT_RANGES[plain(dst.dtype)]
    return min(max(value, low), high)


def _dequantized_sum(call: Call) -> None:
    """f32(sum) * 2^-17 * scale * 2^17, each rounded; negative results are 0; A2/A3 spoil src0."""
    dst = call.tiles["dst"]
    results = {}
    for place in dst.places():
        total = arithmetic.wrapped(call.src0.get(*place) + call.src1.get(*place), "i32")
        value: Any = ieee.rounded(Fraction(total), "f32")
        for factor in (power_of_two(-17), call.scalars["scalar"], power_of_two(17)):
            value = ieee.rounded(ieee.multiply(value, factor), "f32")
        value = value if ieee.less(ZERO, value) else ZERO
        results[place] = ieee.rounded(value, "f16", saturate=True)
    for place, value in results.items():
        dst.set(*place, value)
        if call.switches["tadddeqrelu.src0"] == "spoiled":
            call.src0.set(*place, -1)


# -- valid regions of different size ---------------------------------------------------------------

_GAPS = {"add": "zero", "mul": "zero", "max": "lowest", "min": "highest"}


def limit(dtype: str, kind: str) -> Any:
    """Zero, the lowest or the highest finite value of a type."""
    if kind == "zero":
        return ZERO if dtype in FLOATS else 0
    if dtype in FLOATS:
        top = numerics.highest_of(dtype)
        return top if kind == "highest" else -top
    return numerics.INT_RANGES[plain(dtype)][kind == "highest"]


def _partial(name: str) -> Model:
    def model(call: Call) -> None:
        dst = call.tiles["dst"]
        if 0 in dst.valid:
            return
        one, two = call.tiles["src0"], call.tiles["src1"]
        stale = call.switches["tpart.uncovered"] == "stale" and 0 not in (*one.valid, *two.valid)
        bigger = two if one.valid[0] < two.valid[0] or one.valid[1] < two.valid[1] else one
        for r, c in dst.places():
            covered = one.covers(r, c), two.covers(r, c)
            if all(covered):
                value = WORDS[name](one.get(r, c), two.get(r, c), dst.dtype, call)
            elif stale:
                value = bigger.get(r, c)
            elif any(covered):
                value = (one if covered[0] else two).get(r, c)
            else:
                value = limit(dst.dtype, _GAPS[name])
            dst.set(r, c, value)

    return model


def _partial_argument(name: str) -> Model:
    def model(call: Call) -> None:
        dst, one, two = call.tiles["dst"], call.tiles["src0"], call.tiles["src1"]
        for r, c in dst.places():
            covered = one.covers(r, c), two.covers(r, c)
            if not any(covered):
                call.dst.set(r, c, limit(dst.dtype, _GAPS[name]))
                call.dst_idx.set(r, c, limit(call.dst_idx.dtype, _GAPS[name]))
                continue
            second = not covered[0]
            if all(covered):
                a, b = one.get(r, c), two.get(r, c)
                less = ieee.less if dst.is_float else int.__lt__
                second = not (less(b, a) if name == "max" else less(a, b))
            value, index = ("src1", "idx1") if second else ("src0", "idx0")
            call.dst.set(r, c, call.tiles[value].get(r, c))
            call.dst_idx.set(r, c, call.tiles[index].get(r, c))

    return model


def _interleave(call: Call) -> None:
    rows, cols = call.dst0.valid
    for r in range(rows):
        merged = []
        for c in range(cols):
            merged += [call.src0.get(r, c), call.src1.get(r, c)]
        for c in range(cols):
            call.dst0.set(r, c, merged[c])
            call.dst1.set(r, c, merged[cols + c])


def _deinterleave(call: Call) -> None:
    rows, cols = call.dst0.valid
    for r in range(rows):
        joined = [t.get(r, c) for t in (call.src0, call.src1) for c in range(cols)]
        for c in range(cols):
            call.dst0.set(r, c, joined[2 * c])
            call.dst1.set(r, c, joined[2 * c + 1])


MODELS: dict[str, Model] = {
    **{f"t{name}": two_tiles(word) for name, word in _TWO.items()},
    **{f"t{name}s": tile_scalar(word) for name, word in _TWO.items()},
    **{f"t{name}": one_tile(function) for name, function in _ONE.items()},
    **{f"tpart{name}": _partial(name) for name in _GAPS},
    **{f"tpartarg{name}": _partial_argument(name) for name in ("max", "min")},
    "tlrelu": tile_scalar(arithmetic.leaky),
    "tdivs": _divide_by_scalar,
    "trem": _remainder(("src0", "src1")),
    "trems": _remainder(("src", "scalar")),
    "taddc": _chain("add", ("src0", "src1", "src2")),
    "tsubc": _chain("sub", ("src0", "src1", "src2")),
    "taddsc": _chain("add", ("src0", "scalar", "src1")),
    "tsubsc": _chain("sub", ("src0", "scalar", "src1")),
    "taxpy": _accumulate(("src", "scalar", "dst")),
    "tmuladddst": _accumulate(("src0", "src1", "dst")),
    "tfusedmuladd": _accumulate(("src0", "dst", "src1")),
    "tfusedmuladdrelu": _accumulate(("src0", "dst", "src1"), clip=True),
    "tsubrelu": _subtract_relu,
    "taddreluconv": _relu_conv("add"),
    "tsubreluconv": _relu_conv("sub"),
    "taddrelu": _add_relu,
    "tadddeqrelu": _dequantized_sum,
    "tinterleave": _interleave,
    "tdeinterleave": _deinterleave,
}
