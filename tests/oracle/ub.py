"""Slow model of UB: what vector loads and stores read and write, one byte or element at a time.

Written from the PTO micro-instruction specification; nothing is imported from ptosim. Registers are
256 bytes, predicates lists of 256 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle import lanes as one
from tests.oracle.lanes import Bits


def _width(word: str) -> int:
    return int(word.rpartition("_B")[2]) // 8


def load(memory: bytes, at: int, word: str) -> bytes:  # noqa: C901 - a table of words
    """The register that a distribution makes of the bytes at `at`."""
    out = bytearray()
    if word == "NORM":
        return bytes(memory[at + i] for i in range(256))
    if word == "BRC_BLK":
        return bytes(memory[at + i % 32] for i in range(256))
    if word in ("UNPK4", "UNPK4_B8"):
        for i in range(64):
            out += bytes((memory[at + i], 0, 0, 0))
        return bytes(out)
    if word in ("SPLT4CHN", "SPLT4CHN_B8"):
        return bytes(memory[at + 4 * i] for i in range(256))
    kind, w = word.rpartition("_B")[0], _width(word)

    def element(i: int) -> bytes:
        return bytes(memory[at + i * w : at + (i + 1) * w])

    for i in range(256 // w):
        if kind == "BRC":
            out += element(0)
        elif kind == "US":
            out += element(i // 2)
        elif kind in ("DS", "SPLT2CHN"):
            out += element(2 * i)
        elif kind == "E2B":
            out += element(i * w // 32)
        elif kind == "UNPK" and i % 2 == 0:
            out += element(i // 2) + bytes(w)
    return bytes(out)


def load_two(memory: bytes, at: int, word: str) -> tuple[bytes, bytes]:
    """Even and odd elements (BDINTLV: blocks of 32 bytes)."""
    w = 32 if word == "BDINTLV" else _width(word)
    units = [bytes(memory[at + i * w : at + (i + 1) * w]) for i in range(512 // w)]
    return b"".join(units[0::2]), b"".join(units[1::2])


def store(
    memory: bytearray, at: int, register: bytes, mask: Bits, word: str | None, w: int
) -> None:
    """Active elements to their places; nothing else changes. `w` is the width of a lane, for `word` None."""
    kind = "NORM" if word is None else word.rpartition("_B")[0]
    w = w if word is None else _width(word)
    if kind == "1PT":
        memory[at : at + w] = register[:w]
        return
    if kind.startswith("MRG"):
        register, w = merged(register, int(kind[3]), w), w * int(kind[3])
    on = one.active(mask, w)
    for i in range(256 // w):
        if not on[i]:
            continue
        element = register[i * w : (i + 1) * w]
        kept = {"PK": w // 2, "PK4": 1}.get(kind, w)
        memory[at + i * kept : at + (i + 1) * kept] = element[:kept]


def merged(register: bytes, channels: int, w: int) -> bytes:
    """Blocks of 32 bytes hold one channel each; elements of the channels become neighbors."""
    out = bytearray()
    for group in range(0, 256, 32 * channels):
        for i in range(32 // w):
            for c in range(channels):
                start = group + 32 * c + i * w
                out += register[start : start + w]
    return bytes(out)


def store_two(memory: bytearray, at: int, low: bytes, high: bytes, word: str) -> None:
    w = _width(word)
    for i in range(256 // w):
        memory[at + 2 * i * w : at + (2 * i + 1) * w] = low[i * w : (i + 1) * w]
        memory[at + (2 * i + 1) * w : at + (2 * i + 2) * w] = high[i * w : (i + 1) * w]


def blocks(memory: bytes, starts: Sequence[int], mask: Bits) -> bytes:
    """Eight blocks of 32 bytes; bit 4k of the mask decides on block k."""
    out = bytearray()
    for k, start in enumerate(starts):
        out += memory[start : start + 32] if mask[4 * k] else bytes(32)
    return bytes(out)


class Stream:
    """A stream of unaligned stores: whole blocks are written, the rest at the flush."""

    def __init__(self, memory: bytearray) -> None:
        self._memory = memory
        self._pending: list[tuple[int, int]] = []

    def append(self, at: int, data: bytes) -> None:
        self._pending += [(at + i, byte) for i, byte in enumerate(data)]
        end = at + len(data)
        whole = [p for p in self._pending if p[0] < end - end % 32]
        for place, byte in whole:
            self._memory[place] = byte
        self._pending = self._pending[len(whole) :]

    def flush(self) -> None:
        for place, byte in self._pending:
            self._memory[place] = byte
        self._pending = []
