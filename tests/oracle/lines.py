"""Models of reductions and broadcasts along rows and columns. They change tiles in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.oracle import ieee, numerics
from tests.oracle.arithmetic import WORDS
from tests.oracle.tile import FLOATS, Call, Tile, plain

Model = Callable[[Call], None]
Combine = Callable[[Any, Any], Any]

_WHOLE_ROW = {(64, 128), (32, 256), (16, 512), (8, 1024)}


def _combine(word: str, call: Call, dtype: str) -> Combine:
    def combine(a: Any, b: Any) -> Any:
        value = WORDS[word](a, b, dtype, call)
        return value if dtype in FLOATS else numerics.low_bits(value, plain(dtype))

    return combine


def _tree(values: list[Any], combine: Combine) -> Any:
    """Neighbors in pairs, level by level; a last one without a partner stays."""
    if len(values) == 1:
        return values[0]
    pairs = [combine(*values[i : i + 2]) for i in range(0, len(values) - 1, 2)]
    return _tree(pairs + values[len(pairs) * 2 :], combine)


def _neutral(word: str, dtype: str) -> Any:
    number = {"add": 0, "mul": 1}[word]
    return (
        numerics.decode(numerics.encode_exact(ieee.Fraction(number), dtype), dtype)
        if (dtype in FLOATS)
        else number
    )


def _row_fold(word: str) -> Model:
    def model(call: Call) -> None:
        src, dst = call.tiles["src"], call.tiles["dst"]
        combine = _combine(word, call, src.dtype)
        lanes = 256 // src.size
        for r in range(src.valid[0]):
            row = [src.get(r, c) for c in range(src.valid[1])]
            chunks = [row[i : i + lanes] for i in range(0, len(row), lanes)]
            if call.is_a5:
                total = _neutral(word, src.dtype)
                for chunk in chunks:
                    total = combine(total, _tree(chunk, combine))
            elif src.dtype == "f32" and src.valid in _WHOLE_ROW:
                total = _tree(row, combine)
            else:
                first = chunks[0]
                for chunk in chunks[1:]:
                    head = [combine(a, b) for a, b in zip(first, chunk, strict=False)]
                    first = head + first[len(chunk) :]
                total = _tree(first, combine)
            dst.set(r, 0, total)

    return model


# -- extremes --------------------------------------------------------------------------------------


def _better(name: str, dtype: str) -> Callable[[Any, Any], bool]:
    """Whether a new value is strictly better than the best one."""
    less = ieee.less if dtype in FLOATS else int.__lt__
    return (lambda new, best: less(best, new)) if name == "max" else less


def _start(name: str, dtype: str) -> Any:
    if dtype in FLOATS:
        return "-inf" if name == "max" else "inf"
    low, high = numerics.INT_RANGES[plain(dtype)]
    return low if name == "max" else high


def _first_best(name: str, dtype: str, values: list[Any]) -> tuple[Any, int]:
    better, best, place = _better(name, dtype), _start(name, dtype), 0
    for number, value in enumerate(values):
        if better(value, best):
            best, place = value, number
    return best, place


def _row_best(name: str) -> Model:
    def model(call: Call) -> None:
        src, dst = call.tiles["src"], call.tiles["dst"]
        for r in range(src.valid[0]):
            row = [src.get(r, c) for c in range(src.valid[1])]
            if call.switches["maxmin.nan"] == "cpu":
                best = _first_best(name, src.dtype, row)[0]
            else:
                best = _start(name, src.dtype)
                for value in row:
                    best = WORDS[name](best, value, src.dtype, call)
            dst.set(r, 0, best)

    return model


def _column_fold(word: str) -> Model:
    def model(call: Call) -> None:
        src, dst = call.tiles["src"], call.tiles["dst"]
        combine = _combine(word, call, src.dtype)
        results = []
        for c in range(src.valid[1]):
            column = [src.get(r, c) for r in range(src.valid[0])]
            results.append(_column_total(call, column, combine))
        for c, value in enumerate(results):
            dst.set(0, c, value)

    return model


def _column_total(call: Call, column: list[Any], combine: Combine) -> Any:
    """Top to bottom, or in pairs: an odd last row joins the first (A2/A3) or last (A5) pair."""
    if not call.attrs.get("isBinary"):
        total = column[0]
        for value in column[1:]:
            total = combine(total, value)
        return total
    while len(column) > 1:
        pairs = [combine(*column[i : i + 2]) for i in range(0, len(column) - 1, 2)]
        if len(column) % 2:
            place = len(pairs) - 1 if call.is_a5 else 0
            pairs[place] = combine(pairs[place], column[-1])
        column = pairs
    return column[0]


def _argument(name: str, axis: str) -> Model:
    def model(call: Call) -> None:
        src = call.tiles["src"]
        rows, cols = src.valid
        for line in range(rows if axis == "row" else cols):
            places = (
                [(line, c) for c in range(cols)]
                if axis == "row"
                else [(r, line) for r in range(rows)]
            )
            best, place = _first_best(name, src.dtype, [src.get(*p) for p in places])
            at = (line, 0) if axis == "row" else (0, line)
            call.dst.set(*at, place)
            if "value" in call.tiles:
                call.tiles["value"].set(*at, best)

    return model


def _pair_sums(call: Call) -> None:
    for r, c in call.dst.places():
        pair = call.src.get(r, 2 * c), call.src.get(r, 2 * c + 1)
        call.dst.set(r, c, WORDS["add"](*pair, call.dst.dtype, call))


# -- broadcasts ------------------------------------------------------------------------------------


def _row_value(call: Call, tile: Tile, row: int, col: int) -> Any:
    """The value that a broadcast operand has for an element."""
    if tile.layout == "nd" and call.switches["rowexpand.block"] == "lane":
        lanes = 32 // tile.size
        return tile.read(row * lanes + col % lanes)
    return tile.get(row, 0)


def _row_form(word: str) -> Model:
    def model(call: Call) -> None:
        dst, one, two = call.tiles["dst"], call.tiles["src0"], call.tiles["src1"]
        first_is_full = one.layout == "nd" and one.valid == dst.valid
        for r, c in dst.places():
            if first_is_full:
                pair = one.get(r, c), _row_value(call, two, r, c)
            else:
                pair = _row_value(call, one, r, c), two.get(r, c)
            dst.set(r, c, WORDS[word](*pair, dst.dtype, call))

    return model


def _column_form(word: str) -> Model:
    def model(call: Call) -> None:
        for r, c in call.dst.places():
            pair = call.src0.get(r, c), call.src1.get(0, c)
            call.dst.set(r, c, WORDS[word](*pair, call.dst.dtype, call))

    return model


def _row_copy(call: Call) -> None:
    for r, c in call.dst.places():
        call.dst.set(r, c, call.src.get(r, 0))


def _column_copy(call: Call) -> None:
    for r, c in call.dst.places():
        call.dst.set(r, c, call.src.get(0, c))


MODELS: dict[str, Model] = {
    "trowsum": _row_fold("add"),
    "trowprod": _row_fold("mul"),
    "trowmax": _row_best("max"),
    "trowmin": _row_best("min"),
    "tcolsum": _column_fold("add"),
    "tcolprod": _column_fold("mul"),
    "tcolmax": _column_fold("max"),
    "tcolmin": _column_fold("min"),
    **{f"t{a}arg{n}": _argument(n, a) for a in ("row", "col") for n in ("max", "min")},
    "tpairreducesum": _pair_sums,
    "trowexpand": _row_copy,
    "tcolexpand": _column_copy,
    **{f"trowexpand{w}": _row_form(w) for w in WORDS},
    **{f"tcolexpand{w}": _column_form(w) for w in WORDS},
}
