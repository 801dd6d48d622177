"""How much scratch the library of A2/A3 takes, for rules and planner. Arguments are views of
operands (see `OperandView`); where an extent is known only at run time, so is what follows from it.

Source: assembler and pto-isa headers of 2026-08."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

_REPEAT = 256  # bytes
_BLOCK = 32  # bytes
_MOST_REPEATS = 255


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def arg_stride(count: Any, bits: int) -> Any:
    """Columns of scratch for the positions of the largest of `count` elements: of each repeat a
    value and a position, then the same of those."""
    if not isinstance(count, int):
        return count
    per_block = _BLOCK * 8 // bits
    repeats = -(-count * bits // (8 * _REPEAT))
    return _up(2 * repeats, per_block) + _up(repeats, per_block)


def known_cols(view: Any) -> int:
    """Valid columns where the type says them, else all that the tile has."""
    return view.v_col if isinstance(view.v_col, int) else view.cols


def columns(tiles: Sequence[Any]) -> int:
    """Columns of all tiles together; what is no tile, in a snippet, has none."""
    return sum(tile.cols or 0 for tile in tiles)


def transposes_in_blocks(src: Any, dst: Any) -> bool:
    """True for shapes that the library transposes block by block, by way of a tile."""
    if src.cols is None or dst.cols is None:
        return False  # no tiles
    per_block = _BLOCK * 8 // src.bits
    return (
        dst.cols % (32 if src.bits == 8 else 16) == 0
        and src.cols % per_block == 0
        and src.cols // per_block <= _MOST_REPEATS
    )


_WRAPPED = {("f32", "i16"), ("f16", "i16"), ("f16", "i8")}


def wraps_by_scratch(src: Any, dst: Any, sat_mode: str | None) -> bool:
    """True for a conversion into fewer bits that wraps, by way of a tile."""
    return sat_mode != "ON" and (src.dtype, dst.dtype) in _WRAPPED


def wrap_scratch(src: Any, dst: Any) -> Any:
    """Bytes of scratch of such a conversion."""
    rows, cols = src.v_row, src.v_col
    if not isinstance(rows, int) or not isinstance(cols, int):
        return cols if isinstance(rows, int) else rows
    if src.bits == 32:
        size = _REPEAT * min(cols // 64, _MOST_REPEATS)
        if cols % 64:
            last = -(-(cols % 64) // 8)
            size = max(size, _BLOCK * ((min(rows, _MOST_REPEATS) - 1) * (src.cols // 8) + last))
    else:
        width = min(cols, 64)
        size = _BLOCK * -(-width // 8)
        if dst.bits == 8:
            size = max(size, 128 + _BLOCK * -(-width // 16))
    return _up(max(size, _BLOCK), _BLOCK)


SIZES: dict[str, Callable[..., Any]] = {
    "arg_stride": arg_stride,
    "columns": columns,
    "known_cols": known_cols,
    "transposes_in_blocks": transposes_in_blocks,
    "wrap_scratch": wrap_scratch,
    "wraps_by_scratch": wraps_by_scratch,
}
"""What an expression can call."""
