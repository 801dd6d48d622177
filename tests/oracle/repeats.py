"""Slow model of the vector instructions of A2/A3: one repeat after the other, one lane at a time.

Written from the public description alone; nothing is imported from ptosim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.oracle import lanes as one
from tests.oracle.lanes import Pattern

LANES = Callable[..., Pattern]


class Strides(NamedTuple):
    """Where an operand begins, and its strides in blocks of 32 bytes."""

    start: int
    block: int
    repeat: int


def selected(size: int, repeat: int, mask: tuple[int, int], *, counts: bool) -> list[list[bool]]:
    """The lanes of each repeat that take part; the second mask has the lanes from 64 on."""
    lanes = 256 // size
    if counts:
        rounds = -(-mask[0] // lanes)
        return [[r * lanes + i < mask[0] for i in range(lanes)] for r in range(rounds)]
    bits = [bool(mask[i // 64] >> i % 64 & 1) for i in range(lanes)]
    return [bits] * (repeat % 256)


def execute(
    memory: bytearray,
    function: LANES,
    target: Strides,
    sources: Sequence[Strides],
    size: int,
    chosen: list[list[bool]],
    nan: int = 0,
) -> set[int]:
    """Change the memory; return where a NaN (`nan`) was stored, whose bits nobody says."""
    unknown: set[int] = set()
    for r, lanes in enumerate(chosen):
        found = []
        for i, on in enumerate(lanes):
            if not on:
                continue
            b, e = divmod(i, 32 // size)

            def at(strides: Strides, b: int = b, e: int = e, r: int = r) -> int:
                return strides.start + (r * strides.repeat + b * strides.block) * 32 + e * size

            given = [int.from_bytes(memory[at(s) : at(s) + size], "little") for s in sources]
            found.append((at(target), function(*given)))
        for place, pattern in found:
            unknown.discard(place)
            if pattern is None:
                unknown.add(place)
            memory[place : place + size] = (nan if pattern is None else pattern).to_bytes(
                size, "little"
            )
    return unknown


def lane_function(name: str, elem: str, scalar: int = 0) -> LANES:
    """What an instruction does to one lane."""
    bits = one.bits_of(elem)
    full, low = (1 << bits) - 1, scalar & ((1 << bits) - 1)
    if name == "dup":
        return lambda: low
    if name in ("shl", "shr"):
        if low >= bits:
            return lambda a: 0
        return (lambda a: a << low & full) if name == "shl" else (lambda a: a >> low)
    if name in ("muls", "adds", "maxs", "mins"):
        return lambda a: one.binary(name[:-1], a, low, elem)
    if name == "div" and not one.is_float(elem):
        return lambda a, b: _quotient(one.number(a, elem), one.number(b, elem)) & full
    if name in ("add", "sub", "mul", "div", "max", "min", "and", "or", "addrelu"):
        return lambda a, b: one.binary(name, a, b, elem)
    return lambda a: one.unary(name, a, elem)


def _quotient(a: int, b: int) -> int:
    """Toward zero; by zero -1."""
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
