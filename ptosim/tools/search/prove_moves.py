"""Moves as tables: which byte goes where, found by moving numbers of bytes.

A move copies bytes and looks at none. Its own function is executed on memory that holds, in place
of values, the number of each byte, a digit of 8 bits at a time, and a second time the complement of
each digit. A byte that comes from another one brings its number both times; a byte that the
operation writes itself (a padding) is the same both times; anything else is no move."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.records import dataclass
from ptosim.tools.search.prove_memory import HashedMemory, Place, Unprovable

Span = tuple[Place, int, int]
"""A memory, and the first byte and the one after the last."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What a move does to the bytes of its operands, numbered through all spans: `written` come
    from the bytes `sources`; `fixed` get the values `constants`."""

    written: np.ndarray
    sources: np.ndarray
    fixed: np.ndarray
    constants: np.ndarray


def probe(memory: HashedMemory, spans: list[Span], move: Callable[[], object]) -> Table:
    """Return what a move does. The memory is left as it was. Raises Unprovable for an operation
    that does not only move bytes inside its operands."""
    parts = [memory.of(place).actual[start:stop] for place, start, stop in spans]
    kept = [part.copy() for part in parts]
    size = sum(len(part) for part in parts)
    numbers = np.arange(size, dtype=np.uint32)
    found = np.zeros(size, np.uint32)
    moved = np.ones(size, bool)
    constant = np.ones(size, bool)
    last = numbers.astype(np.uint8)
    try:
        for digit in range(max(1, -(-(size - 1).bit_length() // 8))):
            given = (numbers >> np.uint32(8 * digit)).astype(np.uint8)
            one, other = _moved(parts, given, move), _moved(parts, ~given, move)
            moved &= one == ~other
            constant &= one == other
            found |= one.astype(np.uint32) << np.uint32(8 * digit)
            last = one
    finally:
        for part, content in zip(parts, kept, strict=True):
            part[:] = content
    if not (moved | constant).all() or (found[moved] >= size).any():
        raise Unprovable("moves bytes in a way that cannot be followed")
    places = np.flatnonzero(moved & (found != numbers))
    fixed = np.flatnonzero(constant)
    if len(fixed) and not np.array_equal(_elsewhere(memory, parts, move)[fixed], last[fixed]):
        raise Unprovable("reads outside its operands")
    return Table(places, found[places], fixed, last[fixed])


def _elsewhere(
    memory: HashedMemory, parts: list[np.ndarray], move: Callable[[], object]
) -> np.ndarray:
    """What the move leaves where all memory has other values: a constant must not come from
    there."""
    everything = [hashed.actual for hashed in memory.all]
    kept = [content.copy() for content in everything]
    for content in everything:
        np.invert(content, out=content)
    try:
        move()
        return np.concatenate(parts)
    finally:
        for content, before in zip(everything, kept, strict=True):
            content[:] = before


def _moved(parts: list[np.ndarray], given: np.ndarray, move: Callable[[], object]) -> np.ndarray:
    at = 0
    for part in parts:
        part[:] = given[at : at + len(part)]
        at += len(part)
    move()
    return np.concatenate(parts)
