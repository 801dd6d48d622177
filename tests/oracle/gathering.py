"""Models of sorting, gathering, scattering and rearranging. They change the tiles of a call in place,
one element after the other."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from tests.oracle import ieee
from tests.oracle.tile import FLOATS, Call, Tile, plain, width_of

_FORMATS = {2: "<e", 4: "<f"}

# -- sorting ---------------------------------------------------------------------------------------


def rank(pattern: int, size: int, nan: str) -> tuple[int, float]:
    """What a score is sorted by, upwards: group (0 before numbers, 2 after them), negated number."""
    value = struct.unpack(_FORMATS[size], pattern.to_bytes(size, "little"))[0]
    if value == value:
        return 1, -value
    negative = pattern >> (8 * size - 1) or nan == "last"
    return (2 if negative else 0), 0.0


def record(score: int, index: int) -> bytes:
    """A score of 16 or 32 bits, zeros, and an index word."""
    return score.to_bytes(4, "little") + index.to_bytes(4, "little")


def _sort(call: Call) -> None:
    src, idx, dst = call.tiles["src"], call.tiles["idx"], call.tiles["dst"]
    rows, cols = src.valid
    infinity = {2: 0xFC00, 4: 0xFF800000}[src.size]
    for r in range(rows):
        for start in range(0, cols, 32):
            entries = []
            for c in range(start, start + 32):
                score = src.bits(src.at(r, c)) if c < cols else infinity
                place = (0 if idx.valid[0] == 1 else r * idx.cols) + c
                entries.append((score, idx.bits(place)))
            entries.sort(key=lambda e: rank(e[0], src.size, call.switches["sort.nan"]))
            at = r * dst.row_bytes + 8 * start
            image = b"".join(record(*entry) for entry in entries)
            dst.memory[at : at + len(image)] = image


def merge(lists: list[list[bytes]], size: int, nan: str, *, exhausted: bool) -> list[bytes]:
    """The largest head first, of equal ones that of the earlier list; with `exhausted` until the
    first list is empty."""
    left = [list(entries) for entries in lists]
    merged = []
    while any(left):
        heads = [
            (rank(int.from_bytes(entries[0][:size], "little"), size, nan), number)
            for number, entries in enumerate(left)
            if entries
        ]
        taken = left[min(heads)[1]]
        merged.append(taken.pop(0))
        if exhausted and not taken:
            break
    return merged


def records(memory: bytes) -> list[bytes]:
    """Cut bytes into records."""
    return [bytes(memory[i : i + 8]) for i in range(0, len(memory), 8)]


def _merge_runs(call: Call) -> None:
    src, dst = call.tiles["src"], call.tiles["dst"]
    run = call.scalars["blockLen"] * src.size
    image = bytes(src.memory[: src.valid[1] * src.size])
    out = b""
    for start in range(0, len(image), 4 * run):
        lists = [records(image[start + i * run : start + (i + 1) * run]) for i in range(4)]
        out += b"".join(merge(lists, src.size, call.switches["sort.nan"], exhausted=False))
    dst.memory[: len(out)] = out


# -- gathering -------------------------------------------------------------------------------------


def _gather(call: Call) -> None:
    if "maskPattern" in call.attrs:
        _by_mask(call)
    elif "cmpMode" in call.attrs:
        _hits(call)
    else:
        _by_index(call)


def _by_index(call: Call) -> None:
    src, dst = call.tiles["src"], call.tiles["dst"]
    table = bytes(src.memory)
    for place in dst.places():
        index = call.indices.get(*place)
        start = index * src.size
        value = table[start : start + src.size] if 0 <= index < src.rows * src.cols else b""
        at = dst.at(*place) * dst.size
        dst.memory[at : at + dst.size] = value or bytes(dst.size)


def _by_mask(call: Call) -> None:
    src, dst = call.tiles["src"], call.tiles["dst"]
    digits = call.attrs["maskPattern"].partition("<P")[2].rstrip(">")
    place = 0
    for r, c in src.places():
        if digits[3 - c % 4] == "1":
            bits = src.bits(src.at(r, c))
            dst.memory[place * dst.size : (place + 1) * dst.size] = bits.to_bytes(
                dst.size, "little"
            )
            place += 1


def _is_hit(call: Call, src: Tile, value: Any, key: Any) -> bool:
    is_float = plain(src.dtype) in FLOATS
    if call.attrs["cmpMode"] == "eq":
        return ieee.equal(value, key) if is_float else value == key
    if src.dtype == "f32" and call.switches["tgather.compare"] == "library":
        return _unsigned_word(value) > _unsigned_word(key)
    return ieee.less(key, value) if is_float else value > key


def _unsigned_word(value: Any) -> int:
    """Rounded to s32, ties to even, saturated; NaN is 0; read as an unsigned number."""
    if isinstance(value, int):
        return value % (1 << 32)
    if ieee.is_nan(value) or ieee.is_zero(value):
        return 0
    if value in ("inf", "-inf"):
        return 0x7FFFFFFF if value == "inf" else 0x80000000
    whole = max(-(1 << 31), min((1 << 31) - 1, round(value)))
    return whole % (1 << 32)


def _hits(call: Call) -> None:
    src, dst, count = call.tiles["src"], call.tiles["dst"], call.tiles["count"]
    rows, cols = src.valid
    unit = 4 if call.switches["tgather.count"] == "bytes" else 1
    index = call.attrs.get("offset", 0)
    for r in range(rows):
        key = call.scalars["kValue"] if "kValue" in call.scalars else call.kValue.read(r)
        found = [index + c for c in range(cols) if _is_hit(call, src, src.get(r, c), key)]
        for c, place in enumerate(found):
            dst.set(r, c, place)
        count.write(r, len(found) * unit)
        index += -(-cols // 64) * 64


def _blocks(call: Call) -> None:
    src, dst = call.tiles["src"], call.tiles["dst"]
    table = bytes(src.memory)
    for r in range(dst.valid[0]):
        width = dst.valid[1] * dst.size
        image = b""
        for b in range(-(-width // 32)):
            start = call.offset.get(r, b)
            image += table[start : start + 32]
        whole = call.switches["tgatherb.tail"] == "blocks"
        image = image[: dst.row_bytes if whole else width]
        at = r * dst.row_bytes
        dst.memory[at : at + len(image)] = image


def _scatter(call: Call) -> None:
    src, dst = call.tiles["src"], call.tiles["dst"]
    moved = [(call.indices.get(*p), src.bits(src.at(*p))) for p in src.places()]
    if call.switches["tscatter.rest"] == "zero":
        dst.memory[:] = bytes(len(dst.memory))
    for index, bits in moved:
        dst.memory[index * dst.size : (index + 1) * dst.size] = bits.to_bytes(dst.size, "little")


def _histogram(call: Call) -> None:
    src, idx, dst = call.tiles["src"], call.tiles["idx"], call.tiles["dst"]
    size = src.size
    place = call.attrs.get("byte", 1 if call.attrs.get("isMSB", True) else 0)
    for r in range(src.valid[0]):
        seen = []
        for c in range(src.valid[1]):
            key = src.bits(src.at(r, c)).to_bytes(size, "big")
            above = key[: size - 1 - place]
            wanted = [
                idx.bits(idx.at(r, 0) if size == 2 else idx.at(n, c)) for n in range(len(above))
            ]
            if list(above) == wanted:
                seen.append(key[size - 1 - place])
        for b in range(256):
            dst.set(r, b, sum(byte <= b for byte in seen))


# -- rearranging -----------------------------------------------------------------------------------


def _concatenate(call: Call) -> None:
    dst, at = call.tiles["dst"], 0
    if "src0Idx" in call.tiles:
        _concatenate_bytes(call)
        return
    for name in ("src0", "src1"):
        source = call.tiles[name]
        for r in range(dst.valid[0]):
            for c in range(source.valid[1]):
                dst.set(r, at + c, source.get(r, c))
        at += source.valid[1]


def _concatenate_bytes(call: Call) -> None:
    dst = call.tiles["dst"]
    for r in range(dst.valid[0]):
        joined = b""
        for n in "01":
            source, count = call.tiles[f"src{n}"], call.tiles[f"src{n}Idx"].get(r, 0)
            start = r * source.row_bytes
            joined += bytes(source.memory[start : start + count])
        start = r * dst.row_bytes
        dst.memory[start : start + len(joined)] = joined
        if "dstIdx" in call.tiles:
            call.tiles["dstIdx"].set(r, 0, len(joined))


def _transpose(call: Call) -> None:
    src, dst = call.tiles["src"], call.tiles["dst"]
    rows, cols = src.valid
    if call.switches["ttrans.extent"] == "static":
        rows, cols = max(rows, min(src.rows, dst.cols)), max(cols, min(src.cols, dst.rows))
    moved = {(c, r): src.bits(src.at(r, c)) for r in range(rows) for c in range(cols)}
    for place, bits in moved.items():
        at = dst.at(*place) * dst.size
        dst.memory[at : at + dst.size] = bits.to_bytes(dst.size, "little")


def _pack(call: Call) -> None:
    src, dst = call.tiles["src"], call.tiles["dst"]
    for place in dst.places():
        bits = src.bits(src.at(*place)) % (1 << width_of(dst.dtype))
        at = dst.at(*place) * dst.size
        dst.memory[at : at + dst.size] = bits.to_bytes(dst.size, "little")


def _extract(call: Call) -> None:
    _shift(call, call.dst, (call.scalars["row"], call.scalars["col"]), (0, 0))


def _insert(call: Call) -> None:
    _shift(call, call.src, (0, 0), (call.scalars["row"], call.scalars["col"]))


def _shift(call: Call, domain: Tile, source: tuple[int, int], target: tuple[int, int]) -> None:
    src, dst = call.tiles["src"], call.tiles["dst"]
    for r, c in domain.places():
        bits = src.bits(src.at(r + source[0], c + source[1]))
        at = dst.at(r + target[0], c + target[1]) * dst.size
        dst.memory[at : at + dst.size] = bits.to_bytes(dst.size, "little")


# -- tables in global memory -----------------------------------------------------------------------


def table_index(index: int, mode: str, limit: int) -> int | None:
    """The row or element that an index names under an out-of-bounds mode; None for none."""
    unsigned = index % (1 << 32)
    if unsigned < limit:
        return unsigned
    return {"clamp": limit - 1, "wrap": unsigned % limit}.get(mode)


def combined(old: Any, new: Any, word: str, dtype: str) -> Any:
    """What an atomic store leaves: rounded to the type; max and min keep the first operand unless
    the second compares beyond it."""
    is_float = dtype in FLOATS
    if word == "none":
        return new
    if word == "add":
        return ieee.rounded(ieee.add(old, new), dtype) if is_float else old + new
    first, second = (new, old) if word == "min" else (old, new)
    beyond = ieee.less(first, second) if is_float else first < second
    return new if beyond else old


MODELS: dict[str, Callable[[Call], None]] = {
    "tsort32": _sort,
    "tmrgsort": _merge_runs,
    "tgather": _gather,
    "tgatherb": _blocks,
    "tscatter": _scatter,
    "thistogram": _histogram,
    "tconcat": _concatenate,
    "tconcatidx": _concatenate_bytes,
    "ttrans": _transpose,
    "tpack": _pack,
    "textract": _extract,
    "tinsert": _insert,
}
