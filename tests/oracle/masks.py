"""Models of comparisons and selections. They change the tiles of a call in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.oracle import ieee
from tests.oracle.tile import FLOATS, Call, Tile, plain

_GROUP = {1: 256, 2: 128, 4: 128}


def _holds(mode: str, a: Any, b: Any, dtype: str) -> bool:
    less, same = (ieee.less, ieee.equal) if dtype in FLOATS else (int.__lt__, int.__eq__)
    return {
        "eq": same(a, b),
        "ne": not same(a, b),
        "lt": less(a, b),
        "le": less(a, b) or same(a, b),
        "gt": less(b, a),
        "ge": less(b, a) or same(a, b),
    }[mode]


def _near(call: Call, a: Any, b: Any) -> bool:
    """eq and ne of the CPU simulator: a difference below 1e-9, which infinities do not have."""
    equal = not any(ieee.is_nan(v) or ieee.is_inf(v) for v in (a, b)) and abs(
        ieee.exact(a) - ieee.exact(b)
    ) < ieee.Fraction(1e-9)
    return equal == (call.attrs["cmpMode"] == "eq")


def _mode(call: Call, dtype: str) -> str:
    mode = call.attrs["cmpMode"]
    only = call.switches["tcmp.i32"] == "equality"
    equality_only = only and plain(dtype) in ("i32", "ui32")
    return "eq" if equality_only and mode != "ne" else mode


def _hit(call: Call, a: Any, b: Any, dtype: str) -> bool:
    floats = "src" in call.tiles and call.src.dtype in FLOATS
    if floats and call.switches["tcmps.equal"] == "near" and call.attrs["cmpMode"] in ("eq", "ne"):
        return _near(call, a, b)
    return _holds(_mode(call, dtype), a, b, dtype)


def _write_bits(dst: Tile, start: int, bits: list[bool]) -> None:
    """Whole bytes from a byte on, least significant bit first."""
    for number in range(0, len(bits), 8):
        byte = sum(1 << i for i, bit in enumerate(bits[number : number + 8]) if bit)
        dst.memory[start + number // 8] = byte


def _padded(bits: list[bool], group: int) -> list[bool]:
    return bits + [False] * (-len(bits) % group)


def _row_lanes(call: Call, src: Tile, row: int) -> list[int]:
    """Offsets of the elements that a row of the mask is made from: on A2/A3 whole repeats of 256
    bytes of memory, on A5 the valid columns."""
    count = src.valid[1]
    if call.switches["tcmp.tail"] == "repeats":
        repeat = 256 // src.size
        count = -(-count // repeat) * repeat
    return [src.at(row, 0) + lane for lane in range(count)]


def _compare(call: Call, src: Tile, other: Callable[[int], Any], dtype: str) -> None:
    dst = call.tiles["dst"]
    for row in range(src.valid[0]):
        bits = [
            _hit(call, src.read(lane, dtype), other(lane), dtype)
            for lane in _row_lanes(call, src, row)
        ]
        group = _GROUP[src.size] if call.switches["tcmp.tail"] == "groups" else 8
        _write_bits(dst, row * dst.row_bytes, _padded(bits, group))


def _tile_tile(call: Call) -> None:
    src = call.tiles["src0"]
    _compare(call, src, lambda lane: call.src1.read(lane), src.dtype)


def _is_rows(call: Call) -> bool:
    return not call.is_a5 or call.switches["tcmps.mask"] == "rows"


def _tile_scalar(call: Call) -> None:
    src, dst, scalar = call.tiles["src"], call.tiles["dst"], call.scalars["scalar"]
    dtype = src.dtype
    if call.switches["tcmps.i16"] == "f16" and plain(dtype) in ("i16", "ui16"):
        dtype = "f16"  # patterns are compared as if they were f16
        twin = Tile(src.dtype, 1, 1, (1, 1), memory=bytearray(2))
        twin.write(0, scalar)
        scalar = twin.read(0, "f16")
    if _is_rows(call):
        _compare(call, src, lambda lane: scalar, dtype)
        return
    group, start = _GROUP[src.size], 0
    rows = [
        [_hit(call, src.read(src.at(r, c), dtype), scalar, dtype) for c in range(src.valid[1])]
        for r in range(src.valid[0])
    ]
    if src.size == 4:  # numbered through all rows
        rows = [[bit for row in rows for bit in row]]
    for row in rows:
        bits = _padded(row, group)
        _write_bits(dst, start, bits)
        start += len(bits) // 8


def _mask_bit(call: Call, mask: Tile, r: int, c: int) -> int:
    if call.switches["tsel.mask"] == "rows":
        return mask.memory[r * mask.row_bytes + c // 8] >> (c % 8) & 1
    number = r * call.dst.valid[1] + c
    row, col = divmod(number // 8, mask.valid[1])
    return mask.memory[row * mask.row_bytes + col] >> (number % 8) & 1


def _select(chosen: str, other: Callable[[Call, int, int], Any]) -> Callable[[Call], None]:
    def model(call: Call) -> None:
        dst, mask = call.tiles["dst"], call.tiles["mask"]
        for r, c in dst.places():
            bit = _mask_bit(call, mask, r, c)
            dst.set(r, c, call.tiles[chosen].get(r, c) if bit else other(call, r, c))

    return model


MODELS: dict[str, Callable[[Call], None]] = {
    "tcmp": _tile_tile,
    "tcmps": _tile_scalar,
    "tsel": _select("src0", lambda call, r, c: call.src1.get(r, c)),
    "tsels": _select("src", lambda call, r, c: call.scalars["scalar"]),
}
