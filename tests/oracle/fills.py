"""Models of fills, paddings, ramps and random numbers. They change the tiles of a call in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.oracle.ieee import ZERO, Fraction
from tests.oracle.tile import FLOATS, Call
from tests.oracle.vector import limit


def _fill(call: Call) -> None:
    for place in call.dst.places():
        call.dst.set(*place, call.scalars["scalar"])


def _pad_value(call: Call) -> Any:
    dst = call.tiles["dst"]
    if dst.pad > 1 and dst.is_float and call.switches["pad.float"] == "inf":
        return "inf" if dst.pad == 2 else "-inf"
    return limit(dst.dtype, {1: "zero", 2: "highest", 3: "lowest"}[dst.pad])


def _pad(call: Call) -> None:
    """Around the source's valid region: to the right up to the static width, below up to the valid
    rows (A5) or the static rows (A2/A3) of the destination."""
    src, dst, value = call.tiles["src"], call.tiles["dst"], _pad_value(call)
    if call.op != "tfillpad_inplace":
        for place in src.places():
            dst.write(dst.at(*place), _reread(call, place))
    for r in range(dst.valid[0] if call.switches["tfillpad.rows"] == "valid" else dst.rows):
        for c in range(dst.cols):
            if not src.covers(r, c):
                dst.set(r, c, value)


def _reread(call: Call, place: tuple[int, int]) -> Any:
    """An element of src as the type of dst: patterns are copied."""
    return call.src.read(call.src.at(*place), call.dst.dtype)


def _ramp(call: Call) -> None:
    step = -1 if call.attrs.get("descending") else 1
    for c in range(call.dst.valid[1]):
        call.dst.set(0, c, call.scalars["scalar"] + step * c)


def _triangle(call: Call) -> None:
    dst = call.tiles["dst"]
    one, zero = (Fraction(1), ZERO) if dst.dtype in FLOATS else (1, 0)
    for r, c in dst.places():
        edge = r + call.scalars["diagonal"]
        inside = c >= edge if call.attrs.get("upperOrLower") else c <= edge
        dst.set(r, c, one if inside else zero)


def philox4x32(counter: int, key: tuple[int, int], rounds: int) -> list[int]:
    """One block, with the counter and key bumps written as Random123 has them."""
    c = [counter >> (32 * i) & 0xFFFFFFFF for i in range(4)]
    k = list(key)
    for number in range(rounds):
        if number:
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        high0, low0 = divmod(0xD2511F53 * c[0], 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 1 << 32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
    return c


def _random(call: Call) -> None:
    words = [call.scalars[n] & 0xFFFFFFFF for n in ("counter0", "counter1", "counter2", "counter3")]
    counter = sum(word << (32 * i) for i, word in enumerate(words))
    key = call.scalars["key0"] & 0xFFFFFFFF, call.scalars["key1"] & 0xFFFFFFFF
    rows, cols = call.dst.valid
    if call.switches["trandom.order"] == "planar":
        _planar(call, counter, key)
        return
    for r in range(rows):
        for start in range(0, cols, 256):
            for c in range(start, min(start + 256, cols)):
                lane, word = divmod(c - start, 4)
                block = philox4x32((counter + lane) % (1 << 128), key, call.attrs["rounds"])
                call.dst.set(r, c, block[word])
            counter += 64 if start + 256 < cols else (cols - 1) % 64 + 1


def _planar(call: Call, counter: int, key: tuple[int, int]) -> None:
    """The CPU simulator: words of 64 lanes one after the other."""
    dst = call.tiles["dst"]
    for r in range(dst.valid[0]):
        for start in range(0, dst.valid[1], 256):
            for c in range(start, min(start + 256, dst.valid[1])):
                word, lane = divmod(c - start, 64)
                block = philox4x32((counter + lane) % (1 << 128), key, call.attrs["rounds"])
                dst.set(r, c, block[word])
            counter += dst.cols // 4


def _set_value(call: Call) -> None:
    call.dst.write(call.scalars["offset"], call.scalars["val"])


MODELS: dict[str, Callable[[Call], None]] = {
    "texpands": _fill,
    "tfillpad": _pad,
    "tfillpad_inplace": _pad,
    "tfillpad_expand": _pad,
    "tci": _ramp,
    "ttri": _triangle,
    "trandom": _random,
    "tsetval": _set_value,
}
